//! The command line of a container.
//!
//! Both engines accept all of it. Not here: running it.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use ralph_model::sandbox::{Backend, NetworkMode};

use super::super::boundary::{Boundary, BoundaryEntry};
use super::super::proxy::{PORT_INSIDE, list_proxy_variables};
use super::super::{INSIDE_COMMAND, SANDBOX_VARIABLE};
use super::engine::{ContainerUser, SelinuxLabels};
use super::{Container, ContainerSlot, build_run_label};
use crate::process::Spawn;

/// The path inside at which the process outside listens.
const CHANNEL_INSIDE: &str = "/run/ralph/channel.sock";

/// The path inside at which the proxy listens.
const PROXY_INSIDE: &str = "/run/ralph/proxy.sock";

/// Returns whether a variable has another meaning inside, or configures the engine's client.
fn is_host_variable(name: &OsStr) -> bool {
    const NAMES: [&str; 9] =
        ["PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "HOSTNAME"];
    const PREFIXES: [&str; 5] = ["DOCKER_", "CONTAINER_", "CONTAINERS_", "BUILDAH_", "XDG_"];
    let Some(name) = name.to_str() else { return true };
    name == SANDBOX_VARIABLE
        || NAMES.contains(&name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns the part of ralph's environment that the engine's client needs, without secrets.
pub(super) fn select_client_env(env: &[(OsString, OsString)]) -> Vec<(String, String)> {
    let text = |it: &OsString| it.to_str().map(str::to_owned);
    env.iter()
        .filter(|(name, _)| is_host_variable(name))
        .filter_map(|(name, value)| Some((text(name)?, text(value)?)))
        .collect()
}

/// Returns the environment of the engine's client: its own, and what it passes on by name.
pub(super) fn build_client_env(
    own: &[(String, String)],
    child: &[(OsString, OsString)],
) -> Vec<(OsString, OsString)> {
    let own = own.iter().map(|(name, value)| (name.into(), value.into()));
    own.chain(child.iter().filter(|(name, _)| !is_host_variable(name)).cloned()).collect()
}

/// Returns the arguments that run a child.
pub(super) fn build_run_arguments(
    container: &Container,
    spawn: &Spawn,
    boundary: &Boundary,
    slot: &ContainerSlot<'_>,
) -> Vec<OsString> {
    let mut args = ArgumentList::default();
    args.add(&["run", "--rm", "--interactive", "--name", slot.name]);
    args.add(&["--label", &build_run_label(slot.run)]);
    // The image exists, or the run fails; nothing is downloaded unattended.
    args.add(&["--pull", "never"]);
    args.add(&["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]);
    match container.engine.labels {
        SelinuxLabels::Absent => {}
        SelinuxLabels::SwitchedOff => args.add(&["--security-opt", "label=disable"]),
    }
    add_limits(&mut args, boundary);
    match container.engine.user {
        ContainerUser::Same { uid, gid } => args.add(&["--user", &format!("{uid}:{gid}")]),
        ContainerUser::Kept { uid, gid } => {
            args.add(&["--userns", "keep-id", "--user", &format!("{uid}:{gid}")]);
        }
        ContainerUser::Mapped => args.add(&["--user", "0:0"]),
    }
    let network = match boundary.network {
        NetworkMode::None | NetworkMode::Proxy => "none",
        // The host's own network would include its loopback.
        NetworkMode::Host => "bridge",
    };
    args.add(&["--network", network]);
    add_mounts(&mut args, boundary, slot);
    add_variables(&mut args, spawn, boundary, container);
    // The first process changes to the start directory, and reports if it cannot.
    args.add(&["--workdir", "/", "--entrypoint"]);
    args.0.push(container.ralph.clone().into());
    args.add(&[&container.image, INSIDE_COMMAND, CHANNEL_INSIDE]);
    args.add(&[if slot.proxy.is_some() { PROXY_INSIDE } else { "-" }]);
    args.0.push(spawn.program.clone());
    args.0.extend(spawn.args.iter().cloned());
    args.0
}

fn add_limits(args: &mut ArgumentList, boundary: &Boundary) {
    let bounds = &boundary.bounds;
    let memory = bounds.memory.to_string();
    args.add(&["--pids-limit", &bounds.pids.to_string()]);
    if bounds.memory < u64::MAX {
        // The same for memory and swap together: no swap.
        args.add(&["--memory", &memory, "--memory-swap", &memory]);
    }
    // Podman's default for processes fails without a capability that was dropped.
    args.add(&["--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096"]);
    args.add(&["--ulimit", "core=0:0"]);
    if bounds.file < u64::MAX {
        args.add(&["--ulimit", &format!("fsize={0}:{0}", bounds.file)]);
    }
    args.add(&["--ipc", "private"]);
}

fn add_mounts(args: &mut ArgumentList, boundary: &Boundary, slot: &ContainerSlot<'_>) {
    for place in &boundary.places {
        match place {
            BoundaryEntry::Scratch(path) => {
                let size = boundary.bounds.tmp;
                args.add(&["--tmpfs"]);
                let mut mount = path.clone().into_os_string();
                mount.push(format!(":rw,exec,nosuid,nodev,size={size},mode=1777"));
                args.0.push(mount);
            }
            BoundaryEntry::Writable(path) => args.bind(path, path, BindAccess::Write),
            BoundaryEntry::ReadOnly(path) => args.bind(path, path, BindAccess::Read),
            BoundaryEntry::Elsewhere { path, source, is_writable } => {
                args.bind(
                    source,
                    path,
                    if *is_writable { BindAccess::Write } else { BindAccess::Read },
                );
            }
            BoundaryEntry::HiddenFile(path) => {
                args.bind(Path::new("/dev/null"), path, BindAccess::Read);
            }
            // On a tmpfs, podman would copy in what it covers.
            BoundaryEntry::HiddenDirectory(path) => args.bind(slot.empty, path, BindAccess::Read),
        }
    }
    args.bind(slot.channel, Path::new(CHANNEL_INSIDE), BindAccess::Read);
    if let Some(proxy) = slot.proxy {
        args.bind(proxy, Path::new(PROXY_INSIDE), BindAccess::Read);
    }
}

fn add_variables(
    args: &mut ArgumentList,
    spawn: &Spawn,
    boundary: &Boundary,
    container: &Container,
) {
    let mut home = OsString::from("HOME=");
    home.push(boundary.home.as_deref().unwrap_or(Path::new("/tmp")));
    args.add(&["--env"]);
    args.0.push(home);
    args.add(&["--env", &format!("{SANDBOX_VARIABLE}={}", Backend::Container)]);
    let proxied = match boundary.network {
        NetworkMode::Proxy => list_proxy_variables(PORT_INSIDE, &container.ralph),
        NetworkMode::None | NetworkMode::Host => Vec::new(),
    };
    // By name alone, so that no secret is in a command line; the client has their values.
    let is_proxied = |name: &OsStr| proxied.iter().any(|(other, _)| name == other.as_str());
    for (name, _) in spawn.env.iter().filter(|(it, _)| !is_host_variable(it) && !is_proxied(it)) {
        args.add(&["--env"]);
        args.0.push(name.clone());
    }
    // With their values: the client itself must not use the proxy.
    for (name, value) in &proxied {
        args.add(&["--env", &format!("{name}={value}")]);
    }
}

#[derive(Clone, Copy)]
enum BindAccess {
    Read,
    Write,
}

#[derive(Default)]
struct ArgumentList(Vec<OsString>);

impl ArgumentList {
    fn add(&mut self, args: &[&str]) {
        self.0.extend(args.iter().map(OsString::from));
    }

    fn bind(&mut self, source: &Path, target: &Path, access: BindAccess) {
        let mut mount = OsString::from("type=bind,");
        mount.push(format_mount_field("source", source));
        mount.push(",");
        mount.push(format_mount_field("target", target));
        match access {
            BindAccess::Read => mount.push(",readonly"),
            BindAccess::Write => {}
        }
        self.add(&["--mount"]);
        self.0.push(mount);
    }
}

/// Returns a field of a mount, which the engines parse as comma-separated values.
fn format_mount_field(name: &str, path: &Path) -> OsString {
    let mut text = OsString::from(format!("{name}="));
    text.push(path);
    match text.to_str() {
        Some(plain) if plain.contains([',', '"', '\n']) => {
            format!("\"{}\"", plain.replace('"', "\"\"")).into()
        }
        Some(_) | None => text,
    }
}
