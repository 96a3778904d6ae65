//! The process outside the sandbox: starts the first one inside, forwards signals, and ends as the
//! program ended.
//!
//! It has one thread, which a process that leaves its user namespace requires. Not here: what
//! happens inside (`inside`).

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getegid, geteuid, getpid, kill_process, kill_process_group,
    setrlimit,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, configure_capability_in_ambient_set,
    set_capabilities,
};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use super::{bwrap, cgroup, container, kernel, landlock};
use crate::sandbox::client_wrapper;
use crate::sandbox::container::Container;
use crate::sandbox::launch_error::LaunchError;
use crate::sandbox::launch_plan::LaunchPlan;
use crate::sandbox::proxy;
use crate::sandbox::{BackendConfig, INSIDE_COMMAND, ProcessCounting, SandboxNetwork};

/// What the process inside reports, one JSON value per line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum InsideReport {
    /// The program runs, and signals reach it.
    Started,
    Exited(i32),
    Signalled(i32),
    /// The sandbox could not be set up, or the program not be started.
    Failed(String),
}

/// The signals that are forwarded: those that users and supervisors send to a whole process group.
const FORWARDED_SIGNALS: [i32; 7] = [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT];

/// Runs the program in the sandbox that a plan describes.
pub(super) fn run_in_sandbox(plan: &Path, program: &[OsString]) -> Result<ExitCode, LaunchError> {
    let file = plan;
    let plan =
        LaunchPlan::read_and_remove(file).map_err(LaunchError::for_path("read the plan", file))?;
    match &plan.backend_config {
        BackendConfig::Landlock => landlock::become_program(&plan, program),
        BackendConfig::Sbx(vm) => client_wrapper::run_in_vm(vm, &plan, file, program),
        BackendConfig::Container(engine) => {
            supervise_container(&plan, engine, file, program).map(exit_like_program)
        }
        BackendConfig::Native | BackendConfig::Bwrap { .. } => {
            supervise(&plan, program).map(exit_like_program)
        }
    }
}

/// How the program ended.
#[derive(Debug, Clone, Copy)]
enum ProgramEnd {
    Exited(i32),
    Signalled(i32),
}

/// How a try to run a program inside ended.
enum InsideEnd {
    Ended(ProgramEnd),
    /// Bubblewrap failed before it started anything.
    NotBegun(ExitStatus),
    /// The process inside is gone without a report of its end.
    Gone(ExitStatus),
}

fn supervise(plan: &LaunchPlan, program: &[OsString]) -> Result<ProgramEnd, LaunchError> {
    let signals =
        PendingSignals::listen().map_err(LaunchError::for_operation("listen for signals"))?;
    match plan.spec.bounds.counted {
        ProcessCounting::Together => cgroup::enter_groups(&plan.spec.bounds),
        ProcessCounting::ByUser => {}
    }
    let end = match run_inside_once(plan, &signals, program)? {
        // A mount of another program that goes away while bubblewrap copies the file system makes
        // it fail ("Unable to apply mount flags"); a real fault shows again.
        InsideEnd::NotBegun(_) => run_inside_once(plan, &signals, program)?,
        end @ (InsideEnd::Ended(_) | InsideEnd::Gone(_)) => end,
    };
    match end {
        InsideEnd::Ended(end) => Ok(end),
        InsideEnd::NotBegun(status) => {
            Err(LaunchError::new(format!("bwrap set up no sandbox ({status})")))
        }
        InsideEnd::Gone(status) => {
            Err(LaunchError::new(format!("the process inside is gone ({status})")))
        }
    }
}

fn run_inside_once(
    plan: &LaunchPlan,
    signals: &PendingSignals,
    program: &[OsString],
) -> Result<InsideEnd, LaunchError> {
    let (channel, theirs) =
        UnixStream::pair().map_err(LaunchError::for_operation("create a channel"))?;
    // The other end is what the process inside inherits, and nothing else.
    fcntl_setfd(&theirs, FdFlags::empty())
        .map_err(LaunchError::for_operation("open the channel"))?;
    let proxy = connect_to_proxy(&plan.spec.network)?;
    let mut inside = InsideProcess::spawn_inside(plan, &theirs, proxy.as_ref(), program)?;
    drop((theirs, proxy));
    let end =
        send_plan(&channel, plan).and_then(|()| forward_until_end(&channel, signals, &mut inside));
    if end.is_err() {
        let _ = inside.child.kill();
    }
    // When it ends, everything inside has ended.
    let status =
        inside.child.wait().map_err(LaunchError::for_operation("wait for the process inside"))?;
    Ok(match (end?, status.signal()) {
        (Some(end), _) => InsideEnd::Ended(end),
        (None, Some(signal)) => InsideEnd::Ended(ProgramEnd::Signalled(signal)),
        // No process inside ends with this code.
        (None, None)
            if inside.bwrap_info.is_some()
                && !inside.has_reported
                && status.code() == Some(bwrap::FAILED_CODE) =>
        {
            InsideEnd::NotBegun(status)
        }
        (None, None) => InsideEnd::Gone(status),
    })
}

