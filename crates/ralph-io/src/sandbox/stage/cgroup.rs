//! A control group for one cell, where root can make one.
//!
//! The limit on processes that goes with a user does not hold for root; a control group does. Where
//! none can be made, root's cells have no such limit. Not here: limits that every process sets for
//! itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::sandbox::Bounds;

/// The processes around a program: the one outside, bubblewrap, and the first one inside.
const OUR_OWN: u64 = 3;

/// Puts this process, and everything that it starts from now on, into control groups of its own, if
/// it is root's; others do not need them. Only for a process with one thread.
///
/// They are removed by [`clear`] when this process is gone.
pub(super) fn enter(bounds: &Bounds) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let name = format!("ralph-{}", std::process::id());
    for (controller, limit, most) in [
        ("pids", ["pids.max", "pids.max"], u64::from(bounds.pids) + OUR_OWN),
        ("memory", ["memory.max", "memory.limit_in_bytes"], bounds.memory),
    ] {
        let Some((place, file)) = place(controller, limit) else { continue };
        let directory = place.join(&name);
        let made = fs::create_dir(&directory)
            .and_then(|()| fs::write(directory.join(file), most.to_string()))
            .and_then(|()| join(&directory));
        if made.is_err() {
            let _ = fs::remove_dir(&directory);
        }
    }
}

/// Moves this process into a group. To move a process, the kernel waits until nobody on the machine
/// starts or ends one, some 2 to 15 ms; a thread that moves itself is let in at once. Groups of the
/// newer kind take whole processes only.
fn join(directory: &Path) -> io::Result<()> {
    fs::write(directory.join("tasks"), "0")
        .or_else(|_| fs::write(directory.join("cgroup.procs"), std::process::id().to_string()))
}

/// Removes the groups of cells that are gone. Those in use stay: the kernel sees to that.
pub(in crate::sandbox) fn clear() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let places = ["pids", "memory"].map(|controller| place(controller, ["", ""]));
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

/// Returns the group of this process for a controller, and the file for its limit: the newer one,
/// or the one of before.
fn place<'a>(controller: &str, [file, older]: [&'a str; 2]) -> Option<(PathBuf, &'a str)> {
    let root = Path::new("/sys/fs/cgroup");
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
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
