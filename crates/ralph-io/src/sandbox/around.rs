//! The process around a client that talks to walls of others: a VM's, or macOS's.
//!
//! The client is in the same process group and hears signals itself; this process survives them, so
//! that it can clear up and tell how the client ended. Not here: cells whose first process is ralph.

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

/// Runs a program in a VM that is there.
pub(super) fn run_in_vm(
    vm: &Vm,
    plan: &Plan,
    file: &Path,
    words: &[OsString],
) -> Result<ExitCode, Trouble> {
    let note = VmNote::hold(file).map_err(Trouble::at("write beside", file))?;
    let status = follow(vm.launch(child(plan, words)))?;
    note.drop_ended();
    Ok(alike(status))
}

/// Runs a program behind a profile of macOS's.
#[cfg_attr(target_os = "linux", expect(dead_code, reason = "it is macOS's"))]
pub(super) fn run_behind_profile(plan: &Plan, words: &[OsString]) -> Result<ExitCode, Trouble> {
    let boundary = Boundary::of(&plan.cell, &plan.project, plan.home.as_deref());
    let exit = match &plan.cell.network {
        Network::None | Network::Host => None,
        Network::Proxy(door) => {
            Some(Exit { port: door.port, forwards: &door.forwards, ralph: &plan.ralph })
        }
    };
    let spawn = Spawn { program: plan.program.clone().into(), ..child(plan, words) };
    follow(seatbelt::launch(spawn, &boundary, exit)).map(alike)
}

/// Returns the child as it was described: this process was given its environment.
fn child(plan: &Plan, words: &[OsString]) -> Spawn {
    Spawn {
        program: words[0].clone(),
        args: words[1..].to_vec(),
        cwd: plan.cwd.clone(),
        env: std::env::vars_os().collect(),
        stdin: Stdin::Null,
        limits: Limits::default(),
    }
}

fn follow(client: Spawn) -> Result<ExitStatus, Trouble> {
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2] {
        // A handler that does nothing; a program that is started does not inherit it.
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))
            .map_err(Trouble::with("listen to signals"))?;
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

/// Returns the exit code for an end: a signal's as shells put it.
fn alike(status: ExitStatus) -> ExitCode {
    let number = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(number.and_then(|it| u8::try_from(it & 0xff).ok()).unwrap_or(u8::MAX))
}

/// Says that walls cannot be made on this system.
#[cfg_attr(target_os = "linux", expect(dead_code, reason = "Linux has all but one of them"))]
pub(super) fn foreign(backend: Backend) -> Trouble {
    Trouble::new(format!("this system has no cells of `{backend}`"))
}
