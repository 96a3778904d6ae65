//! The first process inside: completes the sandbox, starts the program, and reaps until that ends.
//!
//! When the first process of a PID namespace ends, all other processes in it end too. It leads a
//! session of its own, with the program in its process group, so that neither has the user's
//! terminal and the process outside can signal both. Not here: forwarding signals.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Access, access};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_parent_process_death_signal, setsid, wait,
};
use rustix::thread::UnshareFlags;

use super::confine::{NetworkIsolation, VisibleProcesses, confine_process};
use super::outside::InsideReport;
use super::{kernel, mounts, network};
use crate::process::{ProcessLimits, Spawn, StdinSource, find_program};
use crate::sandbox::container::Container;
use crate::sandbox::launch_error::LaunchError;
use crate::sandbox::launch_plan::LaunchPlan;
use crate::sandbox::{
    BackendConfig, ProcessCounting, RUN_ERROR, SETUP_ERROR_PREFIX, SETUP_FAILED_CODE,
    SandboxNetwork,
};

/// Sets up the rest of the sandbox and runs the program.
pub(super) fn run_inside(
    channel: &OsStr,
    proxy: &OsStr,
    command_line: &[OsString],
) -> Result<ExitCode, LaunchError> {
    let mut channel = open_channel(channel)?;
    let proxy = if proxy == "-" { None } else { Some(open_channel(proxy)?) };
    match start_program(&mut channel, proxy, command_line) {
        Ok((program, _proxy)) => {
            let _ = send_report(&mut channel, &InsideReport::Started);
            let end = reap_until_exit(program);
            let _ = send_report(&mut channel, &end);
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            let sent = send_report(&mut channel, &InsideReport::Failed(error.to_string()));
            sent.map(|()| ExitCode::from(SETUP_FAILED_CODE))
        }
    }
}

/// Takes over a channel: an inherited descriptor, or, in a container, a socket path to connect to.
fn open_channel(number: &OsStr) -> Result<UnixStream, LaunchError> {
    let path = Path::new(number);
    if path.is_absolute() {
        return UnixStream::connect(path)
            .map_err(LaunchError::for_path("connect to the process outside at", path));
    }
    let number = number.to_str().and_then(|number| number.parse().ok()).unwrap_or(-1);
    let file = kernel::adopt_descriptor(number)
        .map_err(LaunchError::for_operation("take a channel over"))?;
    Ok(UnixStream::from(file))
}

fn send_report(channel: &mut UnixStream, report: &InsideReport) -> Result<(), LaunchError> {
    let mut line =
        serde_json::to_vec(report).map_err(LaunchError::for_operation("write a report"))?;
    line.push(b'\n');
    channel.write_all(&line).map_err(LaunchError::for_operation("report"))
}

/// Returns the process id of the started program, and the connection that keeps the proxy serving
/// it.
fn start_program(
    channel: &mut UnixStream,
    proxy: Option<UnixStream>,
    command_line: &[OsString],
) -> Result<(Pid, Option<UnixStream>), LaunchError> {
    let mut text = Vec::new();
    channel.read_to_end(&mut text).map_err(LaunchError::for_operation("read the plan"))?;
    let plan: LaunchPlan =
        serde_json::from_slice(&text).map_err(LaunchError::for_operation("read the plan"))?;
    match &plan.backend_config {
        BackendConfig::Native
        | BackendConfig::Bwrap { .. }
        | BackendConfig::Sbx(_)
        | BackendConfig::Landlock => {
            set_parent_process_death_signal(Some(Signal::KILL))
                .map_err(LaunchError::for_operation("tie itself to the process outside"))?;
            setsid().map_err(LaunchError::for_operation("begin a session"))?;
        }
        BackendConfig::Container(_) => {
            exit_on_hangup(
                channel.try_clone().map_err(LaunchError::for_operation("keep its channel"))?,
            );
            // Some engines make the first process the leader of a session already.
            let _ = setsid();
        }
    }
    match &plan.backend_config {
        BackendConfig::Native => {
            leave_other_namespaces(&plan.spec.network)?;
            mounts::apply_mounts(&plan.spec)?;
            match &plan.spec.network {
                SandboxNetwork::None | SandboxNetwork::Proxy(_) => network::enable_loopback()?,
                SandboxNetwork::Host => {}
            }
        }
        BackendConfig::Bwrap { .. }
        | BackendConfig::Container(_)
        | BackendConfig::Sbx(_)
        | BackendConfig::Landlock => {}
    }
    if let (Some(proxy), SandboxNetwork::Proxy(endpoint)) = (&proxy, &plan.spec.network) {
        network::hand_over_listeners(proxy, endpoint)?;
    }
    let (file, pids) = match &plan.backend_config {
        BackendConfig::Native
        | BackendConfig::Bwrap { .. }
        | BackendConfig::Sbx(_)
        | BackendConfig::Landlock => {
            enter_directory(&plan)?;
            (plan.program.clone(), plan.spec.bounds.pids.into())
        }
        // The engine counts processes, and only those inside.
        BackendConfig::Container(engine) => {
            (enter_image(&plan, &command_line[0], engine)?, u64::MAX)
        }
    };
    let bounds = &plan.spec.bounds;
    let neighbors = match bounds.counted {
        ProcessCounting::Together => VisibleProcesses::Inside,
        ProcessCounting::ByUser => VisibleProcesses::Host,
    };
    confine_process(bounds, pids, plan.spec.unix_sockets, NetworkIsolation::Own, neighbors)?;
    match neighbors {
        VisibleProcesses::Inside if bounds.memory < u64::MAX => watch_memory(bounds.memory),
        VisibleProcesses::Inside | VisibleProcesses::Host => {}
    }
    check_outside_alive(channel)?;
    let mut program = Command::new(&file);
    program.arg0(&command_line[0]).args(&command_line[1..]);
    let child = program.spawn().map_err(|error| build_run_error(&file, &error))?;
    Ok((Pid::from_child(&child), proxy))
}

