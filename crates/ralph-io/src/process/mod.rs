//! Child processes: starting them, reading their output, and making sure that nothing of them is
//! left, whatever they do.
//!
//! Agents, gates and git commands all go through [`supervise()`] or, for short output,
//! [`capture_output()`]; a child that gets answers on its stdin goes through
//! [`supervise_dialog()`]. [`Watch`] connects them to ralph's own signals, and [`Warden`] ends what
//! is running if ralph itself is killed.
//!
//! Not here: what to run, with which environment, and what an end means. Callers build a [`Spawn`]
//! and judge the `ChildEnd`.

mod capture;
mod companion;
mod course;
mod elsewhere;
mod lines;
mod mouth;
mod pipes;
mod program;
mod registry;
mod signals;
mod space;
mod spawn;
mod supervise;
mod sweep;
mod tree;
pub mod warden;
mod watch;

pub use capture::{Captured, Cut, capture};
pub use companion::Companion;
pub use course::Heard;
pub use elsewhere::{is_running_in, is_stopped};
pub use lines::{Line, Lines};
pub use mouth::{Mouth, Unheard};
pub use program::find_program;
pub use space::Space;
pub use spawn::{Limits, Spawn, Stdin};
pub use supervise::{Chunk, converse, supervise, supervise_telling};
pub use sweep::{is_work_of, is_work_of_any, sweep_run};
pub use warden::Warden;
pub use watch::{Halt, Stage, Watch, Woken};

/// The environment variable with the run's id, set for every descendant of a run.
pub const RUN_ID_VARIABLE: &str = "RALPH_RUN_ID";

/// Parses the kernel's process table, for fuzzing.
pub(crate) fn fuzz(bytes: &[u8]) {
    tree::fuzz(bytes);
}
