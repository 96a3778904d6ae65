//! Starts a container: runs the engine's client, and waits until the first process inside connects.
//!
//! The two communicate through a mounted unix socket: when the process outside ends, the one inside
//! sees the channel close and ends too. Not here: the client's command line.

use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::process::Pid;

use crate::process::{Limits, Spawn, Stdin};
use crate::sandbox::Network;
use crate::sandbox::boundary::Boundary;
use crate::sandbox::container::{Berth, Container, Note, container_name};
use crate::sandbox::plan::Plan;
use crate::sandbox::proxy::listener_at;
use crate::sandbox::trouble::Trouble;
use crate::store::layout::private_directories;

/// Interval between two checks that the client is still running; engines take a third of a second.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// A running container, with its first process.
pub(super) struct Started {
    pub(super) client: Child,
    /// The connection to the first process inside.
    pub(super) channel: UnixStream,
    /// The process id of that process on the host.
    pub(super) first: Option<Pid>,
    /// The note that makes sure that the container is removed.
    pub(super) note: Note,
}

/// Starts a container for a plan. Its files are created next to the plan file.
pub(super) fn start(
    plan: &Plan,
    container: &Container,
    file: &Path,
    command_line: &[std::ffi::OsString],
) -> Result<Started, Trouble> {
    let number = file.file_stem().unwrap_or_default().to_string_lossy();
    let name = container_name(&plan.run, number.trim_start_matches("cell-"));
    let channel = Channel(file.with_extension("sock"));
    let listener =
        listener_at(&channel.0).map_err(Trouble::at("listen for the container at", &channel.0))?;
    let empty = file.with_file_name("empty");
    private_directories(&empty).map_err(Trouble::at("make", &empty))?;
    let note =
        Note::hold(container, &name, file).map_err(Trouble::at("write a file next to", file))?;
    let berth = Berth {
        name: &name,
        run: &plan.run,
        channel: &channel.0,
        empty: &empty,
        proxy: match &plan.spec.network {
            Network::None | Network::Host => None,
            Network::Proxy(endpoint) => Some(endpoint.handover.as_path()),
        },
    };
    let mut client = client(plan, container, &berth, command_line)
        .spawn()
        .map_err(Trouble::at("start", &container.engine.program))?;
    match wait_for_call(&listener, &mut client, container) {
        Ok(channel) => {
            let first = socket_peercred(&channel).ok().map(|peer| peer.pid);
            Ok(Started { client, channel, first, note })
        }
        Err(error) => {
            let _ = client.kill();
            let _ = client.wait();
            note.remove_container();
            Err(error)
        }
    }
}

/// The socket file, which is not needed once the process inside has connected.
struct Channel(PathBuf);

impl Drop for Channel {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn client(
    plan: &Plan,
    container: &Container,
    berth: &Berth<'_>,
    command_line: &[std::ffi::OsString],
) -> Command {
    let boundary = Boundary::of(&plan.spec, &plan.project, plan.home.as_deref());
    let spawn = Spawn {
        program: command_line[0].clone(),
        args: command_line[1..].to_vec(),
        cwd: plan.cwd.clone(),
        // This process runs with the child's environment.
        env: std::env::vars_os().collect(),
        stdin: Stdin::Null,
        limits: Limits::default(),
    };
    let Spawn { program, args, cwd, env, .. } = container.launch(spawn, &boundary, berth);
    let mut command = Command::new(program);
    // Signals for the program are forwarded to it; in the same group the client would repeat them.
    command.args(args).current_dir(cwd).env_clear().envs(env).process_group(0);
    command
}

fn wait_for_call(
    listener: &UnixListener,
    client: &mut Child,
    container: &Container,
) -> Result<UnixStream, Trouble> {
    loop {
        let mut called = [PollFd::new(listener, PollFlags::IN)];
        match poll(&mut called, Some(&LOOK)) {
            Ok(1..) => {
                let (channel, _) = listener
                    .accept()
                    .map_err(Trouble::with("accept the container's connection"))?;
                return Ok(channel);
            }
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Trouble::with("wait for the container")(error)),
        }
        if let Some(status) = client.try_wait().map_err(Trouble::with("check the engine"))? {
            let engine = container.engine.program.display();
            return Err(Trouble::new(format!(
                "`{engine}` started no container ({status}); if it says that ralph cannot be run, the \
                 image `{}` lacks the C library that this ralph needs",
                container.image
            )));
        }
    }
}
