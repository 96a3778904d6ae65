//! The process around a client of a foreign sandbox: a VM, or Seatbelt on macOS.
//!
//! The client is in the same process group and receives signals itself. This process survives them,
//! so that it can clean up and exit with the client's status. Not here: sandboxes whose first
//! process is ralph.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ralph_model::sandbox::Backend;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use super::SandboxNetwork;
use super::boundary::Boundary;
use super::launch_error::LaunchError;
use super::launch_plan::LaunchPlan;
use super::sbx::{Vm, write_vm_note};
use super::seatbelt::{self, ProxyExit};
use crate::process::Spawn;

/// Runs a program in a VM that exists already.
pub(super) fn run_in_vm(
    vm: &Vm,
    plan: &LaunchPlan,
    file: &Path,
    command_line: &[OsString],
) -> Result<ExitCode, LaunchError> {
    let note = write_vm_note(file).map_err(LaunchError::for_path("write a file next to", file))?;
    let status = run_client(vm.wrap_spawn(plan.rebuild_spawn(command_line)))?;
    note.remove_note();
    Ok(to_exit_code(status))
}

/// Runs a program under a Seatbelt profile on macOS.
#[cfg_attr(target_os = "linux", expect(dead_code, reason = "it is macOS's"))]
pub(super) fn run_behind_profile(
    plan: &LaunchPlan,
    command_line: &[OsString],
) -> Result<ExitCode, LaunchError> {
    let boundary = Boundary::from_spec(&plan.spec, &plan.project, plan.home.as_deref());
    let exit = match &plan.spec.network {
        SandboxNetwork::None | SandboxNetwork::Host => None,
        SandboxNetwork::Proxy(proxy) => {
            Some(ProxyExit { port: proxy.port, forwards: &proxy.forwards, ralph: &plan.ralph })
        }
    };
    let spawn = Spawn { program: plan.program.clone().into(), ..plan.rebuild_spawn(command_line) };
    run_client(seatbelt::wrap_spawn(spawn, &boundary, exit)).map(to_exit_code)
}

fn run_client(client: Spawn) -> Result<ExitStatus, LaunchError> {
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2] {
        // A handler that does nothing; the started program does not inherit it.
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))
            .map_err(LaunchError::for_operation("listen for signals"))?;
    }
    let Spawn { program, args, cwd, env, .. } = client;
    let mut command = Command::new(&program);
    command.args(args).current_dir(cwd).env_clear().envs(env);
    let mut started =
        command.spawn().map_err(LaunchError::for_path("start", Path::new(&program)))?;
    loop {
        match started.wait() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            ended => return ended.map_err(LaunchError::for_operation("wait for the client")),
        }
    }
}

/// Returns the exit code for a status; a signal becomes 128 plus its number, as in shells.
fn to_exit_code(status: ExitStatus) -> ExitCode {
    let number = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(number.and_then(|it| u8::try_from(it & 0xff).ok()).unwrap_or(u8::MAX))
}

/// Returns the error for a backend that this system does not have.
#[cfg_attr(target_os = "linux", expect(dead_code, reason = "Linux has all but one of them"))]
pub(super) fn report_unsupported(backend: Backend) -> LaunchError {
    LaunchError::new(format!("this system does not support the sandbox backend `{backend}`"))
}
