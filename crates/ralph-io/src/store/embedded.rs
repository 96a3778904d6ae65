//! A directory that is part of the binary: written to disk where it is needed, and repaired when it
//! was changed.
//!
//! Other processes read it while it may be tampered with, and several may want it at once. So it is
//! compared as a whole, and replaced as a whole by a rename. Not here: its content.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::layout::{create_private_directories, hash_fnv1a};

/// Another process may put its own, equal copy in the way, but not more often than this.
const ATTEMPTS: usize = 8;

/// A file of the binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbeddedFile {
    /// Its path in the directory, with `/` between names.
    pub path: &'static str,
    pub text: &'static str,
}

/// A directory of the binary, and the path it is written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddedDirectory {
    files: &'static [EmbeddedFile],
    place: PathBuf,
}

impl EmbeddedDirectory {
    /// Returns a directory whose path is derived from its content: another version or other content
    /// has another path, so that a directory that a process is reading never changes.
    pub fn from_content(parent: &Path, version: &str, files: &'static [EmbeddedFile]) -> Self {
        let name = format!("{version}-{:016x}", hash_files(files.iter().copied()));
        Self::at_path(parent.join(name), files)
    }

    /// Returns a directory at a fixed path.
    pub fn at_path(place: PathBuf, files: &'static [EmbeddedFile]) -> Self {
        Self { files, place }
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.place
    }

    /// Returns whether the directory holds exactly the files, all of them regular, and nothing
    /// else.
    pub fn is_intact(&self) -> bool {
        let is_real = fs::symlink_metadata(&self.place).is_ok_and(|found| found.is_dir());
        is_real && self.has_content(&self.place, "").unwrap_or(false)
    }

    /// Compares a directory with the files below a prefix.
    fn has_content(&self, directory: &Path, prefix: &str) -> io::Result<bool> {
        let below = self.files.iter().filter_map(|file| file.path.strip_prefix(prefix));
        let names = below.filter_map(|rest| rest.split('/').next());
        let mut wanted: BTreeSet<OsString> = names.map(OsString::from).collect();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if !wanted.remove(&name) {
                return Ok(false);
            }
            let path = format!("{prefix}{}", name.to_string_lossy());
            let kind = entry.file_type()?;
            let is_right = match self.files.iter().find(|file| file.path == path) {
                Some(file) => kind.is_file() && has_text(&entry.path(), file.text)?,
                None => kind.is_dir() && self.has_content(&entry.path(), &format!("{path}/"))?,
            };
            if !is_right {
                return Ok(false);
            }
        }
        Ok(wanted.is_empty())
    }

    /// Makes sure that the directory holds exactly the files. Replaces anything else. Returns
    /// whether it had to be written.
    pub fn ensure_intact(&self) -> io::Result<bool> {
        if self.is_intact() {
            return Ok(false);
        }
        let parent = self.place.parent().ok_or(io::ErrorKind::InvalidInput)?;
        create_private_directories(parent)?;
        let mut refusal = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..ATTEMPTS {
            let private = |prefix: &str| {
                let mut directory = tempfile::Builder::new();
                directory.prefix(prefix).permissions(fs::Permissions::from_mode(0o700));
                directory.tempdir_in(parent)
            };
            let fresh = private(".new-")?;
            self.write_into(fresh.path())?;
            // What was in the way is removed with this temporary directory.
            let old = private(".old-")?;
            match fs::rename(&self.place, old.path().join("was")) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            match fs::rename(fresh.path(), &self.place) {
                Ok(()) => {
                    let _gone = fresh.keep();
                    return Ok(true);
                }
                Err(error) => refusal = error,
            }
            if self.is_intact() {
                return Ok(false);
            }
        }
        Err(refusal)
    }

    fn write_into(&self, directory: &Path) -> io::Result<()> {
        for file in self.files {
            let path = directory.join(file.path);
            path.parent().map_or(Ok(()), create_private_directories)?;
            fs::write(path, file.text)?;
        }
        Ok(())
    }
}

