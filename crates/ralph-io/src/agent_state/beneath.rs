//! Files in a directory that an agent may write to, without ever leaving it.
//!
//! The agent may have put links, pipes or directories where files belong. Every step is taken by
//! name from an open directory and follows nothing. Not here: what the files mean.

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, mkdirat, openat, renameat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

/// A directory, held open.
#[derive(Debug)]
pub(super) struct Directory(OwnedFd);

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Directory {
    /// Makes a directory for the owner only, with those above it, and opens it.
    pub(super) fn make(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Self::open(path)
    }

    /// Opens a directory that is there.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(openat(CWD, path, DIRECTORY, Mode::empty())?))
    }

    /// Returns the same directory once more.
    pub(super) fn again(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    /// Opens a directory below, and makes it where there is none. What stands in its place is put
    /// aside.
    pub(super) fn enter(&self, name: &str) -> io::Result<Self> {
        match self.find(name) {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => {}
            Err(_) => self.put_aside(name)?,
        }
        mkdirat(&self.0, name, Mode::RWXU)?;
        Ok(Self(openat(&self.0, name, DIRECTORY, Mode::empty())?))
    }

    /// Opens a directory below, if it is there. A link is an error.
    pub(super) fn find(&self, name: &str) -> io::Result<Option<Self>> {
        match openat(&self.0, name, DIRECTORY, Mode::empty()) {
            Ok(found) => Ok(Some(Self(found))),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => Err(io::Error::other("it is no directory")),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a link, unless there is a directory with something in it.
    pub(super) fn link(&self, name: &str, target: &Path) -> io::Result<()> {
        match unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR | Errno::PERM) => match unlinkat(&self.0, name, AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY | Errno::EXIST) => return Ok(()),
                removed => removed?,
            },
            Err(error) => return Err(error.into()),
        }
        Ok(symlinkat(target, &self.0, name)?)
    }

    /// Returns the first bytes of a file, if there is one. Anything but a regular file is an error.
    pub(super) fn read(&self, name: &str, most: usize) -> io::Result<Option<Vec<u8>>> {
        // A pipe would wait for a writer; this opens it at once, to be refused below.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&self.0, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(io::Error::other("it is a link")),
            // A socket cannot even be opened.
            Err(Errno::NXIO) => return Err(io::Error::other("it is not a regular file")),
            Err(error) => return Err(error.into()),
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut bytes = Vec::new();
        file.take(most as u64).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Replaces a file whole, for the owner only. What stands in its place is not followed.
    pub(super) fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let temporary = self.free_name(name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let mut file = File::from(openat(&self.0, &temporary, flags, mode)?);
        let written = file.write_all(content).and_then(|()| file.sync_all());
        let placed = written.and_then(|()| match self.rename(&temporary, name) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                self.put_aside(name)?;
                self.rename(&temporary, name)
            }
            renamed => renamed,
        });
        if placed.is_err() {
            // The first error is the one to tell.
            let _ = unlinkat(&self.0, &temporary, AtFlags::empty());
        }
        placed
    }

    /// Removes a file, a link or a pipe, if it is there. A directory is put aside.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            // Which of these it is depends on the system.
            Err(Errno::ISDIR | Errno::PERM) => self.put_aside(name),
            Err(error) => Err(error.into()),
        }
    }

    fn rename(&self, from: impl rustix::path::Arg, to: impl rustix::path::Arg) -> io::Result<()> {
        Ok(renameat(&self.0, from, &self.0, to)?)
    }

    fn put_aside(&self, name: &str) -> io::Result<()> {
        let aside = self.free_name(name)?;
        self.rename(name, &aside)
    }

    /// Returns a name that nothing has.
    fn free_name(&self, name: &str) -> io::Result<OsString> {
        for number in 0..u16::MAX {
            let free = OsString::from(format!(".{name}.{number}.old"));
            match statat(&self.0, &free, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => {}
                Err(Errno::NOENT) => return Ok(free),
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::other("there is no free name"))
    }
}
