//! Implements the mounts of a spec with ralph's own mount calls.
//!
//! Runs in a fresh mount namespace, as the first process of a fresh PID namespace. All trees that
//! must stay visible are cloned first, while everything is still in its place; then the rest is
//! closed, and the cloned trees are attached in the order of the list.
//!
//! Not here: which mounts there are, and giving up the rights that this takes.

use std::ffi::{CStr, CString};
use std::fs::{self, DirBuilder, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change,
    move_mount, open_tree,
};

use super::kernel::{Depth, NO_DEV, NO_SUID, READ_ONLY, add_mount_attributes};
use crate::sandbox::trouble::Trouble;
use crate::sandbox::{Cell, Mount};

/// The devices that programs expect.
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// The symbolic links in `/dev`.
const DEVICE_LINKS: [(&str, &str); 6] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/ptmx", "pts/ptmx"),
    ("/dev/core", "/proc/kcore"),
];

/// Files in `/proc` that the kernel protects by user id alone: a root without any rights left could
/// still write a `core_pattern` there, which the kernel runs outside.
pub(super) const KERNEL_KNOBS: [&str; 7] = [
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
    "/proc/acpi",
    "/proc/scsi",
];

/// Files that describe the whole machine.
pub(super) const KERNEL_VIEWS: [&str; 4] =
    ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug"];

/// Arranges the file system as the spec says.
pub(super) fn arrange(spec: &Cell) -> Result<(), Trouble> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(Trouble::with("detach from the host's mounts"))?;
    let held = spec.mounts.iter().map(hold).collect::<Result<Vec<_>, _>>()?;
    let devices: Vec<(&str, OwnedFd)> = DEVICES
        .into_iter()
        .filter_map(|device| Some((device, take(Path::new(device)).ok()?)))
        .collect();
    let root = Path::new("/");
    add_mount_attributes(CWD, c"/", READ_ONLY | NO_SUID, Depth::All)
        .map_err(Trouble::at("make read-only", root))?;
    make_proc()?;
    make_dev(devices, spec.bounds.tmp)?;
    for (place, held) in spec.mounts.iter().zip(held) {
        put(place, held, spec.bounds.tmp)?;
    }
    // Mount points below a hidden directory are created in it, so it is made read-only last.
    for place in &spec.mounts {
        if let Mount::Hidden { path } = place
            && path.is_dir()
        {
            add_mount_attributes(CWD, &terminated(path)?, READ_ONLY, Depth::This)
                .map_err(Trouble::at("make read-only", path))?;
        }
    }
    Ok(())
}

/// What was cloned before anything is closed.
enum Held {
    /// Nothing: the mount is created.
    Nothing,
    /// A clone of a file or directory.
    Tree(OwnedFd, Kind),
}

/// Whether a mount is a directory or a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Directory,
    File,
}

impl Kind {
    fn of(path: &Path) -> std::io::Result<Self> {
        Ok(if fs::metadata(path)?.is_dir() { Self::Directory } else { Self::File })
    }
}

fn hold(place: &Mount) -> Result<Held, Trouble> {
    let (source, attributes) = match place {
        Mount::Scratch { .. } => return Ok(Held::Nothing),
        Mount::Hidden { path } if path.is_dir() => return Ok(Held::Nothing),
        // What does not exist needs no hiding.
        Mount::Hidden { path } if !path.exists() => return Ok(Held::Nothing),
        Mount::Hidden { .. } => (Path::new("/dev/null"), READ_ONLY),
        Mount::Shown { path } | Mount::Protected { path } => (path.as_path(), READ_ONLY | NO_SUID),
        Mount::ShownAs { source, .. } => (source.as_path(), READ_ONLY | NO_SUID),
        Mount::Writable { path } | Mount::Pinned { path } | Mount::Cache { source: path, .. } => {
            (path.as_path(), NO_SUID | NO_DEV)
        }
    };
    let tree = take(source)?;
    add_mount_attributes(&tree, c"", attributes, Depth::All)
        .map_err(Trouble::at("set the mount attributes of", source))?;
    let kind = Kind::of(source).map_err(Trouble::at("inspect", source))?;
    Ok(Held::Tree(tree, kind))
}

/// Clones a path and everything mounted below it.
fn take(path: &Path) -> Result<OwnedFd, Trouble> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    open_tree(CWD, path, flags).map_err(Trouble::at("clone the mount", path))
}