/// Returns whether a file has this content. Checks its size first: an agent may have made it huge.
fn has_text(path: &Path, text: &str) -> io::Result<bool> {
    let is_size = fs::symlink_metadata(path)?.len() == text.len() as u64;
    Ok(is_size && fs::read(path)? == text.as_bytes())
}

/// Returns a hash of all names and texts.
fn hash_files(files: impl Iterator<Item = EmbeddedFile>) -> u64 {
    let mut bytes = Vec::new();
    for file in files {
        for part in [file.path, file.text] {
            bytes.extend((part.len() as u64).to_le_bytes());
            bytes.extend(part.as_bytes());
        }
    }
    hash_fnv1a(&bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    const FILES: &[EmbeddedFile] = &[
        EmbeddedFile { path: "a.json", text: "{}\n" },
        EmbeddedFile { path: "deep/er/b.md", text: "b" },
        EmbeddedFile { path: "deep/c.md", text: "c" },
    ];

    fn embedded() -> (tempfile::TempDir, EmbeddedDirectory) {
        let directory = tempfile::tempdir().expect("a directory");
        let embedded = EmbeddedDirectory::from_content(&directory.path().join("x/y"), "1.0", FILES);
        (directory, embedded)
    }

    #[test]
    fn the_place_follows_from_the_content() {
        let (_directory, one) = embedded();
        let name = one.path().file_name().expect("a name").to_string_lossy().into_owned();
        assert!(name.starts_with("1.0-") && name.len() == 20, "{name}");
        let parent = one.path().parent().expect("a parent");
        let other = EmbeddedDirectory::from_content(parent, "1.0", &FILES[..2]);
        assert_ne!(one.path(), other.path());
    }

    #[test]
    fn it_is_written_once_and_is_the_owners() {
        let (_directory, embedded) = embedded();
        assert!(!embedded.is_intact());
        assert!(embedded.ensure_intact().expect("written"));
        assert!(!embedded.ensure_intact().expect("found"));
        let text = fs::read_to_string(embedded.path().join("deep/er/b.md"));
        assert_eq!(text.expect("readable"), "b");
        let mode = fs::metadata(embedded.path()).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn any_tampering_is_repaired() {
        type Action = (&'static str, fn(&Path));
        let actions: [Action; 8] = [
            ("changed", |at| fs::write(at.join("deep/c.md"), "d").expect("written")),
            ("longer", |at| fs::write(at.join("deep/c.md"), "cc").expect("written")),
            ("removed", |at| fs::remove_file(at.join("a.json")).expect("removed")),
            ("added", |at| fs::write(at.join("deep/extra.md"), "x").expect("written")),
            ("emptied", |at| fs::remove_dir_all(at.join("deep")).expect("removed")),
            ("linked", |at| {
                let file = at.join("a.json");
                fs::rename(&file, at.with_extension("elsewhere")).expect("moved");
                symlink(at.with_extension("elsewhere"), file).expect("a link");
            }),
            ("a link itself", |at| {
                fs::rename(at, at.with_extension("moved")).expect("moved");
                symlink(at.with_extension("moved"), at).expect("a link");
            }),
            ("a file", |at| {
                fs::remove_dir_all(at).expect("removed");
                fs::write(at, "").expect("written");
            }),
        ];
        for (what, action) in actions {
            let (_directory, embedded) = embedded();
            embedded.ensure_intact().expect("written");
            action(embedded.path());
            assert!(!embedded.is_intact(), "{what}");
            assert!(embedded.ensure_intact().expect("repaired"), "{what}");
            assert!(embedded.is_intact(), "{what}");
            let left = fs::read_dir(embedded.path().parent().expect("a parent"));
            let left = left.expect("readable").flatten();
            let hidden = left.filter(|it| it.file_name().to_string_lossy().starts_with('.'));
            assert_eq!(hidden.count(), 0, "{what}");
        }
    }

    #[test]
    fn many_at_once_end_with_one_whole_copy() {
        let (_directory, embedded) = embedded();
        let barrier = Barrier::new(8);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    barrier.wait();
                    embedded.ensure_intact().expect("one of them wins");
                });
            }
        });
        assert!(embedded.is_intact());
    }
}
