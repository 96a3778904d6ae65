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

use ralph_core::sandbox::Backend;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use super::Network;
use super::boundary::Boundary;
use super::plan::Plan;
use super::sbx::{Vm, VmNote};
use super::seatbelt::{self, Exit};
use super::trouble::Trouble;
use crate::process::{Limits, Spawn, Stdin};

/// Runs a program in a VM that exists already.
pub(super) fn run_in_vm(
    vm: &Vm,
    plan: &Plan,
    file: &Path,
    command_line: &[OsString],
) -> Result<ExitCode, Trouble> {
    let note = VmNote::hold(file).map_err(Trouble::at("write a file next to", file))?;
    let status = follow(vm.launch(child(plan, command_line)))?;
    note.drop_ended();
    Ok(alike(status))
}

/// Runs a program under a Seatbelt profile on macOS.
#[cfg_attr(target_os = "linux", expect(dead_code, reason = "it is macOS's"))]
pub(super) fn run_behind_profile(
    plan: &Plan,
    command_line: &[OsString],
) -> Result<ExitCode, Trouble> {
    let boundary = Boundary::of(&plan.spec, &plan.project, plan.home.as_deref());
    let exit = match &plan.spec.network {
        Network::None | Network::Host => None,
        Network::Proxy(proxy) => {
            Some(Exit { port: proxy.port, forwards: &proxy.forwards, ralph: &plan.ralph })
        }
    };
    let spawn = Spawn { program: plan.program.clone().into(), ..child(plan, command_line) };
    follow(seatbelt::launch(spawn, &boundary, exit)).map(alike)
}

/// Returns the child as it was described; its environment is the one of this process.
fn child(plan: &Plan, command_line: &[OsString]) -> Spawn {
    Spawn {
        program: command_line[0].clone(),
        args: command_line[1..].to_vec(),
        cwd: plan.cwd.clone(),
        env: std::env::vars_os().collect(),
        stdin: Stdin::Null,
        limits: Limits::default(),
    }
}

fn follow(client: Spawn) -> Result<ExitStatus, Trouble> {
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2] {
        // A handler that does nothing; the started program does not inherit it.
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))
            .map_err(Trouble::with("listen for signals"))?;
    }
    let Spawn { program, args, cwd, env, .. } = client;
    let mut command = Command::new(&program);
    command.args(args).current_dir(cwd).env_clear().envs(env);
    let mut started = command.spawn().map_err(Trouble::at("start", Path::new(&program)))?;
    loop {
        match started.wait() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            ended => return ended.map_err(Trouble::with("wait for the client")),
        }
    }
}

/// Returns the exit code for a status; a signal becomes 128 plus its number, as in shells.
fn alike(status: ExitStatus) -> ExitCode {
    let number = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(number.and_then(|it| u8::try_from(it & 0xff).ok()).unwrap_or(u8::MAX))
}

/// Returns the error for a backend that this system does not have.
#[cfg_attr(target_os = "linux", expect(dead_code, reason = "Linux has all but one of them"))]
pub(super) fn foreign(backend: Backend) -> Trouble {
    Trouble::new(format!("this system does not support the sandbox backend `{backend}`"))
}
