//! Copies of the object files of a repository, where agents cannot reach them.
//!
//! git never changes an object file: it writes new ones and removes old ones. An agent can
//! overwrite one in place, and a hard link would then lose its content too. So files are cloned
//! where the file system can do that, small ones are copied, and only the rest are hard links,
//! whose loss by overwriting is noticed but cannot be undone.
//!
//! What took long to copy, many small files, is handed on to the next run. So the store itself says
//! what it is a copy of: a copy has the time at which the inode of its original last changed, and a
//! directory that of its original. No agent can set that time. Not here: which objects are needed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, openat, statat, utimensat};

use super::ref_files::is_stable_stamp;
use super::shadow::GitFileStamp;

/// Loose objects and the packs of most projects are smaller. Larger files are cloned or linked,
/// and only their size is compared.
const LARGEST_COPY: u64 = 16 * 1024 * 1024;

/// How much of such small files is copied: a second of the first iteration.
const MOST_COPIED: u64 = 256 * 1024 * 1024;

/// If links are impossible, at most this much is copied: the first iteration must not wait for
/// minutes, nor the disk fill up.
const MOST_COPIED_ELSEWHERE: u64 = 1024 * 1024 * 1024;

const PACKS: &str = "pack";

/// Copies of loose objects that take more than this are not handed on: after `git gc` they would be all
/// that is left of them.
const MOST_HANDED_ON: u64 = 64 * 1024 * 1024;

/// The name of a copy that is not complete yet.
const PARTIAL: &str = "partial";

/// The files of a pack. Others are generated from these.
const PACK_EXTENSIONS: [&str; 5] = ["pack", "idx", "rev", "promisor", "mtimes"];

/// The kept object files of a repository.
#[derive(Debug)]
pub(super) struct KeptObjects {
    /// The object directory of the repository.
    source: PathBuf,
    store: PathBuf,
    /// The files of the repository that are kept, by their path in both places. A file
    /// that another process kept has no stamp.
    files: BTreeMap<PathBuf, Option<GitFileStamp>>,
    /// Whether files that another process kept are not in there yet.
    is_unlisted: bool,
    /// The directories that are known to be equal in both places, with the time when the inode of
    /// the original had changed.
    synced: BTreeMap<OsString, (i64, i64)>,
    copied: u64,
    can_clone: bool,
    /// How much is copied at most if links are impossible.
    most_copied: u64,
}

/// An object file that was overwritten.
#[derive(Debug)]
pub(super) struct OverwrittenFile {
    /// The path in the object directory.
    pub(super) path: PathBuf,
    pub(super) restored: io::Result<()>,
}

impl KeptObjects {
    /// Returns the store for an object directory, with its existing content.
    pub(super) fn new(source: PathBuf, store: PathBuf) -> Self {
        let (files, synced) = (BTreeMap::new(), BTreeMap::new());
        Self {
            source,
            store,
            files,
            is_unlisted: true,
            synced,
            copied: 0,
            can_clone: true,
            most_copied: MOST_COPIED_ELSEWHERE,
        }
    }

    /// Leaves the copies of loose objects for the next run.
    pub(super) fn leave_copies(&self, target: &Path) {
        let loose = self.files.iter().filter(|(path, _)| !path.starts_with(PACKS));
        let sizes = loose.filter_map(|(_, stamp)| stamp.as_ref()).map(GitFileStamp::size);
        if self.store.is_dir() && sizes.sum::<u64>() <= MOST_HANDED_ON {
            // There are few packs, and a link to one would keep the disk full.
            let _ = fs::remove_dir_all(self.store.join(PACKS));
            let _ = fs::remove_dir_all(target);
            let _ = fs::rename(&self.store, target);
        }
    }

    /// Lists the files that another process kept.
    fn list_kept(&mut self) {
        if !std::mem::take(&mut self.is_unlisted) {
            return;
        }
        for name in list_directories(&self.store) {
            for file in list_object_files(&self.store.join(&name)) {
                self.files.entry(Path::new(&name).join(file)).or_insert(None);
            }
        }
    }

    /// Returns the object directory of the repository.
    pub(super) fn source(&self) -> &Path {
        &self.source
    }

