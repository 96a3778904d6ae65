//! Access to files in a directory that an agent may write to, without ever leaving it.
//!
//! The agent may have put links, pipes or directories where files are expected. Every component is
//! opened by name relative to an open directory, and links are never followed. Not here: what the
//! files mean.

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

/// An open directory.
#[derive(Debug)]
pub(super) struct ConfinedDirectory(OwnedFd);

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl ConfinedDirectory {
    /// Creates a directory for the owner only, with its parents, and opens it.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Self::open(path)
    }

    /// Opens an existing directory.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(openat(CWD, path, DIRECTORY, Mode::empty())?))
    }

    /// Returns another handle of the same directory.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    /// Opens a directory below, and creates it if it does not exist. Anything else with that name
    /// is renamed.
    pub(super) fn open_or_create(&self, name: &str) -> io::Result<Self> {
        match self.open_below(name) {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => {}
            Err(_) => self.move_aside(name)?,
        }
        mkdirat(&self.0, name, Mode::RWXU)?;
        Ok(Self(openat(&self.0, name, DIRECTORY, Mode::empty())?))
    }

    /// Opens a directory below, if it exists. A link is an error.
    pub(super) fn open_below(&self, name: &str) -> io::Result<Option<Self>> {
        match openat(&self.0, name, DIRECTORY, Mode::empty()) {
            Ok(found) => Ok(Some(Self(found))),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => Err(io::Error::other("it is not a directory")),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a link, unless a directory with entries has the name.
    pub(super) fn create_link(&self, name: &str, target: &Path) -> io::Result<()> {
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

    /// Returns the first bytes of a file, if it exists. Anything but a regular file is an error.
    pub(super) fn read_file(&self, name: &str, most: usize) -> io::Result<Option<Vec<u8>>> {
        // A pipe would wait for a writer; this opens it at once, to be refused below.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&self.0, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(io::Error::other("it is a symbolic link")),
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

    /// Replaces a file atomically, readable for the owner only. Does not follow a link at its name.
    pub(super) fn replace_file(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let temporary = self.find_free_name(name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let mut file = File::from(openat(&self.0, &temporary, flags, mode)?);
        let written = file.write_all(content).and_then(|()| file.sync_all());
        let placed = written.and_then(|()| match self.rename_entry(&temporary, name) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                self.move_aside(name)?;
                self.rename_entry(&temporary, name)
            }
            renamed => renamed,
        });
        if placed.is_err() {
            // The first error is the one to report.
            let _ = unlinkat(&self.0, &temporary, AtFlags::empty());
        }
        placed
    }

    /// Removes a file, a link or a pipe, if it exists. A directory is renamed.
    pub(super) fn remove_file(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            // Which error it is depends on the system.
            Err(Errno::ISDIR | Errno::PERM) => self.move_aside(name),
            Err(error) => Err(error.into()),
        }
    }

    fn rename_entry(
        &self,
        from: impl rustix::path::Arg,
        to: impl rustix::path::Arg,
    ) -> io::Result<()> {
        Ok(renameat(&self.0, from, &self.0, to)?)
    }

    fn move_aside(&self, name: &str) -> io::Result<()> {
        let aside = self.find_free_name(name)?;
        self.rename_entry(name, &aside)
    }

    /// Returns a name that does not exist.
    fn find_free_name(&self, name: &str) -> io::Result<OsString> {
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
