//! A control group for one cell, where root can make one.
//!
//! The limit on processes that goes with a user does not hold for root; a control group does. Where
//! none can be made, root's cells have no such limit. Not here: limits that every process sets for
//! itself.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sandbox::Bounds;

/// The control groups of one cell, which are removed when this is dropped.
#[derive(Debug)]
pub(super) struct Cgroup {
    directories: Vec<PathBuf>,
}

impl Cgroup {
    /// Makes them for a root; others do not need them.
    pub(super) fn make(bounds: &Bounds) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let root = Path::new("/sys/fs/cgroup");
        let name = format!("ralph-{}", std::process::id());
        let mut directories = Vec::new();
        for (controller, file, older, most) in [
            ("pids", "pids.max", "pids.max", u64::from(bounds.pids)),
            ("memory", "memory.max", "memory.limit_in_bytes", bounds.memory),
        ] {
            let Some((place, file)) = place(&own, root, controller, [file, older]) else {
                continue;
            };
            remove_left(&place);
            let directory = place.join(&name);
            let _ = fs::create_dir(&directory);
            if fs::write(directory.join(file), most.to_string()).is_ok() {
                directories.push(directory);
            } else {
                let _ = fs::remove_dir(&directory);
            }
        }
        directories.dedup();
        Some(Self { directories })
    }

    /// Puts a process into them, before it starts others.
    pub(super) fn add(&self, pid: u32) {
        for directory in &self.directories {
            let _ = fs::write(directory.join("cgroup.procs"), pid.to_string());
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for directory in &self.directories {
            let _ = fs::remove_dir(directory);
        }
    }
}

/// Returns the group of this process for a controller, and the file for its limit.
fn place<'a>(
    own: &str,
    root: &Path,
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

/// Removes groups of cells whose process was killed. Those in use stay: the kernel sees to that.
fn remove_left(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix("ralph-"));
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}
