//! Landlock: the backend for systems without namespaces.
//!
//! Rules can only allow. So hiding a path means allowing everything next to it, and nothing can be
//! read-only inside a writable path. There is no network namespace either: TCP is limited to one
//! port, and the filter of system calls closes the rest. ralph's sweep ends orphans and processes
//! that still run. Not here: that filter (`confine`).

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, NetPort,
    PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _,
    RulesetError, RulesetStatus, Scope,
};
use ralph_model::sandbox::UnixSockets;

use super::confine::{NetworkIsolation, VisibleProcesses, confine_process};
use super::inside::{build_run_error, enter_directory};
use crate::sandbox::launch_error::LaunchError;
use crate::sandbox::launch_plan::LaunchPlan;
use crate::sandbox::{Mount, SandboxNetwork, SandboxSpec};

/// The rules are written for this version: newer kernels can do more, older ones less.
const RULES_ABI: ABI = ABI::V6;

/// Devices that programs write to.
const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/ptmx"];

/// Returns whether the kernel's Landlock supports what this backend needs.
pub(in crate::sandbox) fn is_landlock_supported() -> bool {
    build_required_rules().and_then(Ruleset::create).is_ok()
}

/// Returns the required rules: files, and TCP ports.
fn build_required_rules() -> Result<Ruleset, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V4))?
        .handle_access(AccessNet::ConnectTcp)
}

/// Restricts this process and replaces it with the program.
pub(super) fn become_program(
    plan: &LaunchPlan,
    command_line: &[OsString],
) -> Result<ExitCode, LaunchError> {
    let spec = &plan.spec;
    match restrict_process(spec)
        .map_err(LaunchError::for_operation("restrict itself with Landlock"))?
    {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => {}
        RulesetStatus::NotEnforced => return Err(LaunchError::new("the kernel has no Landlock")),
    }
    enter_directory(plan)?;
    let reach = match spec.network {
        SandboxNetwork::None | SandboxNetwork::Proxy(_) => NetworkIsolation::Ports,
        SandboxNetwork::Host => NetworkIsolation::Own,
    };
    // Landlock cannot tell a socket of the host from one of the sandbox by its path.
    confine_process(
        &spec.bounds,
        count_user_threads() + u64::from(spec.bounds.pids),
        UnixSockets::Deny,
        reach,
        VisibleProcesses::Host,
    )?;
    let error = Command::new(&plan.program).arg0(&command_line[0]).args(&command_line[1..]).exec();
    Err(build_run_error(&plan.program, &error))
}

fn restrict_process(spec: &SandboxSpec) -> Result<RulesetStatus, RulesetError> {
    let (all, read) = (AccessFs::from_all(RULES_ABI), AccessFs::from_read(RULES_ABI));
    let ruleset = match spec.network {
        SandboxNetwork::None | SandboxNetwork::Proxy(_) => build_required_rules()?,
        SandboxNetwork::Host => Ruleset::default(),
    };
    let ruleset = ruleset.set_compatibility(CompatLevel::BestEffort).handle_access(all)?;
    let mut rules = ruleset.scope(Scope::Signal | Scope::AbstractUnixSocket)?.create()?;
    for path in list_readable(spec) {
        rules = allow_path(rules, &path, read)?;
    }
    for device in DEVICES {
        rules = allow_path(rules, Path::new(device), all)?;
    }
    for path in ["/dev/pts", "/dev/shm"] {
        rules = allow_path(rules, Path::new(path), all)?;
    }
    for path in list_writable(spec) {
        rules = allow_path(rules, &path, all)?;
    }
    match &spec.network {
        SandboxNetwork::Proxy(endpoint) => {
            for port in std::iter::once(&endpoint.port).chain(&endpoint.forwards) {
                rules = rules.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
            }
        }
        SandboxNetwork::None | SandboxNetwork::Host => {}
    }
    rules.restrict_self().map(|status| status.ruleset)
}

fn allow_path(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    // A path that no longer exists needs no rule.
    let Ok(file) = PathFd::new(path) else { return Ok(rules) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(RULES_ABI) };
    rules.add_rule(PathBeneath::new(file, access))
}

/// Returns everything that is not hidden, and what is shown inside hidden paths.
fn list_readable(spec: &SandboxSpec) -> Vec<PathBuf> {
    let mut allowed = vec![PathBuf::from("/")];
    for mount in &spec.mounts {
        match mount {
            Mount::Scratch { path } | Mount::Hidden { path } => {
                let mut rest = Vec::new();
                for place in allowed {
                    if path.starts_with(&place) && *path != place {
                        collect_except(&place, path, &mut rest);
                    } else if !place.starts_with(path) {
                        rest.push(place);
                    }
                }
                allowed = rest;
            }
            Mount::Shown { path } | Mount::ShownAs { source: path, .. } => {
                allowed.push(path.clone());
            }
            Mount::Writable { .. }
            | Mount::Pinned { .. }
            | Mount::Cache { .. }
            | Mount::Protected { .. } => {}
        }
    }
    // The terminals of the user.
    let mut rest = Vec::new();
    for place in allowed {
        if Path::new("/dev/tty").starts_with(&place) {
            collect_except(&place, Path::new("/dev/tty"), &mut rest);
        } else {
            rest.push(place);
        }
    }
    rest
}

/// Collects the entries of a directory, on every level down to the excluded path.
fn collect_except(directory: &Path, excluded: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path == excluded || path.is_symlink() {
            continue;
        }
        if excluded.starts_with(&path) {
            collect_except(&path, excluded, found);
        } else {
            found.push(path);
        }
    }
}

fn list_writable(spec: &SandboxSpec) -> Vec<PathBuf> {
    let open = spec.mounts.iter().filter_map(|mount| match mount {
        Mount::Writable { path } | Mount::Cache { source: path, .. } => Some(path.clone()),
        Mount::Scratch { .. }
        | Mount::Hidden { .. }
        | Mount::Shown { .. }
        | Mount::Pinned { .. }
        | Mount::ShownAs { .. }
        | Mount::Protected { .. } => None,
    });
    open.chain(env::var_os("TMPDIR").map(PathBuf::from)).collect()
}

/// Returns how many processes and threads this user has, because the limit counts those as well.
fn count_user_threads() -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let own = rustix::process::geteuid().as_raw();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().filter(|entry| {
        entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit)
            && entry.metadata().is_ok_and(|about| about.uid() == own)
    });
    let threads = processes.map(|entry| {
        // The link count of the directory counts its entries.
        fs::metadata(entry.path().join("task")).map_or(1, |about| about.nlink().saturating_sub(2))
    });
    threads.sum()
}
