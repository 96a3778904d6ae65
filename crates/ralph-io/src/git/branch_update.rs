//! Moves the branch to an ordinary commit without a start of git.
//!
//! Does what `git update-ref` does, in its order: locks, reflogs, ref. Whatever is unusual (another ref
//! format, no reflogs, a detached HEAD) is left to git. Not here: other refs, and moving back.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::head::HeadState;
use super::repository::GitRepository;

impl GitRepository {
    /// Moves the branch that is checked out to a commit. Returns whether that was done; if not, git has
    /// to do it, or says why it is impossible.
    pub(super) fn move_branch(&self, from: &HeadState, to: &str, note: &str) -> bool {
        let (Some(branch), Some(old)) = (&from.branch, &from.commit) else { return false };
        let Some(who) = self.format_signature("committer") else { return false };
        if ["extensions.refstorage", "core.sharedrepository"]
            .iter()
            .any(|it| self.config.find(it).is_some())
        {
            return false;
        }
        let (head, place) = (self.git_dir.join("HEAD"), self.common_dir().join(branch));
        let note: Vec<&str> = note.split_whitespace().collect();
        let line = format!("{old} {to} {who}\t{}\n", note.join(" "));
        let update = || -> io::Result<()> {
            let of_branch = self.common_dir().join("logs").join(branch);
            let logs = [open_log(&self.git_dir.join("logs/HEAD"))?, open_log(&of_branch)?];
            let _head = RefLock::acquire(&head)?;
            let lock = RefLock::acquire(&place)?;
            if self.read_head_files() != Some((Some(branch.clone()), old.clone())) {
                return Err(io::ErrorKind::InvalidData.into());
            }
            lock.write(to)?;
            for mut log in logs {
                log.write_all(line.as_bytes())?;
            }
            lock.replace(&place)
        };
        update().is_ok()
    }
}

/// Opens an existing reflog.
fn open_log(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    OpenOptions::new().append(true).custom_flags(flags).open(path)
}

/// The lock file of a ref, by git's conventions. Removed when it is dropped.
struct RefLock {
    path: PathBuf,
    file: File,
}

impl RefLock {
    fn acquire(file: &Path) -> io::Result<Self> {
        let mut path = file.as_os_str().to_owned();
        path.push(".lock");
        let file = File::create_new(&path)?;
        Ok(Self { path: path.into(), file })
    }

    /// Writes the new value, and syncs it as git does.
    fn write(&self, id: &str) -> io::Result<()> {
        (&self.file).write_all(format!("{id}\n").as_bytes())?;
        self.file.sync_data()
    }

    fn replace(mut self, place: &Path) -> io::Result<()> {
        fs::rename(&self.path, place)?;
        self.path = PathBuf::new();
        Ok(())
    }
}

impl Drop for RefLock {
    fn drop(&mut self) {
        // Nothing, once it has become the ref.
        let _ = fs::remove_file(&self.path);
    }
}
