//! What Meshtoll is told, checked: Istio resources, experiments, and the names and units that every later
//! stage shares. Parsing turns text into what was written; checking turns that into what it means. No I/O:
//! callers hand in the text of files with their paths.
//!
//! Out of scope: deciding where traffic goes (`meshtoll-policy`), and placing anything on a machine (`meshtoll-lab`).

pub mod application;
pub mod cidr;
pub mod diagnostics;
pub mod duration;
pub mod experiment;
pub mod host;
pub mod ids;
pub mod istio;
pub mod process;
pub mod topology;
pub mod units;
mod yaml;
