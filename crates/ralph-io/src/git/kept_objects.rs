//! Hard links to the object files of a repository, where agents cannot reach them.
//!
//! git never changes an object file: it writes new ones and removes old ones. So a hard link keeps
//! an object at no cost, whatever is packed, pruned or removed later. If the state directory is on
//! another file system the files are copied, up to a bound. Not here: which objects are needed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::ref_files::TICK;

/// If links are impossible, at most this much is copied: the first iteration must not wait for
/// minutes, nor the disk fill up.
const MOST_COPIED: u64 = 1024 * 1024 * 1024;

const PACKS: &str = "pack";

/// The files of a pack. Others are generated from these.
const PACK_EXTENSIONS: [&str; 5] = ["pack", "idx", "rev", "promisor", "mtimes"];

/// The links to the object files of a repository.
#[derive(Debug)]
pub(super) struct KeptObjects {
    /// The object directory of the repository.
    source: PathBuf,
    store: PathBuf,
    /// The directories that are equal in both places, with their modification times.
    synced: BTreeMap<OsString, SystemTime>,
    copied: u64,
}

impl KeptObjects {
    /// Returns the store for an object directory, with its existing content.
    pub(super) fn new(source: PathBuf, store: PathBuf) -> Self {
        Self { source, store, synced: BTreeMap::new(), copied: 0 }
    }

    /// Returns the object directory of the repository.
    pub(super) fn source(&self) -> &Path {
        &self.source
    }

    /// Makes the store hold exactly the files that the repository has now.
    pub(super) fn update_links(&mut self) -> io::Result<()> {
        let present = list_directories(&self.source);
        for name in list_directories(&self.store).difference(&present) {
            fs::remove_dir_all(self.store.join(name))?;
            self.synced.remove(name);
        }
        for name in present {
            let changed = fs::symlink_metadata(self.source.join(&name))?.modified()?;
            if self.synced.get(&name) == Some(&changed) {
                continue;
            }
            self.synced.remove(&name);
            self.sync_directory(&name)?;
            if changed.elapsed().is_ok_and(|age| age > TICK) {
                self.synced.insert(name, changed);
            }
        }
        Ok(())
    }

    fn sync_directory(&mut self, name: &OsStr) -> io::Result<()> {
        let (from, to) = (self.source.join(name), self.store.join(name));
        fs::create_dir_all(&to)?;
        let (present, kept) = (list_object_files(&from), list_object_files(&to));
        for gone in kept.difference(&present) {
            fs::remove_file(to.join(gone))?;
        }
        for new in present.difference(&kept) {
            match fs::hard_link(from.join(new), to.join(new)) {
                Ok(()) => {}
                // git may just have packed an object that was loose.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(_) => {
                    let size = fs::symlink_metadata(from.join(new)).map_or(0, |about| about.len());
                    if self.copied + size <= MOST_COPIED {
                        self.copied += fs::copy(from.join(new), to.join(new))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns whether files that existed at the last sync are missing in the repository.
    pub(super) fn has_losses(&self) -> bool {
        list_directories(&self.store).iter().any(|name| {
            let source = self.source.join(name);
            let about = fs::symlink_metadata(&source).ok().filter(fs::Metadata::is_dir);
            let changed = about.and_then(|about| about.modified().ok());
            let is_same = changed.is_some() && changed.as_ref() == self.synced.get(name);
            !is_same
                && list_object_files(&self.store.join(name))
                    .difference(&list_object_files(&source))
                    .next()
                    .is_some()
        })
    }

    /// Restores files that are missing in the repository.
    pub(super) fn restore_missing(&self) -> io::Result<()> {
        for name in list_directories(&self.store) {
            let (from, to) = (self.store.join(&name), self.source.join(&name));
            make_real_directory(&self.source)?;
            make_real_directory(&to)?;
            let present = list_object_files(&to);
            let mut missing: Vec<OsString> = list_object_files(&from)
                .into_iter()
                .filter(|file| !present.contains(file))
                .collect();
            // git considers a pack present once its index is.
            missing.sort_by_key(|file| Path::new(file).extension() == Some(OsStr::new("idx")));
            for file in missing {
                if fs::hard_link(from.join(&file), to.join(&file)).is_err() {
                    let temporary = to.join("tmp_obj_restored");
                    fs::copy(from.join(&file), &temporary)?;
                    fs::rename(&temporary, to.join(&file))?;
                }
            }
        }
        Ok(())
    }
}

/// Creates a missing directory. Removes anything else that an agent put there.
pub(super) fn make_real_directory(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => Ok(()),
        Ok(_) => {
            fs::remove_file(path)?;
            fs::create_dir(path)
        }
        Err(_) => fs::create_dir_all(path),
    }
}

/// Returns the directories that object files are in.
fn list_directories(objects: &Path) -> BTreeSet<OsString> {
    let entries = fs::read_dir(objects).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let names = directories.map(|entry| entry.file_name());
    names.filter(|name| name == PACKS || (name.len() == 2 && is_hex(name))).collect()
}

/// Returns the object files in one of those directories.
fn list_object_files(directory: &Path) -> BTreeSet<OsString> {
    let is_of_pack = |name: &OsStr| {
        let extension = Path::new(name).extension().and_then(OsStr::to_str);
        name.as_encoded_bytes().starts_with(b"pack-")
            && extension.is_some_and(|extension| PACK_EXTENSIONS.contains(&extension))
    };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let names = files.map(|entry| entry.file_name());
    names.filter(|name| is_of_pack(name) || is_hex(name)).collect()
}

fn is_hex(name: &OsStr) -> bool {
    name.as_encoded_bytes().iter().all(u8::is_ascii_hexdigit)
}
