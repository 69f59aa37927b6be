//! Statistics that nobody ships: pure functions over plain numbers, stable formulas, nothing random without a seed.

pub mod interval;
pub mod spread;
