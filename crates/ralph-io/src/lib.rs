//! The effects of ralph: processes, agents, gates, git, files, clock.
//!
//! Each room implements a port of `ralph-core` or serves one that does. Not here: any decision
//! about what follows from what was seen.

pub mod gates;
pub mod git;
pub mod plain;
pub mod process;
pub mod store;
