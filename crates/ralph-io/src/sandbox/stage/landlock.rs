//! Landlock: the walls for places without namespaces.
//!
//! Rules can only allow. So a hidden place is one that is left out while everything beside it is
//! allowed, and nothing can be read-only within what is writable. There is no network namespace
//! either: TCP is held to one port, and the filter of system calls closes the rest. Orphans and
//! what is still running are ended by ralph's sweep. Not here: that filter (`confine`).

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, NetPort,
    PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _,
    RulesetError, RulesetStatus, Scope,
};
use ralph_core::sandbox::UnixSockets;

use super::confine::{Neighbors, Reach, confine};
use super::inside::{enter, unusable};
use crate::sandbox::plan::Plan;
use crate::sandbox::trouble::Trouble;
use crate::sandbox::{Cell, Mount, Network};

/// The rules that are written for: newer kernels know more, older ones less.
const WRITTEN_FOR: ABI = ABI::V6;

/// Devices that programs write to.
const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/ptmx"];

/// Returns whether the kernel has a Landlock that can do what is asked of it here.
pub(in crate::sandbox) fn landlock_works() -> bool {
    needed().and_then(Ruleset::create).is_ok()
}

/// Returns the rules that must be possible: files, and TCP ports.
fn needed() -> Result<Ruleset, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V4))?
        .handle_access(AccessNet::ConnectTcp)
}

/// Restricts this process and becomes the program.
pub(super) fn become_program(plan: &Plan, words: &[OsString]) -> Result<ExitCode, Trouble> {
    let cell = &plan.cell;
    match restrict(cell).map_err(Trouble::with("restrict itself with Landlock"))? {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => {}
        RulesetStatus::NotEnforced => return Err(Trouble::new("the kernel has no Landlock")),
    }
    enter(plan)?;
    let reach = match cell.network {
        Network::None | Network::Proxy(_) => Reach::Ports,
        Network::Host => Reach::Own,
    };
    // There is no telling a socket of the host's from one of the cell's by its path.
    confine(
        &cell.bounds,
        processes_of_user() + u64::from(cell.bounds.pids),
        UnixSockets::Deny,
        reach,
        Neighbors::Host,
    )?;
    let error = Command::new(&plan.program).arg0(&words[0]).args(&words[1..]).exec();
    Err(unusable(&plan.program, &error))
}

fn restrict(cell: &Cell) -> Result<RulesetStatus, RulesetError> {
    let (all, read) = (AccessFs::from_all(WRITTEN_FOR), AccessFs::from_read(WRITTEN_FOR));
    let ruleset = match cell.network {
        Network::None | Network::Proxy(_) => needed()?,
        Network::Host => Ruleset::default(),
    };
    let ruleset = ruleset.set_compatibility(CompatLevel::BestEffort).handle_access(all)?;
    let mut rules = ruleset.scope(Scope::Signal | Scope::AbstractUnixSocket)?.create()?;
    for path in readable(cell) {
        rules = allow(rules, &path, read)?;
    }
    for device in DEVICES {
        rules = allow(rules, Path::new(device), all)?;
    }
    for path in ["/dev/pts", "/dev/shm"] {
        rules = allow(rules, Path::new(path), all)?;
    }
    for path in writable(cell) {
        rules = allow(rules, &path, all)?;
    }
    match &cell.network {
        Network::Proxy(door) => {
            for port in std::iter::once(&door.port).chain(&door.forwards) {
                rules = rules.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
            }
        }
        Network::None | Network::Host => {}
    }
    rules.restrict_self().map(|status| status.ruleset)
}

fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    // What has gone since needs no rule.
    let Ok(file) = PathFd::new(path) else { return Ok(rules) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(WRITTEN_FOR) };
    rules.add_rule(PathBeneath::new(file, access))
}

/// Returns everything but what is hidden, and what is shown of that.
fn readable(cell: &Cell) -> Vec<PathBuf> {
    let mut allowed = vec![PathBuf::from("/")];
    for mount in &cell.mounts {
        match mount {
            Mount::Scratch { path } | Mount::Hidden { path } => {
                let mut rest = Vec::new();
                for place in allowed {
                    if path.starts_with(&place) && *path != place {
                        all_but(&place, path, &mut rest);
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
            all_but(&place, Path::new("/dev/tty"), &mut rest);
        } else {
            rest.push(place);
        }
    }
    rest
}

/// Collects what lies in a directory, on every level down to one that is left out.
fn all_but(directory: &Path, left_out: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path == left_out || path.is_symlink() {
            continue;
        }
        if left_out.starts_with(&path) {
            all_but(&path, left_out, found);
        } else {
            found.push(path);
        }
    }
}

fn writable(cell: &Cell) -> Vec<PathBuf> {
    let open = cell.mounts.iter().filter_map(|mount| match mount {
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

/// Returns how many processes and threads this user has: the limit counts those as well.
fn processes_of_user() -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let own = rustix::process::geteuid().as_raw();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().filter(|entry| {
        entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit)
            && entry.metadata().is_ok_and(|about| about.uid() == own)
    });
    let threads = processes.map(|entry| {
        // The second name of the directory counts its entries.
        fs::metadata(entry.path().join("task")).map_or(1, |about| about.nlink().saturating_sub(2))
    });
    threads.sum()
}
