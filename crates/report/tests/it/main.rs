//! Whole-crate behaviour: from a made-up run to every file that is written.

mod files;
mod fixture;
mod html;
mod numbers;

use meshtoll_lab::record::{CellRecord, RunRecord};
use meshtoll_model::units::LoadLevel;

fn cell_mut<'a>(record: &'a mut RunRecord, case: &str, level: LoadLevel) -> &'a mut CellRecord {
    record
        .cells
        .iter_mut()
        .find(|cell| cell.case.as_str() == case && cell.level == level)
        .expect("a cell of the fixture")
}
