//! The first process between the walls: finishes them, starts the program, and reaps until that ends.
//!
//! As the first process of its PID namespace it takes everything with it when it goes. It leads a
//! session of its own, with the program in its process group, so that no terminal of the user's is
//! theirs, and so that the process outside can reach them all. Not here: passing signals on.

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

use super::confine::{Neighbors, Reach, confine};
use super::outside::Report;
use super::{kernel, mounts, network};
use crate::process::{Limits, Spawn, Stdin, find_program};
use crate::sandbox::container::Container;
use crate::sandbox::plan::Plan;
use crate::sandbox::trouble::Trouble;
use crate::sandbox::{Counted, Network, WALL_CODE, WALL_PREFIX, Wall};

/// Makes the rest of the walls and runs the program.
pub(super) fn main(
    channel: &OsStr,
    proxy: &OsStr,
    words: &[OsString],
) -> Result<ExitCode, Trouble> {
    let mut channel = adopt(channel)?;
    let proxy = if proxy == "-" { None } else { Some(adopt(proxy)?) };
    match settle(&mut channel, proxy, words) {
        Ok((program, _proxy)) => {
            let _ = say(&mut channel, &Report::Started);
            let end = reap(program);
            let _ = say(&mut channel, &end);
            Ok(ExitCode::SUCCESS)
        }
        Err(trouble) => {
            let told = say(&mut channel, &Report::Failed(trouble.to_string()));
            told.map(|()| ExitCode::from(WALL_CODE))
        }
    }
}

/// Takes a channel over: one that this process was started with, or, in a container, one that is
/// called by its path.
fn adopt(number: &OsStr) -> Result<UnixStream, Trouble> {
    let path = Path::new(number);
    if path.is_absolute() {
        return UnixStream::connect(path).map_err(Trouble::at("call outside by", path));
    }
    let number = number.to_str().and_then(|number| number.parse().ok()).unwrap_or(-1);
    let file = kernel::adopt(number).map_err(Trouble::with("take a channel over"))?;
    Ok(UnixStream::from(file))
}

fn say(channel: &mut UnixStream, report: &Report) -> Result<(), Trouble> {
    let mut line = serde_json::to_vec(report).map_err(Trouble::with("write a report"))?;
    line.push(b'\n');
    channel.write_all(&line).map_err(Trouble::with("report"))
}

/// Returns the program's process, which is running, and what its way to the proxy hangs on.
fn settle(
    channel: &mut UnixStream,
    proxy: Option<UnixStream>,
    words: &[OsString],
) -> Result<(Pid, Option<UnixStream>), Trouble> {
    let mut text = Vec::new();
    channel.read_to_end(&mut text).map_err(Trouble::with("hear the plan"))?;
    let plan: Plan = serde_json::from_slice(&text).map_err(Trouble::with("hear the plan"))?;
    match &plan.wall {
        Wall::Native | Wall::Bwrap { .. } | Wall::Sbx(_) | Wall::Landlock => {
            set_parent_process_death_signal(Some(Signal::KILL))
                .map_err(Trouble::with("tie itself to the process outside"))?;
            setsid().map_err(Trouble::with("begin a session"))?;
        }
        Wall::Container(_) => {
            end_with(channel.try_clone().map_err(Trouble::with("keep its channel"))?);
            // Engines make the first process the leader of a session, or leave that to it.
            let _ = setsid();
        }
    }
    match &plan.wall {
        Wall::Native => {
            part_with_rest(&plan.cell.network)?;
            mounts::arrange(&plan.cell)?;
            match &plan.cell.network {
                Network::None | Network::Proxy(_) => network::raise_loopback()?,
                Network::Host => {}
            }
        }
        Wall::Bwrap { .. } | Wall::Container(_) | Wall::Sbx(_) | Wall::Landlock => {}
    }
    if let (Some(proxy), Network::Proxy(door)) = (&proxy, &plan.cell.network) {
        network::hand_over(proxy, door)?;
    }
    let (file, pids) = match &plan.wall {
        Wall::Native | Wall::Bwrap { .. } | Wall::Sbx(_) | Wall::Landlock => {
            enter(&plan)?;
            (plan.program.clone(), plan.cell.bounds.pids.into())
        }
        // The engine counts them, and only those inside.
        Wall::Container(engine) => (enter_image(&plan, &words[0], engine)?, u64::MAX),
    };
    let bounds = &plan.cell.bounds;
    let neighbors = match bounds.counted {
        Counted::Together => Neighbors::Inside,
        Counted::ByUser => Neighbors::Host,
    };
    confine(bounds, pids, plan.cell.unix_sockets, Reach::Own, neighbors)?;
    match neighbors {
        Neighbors::Inside if bounds.memory < u64::MAX => watch_memory(bounds.memory),
        Neighbors::Inside | Neighbors::Host => {}
    }
    is_watched(channel)?;
    let mut program = Command::new(&file);
    program.arg0(&words[0]).args(&words[1..]);
    let child = program.spawn().map_err(|error| unusable(&file, &error))?;
    Ok((Pid::from_child(&child), proxy))
}

