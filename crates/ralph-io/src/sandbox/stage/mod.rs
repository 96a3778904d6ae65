//! The processes that set up the sandbox and start the program inside.
//!
//! They are processes of their own, as hidden commands of the binary, because a process can give up
//! rights but not regain them, and because a process with threads cannot safely fork without
//! starting a new program. Not here: what the sandbox allows, which is in the spec.

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

/// Sets up the sandbox that a plan file describes, and runs a program inside. This process ends
/// with the same exit code or signal as the program.
pub(super) fn main(arguments: &[OsString]) -> Result<ExitCode, Trouble> {
    match arguments {
        [plan, program @ ..] if !program.is_empty() => outside::main(plan.as_ref(), program),
        _ => Err(Trouble::new("no program to run")),
    }
}

/// Runs as the first process inside the sandbox.
pub(super) fn main_inside(arguments: &[OsString]) -> Result<ExitCode, Trouble> {
    match arguments {
        [channel, proxy, program @ ..] if !program.is_empty() => {
            inside::main(channel, proxy, program)
        }
        _ => Err(Trouble::new("no program to run inside")),
    }
}

/// Tries to create the namespaces that the native backend needs, and stays in them. Only for a
/// process that does nothing else.
pub(super) fn try_namespaces() -> Result<(), Trouble> {
    outside::part_with_user()?;
    inside::part_with_rest(&super::Network::None)
}
