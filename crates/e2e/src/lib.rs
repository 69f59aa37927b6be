//! Tests of the whole, with the real `meshtoll` binary and everything that it starts: commands, outputs, proof of path,
//! clean-up, and running without root. They are in `tests`; this library is empty.
//!
//! They need the binary (`cargo build --release -p meshtoll-cli`, or another that `MESHTOLL_BIN` names) and what `meshtoll
//! doctor` asks for. What needs root besides says that it is skipped for others. Out of scope: what a single crate can show
//! by itself, which that crate's own tests do.
