//! A control group for one sandbox, where root can create one.
//!
//! The per-user limit on processes does not apply to root; a control group does. Where none can be
//! created, root's sandboxes have no such limit. Not here: limits that every process sets for
//! itself.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::sandbox::ResourceLimits;

/// The file system of control groups, and the groups of this process.
const ROOT: &str = "/sys/fs/cgroup";
const OWN: &str = "/proc/self/cgroup";

/// The processes around a program: the one outside, bubblewrap, and the first one inside.
const HELPER_PROCESSES: u64 = 3;

/// Moves this process, and everything that it starts from now on, into control groups of its own,
/// if it runs as root; other users do not need them. Only for a process with one thread.
///
/// [`remove_stale_groups`] removes them when this process is gone.
pub(super) fn enter_groups(bounds: &ResourceLimits) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    if let Ok(own) = fs::read_to_string(OWN) {
        enter_below(Path::new(ROOT), &own, bounds);
    }
}

/// Creates the groups and enters them. cgroup v2 has all controllers in one directory, v1 each in
/// its own.
fn enter_below(root: &Path, own: &str, bounds: &ResourceLimits) {
    let name = format!("ralph-{}", std::process::id());
    let mut groups: BTreeMap<PathBuf, Vec<(&str, u64)>> = BTreeMap::new();
    for (controller, limit, most) in [
        ("pids", ["pids.max", "pids.max"], u64::from(bounds.pids) + HELPER_PROCESSES),
        ("memory", ["memory.max", "memory.limit_in_bytes"], bounds.memory),
    ] {
        if let Some((place, file)) = find_group(root, own, controller, limit) {
            groups.entry(place.join(&name)).or_default().push((file, most));
        }
    }
    for (directory, mut limits) in groups {
        limits.retain(|(_, most)| *most < u64::MAX);
        let limit = |(file, most): &(&str, u64)| fs::write(directory.join(file), most.to_string());
        let made = fs::create_dir(&directory)
            .and_then(|()| limits.iter().try_for_each(limit))
            .and_then(|()| join_group(&directory));
        if made.is_err() {
            let _ = fs::remove_dir(&directory);
        }
    }
}

/// Moves this process into a group. To move a process, the kernel waits until no process on the
/// machine starts or ends, some 2 to 15 ms; a thread that moves itself enters at once. cgroup v2
/// accepts whole processes only.
fn join_group(directory: &Path) -> io::Result<()> {
    fs::write(directory.join("tasks"), "0")
        .or_else(|_| fs::write(directory.join("cgroup.procs"), std::process::id().to_string()))
}

/// Removes the groups of sandboxes that are gone. The kernel refuses to remove those in use.
pub(in crate::sandbox) fn remove_stale_groups() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let own = fs::read_to_string(OWN).unwrap_or_default();
    let places = ["pids", "memory"]
        .map(|controller| find_group(Path::new(ROOT), &own, controller, ["", ""]));
    for (place, _) in places.into_iter().flatten() {
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.strip_prefix("ralph-"));
            if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

/// Returns the group of this process for a controller, and the file for its limit: the first name
/// for cgroup v2, the second for v1.
fn find_group<'a>(
    root: &Path,
    own: &str,
    controller: &str,
    [file, older]: [&'a str; 2],
) -> Option<(PathBuf, &'a str)> {
    own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, names, path) = (parts.next()?, parts.next()?, parts.next()?);
        let path = path.trim_start_matches('/');
        if names.split(',').any(|name| name == controller) {
            return Some((root.join(controller).join(path), older));
        }
        let has_it = |place: &PathBuf| {
            fs::read_to_string(place.join("cgroup.subtree_control"))
                .is_ok_and(|text| text.split_whitespace().any(|name| name == controller))
        };
        names.is_empty().then(|| root.join(path)).filter(has_it).map(|place| (place, file))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::ProcessCounting;

    #[test]
    fn limits_are_set_with_cgroup_v1_and_v2() {
        let counted = ProcessCounting::Together;
        let bounds = ResourceLimits { pids: 7, counted, memory: 4096, tmp: 0, file: 0 };
        let name = format!("ralph-{}", std::process::id());
        for (own, places, files) in [
            ("0::/x\n", ["x", "x"], ["pids.max", "memory.max"]),
            (
                "5:cpu,pids:/x\n4:memory:/y\n0::/z\n",
                ["pids/x", "memory/y"],
                ["pids.max", "memory.limit_in_bytes"],
            ),
        ] {
            let root = tempfile::tempdir().expect("a directory");
            for place in places {
                let place = root.path().join(place);
                fs::create_dir_all(&place).expect("made");
                fs::write(place.join("cgroup.subtree_control"), "cpu memory pids\n").expect("made");
            }
            enter_below(root.path(), own, &bounds);
            let limits = [0, 1].map(|at| {
                let group = root.path().join(places[at]).join(&name);
                assert!(group.join("tasks").exists(), "{own}: it is entered");
                fs::read_to_string(group.join(files[at])).expect("a limit")
            });
            assert_eq!(limits, ["10", "4096"], "{own}");
        }
    }
}