/// Between two looks at the memory of processes: time enough for some hundred megabytes more.
const MEMORY_LOOK: Duration = Duration::from_millis(250);

/// Ends each process that uses more memory than one may. The limit of the system on data would count
/// what is only reserved.
fn watch_memory(most: u64) {
    // Without it the kernel ends processes when the machine has no more memory.
    let _ = thread::Builder::new().stack_size(128 << 10).spawn(move || {
        loop {
            thread::sleep(MEMORY_LOOK);
            for (pid, used) in memory_of_processes() {
                if used > most && kill_process(pid, Signal::KILL).is_ok() {
                    report_memory(used);
                }
            }
        }
    });
}

/// Writes why a process was ended to the stream on which its own errors go: no other word of it would
/// be in the log of a gate.
fn report_memory(used: u64) {
    let stream = fs::OpenOptions::new().append(true).open("/proc/self/fd/2");
    let line = format!(
        "{WALL_PREFIX}a process used {} MB of memory and was ended; `sandbox.limits.memory` is the \
         limit\n",
        used >> 20
    );
    let _ = stream.and_then(|mut stream| stream.write_all(line.as_bytes()));
}

/// Returns the processes but this one, with the memory that is theirs alone.
fn memory_of_processes() -> Vec<(Pid, u64)> {
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

/// Ends this process, and with it everything inside, when the one outside is gone.
fn end_with(channel: UnixStream) {
    // Without it the container is removed a little later.
    let _ = thread::Builder::new().stack_size(64 << 10).spawn(move || {
        loop {
            let mut other = [PollFd::new(&channel, PollFlags::empty())];
            let _ = poll(&mut other, None);
            if other[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
                std::process::exit(WALL_CODE.into());
            }
        }
    });
}

/// Goes where the program starts, and finds it among those of the image.
fn enter_image(plan: &Plan, name: &OsStr, engine: &Container) -> Result<PathBuf, Trouble> {
    env::set_current_dir(&plan.cwd)
        .map_err(Trouble::at("enter, in the container, the directory", &plan.cwd))?;
    let spawn = Spawn {
        program: name.to_owned(),
        args: Vec::new(),
        cwd: plan.cwd.clone(),
        env: env::vars_os().collect(),
        stdin: Stdin::Null,
        limits: Limits::default(),
    };
    find_program(&spawn)
        .map_err(|reason| Trouble::new(format!("{reason} in the image `{}`", engine.image)))
}

/// Leaves the other namespaces, now that this process has the rights to.
pub(super) fn part_with_rest(network: &Network) -> Result<(), Trouble> {
    let mut flags = UnshareFlags::NEWNS | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    match network {
        Network::None | Network::Proxy(_) => flags |= UnshareFlags::NEWNET,
        Network::Host => {}
    }
    kernel::unshare(flags).map_err(Trouble::with("make its namespaces"))
}

/// Goes where the program starts, and looks whether the program can be seen from there.
pub(super) fn enter(plan: &Plan) -> Result<(), Trouble> {
    env::set_current_dir(&plan.cwd)
        .map_err(Trouble::at("enter, in the cell, the directory", &plan.cwd))?;
    access(&plan.program, Access::EXEC_OK).map_err(|error| unusable(&plan.program, &error.into()))
}

/// Returns what is wrong with a program that cannot be run.
pub(super) fn unusable(program: &Path, error: &std::io::Error) -> Trouble {
    Trouble::new(format!(
        "`{}` cannot be run in the cell: {error}; if it lies in your home directory, \
         `sandbox.home` can show it",
        program.display()
    ))
}

/// Fails if the process outside died before this one was tied to it.
fn is_watched(channel: &UnixStream) -> Result<(), Trouble> {
    let mut other = [PollFd::new(channel, PollFlags::empty())];
    let nothing = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut other, Some(&nothing)).map_err(Trouble::with("look outside"))?;
    if other[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
        return Err(Trouble::new("the process outside is gone"));
    }
    Ok(())
}

/// Waits for the program, and takes note of every other process that ends before it.
fn reap(program: Pid) -> Report {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => {
                return match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => Report::Exited(code),
                    (None, Some(signal)) => Report::Signalled(signal),
                    (None, None) => continue,
                };
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // It has no children any more, and the program was one.
            Err(error) => return Report::Failed(format!("the program was lost: {error}")),
        }
    }
}
