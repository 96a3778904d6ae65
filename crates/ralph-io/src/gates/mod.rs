//! Gates: runs the commands that check an iteration's work.
//!
//! Not here: whether a failure matters. The core decides.

mod command;
mod log;
mod slots;

pub use command::CommandGates;
pub use slots::GateSlots;
