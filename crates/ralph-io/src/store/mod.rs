//! Files: where they are, the journal, the lock, and views for people.
//!
//! The journal and everything else that is trusted is in the state directory, out of reach of
//! agents and gates; files in the project's `.ralph/` are written for people and never read back.
//! Not here: what an event means, which the core's fold decides.

pub mod action_file;
pub mod active;
pub mod cleanup;
pub mod draft;
pub mod embedded;
pub mod files;
pub mod graph;
pub mod imported_runs;
pub mod journal;
pub mod layout;
pub mod lock;
mod memory;
pub mod plan;
pub mod prompts;
pub mod proposals;
pub mod raw;
pub mod run_id;
pub mod runs;
pub mod stats_file;
pub mod tail;
mod tasks;

pub use files::RunStore;
pub use journal::{Journal, JournalError};
pub use layout::{LayoutError, ProjectLayout, RunDir};
pub use lock::{LockError, RunLock};
pub use tasks::read_project_excerpt;

#[cfg(test)]
mod sample;
