//! The effects of ralph: processes, agents, git, files, clock.
pub mod process;
