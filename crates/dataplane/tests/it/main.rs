//! Tests of the data plane's parts against real sockets.

mod relay;
mod sockets;