    /// Makes the store hold exactly the files that the repository has now. The first time it starts
    /// with the copies that the last run handed on.
    pub(super) fn update_copies(&mut self, handed_on: &Path) -> io::Result<()> {
        if self.is_unlisted && !self.store.exists() {
            let _ = fs::rename(handed_on, &self.store);
        }
        let present = list_directories(&self.source);
        for name in list_directories(&self.store).difference(&present) {
            fs::remove_dir_all(self.store.join(name))?;
            self.synced.remove(name);
            self.files.retain(|path, _| !path.starts_with(name));
        }
        let source = open_directory(&self.source)?;
        for name in present {
            let Some(now) = read_stamp(&source, Path::new(&name)) else { continue };
            if self.synced.get(&name) == Some(&now.changed()) {
                continue;
            }
            let copy = self.store.join(&name);
            if !fs::symlink_metadata(&copy).is_ok_and(|copy| is_copy_of(&copy, &now)) {
                self.synced.remove(&name);
                self.sync_directory(&name)?;
                mark_as_copy(&copy, &now)?;
            }
            if is_stable_stamp(&now) {
                self.synced.insert(name, now.changed());
            }
        }
        Ok(())
    }

    fn sync_directory(&mut self, name: &OsStr) -> io::Result<()> {
        let (from, to) = (self.source.join(name), self.store.join(name));
        fs::create_dir_all(&to)?;
        let (present, mut kept) = (list_object_files(&from), list_object_files(&to));
        if self.is_unlisted {
            // Since the last run, an object may have been made again, and compressed otherwise.
            let read = |path: PathBuf| fs::symlink_metadata(path).ok();
            kept.retain(|file| match (read(to.join(file)), read(from.join(file))) {
                (Some(copy), Some(original)) => {
                    is_copy_of(&copy, &GitFileStamp::from_metadata(&original))
                }
                (_, _) => true,
            });
        }
        for gone in kept.difference(&present) {
            fs::remove_file(to.join(gone))?;
            self.files.remove(&Path::new(name).join(gone));
        }
        for new in present.difference(&kept) {
            match self.keep_file(&from.join(new), &to.join(new)) {
                Ok(()) => {}
                // git may just have packed an object that was loose.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            }
            self.files.insert(Path::new(name).join(new), read_stamp(CWD, &from.join(new)));
        }
        Ok(())
    }

    /// Clones a file, copies it if it is small, or links it. A copy gets its name when it is
    /// complete: ralph may be killed meanwhile, and half a copy must never replace an object.
    fn keep_file(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let about = fs::symlink_metadata(from)?;
        let size = about.len();
        let partial = self.store.join(PARTIAL);
        if size <= LARGEST_COPY && self.copied + size <= MOST_COPIED {
            self.copied += fs::copy(from, &partial)?;
            mark_as_copy(&partial, &GitFileStamp::from_metadata(&about))?;
            return fs::rename(&partial, to);
        }
        let _ = fs::remove_file(&partial);
        if self.can_clone && clone_file(from, &partial).is_ok() {
            return fs::rename(&partial, to);
        }
        self.can_clone = false;
        if fs::hard_link(from, to).is_err() && self.copied + size <= self.most_copied {
            self.copied += fs::copy(from, &partial)?;
            fs::rename(&partial, to)?;
        }
        Ok(())
    }

    /// Restores files that were overwritten in place since they were kept, and returns them.
    ///
    /// Only the metadata of the files is read, unless it changed: git itself updates the time of
    /// an object that it would have written again.
    pub(super) fn restore_overwritten(&mut self) -> Vec<OverwrittenFile> {
        self.list_kept();
        let mut overwritten = Vec::new();
        let Ok(source) = open_directory(&self.source) else { return overwritten };
        for (path, known) in &mut self.files {
            // A file that is gone may be packed; `has_losses` is about those.
            let Some(stamp) = read_stamp(&source, path).filter(|stamp| *known != Some(*stamp))
            else {
                continue;
            };
            let (kept, now) = (self.store.join(path), self.source.join(path));
            let Ok(about) = fs::symlink_metadata(&now) else { continue };
            let restored = match fs::symlink_metadata(&kept) {
                Ok(copy) if (copy.dev(), copy.ino()) == (about.dev(), about.ino()) => {
                    if known.is_none_or(|known| known.size() == about.len()) {
                        *known = Some(stamp);
                        continue;
                    }
                    Err(io::Error::other("it is too large for a copy"))
                }
                Ok(copy) if copy.len() == about.len() && is_copy_of(&copy, &stamp) => {
                    *known = Some(stamp);
                    continue;
                }
                Ok(copy) => match has_same_content((&kept, &copy), (&now, &about)) {
                    Ok(true) => {
                        let _ = mark_as_copy(&kept, &stamp);
                        *known = Some(stamp);
                        continue;
                    }
                    // Copies are not synced, and a power failure may have emptied one.
                    Ok(false) | Err(_) if !is_intact(&kept) => {
                        let _ = fs::remove_file(&kept);
                        continue;
                    }
                    Ok(false) | Err(_) => replace_file(&kept, &now),
                },
                Err(_) => continue,
            };
            *known = read_stamp(CWD, &now);
            overwritten.push(OverwrittenFile { path: path.clone(), restored });
        }
        overwritten
    }

    /// Returns whether files that existed at the last sync are missing in the repository.
    pub(super) fn has_losses(&self) -> bool {
        let source = open_directory(&self.source).ok();
        list_directories(&self.store).iter().any(|name| {
            let now = source.as_ref().and_then(|source| read_stamp(source, Path::new(name)));
            let is_same = now.is_some_and(|now| self.synced.get(name) == Some(&now.changed()));
            !is_same
                && list_object_files(&self.store.join(name))
                    .difference(&list_object_files(&self.source.join(name)))
                    .next()
                    .is_some()
        })
    }

    /// Restores files that are missing in the repository.
    pub(super) fn restore_missing(&mut self) -> io::Result<()> {
        for name in list_directories(&self.store) {
            let (from, to) = (self.store.join(&name), self.source.join(&name));
            make_real_directory(&self.source)?;
            make_real_directory(&to)?;
            let present = list_object_files(&to);
            let mut missing: Vec<OsString> = list_object_files(&from)
                .into_iter()
                .filter(|file| !present.contains(file) && is_intact(&from.join(file)))
                .collect();
            // git considers a pack present once its index is.
            missing.sort_by_key(|file| Path::new(file).extension() == Some(OsStr::new("idx")));
            for file in missing {
                replace_file(&from.join(&file), &to.join(&file))?;
                self.files.insert(Path::new(&name).join(&file), read_stamp(CWD, &to.join(&file)));
            }
        }
        Ok(())
    }
}

/// Returns whether a kept file has content: no object file is empty or begins with a zero byte.
fn is_intact(kept: &Path) -> bool {
    let mut first = [0];
    let read = File::open(kept).and_then(|mut file| file.read_exact(&mut first));
    read.is_ok() && first != [0]
}

/// Puts a copy of a kept file into the repository. A large one is linked if it cannot be cloned.
fn replace_file(kept: &Path, target: &Path) -> io::Result<()> {
    let directory = target.parent().ok_or(ErrorKind::NotFound)?;
    make_real_directory(directory)?;
    // An agent cannot know the name, and a file that exists is not used.
    let temporary = tempfile::Builder::new().prefix("tmp_obj_").tempdir_in(directory)?;
    let copy = temporary.path().join("object");
    let is_large = fs::symlink_metadata(kept)?.len() > LARGEST_COPY;
    let shares = || clone_file(kept, &copy).or_else(|_| fs::hard_link(kept, &copy)).is_ok();
    if !(is_large && shares()) {
        fs::copy(kept, &copy)?;
    }
    fs::rename(&copy, target)
}

/// Makes a file that shares its content with another one until one of them is changed.
#[cfg(target_os = "linux")]
pub(super) fn clone_file(from: &Path, to: &Path) -> io::Result<()> {
    let source = File::open(from)?;
    let copy = File::create_new(to)?;
    let cloned = rustix::fs::ioctl_ficlone(&copy, &source).map_err(io::Error::from);
    let cloned = cloned.and_then(|()| copy.set_permissions(source.metadata()?.permissions()));
    if cloned.is_err() {
        fs::remove_file(to)?;
    }
    cloned
}

/// Makes a file that shares its content with another one: elsewhere a copy does that by itself,
/// if it can be done at all.
#[cfg(not(target_os = "linux"))]
pub(super) fn clone_file(_: &Path, _: &Path) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

/// Notes on a copy which state of its original it has; no state, if that is too young to tell.
fn mark_as_copy(copy: &Path, original: &GitFileStamp) -> io::Result<()> {
    let changed = if is_stable_stamp(original) { original.changed() } else { (0, 0) };
    let time = Timespec { tv_sec: changed.0, tv_nsec: changed.1 };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(utimensat(CWD, copy, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Returns whether a copy has the state that its original has now.
fn is_copy_of(copy: &Metadata, original: &GitFileStamp) -> bool {
    (copy.mtime(), copy.mtime_nsec()) == original.changed()
}

/// Opens the object directory: below it, the kernel has short ways.
fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?)
}

fn read_stamp(directory: impl AsFd, path: &Path) -> Option<GitFileStamp> {
    let stat = statat(directory, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(GitFileStamp::from_stat(&stat))
}

/// Returns whether two files have the same content. Of large ones only the size is compared.
fn has_same_content(kept: (&Path, &Metadata), now: (&Path, &Metadata)) -> io::Result<bool> {
    if !now.1.is_file() || kept.1.len() != now.1.len() {
        return Ok(false);
    }
    if now.1.len() > LARGEST_COPY {
        return Ok(true);
    }
    let read = |path: &Path| -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        File::open(path)?.take(LARGEST_COPY).read_to_end(&mut content)?;
        Ok(content)
    };
    Ok(read(kept.0)? == read(now.0)?)
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

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::SystemTime;

    use super::super::ref_files::TICK;
    use super::*;

    fn write_files(objects: &Path, files: &[(&str, &str)]) {
        for (path, content) in files {
            let path = objects.join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            fs::write(path, content).expect("written");
        }
    }

    #[test]
    fn overwritten_files_are_restored_and_touched_ones_are_left_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let (source, store) = (directory.path().join("objects"), directory.path().join("kept"));
        let files = [("ab/12", "one"), ("cd/34", "two"), ("pack/pack-1.pack", "three")];
        write_files(&source, &files);
        for is_same_process in [true, false] {
            let mut kept = KeptObjects::new(source.clone(), store.clone());
            kept.update_copies(&directory.path().join("handed-on")).expect("kept");
            assert!(kept.restore_overwritten().is_empty());
            // The same size, another content; and a link where the file was.
            write_files(&source, &[("ab/12", "two"), ("pack/pack-1.pack", "")]);
            let touched = File::options().append(true).open(source.join("cd/34")).expect("opened");
            touched.set_modified(SystemTime::UNIX_EPOCH).expect("set");
            fs::remove_file(source.join("pack/pack-1.pack")).expect("removed");
            std::os::unix::fs::symlink("/etc/hostname", source.join("pack/pack-1.pack"))
                .expect("a link");
            if !is_same_process {
                kept = KeptObjects::new(source.clone(), store.clone());
            }
            let overwritten = kept.restore_overwritten();
            let names: Vec<&Path> = overwritten.iter().map(|it| it.path.as_path()).collect();
            assert_eq!(names, [Path::new("ab/12"), Path::new("pack/pack-1.pack")]);
            assert!(overwritten.iter().all(|it| it.restored.is_ok()), "{overwritten:?}");
            for (path, content) in files {
                assert_eq!(fs::read_to_string(source.join(path)).expect("read"), content, "{path}");
            }
            assert!(kept.restore_overwritten().is_empty());
        }
    }

    #[test]
    fn copies_of_loose_objects_are_handed_on_to_the_next_run() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        write_files(
            &path("objects"),
            &[("ab/12", "one"), ("cd/34", "two"), ("pack/pack-1.pack", "")],
        );
        thread::sleep(TICK * 2);
        let mut first = KeptObjects::new(path("objects"), path("first"));
        first.update_copies(&path("handed-on")).expect("kept");
        let inode = |path: PathBuf| fs::metadata(path).expect("there").ino();
        let copy = inode(path("first/ab/12"));
        first.leave_copies(&path("handed-on"));
        assert!(!path("first").exists() && !path("handed-on/pack").exists());
        // The user packs an object and unpacks it again: it is the same, compressed otherwise.
        fs::remove_file(path("objects/cd/34")).expect("removed");
        write_files(&path("objects"), &[("cd/34", "2 2")]);
        let mut next = KeptObjects::new(path("objects"), path("next"));
        next.update_copies(&path("handed-on")).expect("kept");
        assert_eq!(inode(path("next/ab/12")), copy, "it is not copied again");
        assert_eq!(fs::read_to_string(path("next/cd/34")).expect("read"), "2 2");
        assert!(path("next/pack/pack-1.pack").exists());
        assert!(next.restore_overwritten().is_empty());
        write_files(&path("objects"), &[("ab/12", "bad")]);
        assert_eq!(next.restore_overwritten().len(), 1);
        assert_eq!(fs::read_to_string(path("objects/ab/12")).expect("read"), "one");
    }

