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
use std::process::{Child, Command, ExitCode};
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
use crate::sandbox::around;
use crate::sandbox::container::Container;
use crate::sandbox::plan::Plan;
use crate::sandbox::proxy;
use crate::sandbox::trouble::Trouble;
use crate::sandbox::{Counted, INSIDE_COMMAND, Network, Wall};

/// What the process inside reports, one JSON value per line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Report {
    /// The program runs, and signals reach it.
    Started,
    Exited(i32),
    Signalled(i32),
    /// The sandbox could not be set up, or the program not be started.
    Failed(String),
}

/// The signals that are forwarded: those that users and supervisors send to a whole process group.
const PASSED_ON: [i32; 7] = [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT];

/// Runs the program in the sandbox that a plan describes.
pub(super) fn main(plan: &Path, program: &[OsString]) -> Result<ExitCode, Trouble> {
    let file = plan;
    let plan = Plan::take(file).map_err(Trouble::at("read the plan", file))?;
    match &plan.backend_config {
        Wall::Landlock => landlock::become_program(&plan, program),
        Wall::Sbx(vm) => around::run_in_vm(vm, &plan, file, program),
        Wall::Container(engine) => watch_container(&plan, engine, file, program).map(end_alike),
        Wall::Native | Wall::Bwrap { .. } => watch(&plan, program).map(end_alike),
    }
}

/// How the program ended.
#[derive(Debug, Clone, Copy)]
enum End {
    Exited(i32),
    Signalled(i32),
}

fn watch(plan: &Plan, program: &[OsString]) -> Result<End, Trouble> {
    let signals = Signals::listen().map_err(Trouble::with("listen for signals"))?;
    let (channel, theirs) = UnixStream::pair().map_err(Trouble::with("create a channel"))?;
    // The other end is what the process inside inherits, and nothing else.
    fcntl_setfd(&theirs, FdFlags::empty()).map_err(Trouble::with("open the channel"))?;
    let proxy = call_proxy(&plan.spec.network)?;
    match plan.spec.bounds.counted {
        Counted::Together => cgroup::enter(&plan.spec.bounds),
        Counted::ByUser => {}
    }
    let mut inside = Inside::start(plan, &theirs, proxy.as_ref(), program)?;
    drop((theirs, proxy));
    let end = tell(&channel, plan).and_then(|()| follow(&channel, &signals, &mut inside));
    if end.is_err() {
        let _ = inside.child.kill();
    }
    // When it ends, everything inside has ended.
    let status = inside.child.wait().map_err(Trouble::with("wait for the process inside"))?;
    match (end?, status.signal()) {
        (Some(end), _) => Ok(end),
        (None, Some(signal)) => Ok(End::Signalled(signal)),
        (None, None) => Err(Trouble::new(match &plan.backend_config {
            Wall::Bwrap { .. } => format!("bwrap set up no sandbox ({status})"),
            Wall::Native | Wall::Container(_) | Wall::Sbx(_) | Wall::Landlock => {
                format!("the process inside is gone ({status})")
            }
        })),
    }
}

/// Like [`supervise`], for a container. Removes what is left of it.
fn watch_container(
    plan: &Plan,
    engine: &Container,
    file: &Path,
    program: &[OsString],
) -> Result<End, Trouble> {
    let signals = Signals::listen().map_err(Trouble::with("listen for signals"))?;
    let container::Started { client, channel, first, note } =
        container::start(plan, engine, file, program)?;
    let mut inside = Inside { child: client, bwrap_info: Some(bwrap::Told::Read(first)) };
    let end = tell(&channel, plan).and_then(|()| follow(&channel, &signals, &mut inside));
    if let Ok(Some(end)) = end {
        // The client removes the container, and passes on the last output.
        match inside.child.wait() {
            Ok(_) => note.drop_ended(),
            Err(_) => note.remove_container(),
        }
        return Ok(end);
    }
    note.remove_container();
    let _ = inside.child.kill();
    let _ = inside.child.wait();
    // The first process was killed, and with it everything inside.
    end.map(|_| End::Signalled(signal_hook::consts::SIGKILL))
}

/// Connects to the proxy, if there is one. A unix socket with a path is found by that path from any
/// network namespace; so ralph connects from here, where the path is visible.
fn call_proxy(network: &Network) -> Result<Option<UnixStream>, Trouble> {
    match network {
        Network::None | Network::Host => Ok(None),
        Network::Proxy(endpoint) => {
            let proxy = proxy::call(&endpoint.handover)
                .map_err(Trouble::at("reach the proxy at", &endpoint.handover))?;
            fcntl_setfd(&proxy, FdFlags::empty()).map_err(Trouble::with("keep the proxy"))?;
            Ok(Some(proxy))
        }
    }
}

