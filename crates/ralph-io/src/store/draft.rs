//! The file that a run works on, while it is a draft.
//!
//! The earlier content of the file is kept with the run. A run that ends before its work is
//! complete restores it, and keeps the draft for when the run is resumed. Not here: whether a draft
//! is good.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::PathBuf;

use rustix::fs::OFlags;

use super::layout::RunDir;
use crate::atomic_file;

/// Larger files are not read into memory; no task list is that large.
const LARGEST: u64 = 64 << 20;

/// A file that is a draft while a run works on it.
#[derive(Debug)]
pub struct RunDraft {
    file: PathBuf,
    run: RunDir,
}

impl RunDraft {
    /// Returns the draft of a run.
    pub fn new(file: impl Into<PathBuf>, run: RunDir) -> Self {
        Self { file: file.into(), run }
    }

    /// Saves the content of the file, before the run begins.
    pub fn save_original(&self) -> io::Result<()> {
        match self.read_content()? {
            Some(content) => atomic_file::replace_file(&self.original_path(), &content),
            None => Ok(()),
        }
    }

    /// Restores the file's earlier content, and keeps the draft. Returns whether it differed.
    pub fn restore_original(&self) -> io::Result<bool> {
        let before = read_kept(self.original_path())?;
        let permissions = match fs::symlink_metadata(&self.file) {
            Ok(there) if there.is_file() => there.permissions(),
            Ok(there) if there.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(_) => {
                // An agent was not asked for a link or a pipe.
                fs::remove_file(&self.file)?;
                Permissions::from_mode(0o644)
            }
            Err(_) => Permissions::from_mode(0o644),
        };
        let now = self.read_content()?;
        if now == before {
            return Ok(false);
        }
        if let Some(now) = now {
            atomic_file::replace_file(&self.draft_path(), &now)?;
        }
        match before {
            Some(before) => atomic_file::replace_with(&self.file, &before, permissions)?,
            None => fs::remove_file(&self.file)?,
        }
        Ok(true)
    }

    /// Restores the draft when the run is resumed, unless the file was changed in between.
    pub fn restore_draft(&self) -> io::Result<()> {
        let Some(draft) = read_kept(self.draft_path())? else { return Ok(()) };
        if self.read_content()? == read_kept(self.original_path())? {
            let permissions = fs::metadata(&self.file).map(|there| there.permissions());
            let permissions = permissions.unwrap_or_else(|_| Permissions::from_mode(0o644));
            atomic_file::replace_with(&self.file, &draft, permissions)?;
        }
        fs::remove_file(self.draft_path())
    }

    fn original_path(&self) -> PathBuf {
        self.run.path().join("draft-before")
    }

    fn draft_path(&self) -> PathBuf {
        self.run.path().join("draft")
    }

    /// Reads the file, which an agent may have replaced by anything. Does not wait for a pipe.
    fn read_content(&self) -> io::Result<Option<Vec<u8>>> {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(&self.file) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut content = Vec::new();
        file.take(LARGEST + 1).read_to_end(&mut content)?;
        if content.len() as u64 > LARGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(Some(content))
    }
}

/// Reads a file that was kept with the run, if it exists.
fn read_kept(path: PathBuf) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene(before: Option<&str>) -> (tempfile::TempDir, RunDraft) {
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir(directory.path().join("run")).expect("a directory");
        let file = directory.path().join("list.json");
        if let Some(before) = before {
            fs::write(&file, before).expect("written");
        }
        let draft = RunDraft::new(file, RunDir::from_path(directory.path().join("run")));
        draft.save_original().expect("begun");
        (directory, draft)
    }

    fn text(draft: &RunDraft) -> Option<String> {
        fs::read_to_string(&draft.file).ok()
    }

    #[test]
    fn a_draft_comes_and_goes_with_its_run() {
        for before in [Some("old"), None] {
            let (_directory, draft) = scene(before);
            assert!(!draft.restore_original().expect("done"));
            fs::write(&draft.file, "new").expect("written");
            for _ in 0..2 {
                assert!(draft.restore_original().expect("done"));
                assert_eq!(text(&draft).as_deref(), before);
                draft.restore_draft().expect("done");
                assert_eq!(text(&draft).as_deref(), Some("new"));
            }
        }
    }

    #[test]
    fn changes_made_in_between_are_left_alone() {
        let (_directory, draft) = scene(Some("old"));
        fs::write(&draft.file, "new").expect("written");
        draft.restore_original().expect("done");
        fs::write(&draft.file, "by hand").expect("written");
        draft.restore_draft().expect("done");
        assert_eq!(text(&draft).as_deref(), Some("by hand"));
    }

    #[test]
    fn a_link_in_its_place_is_removed_and_not_followed() {
        let (directory, draft) = scene(Some("old"));
        let target = directory.path().join("target");
        fs::write(&target, "precious").expect("written");
        fs::remove_file(&draft.file).expect("removed");
        std::os::unix::fs::symlink(&target, &draft.file).expect("a link");
        assert!(draft.restore_original().expect("done"));
        assert_eq!(text(&draft).as_deref(), Some("old"));
        assert_eq!(fs::read_to_string(target).expect("there"), "precious");
    }
}