/// Interval between two checks of memory: time enough to allocate some hundred megabytes.
const MEMORY_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Kills each process that uses more memory than one may. The system's own limit on data would
/// count memory that is only reserved.
fn watch_memory(most: u64) {
    // If the thread cannot start, the kernel kills processes when the machine runs out of memory.
    let _ = thread::Builder::new().stack_size(128 << 10).spawn(move || {
        loop {
            thread::sleep(MEMORY_CHECK_INTERVAL);
            for (pid, used) in list_process_memory() {
                if used > most && kill_process(pid, Signal::KILL).is_ok() {
                    report_memory(used);
                }
            }
        }
    });
}

/// Writes why a process was killed to its standard error: nothing else in the log of a gate would
/// say it.
fn report_memory(used: u64) {
    let stream = fs::OpenOptions::new().append(true).open("/proc/self/fd/2");
    let line = format!(
        "{SETUP_ERROR_PREFIX}a process used {} MB of memory and was killed; `sandbox.limits.memory` is the \
         limit\n",
        used >> 20
    );
    let _ = stream.and_then(|mut stream| stream.write_all(line.as_bytes()));
}

/// Returns the other processes, with the memory that is theirs alone.
fn list_process_memory() -> Vec<(Pid, u64)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let used = entries.filter_map(|entry| {
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        let text = fs::read_to_string(entry.path().join("status")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
        (pid != getpid()).then_some((pid, kilobytes << 10))
    });
    used.collect()
}

/// Ends this process, and with it everything inside, when the process outside is gone.
fn exit_on_hangup(channel: UnixStream) {
    // If the thread cannot start, the container is removed a little later.
    let _ = thread::Builder::new().stack_size(64 << 10).spawn(move || {
        loop {
            let mut other = [PollFd::new(&channel, PollFlags::empty())];
            let _ = poll(&mut other, None);
            if other[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
                std::process::exit(SETUP_FAILED_CODE.into());
            }
        }
    });
}

/// Changes to the program's start directory, and finds the program in the image.
fn enter_image(
    plan: &LaunchPlan,
    name: &OsStr,
    engine: &Container,
) -> Result<PathBuf, LaunchError> {
    env::set_current_dir(&plan.cwd)
        .map_err(LaunchError::for_path("enter, in the container, the directory", &plan.cwd))?;
    let spawn = Spawn {
        program: name.to_owned(),
        args: Vec::new(),
        cwd: plan.cwd.clone(),
        env: env::vars_os().collect(),
        stdin: StdinSource::Null,
        limits: ProcessLimits::default(),
    };
    find_program(&spawn)
        .map_err(|reason| LaunchError::new(format!("{reason} in the image `{}`", engine.image)))
}

/// Leaves the other namespaces, now that this process has the rights to do so.
pub(super) fn leave_other_namespaces(network: &SandboxNetwork) -> Result<(), LaunchError> {
    let mut flags = UnshareFlags::NEWNS | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    match network {
        SandboxNetwork::None | SandboxNetwork::Proxy(_) => flags |= UnshareFlags::NEWNET,
        SandboxNetwork::Host => {}
    }
    kernel::unshare(flags).map_err(LaunchError::for_operation("create its namespaces"))
}

/// Changes to the program's start directory, and checks that the program is visible from there.
pub(super) fn enter_directory(plan: &LaunchPlan) -> Result<(), LaunchError> {
    env::set_current_dir(&plan.cwd)
        .map_err(LaunchError::for_path("enter, in the sandbox, the directory", &plan.cwd))?;
    access(&plan.program, Access::EXEC_OK)
        .map_err(|error| build_run_error(&plan.program, &error.into()))
}

/// Returns the error for a program that cannot be run.
pub(super) fn build_run_error(program: &Path, error: &std::io::Error) -> LaunchError {
    LaunchError::new(format!(
        "`{}` {RUN_ERROR}: {error}; if it is in your home directory, `sandbox.home` can show it",
        program.display()
    ))
}

/// Fails if the process outside died before this one was tied to it.
fn check_outside_alive(channel: &UnixStream) -> Result<(), LaunchError> {
    let mut other = [PollFd::new(channel, PollFlags::empty())];
    let nothing = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut other, Some(&nothing))
        .map_err(LaunchError::for_operation("check the process outside"))?;
    if other[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
        return Err(LaunchError::new("the process outside is gone"));
    }
    Ok(())
}

/// Waits for the program, and reaps every other process that ends before it.
fn reap_until_exit(program: Pid) -> InsideReport {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => {
                return match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => InsideReport::Exited(code),
                    (None, Some(signal)) => InsideReport::Signalled(signal),
                    (None, None) => continue,
                };
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // No children are left, and the program was one of them.
            Err(error) => return InsideReport::Failed(format!("the program was lost: {error}")),
        }
    }
}
