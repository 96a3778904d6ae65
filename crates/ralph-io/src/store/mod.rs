//! Files: where they live, the journal, the lock, and what people read.
//!
//! The journal and everything else that is trusted lies in the state directory, out of the
//! reach of agents and gates; what lies in the project's `.ralph/` is written for people and
//! never read back. Not here: what an event means, which is the core's fold.

pub mod active;
pub mod atomic;
pub mod clutter;
pub mod draft;
pub mod embedded;
pub mod files;
pub mod graph;
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
pub mod tail;
mod tasks;

pub use files::RunStore;
pub use journal::{Journal, JournalError};
pub use layout::{Layout, LayoutError, RunDir};
pub use lock::{Lock, LockError};
pub use tasks::{project_file, put_right};

#[cfg(test)]
mod sample;