fn tell(mut channel: &UnixStream, plan: &Plan) -> Result<(), Trouble> {
    let text = serde_json::to_vec(plan).map_err(Trouble::with("encode the plan"))?;
    let sent = channel.write_all(&text).and_then(|()| channel.shutdown(Shutdown::Write));
    // If the process inside is gone already, it has reported why.
    match sent {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Trouble::with("send the plan")(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Forwards signals until the process inside has sent its last report.
fn follow(
    mut channel: &UnixStream,
    signals: &Signals,
    inside: &mut Inside,
) -> Result<Option<End>, Trouble> {
    let mut received = Vec::new();
    let mut end = None;
    let mut has_started = false;
    loop {
        while let Some(at) = received.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = received.drain(..=at).collect();
            match serde_json::from_slice(&line)
                .map_err(Trouble::with("parse the report of the process inside"))?
            {
                Report::Started => has_started = true,
                Report::Exited(code) => end = Some(End::Exited(code)),
                Report::Signalled(signal) => end = Some(End::Signalled(signal)),
                Report::Failed(message) => return Err(Trouble::new(message)),
            }
        }
        if has_started {
            // Signals that came before are forwarded now.
            signals.pass_on_to(inside.first_process());
        }
        let mut waited_for =
            [PollFd::new(&channel, PollFlags::IN), PollFd::new(&signals.wake, PollFlags::IN)];
        match poll(&mut waited_for, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Trouble::with("wait")(error)),
        }
        if waited_for[0].revents().is_empty() {
            signals.drain();
            continue;
        }
        let mut buffer = [0; 4096];
        match channel.read(&mut buffer) {
            Ok(0) => return Ok(end),
            Ok(count) => received.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Trouble::with("read from the process inside")(error)),
        }
    }
}

/// Ends this process as the program ended.
fn end_alike(end: End) -> ExitCode {
    match end {
        End::Exited(code) => ExitCode::from(u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
        End::Signalled(signal) => {
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
struct Inside {
    child: Child,
    /// Its process id, if `child` is bubblewrap or an engine's client instead.
    bwrap_info: Option<bwrap::Told>,
}

impl Inside {
    fn start(
        plan: &Plan,
        channel: &UnixStream,
        proxy: Option<&UnixStream>,
        command_line: &[OsString],
    ) -> Result<Self, Trouble> {
        let channel = channel.as_raw_fd().to_string();
        let proxy = proxy.map_or_else(|| "-".to_owned(), |proxy| proxy.as_raw_fd().to_string());
        let arguments = |command: &mut Command| {
            command.arg(INSIDE_COMMAND).arg(&channel).arg(&proxy).args(command_line);
        };
        match &plan.backend_config {
            // The other backends do not start here.
            Wall::Native | Wall::Container(_) | Wall::Sbx(_) | Wall::Landlock => {
                part_with_user()?;
                let mut command = Command::new("/proc/self/exe");
                arguments(&mut command);
                let child = command.spawn().map_err(Trouble::with("start the process inside"))?;
                Ok(Self { child, bwrap_info: None })
            }
            Wall::Bwrap { program, ralph } => {
                let (pipe, mut command) = bwrap::command(program, &plan.spec)?;
                command.arg("--").arg(ralph);
                arguments(&mut command);
                // Signals for the program would end bubblewrap, so it gets its own group.
                let child =
                    command.process_group(0).spawn().map_err(Trouble::at("start", program))?;
                Ok(Self { child, bwrap_info: Some(pipe.close()) })
            }
        }
    }

    /// Returns the process that leads the program's group.
    fn first_process(&mut self) -> Option<Pid> {
        match &mut self.bwrap_info {
            None => Some(Pid::from_child(&self.child)),
            Some(info) => info.first_process(),
        }
    }
}

/// Leaves the user and PID namespaces for fresh ones in which this user has all rights, and passes
/// these on to the next started process.
pub(super) fn part_with_user() -> Result<(), Trouble> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    kernel::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWPID)
        .map_err(Trouble::with("create a user namespace"))?;
    // Otherwise a process could drop a group that denies access rather than granting it.
    std::fs::write("/proc/self/setgroups", "deny").map_err(Trouble::with("keep its groups"))?;
    let map = |file: &str, id: u32| std::fs::write(file, format!("{id} {id} 1"));
    map("/proc/self/uid_map", user).map_err(Trouble::with("keep its user"))?;
    map("/proc/self/gid_map", group).map_err(Trouble::with("keep its group"))?;
    // A program that does not run as root loses all rights at exec, except for these.
    let all = CapabilitySet::SYS_ADMIN
        | CapabilitySet::NET_ADMIN
        | CapabilitySet::SETPCAP
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::DAC_READ_SEARCH;
    let sets = CapabilitySets { effective: all, permitted: all, inheritable: all };
    set_capabilities(None, sets).map_err(Trouble::with("use the rights of its namespace"))?;
    for one in all.iter() {
        configure_capability_in_ambient_set(one, true)
            .map_err(Trouble::with("pass on its rights"))?;
    }
    Ok(())
}

/// Signals that wait to be forwarded.
struct Signals {
    wake: UnixStream,
    pending: Vec<(Signal, Arc<AtomicBool>)>,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        waker.set_nonblocking(true)?;
        let mut pending = Vec::new();
        for number in PASSED_ON {
            let Some(signal) = Signal::from_named_raw(number) else { continue };
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(number, Arc::clone(&flag))?;
            signal_hook::low_level::pipe::register(number, waker.try_clone()?)?;
            pending.push((signal, flag));
        }
        Ok(Self { wake, pending })
    }

    fn drain(&self) {
        let mut buffer = [0; 64];
        while matches!((&self.wake).read(&mut buffer), Ok(1..)) {}
    }

    fn pass_on_to(&self, leader: Option<Pid>) {
        let Some(leader) = leader.filter(|leader| leader.as_raw_pid() > 1) else { return };
        for (signal, flag) in &self.pending {
            if flag.swap(false, Ordering::Relaxed) {
                // A process that is gone needs no signal.
                let _ = kill_process_group(leader, *signal);
            }
        }
    }
}
