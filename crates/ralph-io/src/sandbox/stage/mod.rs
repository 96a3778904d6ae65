//! The processes that make the walls and start the program between them.
//!
//! They run in processes of their own, as hidden commands of the binary, because a process can give
//! rights up but not get them back, and because a fork without a fresh program is nothing for a
//! process with threads. Not here: what the walls are, which is the cell's business.

mod bwrap;
mod cgroup;
mod confine;
mod container;
mod inside;
mod kernel;
mod landlock;
mod mounts;
mod network;
mod outside;

use super::trouble::Trouble;
pub(super) use cgroup::clear as clear_groups;
pub(super) use landlock::landlock_works;

use std::ffi::OsString;
use std::process::ExitCode;

/// Makes the walls that a plan file asks for, and runs a program between them. Its end is the end of
/// this process: same code, same signal.
pub(super) fn main(words: &[OsString]) -> Result<ExitCode, Trouble> {
    match words {
        [plan, program @ ..] if !program.is_empty() => outside::main(plan.as_ref(), program),
        _ => Err(Trouble::new("nothing to run")),
    }
}

/// Is the first process between the walls.
pub(super) fn main_inside(words: &[OsString]) -> Result<ExitCode, Trouble> {
    match words {
        [channel, proxy, program @ ..] if !program.is_empty() => {
            inside::main(channel, proxy, program)
        }
        _ => Err(Trouble::new("nothing to run inside")),
    }
}

/// Tries whether this process may make the namespaces that the native backend needs, and ends up in
/// them. Only for a process that does nothing else.
pub(super) fn try_namespaces() -> Result<(), Trouble> {
    outside::part_with_user()?;
    inside::part_with_rest(&super::Network::None)
}