/// Like [`supervise`], for a container. Removes what is left of it.
fn supervise_container(
    plan: &LaunchPlan,
    engine: &Container,
    file: &Path,
    program: &[OsString],
) -> Result<ProgramEnd, LaunchError> {
    let signals =
        PendingSignals::listen().map_err(LaunchError::for_operation("listen for signals"))?;
    let container::StartedContainer { client, channel, first, note } =
        container::start_container(plan, engine, file, program)?;
    let mut inside = InsideProcess {
        child: client,
        bwrap_info: Some(bwrap::BwrapInfo::Read(first)),
        has_reported: false,
    };
    let end =
        send_plan(&channel, plan).and_then(|()| forward_until_end(&channel, &signals, &mut inside));
    if let Ok(Some(end)) = end {
        // The client removes the container, and passes on the last output.
        match inside.child.wait() {
            Ok(_) => note.remove_note(),
            Err(_) => note.remove_container(),
        }
        return Ok(end);
    }
    note.remove_container();
    let _ = inside.child.kill();
    let _ = inside.child.wait();
    // The first process was killed, and with it everything inside.
    end.map(|_| ProgramEnd::Signalled(signal_hook::consts::SIGKILL))
}

/// Connects to the proxy, if there is one. A unix socket with a path is found by that path from any
/// network namespace; so ralph connects from here, where the path is visible.
fn connect_to_proxy(network: &SandboxNetwork) -> Result<Option<UnixStream>, LaunchError> {
    match network {
        SandboxNetwork::None | SandboxNetwork::Host => Ok(None),
        SandboxNetwork::Proxy(endpoint) => {
            let proxy = proxy::connect_to_proxy(&endpoint.handover)
                .map_err(LaunchError::for_path("reach the proxy at", &endpoint.handover))?;
            fcntl_setfd(&proxy, FdFlags::empty())
                .map_err(LaunchError::for_operation("keep the proxy"))?;
            Ok(Some(proxy))
        }
    }
}

