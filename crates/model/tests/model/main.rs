//! Whole experiments, right and wrong, and arbitrary text.

mod broken;
mod experiments;
#[path = "../folder/mod.rs"]
mod folder;
mod text;
