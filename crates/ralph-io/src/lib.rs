//! Everything of ralph that has effects: processes, agents, gates, git, files, clock.
//!
//! Each module implements a port of `ralph-core` or supports one that does. Not here: decisions
//! (`ralph-core`) and printing (`ralph-ui`).

pub mod agent_runner;
pub mod agent_state;
pub mod atomic_file;
pub mod bounded_read;
pub mod clock;
pub mod control;
pub mod environment;
pub mod formats;
pub mod gates;
pub mod git;
pub mod hooks;
pub mod http;
pub mod mask;
pub mod notify;
pub mod process;
pub mod run_clock;
pub mod sandbox;
pub mod sandboxed_call;
mod setuid_files;
pub mod sim;
pub mod sleep_inhibitor;
pub mod specs;
pub mod store;
pub mod telemetry;
pub mod terminal;
pub mod versions;
pub mod worker_slots;
pub mod workers;
