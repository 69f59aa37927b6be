//! From a stored run to what people and programs read: results as JSON, a page, Markdown, CSV, the terminal's
//! table.
//!
//! Everything is computed once, in [`results`]; the other modules only show it. So a number on the page is always
//! a number in `results.json`.
//!
//! Out of scope: measuring, and the store itself (`meshtoll-lab`).

mod answer;
pub mod csv;
mod format;
pub mod markdown;
pub mod page;
mod published;
pub mod results;
pub mod terminal;
mod words;
mod write;

pub use write::{WriteError, Written, write_all};
