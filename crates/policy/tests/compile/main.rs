//! Checked resources and a topology, compiled to routes.

mod authorization;
mod common;
mod edges;
mod egress;
#[path = "../../../model/tests/folder/mod.rs"]
mod folder;
