//! Isolation: a launcher that starts children where they can reach only what they may.
//!
//! [`furnish()`] turns what the user wants and where things lie into a [`Cell`], which is plain data:
//! one ordered list of places, a network, bounds. A [`Cage`] starts a child in such a cell: it turns
//! a [`Spawn`](crate::process::Spawn) into another one, whose program is ralph itself with a hidden
//! command ([`hidden()`]). That process makes the walls and starts the program between them. Limits,
//! signals, exit codes and output work as without a sandbox, so whoever supervises a child does not
//! know that it sits in a cell.
//!
//! ```text
//!   native     ralph __cell ── namespaces ──> ralph __cell-inside (PID 1) ──> the program
//!   bwrap      ralph __cell ── bwrap ───────> ralph __cell-inside (PID 1) ──> the program
//!   container  ralph __cell ── an engine ───> ralph __cell-inside (PID 1) ──> the program
//!   sbx        ralph __cell ── sbx exec ────> the program
//!   landlock   ralph __cell ── becomes the program
//! ```
//!
//! [`choose()`] takes the first backend that works, [`look()`] says whether one does: it probes it
//! and then puts it to [`trial()`], before anybody relies on its walls. Not here: what a run does about it, and the proxy that a cell's network leads to.

mod abandoned;
mod absent;
mod around;
mod ask;
pub mod boundary;
mod cage;
mod cell;
mod choose;
pub mod container;
mod furnish;
mod hidden;
mod home;
mod lodging;
mod look;
mod plan;
mod probe;
pub mod proxy;
pub mod sbx;
pub mod seatbelt;
#[cfg(target_os = "linux")]
mod stage;
mod stores;
mod trial;
mod trouble;

pub use absent::{RemovedName, remove_appeared};
pub use cage::{Cage, Handed, Launcher, Wall, not_started};
pub use cell::{AbsentName, Bounds, Cell, Counted, Door, Mount, Network};
pub use choose::{Chosen, Refusal, choose};
pub use furnish::{FurnishError, Ground, Places, Rest, Tenant, furnish};
pub use hidden::{Trouble, hidden};
pub use lodging::NoLodging;
pub use look::{Surroundings, look};
pub use probe::{Finding, probe};
pub use trial::{Surprise, trial};

/// The hidden command that makes the walls: `__cell PLAN PROGRAM ARGUMENTS…`.
pub(crate) const CELL_COMMAND: &str = "__cell";

/// The hidden command of the first process between the walls: `__cell-inside CHANNEL PROXY PROGRAM
/// ARGUMENTS…`.
pub(crate) const INSIDE_COMMAND: &str = "__cell-inside";

/// The hidden command that makes namespaces and does nothing in them.
pub(crate) const TRY_COMMAND: &str = "__try-namespaces";

/// The hidden command that tries the walls it finds itself in: `__try-cell CANARY OUTSIDE INSIDE
/// PORT`.
pub(crate) const TRIAL_COMMAND: &str = "__try-cell";

/// The exit code of a child that never started because its walls could not be made. Programs that
/// start others in a container use the same one.
pub const WALL_CODE: u8 = 125;

/// What the line on stderr begins with that says why.
pub const WALL_PREFIX: &str = "ralph sandbox: ";

/// The variable that tells a program that it sits in a cell, and the backend's name.
pub(crate) const SANDBOX_VARIABLE: &str = "RALPH_SANDBOX";
