//! Names that are kept free: something empty stands for each while a cell is there, since nothing can
//! be put where nothing is.
//!
//! A note beside the plan says what these are, and is locked by the process that made them; a note
//! that nobody holds is that of a process which was killed, and what it made is removed. Not here:
//! which names are kept free.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::{Mount, Stub, abandoned};

/// How the names of notes end.
const EXTENSION: &str = "stubs";

/// What stands for names that are kept free.
#[derive(Debug)]
pub(super) struct Stubs {
    made: Vec<Made>,
    note: Option<(PathBuf, File)>,
}

/// One of them. Whatever else has come to stand there is not removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Made {
    path: PathBuf,
    inode: u64,
    stub: Stub,
}

impl Stubs {
    /// Makes something for each vacant name in a list of places, and notes it down.
    pub(super) fn make(mounts: &[Mount], note: &Path) -> std::io::Result<Self> {
        let mut vacant = mounts.iter().filter_map(|mount| match mount {
            Mount::Vacant { path, stub } => Some((path, stub)),
            Mount::Scratch { .. }
            | Mount::Hidden { .. }
            | Mount::Shown { .. }
            | Mount::Writable { .. }
            | Mount::Pinned { .. }
            | Mount::Protected { .. } => None,
        });
        let Some(first) = vacant.next() else { return Ok(Self { made: Vec::new(), note: None }) };
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(note)?;
        flock(&file, FlockOperation::LockExclusive)?;
        let mut made = Vec::new();
        for (path, stub) in std::iter::once(first).chain(vacant) {
            let Some(one) = Made::make(path, stub)? else { continue };
            // Noted one by one: the process may be killed at any point.
            let mut line = serde_json::to_vec(&one)?;
            line.push(b'\n');
            file.write_all(&line)?;
            made.push(one);
        }
        Ok(Self { made, note: Some((note.to_owned(), file)) })
    }

    /// Removes them.
    pub(super) fn remove(self) {
        for stub in &self.made {
            stub.remove();
        }
        if let Some((note, _file)) = self.note {
            let _ = fs::remove_file(note);
        }
    }
}

impl Made {
    /// Makes a stub, unless another cell of the same project keeps the name free already.
    fn make(path: &Path, stub: &Stub) -> std::io::Result<Option<Self>> {
        let made = match stub {
            Stub::Directory => fs::create_dir(path),
            Stub::File(content) => OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(path)
                .and_then(|mut file| file.write_all(content.as_bytes())),
        };
        match made {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(error),
            Ok(()) => {
                let inode = fs::symlink_metadata(path)?.ino();
                Ok(Some(Self { path: path.to_owned(), inode, stub: stub.clone() }))
            }
        }
    }

    fn remove(&self) {
        let about = fs::symlink_metadata(&self.path).ok();
        let Some(about) = about.filter(|about| about.ino() == self.inode) else { return };
        match &self.stub {
            // One with something in it stays: that is what this call is like.
            Stub::Directory => drop(fs::remove_dir(&self.path)),
            Stub::File(content) if about.is_file() && about.len() == content.len() as u64 => {
                drop(fs::remove_file(&self.path));
            }
            Stub::File(_) => {}
        }
    }
}

/// Removes what processes left behind in a directory of notes that were killed.
pub(super) fn clear(directory: &Path) {
    abandoned::each_note(directory, EXTENSION, |_, text| {
        let stubs = text.lines().filter_map(|line| serde_json::from_str::<Made>(line).ok());
        stubs.for_each(|made| made.remove());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vacant(path: &Path, stub: Stub) -> [Mount; 1] {
        [Mount::Vacant { path: path.to_owned(), stub }]
    }

    #[test]
    fn names_are_kept_free_and_nothing_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        let (name, note) = (directory.path().join(".envrc"), directory.path().join("1.stubs"));
        for stub in [Stub::Directory, Stub::File("x".into())] {
            let list = vacant(&name, stub);
            let stubs = Stubs::make(&list, &note).expect("made");
            let again = Stubs::make(&list, &directory.path().join("2.stubs")).expect("made");
            // The note is held, so this does nothing.
            clear(directory.path());
            assert!(name.exists() && note.exists());
            again.remove();
            assert!(name.exists(), "it is the other's");
            stubs.remove();
            assert_eq!(fs::read_dir(directory.path()).expect("readable").count(), 0);
        }
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_what_became_of_a_name_is_not() {
        for (stub, used, stays) in [
            (Stub::Directory, None, false),
            (Stub::Directory, Some(".vscode/mine"), true),
            (Stub::File(String::new()), None, false),
            (Stub::File(String::new()), Some(".vscode"), true),
        ] {
            let directory = tempfile::tempdir().expect("a directory");
            let (name, note) = (directory.path().join(".vscode"), directory.path().join("1.stubs"));
            drop(Stubs::make(&vacant(&name, stub.clone()), &note).expect("made"));
            if let Some(used) = used {
                fs::write(directory.path().join(used), "mine").expect("written");
            }
            clear(directory.path());
            assert_eq!((name.exists(), note.exists()), (stays, false), "{stub:?} {used:?}");
        }
    }
}
