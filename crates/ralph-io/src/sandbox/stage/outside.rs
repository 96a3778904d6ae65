//! The process around the walls: starts the first one between them, passes signals on, and ends as
//! the program ended.
//!
//! It has one thread, as a process must that leaves its user namespace. Not here: what happens
//! between the walls (`inside`).

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

/// What the process inside says of itself, one JSON text a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Report {
    /// The program runs, and signals reach it.
    Started,
    /// It ended with this code.
    Exited(i32),
    /// This signal ended it.
    Signalled(i32),
    /// The walls could not be made, or the program not be started.
    Failed(String),
}

/// What is passed on: what people and supervisors send to a whole process group.
const PASSED_ON: [i32; 7] = [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT];

/// Runs the program behind the walls that a plan asks for.
pub(super) fn main(plan: &Path, program: &[OsString]) -> Result<ExitCode, Trouble> {
    let file = plan;
    let plan = Plan::take(file).map_err(Trouble::at("read the plan", file))?;
    match &plan.wall {
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
    let signals = Signals::listen().map_err(Trouble::with("listen to signals"))?;
    let (channel, theirs) = UnixStream::pair().map_err(Trouble::with("make a channel"))?;
    // The other end is what the process inside inherits, and nothing else.
    fcntl_setfd(&theirs, FdFlags::empty()).map_err(Trouble::with("open the channel"))?;
    let proxy = call_proxy(&plan.cell.network)?;
    match plan.cell.bounds.counted {
        Counted::Together => cgroup::enter(&plan.cell.bounds),
        Counted::ByUser => {}
    }
    let mut inside = Inside::start(plan, &theirs, proxy.as_ref(), program)?;
    drop((theirs, proxy));
    let end = tell(&channel, plan).and_then(|()| follow(&channel, &signals, &mut inside));
    if end.is_err() {
        let _ = inside.child.kill();
    }
    // Its end is the end of everything inside.
    let status = inside.child.wait().map_err(Trouble::with("wait for the process inside"))?;
    match (end?, status.signal()) {
        (Some(end), _) => Ok(end),
        (None, Some(signal)) => Ok(End::Signalled(signal)),
        (None, None) => Err(Trouble::new(match &plan.wall {
            Wall::Bwrap { .. } => format!("bwrap made no cell ({status})"),
            Wall::Native | Wall::Container(_) | Wall::Sbx(_) | Wall::Landlock => {
                format!("the process inside is gone ({status})")
            }
        })),
    }
}

/// The same for a container. What may be left of it is removed.
fn watch_container(
    plan: &Plan,
    engine: &Container,
    file: &Path,
    program: &[OsString],
) -> Result<End, Trouble> {
    let signals = Signals::listen().map_err(Trouble::with("listen to signals"))?;
    let container::Started { client, channel, first, note } =
        container::start(plan, engine, file, program)?;
    let mut inside = Inside { child: client, told: Some(bwrap::Told::Read(first)) };
    let end = tell(&channel, plan).and_then(|()| follow(&channel, &signals, &mut inside));
    if let Ok(Some(end)) = end {
        // It takes the container away, and passes the last output on.
        match inside.child.wait() {
            Ok(_) => note.drop_ended(),
            Err(_) => note.remove_container(),
        }
        return Ok(end);
    }
    note.remove_container();
    let _ = inside.child.kill();
    let _ = inside.child.wait();
    // Somebody has killed the first process, and with it everything inside.
    end.map(|_| End::Signalled(signal_hook::consts::SIGKILL))
}

/// Calls the proxy, where there is one. A socket with a path is found by that path, whatever network
/// one is in; so it is called from here, where the path can be seen.
fn call_proxy(network: &Network) -> Result<Option<UnixStream>, Trouble> {
    match network {
        Network::None | Network::Host => Ok(None),
        Network::Proxy(door) => {
            let proxy = proxy::call(&door.handover)
                .map_err(Trouble::at("reach the proxy at", &door.handover))?;
            fcntl_setfd(&proxy, FdFlags::empty()).map_err(Trouble::with("keep the proxy"))?;
            Ok(Some(proxy))
        }
    }
}

fn tell(mut channel: &UnixStream, plan: &Plan) -> Result<(), Trouble> {
    let text = serde_json::to_vec(plan).map_err(Trouble::with("write the plan down"))?;
    let sent = channel.write_all(&text).and_then(|()| channel.shutdown(Shutdown::Write));
    // One that is gone already has its reasons, which it tells on its way.
    match sent {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Trouble::with("tell the plan")(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Passes signals on until the process inside has said its last word.
fn follow(
    mut channel: &UnixStream,
    signals: &Signals,
    inside: &mut Inside,
) -> Result<Option<End>, Trouble> {
    let mut heard = Vec::new();
    let mut end = None;
    let mut has_started = false;
    loop {
        while let Some(at) = heard.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = heard.drain(..=at).collect();
            match serde_json::from_slice(&line).map_err(Trouble::with("understand the inside"))? {
                Report::Started => has_started = true,
                Report::Exited(code) => end = Some(End::Exited(code)),
                Report::Signalled(signal) => end = Some(End::Signalled(signal)),
                Report::Failed(words) => return Err(Trouble::new(words)),
            }
        }
        if has_started {
            // What came before is passed on now.
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
            Ok(count) => heard.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Trouble::with("hear from the inside")(error)),
        }
    }
}

/// Ends this process as the program ended.
fn end_alike(end: End) -> ExitCode {
    match end {
        End::Exited(code) => ExitCode::from(u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
        End::Signalled(signal) => {
            // The program left its traces; this process has none worth keeping.
            let none = Rlimit { current: Some(0), maximum: Some(0) };
            let _ = setrlimit(Resource::Core, none);
            let _ = match Signal::from_named_raw(signal) {
                Some(Signal::KILL) => kill_process(getpid(), Signal::KILL).map_err(Into::into),
                Some(_) | None => signal_hook::low_level::emulate_default_handler(signal),
            };
            // A signal that ends nothing here: as shells put it.
            ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))
        }
    }
}

/// The first process inside, seen from here.
struct Inside {
    child: Child,
    /// Its number, where the child is not it but what keeps it.
    told: Option<bwrap::Told>,
}

impl Inside {
    fn start(
        plan: &Plan,
        channel: &UnixStream,
        proxy: Option<&UnixStream>,
        words: &[OsString],
    ) -> Result<Self, Trouble> {
        let channel = channel.as_raw_fd().to_string();
        let proxy = proxy.map_or_else(|| "-".to_owned(), |proxy| proxy.as_raw_fd().to_string());
        let arguments = |command: &mut Command| {
            command.arg(INSIDE_COMMAND).arg(&channel).arg(&proxy).args(words);
        };
        match &plan.wall {
            // The others do not start here.
            Wall::Native | Wall::Container(_) | Wall::Sbx(_) | Wall::Landlock => {
                part_with_user()?;
                let mut command = Command::new("/proc/self/exe");
                arguments(&mut command);
                let child = command.spawn().map_err(Trouble::with("start the process inside"))?;
                Ok(Self { child, told: None })
            }
            Wall::Bwrap { program, ralph } => {
                let (told, mut command) = bwrap::command(program, &plan.cell)?;
                command.arg("--").arg(ralph);
                arguments(&mut command);
                // It does not survive what is meant for the program, so it gets its own group.
                let child =
                    command.process_group(0).spawn().map_err(Trouble::at("start", program))?;
                Ok(Self { child, told: Some(told.close()) })
            }
        }
    }

    /// Returns the process that leads the program's group.
    fn first_process(&mut self) -> Option<Pid> {
        match &mut self.told {
            None => Some(Pid::from_child(&self.child)),
            Some(told) => told.first_process(),
        }
    }
}

/// Leaves the user and PID namespaces for fresh ones in which this user has all rights, and hands
/// these on to what is started next.
pub(super) fn part_with_user() -> Result<(), Trouble> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    kernel::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWPID)
        .map_err(Trouble::with("make a user namespace"))?;
    // Without this a group could be left that takes rights away rather than giving some.
    std::fs::write("/proc/self/setgroups", "deny").map_err(Trouble::with("keep its groups"))?;
    let map = |file: &str, id: u32| std::fs::write(file, format!("{id} {id} 1"));
    map("/proc/self/uid_map", user).map_err(Trouble::with("keep its user"))?;
    map("/proc/self/gid_map", group).map_err(Trouble::with("keep its group"))?;
    // A program that is not root's loses all rights when it starts, but for these.
    let all = CapabilitySet::SYS_ADMIN
        | CapabilitySet::NET_ADMIN
        | CapabilitySet::SETPCAP
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::DAC_READ_SEARCH;
    let sets = CapabilitySets { effective: all, permitted: all, inheritable: all };
    set_capabilities(None, sets).map_err(Trouble::with("use the rights of its namespace"))?;
    for one in all.iter() {
        configure_capability_in_ambient_set(one, true)
            .map_err(Trouble::with("hand its rights on"))?;
    }
    Ok(())
}

/// Signals that wait to be passed on.
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
                // One that is gone needs no signal.
                let _ = kill_process_group(leader, *signal);
            }
        }
    }
}
