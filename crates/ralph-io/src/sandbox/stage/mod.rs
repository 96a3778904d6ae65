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

use super::launch_error::LaunchError;
pub(super) use cgroup::remove_stale_groups as clear_groups;
pub(super) use landlock::is_landlock_supported;

use std::ffi::OsString;
use std::process::ExitCode;

/// Sets up the sandbox that a plan file describes, and runs a program inside. This process ends
/// with the same exit code or signal as the program.
pub(super) fn run_in_sandbox(arguments: &[OsString]) -> Result<ExitCode, LaunchError> {
    match arguments {
        [plan, program @ ..] if !program.is_empty() => {
            outside::run_in_sandbox(plan.as_ref(), program)
        }
        _ => Err(LaunchError::new("no program to run")),
    }
}

/// Runs as the first process inside the sandbox.
pub(super) fn run_inside(arguments: &[OsString]) -> Result<ExitCode, LaunchError> {
    match arguments {
        [channel, proxy, program @ ..] if !program.is_empty() => {
            inside::run_inside(channel, proxy, program)
        }
        _ => Err(LaunchError::new("no program to run inside")),
    }
}

/// Tries to create the namespaces that the native backend needs, and stays in them. Only for a
/// process that does nothing else.
pub(super) fn try_namespaces() -> Result<(), LaunchError> {
    outside::leave_user_namespace()?;
    inside::leave_other_namespaces(&super::SandboxNetwork::None)
}
