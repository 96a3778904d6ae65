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

use crate::process::Spawn;
use crate::sandbox::SandboxNetwork;
use crate::sandbox::boundary::Boundary;
use crate::sandbox::container::{Container, ContainerNote, ContainerSlot, build_container_name};
use crate::sandbox::launch_error::LaunchError;
use crate::sandbox::launch_plan::LaunchPlan;
use crate::sandbox::proxy::listen_at;
use crate::store::layout::create_private_directories;

/// Interval between two checks that the client is still running; engines take a third of a second.
const CHECK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// A running container, with its first process.
pub(super) struct StartedContainer {
    pub(super) client: Child,
    /// The connection to the first process inside.
    pub(super) channel: UnixStream,
    /// The process id of that process on the host.
    pub(super) first: Option<Pid>,
    /// The note that makes sure that the container is removed.
    pub(super) note: ContainerNote,
}

/// Starts a container for a plan. Its files are created next to the plan file.
pub(super) fn start_container(
    plan: &LaunchPlan,
    container: &Container,
    file: &Path,
    command_line: &[std::ffi::OsString],
) -> Result<StartedContainer, LaunchError> {
    let number = file.file_stem().unwrap_or_default().to_string_lossy();
    let name = build_container_name(&plan.run, number.trim_start_matches("cell-"));
    let channel = ChannelSocket(file.with_extension("sock"));
    let listener = listen_at(&channel.0)
        .map_err(LaunchError::for_path("listen for the container at", &channel.0))?;
    let empty = file.with_file_name("empty");
    create_private_directories(&empty).map_err(LaunchError::for_path("make", &empty))?;
    let note = ContainerNote::write_locked(container, &name, file)
        .map_err(LaunchError::for_path("write a file next to", file))?;
    let slot = ContainerSlot {
        name: &name,
        run: &plan.run,
        channel: &channel.0,
        empty: &empty,
        proxy: match &plan.spec.network {
            SandboxNetwork::None | SandboxNetwork::Host => None,
            SandboxNetwork::Proxy(endpoint) => Some(endpoint.handover.as_path()),
        },
    };
    let mut client = build_client(plan, container, &slot, command_line)
        .spawn()
        .map_err(LaunchError::for_path("start", &container.engine.program))?;
    match wait_for_connection(&listener, &mut client, container) {
        Ok(channel) => {
            let first = socket_peercred(&channel).ok().map(|peer| peer.pid);
            Ok(StartedContainer { client, channel, first, note })
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
struct ChannelSocket(PathBuf);

impl Drop for ChannelSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn build_client(
    plan: &LaunchPlan,
    container: &Container,
    slot: &ContainerSlot<'_>,
    command_line: &[std::ffi::OsString],
) -> Command {
    let boundary = Boundary::from_spec(&plan.spec, &plan.project, plan.home.as_deref());
    let spawn = plan.rebuild_spawn(command_line);
    let Spawn { program, args, cwd, env, .. } = container.wrap_spawn(spawn, &boundary, slot);
    let mut command = Command::new(program);
    // Signals for the program are forwarded to it; in the same group the client would repeat them.
    command.args(args).current_dir(cwd).env_clear().envs(env).process_group(0);
    command
}

fn wait_for_connection(
    listener: &UnixListener,
    client: &mut Child,
    container: &Container,
) -> Result<UnixStream, LaunchError> {
    loop {
        let mut called = [PollFd::new(listener, PollFlags::IN)];
        match poll(&mut called, Some(&CHECK_INTERVAL)) {
            Ok(1..) => {
                let (channel, _) = listener
                    .accept()
                    .map_err(LaunchError::for_operation("accept the container's connection"))?;
                return Ok(channel);
            }
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(LaunchError::for_operation("wait for the container")(error)),
        }
        if let Some(status) =
            client.try_wait().map_err(LaunchError::for_operation("check the engine"))?
        {
            let engine = container.engine.program.display();
            return Err(LaunchError::new(format!(
                "`{engine}` started no container ({status}); if it says that ralph cannot be run, the \
                 image `{}` lacks the C library that this ralph needs",
                container.image
            )));
        }
    }
}
