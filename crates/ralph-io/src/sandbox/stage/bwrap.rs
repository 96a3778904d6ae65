//! The mounts of a spec as arguments for bubblewrap.
//!
//! Not here: the process that bubblewrap starts, which is the same as with ralph's own namespaces.

use std::ffi::OsString;
use std::io::{PipeReader, PipeWriter, Read as _, pipe};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::Command;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::Pid;
use serde::Deserialize;

use super::mounts::{KERNEL_SETTINGS, KERNEL_STATE_FILES, is_world_writable};
use crate::sandbox::launch_error::LaunchError;
use crate::sandbox::{Mount, SandboxNetwork, SandboxSpec};

/// The exit code of bubblewrap if it cannot set up a sandbox.
pub(super) const FAILED_CODE: i32 = 1;

/// Returns the command up to the program, and the pipe on which bubblewrap reports the process id.
pub(super) fn build_command(
    bwrap: &Path,
    spec: &SandboxSpec,
) -> Result<(InfoPipe, Command), LaunchError> {
    let (reader, writer) = pipe().map_err(LaunchError::for_operation("make a pipe"))?;
    fcntl_setfd(&writer, FdFlags::empty()).map_err(LaunchError::for_operation("open a pipe"))?;
    let mut command = Command::new(bwrap);
    command.args(build_arguments(spec)).arg("--info-fd").arg(writer.as_raw_fd().to_string());
    Ok((InfoPipe { reader, writer }, command))
}

/// Returns the arguments that implement a spec.
fn build_arguments(spec: &SandboxSpec) -> Vec<OsString> {
    let mut args: Vec<OsString> = [
        // As root, bubblewrap would skip the user namespace and keep all rights.
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--as-pid-1",
        "--die-with-parent",
        "--cap-drop",
        "ALL",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
    ]
    .map(OsString::from)
    .to_vec();
    let mut add = |parts: &[&dyn AsRef<std::ffi::OsStr>]| {
        args.extend(parts.iter().map(|part| part.as_ref().to_owned()));
    };
    match spec.network {
        SandboxNetwork::None | SandboxNetwork::Proxy(_) => add(&[&"--unshare-net"]),
        SandboxNetwork::Host => {}
    }
    for knob in KERNEL_SETTINGS.map(Path::new).into_iter().filter(|knob| knob.exists()) {
        add(&[&"--ro-bind", &knob, &knob]);
    }
    for view in KERNEL_STATE_FILES.map(Path::new).into_iter().filter(|view| view.exists()) {
        add(&[&"--ro-bind", &"/dev/null", &view]);
    }
    let size = spec.bounds.tmp.to_string();
    add(&[&"--perms", &"1777", &"--size", &size, &"--tmpfs", &"/dev/shm"]);
    for mount in &spec.mounts {
        match mount {
            Mount::Scratch { path } => {
                let mode = if is_world_writable(path) { "1777" } else { "0755" };
                add(&[&"--perms", &mode, &"--size", &size, &"--tmpfs", path]);
            }
            Mount::Hidden { path } if path.is_dir() => {
                add(&[&"--perms", &"0755", &"--size", &"1048576", &"--tmpfs", path]);
            }
            Mount::Hidden { path } if path.exists() => add(&[&"--ro-bind", &"/dev/null", path]),
            Mount::Hidden { .. } => {}
            Mount::Shown { path } | Mount::Protected { path } => {
                add(&[&"--ro-bind", path, path]);
            }
            Mount::Writable { path } | Mount::Pinned { path } => add(&[&"--bind", path, path]),
            Mount::Cache { path, source } => add(&[&"--bind", source, path]),
            Mount::ShownAs { path, source } => add(&[&"--ro-bind", source, path]),
        }
    }
    for mount in &spec.mounts {
        if let Mount::Hidden { path } = mount
            && path.is_dir()
        {
            add(&[&"--remount-ro", path]);
        }
    }
    add(&[&"--remount-ro", &"/dev"]);
    args
}

/// Both ends of the pipe for bubblewrap's report.
pub(super) struct InfoPipe {
    reader: PipeReader,
    writer: PipeWriter,
}

impl InfoPipe {
    /// Closes the writing end in this process, after bubblewrap has inherited it.
    pub(super) fn close_writer(self) -> BwrapInfo {
        let Self { reader, writer } = self;
        drop(writer);
        BwrapInfo::Unread(reader)
    }
}

/// The process id that bubblewrap reports.
pub(super) enum BwrapInfo {
    Unread(PipeReader),
    Read(Option<Pid>),
}

impl BwrapInfo {
    /// Returns the first process inside. Must be called only once that process is known to run.
    pub(super) fn find_first_process(&mut self) -> Option<Pid> {
        #[derive(Deserialize)]
        #[serde(rename_all = "kebab-case")]
        struct Information {
            child_pid: i32,
        }
        if let Self::Unread(reader) = self {
            let mut text = Vec::new();
            let _ = reader.read_to_end(&mut text);
            let information: Option<Information> = serde_json::from_slice(&text).ok();
            *self = Self::Read(information.and_then(|it| Pid::from_raw(it.child_pid)));
        }
        match self {
            Self::Unread(_) => None,
            Self::Read(pid) => *pid,
        }
    }
}
