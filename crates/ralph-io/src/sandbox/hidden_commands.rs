//! The hidden commands of the binary that belong to the sandbox.
//!
//! They are handled before the command line is parsed, because every sandboxed child starts through
//! them. Not here: what they do.

use std::ffi::OsString;
use std::process::ExitCode;

pub use super::launch_error::LaunchError;
use super::{
    INSIDE_COMMAND, SANDBOX_COMMAND, SELF_TEST_COMMAND, TRY_NAMESPACES_COMMAND, self_test,
};

/// Runs a hidden command if the arguments of the command line, without the program name, are one.
///
/// The caller prints an error to stderr after [`SETUP_ERROR_PREFIX`](super::SETUP_ERROR_PREFIX) and
/// exits with [`SETUP_FAILED_CODE`](super::SETUP_FAILED_CODE).
pub fn run_hidden_command(arguments: &[OsString]) -> Option<Result<ExitCode, LaunchError>> {
    let (command, arguments) = arguments.split_first()?;
    match command.to_str()? {
        SANDBOX_COMMAND => Some(run_in_sandbox(arguments)),
        INSIDE_COMMAND => Some(run_inside(arguments)),
        TRY_NAMESPACES_COMMAND => Some(try_namespaces()),
        SELF_TEST_COMMAND => Some(Ok(self_test::run_inside(arguments))),
        _ => None,
    }
}

#[cfg(target_os = "linux")]
use super::stage::{run_in_sandbox, run_inside};

#[cfg(target_os = "linux")]
fn try_namespaces() -> Result<ExitCode, LaunchError> {
    super::stage::try_namespaces().map(|()| ExitCode::SUCCESS)
}

/// Sets up the sandbox that a plan file describes, with Seatbelt or in a VM.
#[cfg(not(target_os = "linux"))]
fn run_in_sandbox(arguments: &[OsString]) -> Result<ExitCode, LaunchError> {
    use super::launch_plan::LaunchPlan;
    use super::{BackendConfig, client_wrapper};
    let [file, program @ ..] = arguments else {
        return Err(LaunchError::new("no program to run"));
    };
    let file = std::path::Path::new(file);
    let plan =
        LaunchPlan::read_and_remove(file).map_err(LaunchError::for_path("read the plan", file))?;
    match &plan.backend_config {
        BackendConfig::Native => client_wrapper::run_behind_profile(&plan, program),
        BackendConfig::Sbx(vm) => client_wrapper::run_in_vm(vm, &plan, file, program),
        BackendConfig::Bwrap { .. } | BackendConfig::Container(_) | BackendConfig::Landlock => {
            Err(client_wrapper::report_unsupported(plan.backend_config.backend()))
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn run_inside(_arguments: &[OsString]) -> Result<ExitCode, LaunchError> {
    Err(super::client_wrapper::report_unsupported(ralph_model::sandbox::Backend::Native))
}

#[cfg(not(target_os = "linux"))]
fn try_namespaces() -> Result<ExitCode, LaunchError> {
    Err(super::client_wrapper::report_unsupported(ralph_model::sandbox::Backend::Native))
}
