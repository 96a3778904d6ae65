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

use super::kernel::{MountDepth, NO_DEV, NO_SUID, READ_ONLY, add_mount_attributes};
use crate::sandbox::launch_error::LaunchError;
use crate::sandbox::{Mount, SandboxSpec};

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
pub(super) const KERNEL_SETTINGS: [&str; 7] = [
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
    "/proc/acpi",
    "/proc/scsi",
];

/// Files that describe the whole machine.
pub(super) const KERNEL_STATE_FILES: [&str; 4] =
    ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug"];

/// Arranges the file system as the spec says.
pub(super) fn apply_mounts(spec: &SandboxSpec) -> Result<(), LaunchError> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private)
        .map_err(LaunchError::for_operation("detach from the host's mounts"))?;
    let held = spec.mounts.iter().map(clone_source).collect::<Result<Vec<_>, _>>()?;
    let devices: Vec<(&str, OwnedFd)> = DEVICES
        .into_iter()
        .filter_map(|device| Some((device, clone_tree(Path::new(device)).ok()?)))
        .collect();
    let root = Path::new("/");
    add_mount_attributes(CWD, c"/", READ_ONLY | NO_SUID, MountDepth::All)
        .map_err(LaunchError::for_path("make read-only", root))?;
    mount_proc()?;
    mount_dev(devices, spec.bounds.tmp)?;
    for (place, held) in spec.mounts.iter().zip(held) {
        mount_entry(place, held, spec.bounds.tmp)?;
    }
    // Mount points below a hidden directory are created in it, so it is made read-only last.
    for place in &spec.mounts {
        if let Mount::Hidden { path } = place
            && path.is_dir()
        {
            add_mount_attributes(CWD, &to_c_string(path)?, READ_ONLY, MountDepth::This)
                .map_err(LaunchError::for_path("make read-only", path))?;
        }
    }
    Ok(())
}

/// What was cloned before anything is closed.
enum ClonedTree {
    /// Nothing: the mount is created.
    Nothing,
    /// A clone of a file or directory.
    Tree(OwnedFd, MountTargetKind),
}

/// Whether a mount is a directory or a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MountTargetKind {
    Directory,
    File,
}

impl MountTargetKind {
    fn from_path(path: &Path) -> std::io::Result<Self> {
        Ok(if fs::metadata(path)?.is_dir() { Self::Directory } else { Self::File })
    }
}

fn clone_source(place: &Mount) -> Result<ClonedTree, LaunchError> {
    let (source, attributes) = match place {
        Mount::Scratch { .. } => return Ok(ClonedTree::Nothing),
        Mount::Hidden { path } if path.is_dir() => return Ok(ClonedTree::Nothing),
        // What does not exist needs no hiding.
        Mount::Hidden { path } if !path.exists() => return Ok(ClonedTree::Nothing),
        Mount::Hidden { .. } => (Path::new("/dev/null"), READ_ONLY),
        Mount::Shown { path } | Mount::Protected { path } => (path.as_path(), READ_ONLY | NO_SUID),
        Mount::ShownAs { source, .. } => (source.as_path(), READ_ONLY | NO_SUID),
        Mount::Writable { path } | Mount::Pinned { path } | Mount::Cache { source: path, .. } => {
            (path.as_path(), NO_SUID | NO_DEV)
        }
    };
    let tree = clone_tree(source)?;
    add_mount_attributes(&tree, c"", attributes, MountDepth::All)
        .map_err(LaunchError::for_path("set the mount attributes of", source))?;
    let kind =
        MountTargetKind::from_path(source).map_err(LaunchError::for_path("inspect", source))?;
    Ok(ClonedTree::Tree(tree, kind))
}

/// Clones a path and everything mounted below it.
fn clone_tree(path: &Path) -> Result<OwnedFd, LaunchError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    open_tree(CWD, path, flags).map_err(LaunchError::for_path("clone the mount", path))
}

fn mount_entry(place: &Mount, held: ClonedTree, scratch: u64) -> Result<(), LaunchError> {
    let path = place.path();
    match (place, held) {
        (_, ClonedTree::Tree(tree, kind)) => {
            create_mount_point(path, kind)?;
            attach_tree(&tree, path)
        }
        (Mount::Scratch { .. }, ClonedTree::Nothing) => {
            create_mount_point(path, MountTargetKind::Directory)?;
            let mode = if is_world_writable(path) { "1777" } else { "755" };
            mount_empty(path, &format_scratch_options(mode, scratch))
        }
        (Mount::Hidden { .. }, ClonedTree::Nothing) if path.is_dir() => {
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
            ClonedTree::Nothing,
        ) => Ok(()),
    }
}

