//! The rows, by what they are about. Each group has a mesh of its own.

pub(crate) mod allow_any;
pub(crate) mod gateway;
pub(crate) mod gateway_policy;
mod hello;
pub(crate) mod idle;
pub(crate) mod inbound;
pub(crate) mod life;
pub(crate) mod origination;
pub(crate) mod outbound;
pub(crate) mod policy;
pub(crate) mod relay;