    #[test]
    fn a_large_file_that_is_only_linked_is_reported() {
        let directory = tempfile::tempdir().expect("a directory");
        let (source, store) = (directory.path().join("objects"), directory.path().join("kept"));
        write_files(&source, &[("pack/pack-1.pack", "")]);
        let pack = File::options().write(true).open(source.join("pack/pack-1.pack"));
        let pack = pack.expect("opened");
        pack.set_len(LARGEST_COPY + 1).expect("sparse");
        let mut kept = KeptObjects::new(source.clone(), store.clone());
        kept.can_clone = false;
        kept.update_copies(&directory.path().join("handed-on")).expect("kept");
        assert!(kept.restore_overwritten().is_empty());
        pack.set_len(0).expect("cut");
        let [lost] = kept.restore_overwritten().try_into().expect("one file");
        assert_eq!(lost.restored.expect_err("no copy").to_string(), "it is too large for a copy");
        assert!(kept.restore_overwritten().is_empty(), "reported once");
    }

    /// Returns a directory for temporary files and one on another file system; `None` if both are the
    /// same here.
    #[cfg(target_os = "linux")]
    fn make_directories_on_two_devices() -> Option<[tempfile::TempDir; 2]> {
        let directory = tempfile::tempdir().expect("a directory");
        let elsewhere = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let device = |path: &Path| fs::metadata(path).expect("there").dev();
        let differ = device(directory.path()) != device(elsewhere.path());
        differ.then_some([directory, elsewhere])
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn on_another_file_system_a_large_file_is_copied() {
        let Some([directory, elsewhere]) = make_directories_on_two_devices() else { return };
        let (source, store) = (directory.path().join("objects"), elsewhere.path().join("kept"));
        write_files(&source, &[("pack/pack-1.pack", "start")]);
        let pack = File::options().write(true).open(source.join("pack/pack-1.pack"));
        let pack = pack.expect("opened");
        pack.set_len(LARGEST_COPY + 1).expect("sparse");
        let mut kept = KeptObjects::new(source.clone(), store);
        kept.update_copies(&directory.path().join("handed-on")).expect("kept");
        pack.set_len(0).expect("cut");
        let [restored] = kept.restore_overwritten().try_into().expect("one file");
        assert!(restored.restored.is_ok(), "{restored:?}");
        let content = fs::read(source.join("pack/pack-1.pack")).expect("there");
        assert!(content.starts_with(b"start") && content.len() as u64 == LARGEST_COPY + 1);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn on_another_file_system_only_so_much_is_copied() {
        assert_eq!(MOST_COPIED_ELSEWHERE, 1 << 30, "docs/cheats.md says 1 GiB");
        let Some([directory, elsewhere]) = make_directories_on_two_devices() else { return };
        let (source, store) = (directory.path().join("objects"), elsewhere.path().join("kept"));
        for pack in ["pack/pack-1.pack", "pack/pack-2.pack"] {
            write_files(&source, &[(pack, "start")]);
            let pack = File::options().write(true).open(source.join(pack)).expect("opened");
            pack.set_len(LARGEST_COPY + 1).expect("sparse");
        }
        let mut kept = KeptObjects::new(source.clone(), store.clone());
        kept.most_copied = LARGEST_COPY + 1;
        kept.update_copies(&directory.path().join("handed-on")).expect("kept");
        assert_eq!(list_object_files(&store.join("pack")).len(), 1, "one fits");
        // What is not kept is neither an error nor taken for lost as long as it is there.
        assert!(kept.restore_overwritten().is_empty());
    }
}
