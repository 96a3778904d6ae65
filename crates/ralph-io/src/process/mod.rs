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
mod child_stdin;
mod companion;
mod foreign_processes;
mod limits;
mod lines;
mod orphan_reaper;
mod pipes;
mod program;
mod registry;
mod signals;
mod space;
mod spawn;
mod supervise;
mod tree;
pub mod warden;
mod watch;

pub use capture::{Captured, CutBytes, capture_output};
pub use child_stdin::{ChildStdin, SendError};
pub use companion::Companion;
pub use foreign_processes::{is_running_in, is_stopped};
pub use limits::OutputActivity;
pub use lines::{OutputLine, OutputLines};
pub use orphan_reaper::{
    adopt_orphans, is_descendant_of, is_descendant_of_any, reap_dead_orphans, sweep_run,
};
pub use program::find_program;
pub use space::DiskLimit;
pub use spawn::{ProcessLimits, Spawn, StdinSource};
pub use supervise::{Chunk, supervise, supervise_dialog, supervise_with_ticks};
pub use warden::Warden;
pub use watch::{Halt, StopStage, WaitEnd, Watch};

/// The environment variable with the run's id, set for every descendant of a run.
pub const RUN_ID_VARIABLE: &str = "RALPH_RUN_ID";
