//! The system calls that have no safe wrapper: the only unsafe code of the project.
//!
//! Each function states why its call is sound. Not here: anything that decides what to call.
#![expect(unsafe_code, reason = "these system calls have no safe wrapper")]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use rustix::thread::UnshareFlags;

/// Mounts are read-only.
pub(super) const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
/// Set-user-id bits of files have no effect.
pub(super) const NO_SUID: u64 = libc::MOUNT_ATTR_NOSUID;
/// Device files do not work.
pub(super) const NO_DEV: u64 = libc::MOUNT_ATTR_NODEV;

/// Which mounts below a path are affected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MountDepth {
    /// The mount itself.
    This,
    /// The mount and all below it.
    All,
}

/// Leaves namespaces for fresh ones. Only for a process with one thread.
pub(super) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    if flags.contains(UnshareFlags::FILES) {
        return Err(io::Error::other("files stay shared"));
    }
    // SAFETY: The call is unsafe only because of `FILES`, which is refused above.
    unsafe { rustix::thread::unshare_unsafe(flags) }?;
    Ok(())
}

/// Adds attributes to a mount.
pub(super) fn add_mount_attributes(
    directory: impl AsFd,
    path: &CStr,
    attributes: u64,
    depth: MountDepth,
) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH
        | match depth {
            MountDepth::This => 0,
            MountDepth::All => libc::AT_RECURSIVE,
        };
    let attributes =
        libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: 0 };
    // SAFETY: The kernel reads a terminated path and a structure of the given size; both outlive
    // the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            directory.as_fd().as_raw_fd(),
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Closes every file but the three standard ones in whatever this process becomes or starts.
pub(super) fn close_files_on_exec() -> io::Result<()> {
    // SAFETY: Nothing is closed now; the call sets a flag on descriptors, and no code here relies
    // on that flag being absent.
    let result =
        unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes over a file that this process inherited.
pub(super) fn adopt_descriptor(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: The call only reads; a number that is no descriptor is an error.
    if number < 3 || unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(io::Error::other("no such file was handed over"));
    }
    // SAFETY: The descriptor is open, as checked above; it comes from the process that started this
    // one, and is taken over once, before anything else was opened that could have its number.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