fn send_plan(mut channel: &UnixStream, plan: &LaunchPlan) -> Result<(), LaunchError> {
    let text = serde_json::to_vec(plan).map_err(LaunchError::for_operation("encode the plan"))?;
    let sent = channel.write_all(&text).and_then(|()| channel.shutdown(Shutdown::Write));
    // If the process inside is gone already, it has reported why.
    match sent {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(LaunchError::for_operation("send the plan")(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Forwards signals until the process inside has sent its last report.
fn forward_until_end(
    mut channel: &UnixStream,
    signals: &PendingSignals,
    inside: &mut InsideProcess,
) -> Result<Option<ProgramEnd>, LaunchError> {
    let mut received = Vec::new();
    let mut end = None;
    let mut has_started = false;
    loop {
        while let Some(at) = received.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = received.drain(..=at).collect();
            inside.has_reported = true;
            match serde_json::from_slice(&line)
                .map_err(LaunchError::for_operation("parse the report of the process inside"))?
            {
                InsideReport::Started => has_started = true,
                InsideReport::Exited(code) => end = Some(ProgramEnd::Exited(code)),
                InsideReport::Signalled(signal) => end = Some(ProgramEnd::Signalled(signal)),
                InsideReport::Failed(message) => return Err(LaunchError::new(message)),
            }
        }
        if has_started {
            // Signals that came before are forwarded now.
            signals.forward_to(inside.find_first_process());
        }
        let mut waited_for =
            [PollFd::new(&channel, PollFlags::IN), PollFd::new(&signals.wake, PollFlags::IN)];
        match poll(&mut waited_for, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(LaunchError::for_operation("wait")(error)),
        }
        if waited_for[0].revents().is_empty() {
            signals.drain_wakeups();
            continue;
        }
        let mut buffer = [0; 4096];
        match channel.read(&mut buffer) {
            Ok(0) => return Ok(end),
            Ok(count) => received.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            // It ended without reading all that was sent to it; its reports were read before.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return Ok(end),
            Err(error) => {
                return Err(LaunchError::for_operation("read from the process inside")(error));
            }
        }
    }
}

/// Ends this process as the program ended.
fn exit_like_program(end: ProgramEnd) -> ExitCode {
    match end {
        ProgramEnd::Exited(code) => ExitCode::from(u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
        ProgramEnd::Signalled(signal) => {
            // The program may have dumped core; a core dump of this process is useless.
            let none = Rlimit { current: Some(0), maximum: Some(0) };
            let _ = setrlimit(Resource::Core, none);
            let _ = match Signal::from_named_raw(signal) {
                Some(Signal::KILL) => kill_process(getpid(), Signal::KILL).map_err(Into::into),
                Some(_) | None => signal_hook::low_level::emulate_default_handler(signal),
            };
            // The signal did not end this process: exit with 128 plus its number, as shells do.
            ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))
        }
    }
}

/// The first process inside, seen from outside.
struct InsideProcess {
    child: Child,
    /// Its process id, if `child` is bubblewrap or an engine's client instead.
    bwrap_info: Option<bwrap::BwrapInfo>,
    /// Whether it has reported anything.
    has_reported: bool,
}

impl InsideProcess {
    fn spawn_inside(
        plan: &LaunchPlan,
        channel: &UnixStream,
        proxy: Option<&UnixStream>,
        command_line: &[OsString],
    ) -> Result<Self, LaunchError> {
        let channel = channel.as_raw_fd().to_string();
        let proxy = proxy.map_or_else(|| "-".to_owned(), |proxy| proxy.as_raw_fd().to_string());
        let arguments = |command: &mut Command| {
            command.arg(INSIDE_COMMAND).arg(&channel).arg(&proxy).args(command_line);
        };
        match &plan.backend_config {
            // The other backends do not start here.
            BackendConfig::Native
            | BackendConfig::Container(_)
            | BackendConfig::Sbx(_)
            | BackendConfig::Landlock => {
                leave_user_namespace()?;
                let mut command = Command::new("/proc/self/exe");
                arguments(&mut command);
                let child = command
                    .spawn()
                    .map_err(LaunchError::for_operation("start the process inside"))?;
                Ok(Self { child, bwrap_info: None, has_reported: false })
            }
            BackendConfig::Bwrap { program, ralph } => {
                let (pipe, mut command) = bwrap::build_command(program, &plan.spec)?;
                command.arg("--").arg(ralph);
                arguments(&mut command);
                // Signals for the program would end bubblewrap, so it gets its own group.
                let child = command
                    .process_group(0)
                    .spawn()
                    .map_err(LaunchError::for_path("start", program))?;
                let bwrap_info = Some(pipe.close_writer());
                Ok(Self { child, bwrap_info, has_reported: false })
            }
        }
    }

    /// Returns the process that leads the program's group.
    fn find_first_process(&mut self) -> Option<Pid> {
        match &mut self.bwrap_info {
            None => Some(Pid::from_child(&self.child)),
            Some(info) => info.find_first_process(),
        }
    }
}

/// Leaves the user and PID namespaces for fresh ones in which this user has all rights, and passes
/// these on to the next started process.
pub(super) fn leave_user_namespace() -> Result<(), LaunchError> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    kernel::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWPID)
        .map_err(LaunchError::for_operation("create a user namespace"))?;
    // Otherwise a process could drop a group that denies access rather than granting it.
    std::fs::write("/proc/self/setgroups", "deny")
        .map_err(LaunchError::for_operation("keep its groups"))?;
    let map = |file: &str, id: u32| std::fs::write(file, format!("{id} {id} 1"));
    map("/proc/self/uid_map", user).map_err(LaunchError::for_operation("keep its user"))?;
    map("/proc/self/gid_map", group).map_err(LaunchError::for_operation("keep its group"))?;
    // A program that does not run as root loses all rights at exec, except for these.
    let all = CapabilitySet::SYS_ADMIN
        | CapabilitySet::NET_ADMIN
        // For ports below 1024 of the host, which get a listener inside.
        | CapabilitySet::NET_BIND_SERVICE
        | CapabilitySet::SETPCAP
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::DAC_READ_SEARCH;
    let sets = CapabilitySets { effective: all, permitted: all, inheritable: all };
    set_capabilities(None, sets)
        .map_err(LaunchError::for_operation("use the rights of its namespace"))?;
    for one in all.iter() {
        configure_capability_in_ambient_set(one, true)
            .map_err(LaunchError::for_operation("pass on its rights"))?;
    }
    Ok(())
}

/// Signals that wait to be forwarded.
struct PendingSignals {
    wake: UnixStream,
    pending: Vec<(Signal, Arc<AtomicBool>)>,
}

impl PendingSignals {
    fn listen() -> std::io::Result<Self> {
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        waker.set_nonblocking(true)?;
        let mut pending = Vec::new();
        for number in FORWARDED_SIGNALS {
            let Some(signal) = Signal::from_named_raw(number) else { continue };
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(number, Arc::clone(&flag))?;
            signal_hook::low_level::pipe::register(number, waker.try_clone()?)?;
            pending.push((signal, flag));
        }
        Ok(Self { wake, pending })
    }

    fn drain_wakeups(&self) {
        let mut buffer = [0; 64];
        while matches!((&self.wake).read(&mut buffer), Ok(1..)) {}
    }

    fn forward_to(&self, leader: Option<Pid>) {
        let Some(leader) = leader.filter(|leader| leader.as_raw_pid() > 1) else { return };
        for (signal, flag) in &self.pending {
            if flag.swap(false, Ordering::Relaxed) {
                // A process that is gone needs no signal.
                let _ = kill_process_group(leader, *signal);
            }
        }
    }
}