/// Returns whether all users may write in a scratch directory, as programs expect of some.
pub(super) fn is_world_writable(path: &Path) -> bool {
    path == Path::new("/tmp") || path == Path::new("/var/tmp")
}

fn attach_tree(tree: impl AsFd, path: &Path) -> Result<(), LaunchError> {
    // Does not follow a link in the last part of the path, which is no link.
    move_mount(tree, c"", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .map_err(LaunchError::for_path("attach the mount", path))
}

/// Creates the mount point. That is possible only inside mounts that are empty.
fn create_mount_point(path: &Path, kind: MountTargetKind) -> Result<(), LaunchError> {
    if path.exists() {
        return Ok(());
    }
    let directories = |path: &Path| {
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(path)
            .map_err(LaunchError::for_path("create the mount point", path))
    };
    match (kind, path.parent()) {
        (MountTargetKind::Directory, _) => directories(path),
        (MountTargetKind::File, parent) => {
            parent.map_or(Ok(()), directories)?;
            File::create_new(path)
                .map(drop)
                .map_err(LaunchError::for_path("create the mount point", path))
        }
    }
}

/// Returns the options for a scratch directory. Small files take memory of the kernel too, so their
/// number is bounded: one for two kilobytes.
fn format_scratch_options(mode: &str, size: u64) -> String {
    format!("mode={mode},size={size},nr_inodes={}", (size / 2048).max(4096))
}

fn mount_empty(path: &Path, options: &str) -> Result<(), LaunchError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let options =
        CString::new(options).map_err(LaunchError::for_operation("encode the mount options"))?;
    mount("tmpfs", path, "tmpfs", flags, options.as_c_str())
        .map_err(LaunchError::for_path("mount an empty directory at", path))
}

fn mount_proc() -> Result<(), LaunchError> {
    let proc = Path::new("/proc");
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", proc, "proc", flags, None::<&CStr>)
        .map_err(LaunchError::for_path("mount", proc))?;
    for knob in KERNEL_SETTINGS.map(Path::new).into_iter().filter(|path| path.exists()) {
        let tree = clone_tree(knob)?;
        add_mount_attributes(&tree, c"", READ_ONLY, MountDepth::All)
            .map_err(LaunchError::for_path("make read-only", knob))?;
        attach_tree(&tree, knob)?;
    }
    for view in KERNEL_STATE_FILES.map(Path::new).into_iter().filter(|path| path.exists()) {
        attach_tree(clone_tree(Path::new("/dev/null"))?, view)?;
    }
    Ok(())
}

fn mount_dev(devices: Vec<(&str, OwnedFd)>, scratch: u64) -> Result<(), LaunchError> {
    let dev = Path::new("/dev");
    mount_empty(dev, "mode=755,size=64k")?;
    for (device, tree) in devices {
        let place = Path::new(device);
        create_mount_point(place, MountTargetKind::File)?;
        attach_tree(&tree, place)?;
    }
    for (name, target) in DEVICE_LINKS {
        symlink(target, name).map_err(LaunchError::for_path("make", Path::new(name)))?;
    }
    let shared = Path::new("/dev/shm");
    create_mount_point(shared, MountTargetKind::Directory)?;
    mount_empty(shared, &format_scratch_options("1777", scratch))?;
    let terminals = Path::new("/dev/pts");
    create_mount_point(terminals, MountTargetKind::Directory)?;
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("devpts", terminals, "devpts", flags, c"newinstance,ptmxmode=0666,mode=620")
        .map_err(LaunchError::for_path("mount", terminals))?;
    add_mount_attributes(CWD, c"/dev", READ_ONLY, MountDepth::This)
        .map_err(LaunchError::for_path("make read-only", dev))
}

fn to_c_string(path: &Path) -> Result<CString, LaunchError> {
    CString::new(path.as_os_str().as_encoded_bytes())
        .map_err(LaunchError::for_path("encode the path", path))
}
