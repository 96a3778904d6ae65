//! The effects of ralph: processes, agents, git, files, clock.
//!
//! This crate implements the core's ports and decides nothing.

pub mod awake;
pub mod clock;
pub mod environment;
pub mod process;
pub mod terminal;