fn put(place: &Mount, held: Held, scratch: u64) -> Result<(), Trouble> {
    let path = place.path();
    match (place, held) {
        (_, Held::Tree(tree, kind)) => {
            make_room(path, kind)?;
            attach(&tree, path)
        }
        (Mount::Scratch { .. }, Held::Nothing) => {
            make_room(path, Kind::Directory)?;
            let mode = if is_shared(path) { "1777" } else { "755" };
            mount_empty(path, &format!("mode={mode},size={scratch}"))
        }
        (Mount::Hidden { .. }, Held::Nothing) if path.is_dir() => {
            mount_empty(path, "mode=755,size=1m")
        }
        (
            Mount::Hidden { .. }
            | Mount::Shown { .. }
            | Mount::Writable { .. }
            | Mount::Pinned { .. }
            | Mount::Cache { .. }
            | Mount::ShownAs { .. }
            | Mount::Protected { .. },
            Held::Nothing,
        ) => Ok(()),
    }
}

/// Returns whether all users may write in a scratch directory, as programs expect of some.
pub(super) fn is_shared(path: &Path) -> bool {
    path == Path::new("/tmp") || path == Path::new("/var/tmp")
}

fn attach(tree: impl AsFd, path: &Path) -> Result<(), Trouble> {
    // Does not follow a link in the last part of the path; there is none.
    move_mount(tree, c"", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .map_err(Trouble::at("attach the mount", path))
}

/// Creates the mount point. That is possible only inside mounts that are empty.
fn make_room(path: &Path, kind: Kind) -> Result<(), Trouble> {
    if path.exists() {
        return Ok(());
    }
    let directories = |path: &Path| {
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(path)
            .map_err(Trouble::at("create the mount point", path))
    };
    match (kind, path.parent()) {
        (Kind::Directory, _) => directories(path),
        (Kind::File, parent) => {
            parent.map_or(Ok(()), directories)?;
            File::create_new(path).map(drop).map_err(Trouble::at("create the mount point", path))
        }
    }
}

fn mount_empty(path: &Path, options: &str) -> Result<(), Trouble> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let options = CString::new(options).map_err(Trouble::with("encode the mount options"))?;
    mount("tmpfs", path, "tmpfs", flags, options.as_c_str())
        .map_err(Trouble::at("mount an empty directory at", path))
}

fn make_proc() -> Result<(), Trouble> {
    let proc = Path::new("/proc");
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", proc, "proc", flags, None::<&CStr>).map_err(Trouble::at("mount", proc))?;
    for knob in KERNEL_KNOBS.map(Path::new).into_iter().filter(|path| path.exists()) {
        let tree = take(knob)?;
        add_mount_attributes(&tree, c"", READ_ONLY, Depth::All)
            .map_err(Trouble::at("make read-only", knob))?;
        attach(&tree, knob)?;
    }
    for view in KERNEL_VIEWS.map(Path::new).into_iter().filter(|path| path.exists()) {
        attach(take(Path::new("/dev/null"))?, view)?;
    }
    Ok(())
}

fn make_dev(devices: Vec<(&str, OwnedFd)>, scratch: u64) -> Result<(), Trouble> {
    let dev = Path::new("/dev");
    mount_empty(dev, "mode=755,size=64k")?;
    for (device, tree) in devices {
        let place = Path::new(device);
        make_room(place, Kind::File)?;
        attach(&tree, place)?;
    }
    for (name, target) in DEVICE_LINKS {
        symlink(target, name).map_err(Trouble::at("make", Path::new(name)))?;
    }
    let shared = Path::new("/dev/shm");
    make_room(shared, Kind::Directory)?;
    mount_empty(shared, &format!("mode=1777,size={scratch}"))?;
    let terminals = Path::new("/dev/pts");
    make_room(terminals, Kind::Directory)?;
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("devpts", terminals, "devpts", flags, c"newinstance,ptmxmode=0666,mode=620")
        .map_err(Trouble::at("mount", terminals))?;
    add_mount_attributes(CWD, c"/dev", READ_ONLY, Depth::This)
        .map_err(Trouble::at("make read-only", dev))
}

fn terminated(path: &Path) -> Result<CString, Trouble> {
    CString::new(path.as_os_str().as_encoded_bytes()).map_err(Trouble::at("encode the path", path))
}
