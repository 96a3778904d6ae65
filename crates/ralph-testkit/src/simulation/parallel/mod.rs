//! Simulation of parallel runs: a seed yields a task list with dependencies, overlaps, conflicts,
//! failing and lost workers, limits, a user who stops, skips and edits, and processes that die. The
//! real engine runs it with one to four workers, each of which runs the real engine too; then the
//! invariants P1 to P9 are checked by name.
//!
//! The world is the small one of [`crate::world`]: workers are processes in memory, and clones
//! are worlds of their own. So P2 is checked for candidates and not for the removal of clones, and
//! P8 for what the coordinator knows and not for processes; scenes through the binary do that.

mod observer;
mod plan;
mod play;

pub use observer::{ParallelInvariant, ParallelViolation};
pub use plan::{ParallelPlan, PlannedLimit, TaskFate, WorkerTaskPlan, draw_parallel_plan};
pub use play::{ParallelReport, check_parallel_plan, play_parallel_plan};
