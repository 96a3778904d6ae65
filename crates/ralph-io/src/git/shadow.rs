//! The shadow index: a copy of the user's index to which everything can be added without touching
//! the original. It has the stat data of all files, so that adding is as fast as with the original.
//!
//! Not here: what is done with the trees.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, FileTimes, Metadata, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ralph_core::ports::VcsError;
use rustix::fs::OFlags;

use super::command::{Breath, Call, Ran};
use super::compared::{Added, Asked, Difference};
use super::diff::{self, Change, index_info, split_zero, zero_ended};
use super::repository::Repository;
use crate::bounded;

/// An agent may leave pipes and repositories without a commit in the work tree; each costs one more
/// try, and this many are no accident.
const MOST_TRIES: usize = 50;

/// Enough for an index of ten million files.
const LARGEST_INDEX: u64 = 2 << 30;

/// git computes a checksum of the index with every write. From some ten thousand files on it is
/// worth computing it only with the last one. Tests do so with any size.
const LARGE_INDEX: u64 = if cfg!(test) { 1 } else { 1 << 20 };

/// The shadow of the user's index.
#[derive(Debug)]
pub(super) struct Shadow {
    index: PathBuf,
    seed: Seed,
    /// The tree in the shadow index.
    holds: Option<String>,
    /// Files whose changes were hidden from git, since the last report.
    pub(super) hidden: Vec<String>,
    /// The tree of the user's index, as long as that is still the copied one.
    committed: Option<String>,
}

/// The state of the user's index when it was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seed {
    Unknown,
    Missing,
    Copied(Stamp),
}

/// Identifies a state of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Shadow {
    /// Returns a shadow index in a directory of the run. No other process uses it, so a lock there
    /// is left over from a crash.
    pub(super) fn in_directory(directory: &Path) -> Self {
        let index = directory.join("index");
        let _ = fs::remove_file(directory.join("index.lock"));
        Self { index, seed: Seed::Unknown, holds: None, hidden: Vec::new(), committed: None }
    }

    /// Returns the path of the shadow index.
    pub(super) fn index(&self) -> &Path {
        &self.index
    }

    /// Adds everything in the work tree that `git add --all` would add to the user's index, and
    /// returns the tree.
    pub(super) fn survey(&mut self, repository: &Repository) -> Result<String, VcsError> {
        self.survey_asked(repository, &mut Asked::Tree).map(|(tree, _)| tree)
    }

    /// Does the same, and gets the difference of that tree if that needs no extra sandbox.
    pub(super) fn survey_asked(
        &mut self,
        repository: &Repository,
        query: &mut Asked<'_>,
    ) -> Result<(String, Difference), VcsError> {
        match self.survey_as_it_is(repository, query) {
            // No ref leads to the objects of the shadow index: `git gc --prune=now` removes them.
            Err(error) if error.message.contains("invalid object") => {
                self.begin_anew(repository)?;
                self.survey_as_it_is(repository, query)
            }
            surveyed => surveyed,
        }
    }

    /// Resets the shadow index to the last commit.
    fn begin_anew(&mut self, repository: &Repository) -> Result<(), VcsError> {
        (self.seed, self.holds, self.committed) = (Seed::Unknown, None, None);
        let _ = fs::remove_file(&self.index);
        match repository.head()?.commit {
            Some(commit) => {
                let call = repository.git(&["read-tree", &commit]).index(&self.index);
                repository.commands.output(call).map(drop)
            }
            None => Ok(()),
        }
    }

    fn survey_as_it_is(
        &mut self,
        repository: &Repository,
        query: &mut Asked<'_>,
    ) -> Result<(String, Difference), VcsError> {
        repository.clear_pipes();
        self.follow(repository)?;
        let (ran, mut tree) = self.add_everything(repository, query)?;
        if ran.complains_of("adding embedded git repository") {
            self.drop_embedded(repository)?;
            tree = None;
        }
        if !repository.ignores_runtime_files() {
            self.unstage_runtime_files(repository)?;
            tree = None;
        }
        match tree {
            Some((tree, difference)) => {
                self.holds = Some(tree.clone());
                Ok((tree, difference))
            }
            None => self.tree(repository).map(|tree| (tree, Difference::Untold)),
        }
    }

    /// Returns the tree in the shadow index.
    pub(super) fn tree(&mut self, repository: &Repository) -> Result<String, VcsError> {
        let call = repository.git(&["write-tree"]).index(&self.index);
        let tree = repository.commands.line(call)?;
        self.holds = Some(tree.clone());
        Ok(tree)
    }

    /// Makes the shadow index hold a tree, and keeps the stat data of unchanged files.
    pub(super) fn hold(&mut self, repository: &Repository, tree: &str) -> Result<(), VcsError> {
        if self.holds.as_deref() == Some(tree) {
            return Ok(());
        }
        self.follow(repository)?;
        let call = repository.git(&["read-tree", "--reset", tree]).index(&self.index);
        repository.commands.output(call)?;
        self.holds = Some(tree.to_owned());
        Ok(())
    }

    /// Changes the work tree from the tree in the shadow index to another one.
    pub(super) fn check_out(
        &mut self,
        repository: &Repository,
        tree: &str,
    ) -> Result<(), VcsError> {
        let now = match self.holds.take() {
            Some(now) => now,
            None => self.tree(repository)?,
        };
        // git removes files that are only in the first tree, with the directories that become
        // empty, and writes those that are only in the second. It stops before doing anything if a
        // file differs from the first tree or an untracked file is in the way.
        let args = ["read-tree", "-m", "-u", "--no-recurse-submodules", &now, tree];
        repository.commands.output(repository.git(&args).index(&self.index))?;
        self.holds = Some(tree.to_owned());
        Ok(())
    }

    /// Removes paths from the shadow index; the files stay.
    pub(super) fn forget<'a>(
        &mut self,
        repository: &Repository,
        paths: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(), VcsError> {
        self.update(repository, "--force-remove", zero_ended(paths))
    }

    /// Adds files to the shadow index, also ignored ones.
    pub(super) fn add<'a>(
        &mut self,
        repository: &Repository,
        paths: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(), VcsError> {
        self.update(repository, "--add", zero_ended(paths))
    }

    /// Notes that the user's index was updated to match the shadow index and need not be copied
    /// again.
    pub(super) fn is_followed(&mut self, repository: &Repository) {
        self.seed = Seed::of(&repository.index());
        self.holds = None;
        self.committed = None;
    }

    /// Notes that the user's index is now a copy of the shadow index, and its tree, if known. The
    /// copy is identified by its own metadata: another file may replace it a moment later.
    pub(super) fn became_the_index(&mut self, copy: &Metadata, tree: Option<String>) {
        self.seed = Seed::Copied(Stamp::of(copy));
        self.holds = None;
        self.committed = tree;
    }

    /// Returns whether the user's index is unchanged and known to hold a tree.
    pub(super) fn is_index_of(&self, repository: &Repository, tree: &str) -> bool {
        self.committed.as_deref() == Some(tree) && self.seed == Seed::of(&repository.index())
    }

    /// Returns whether it can replace the user's index. Programs other than git may refuse an index
    /// without a checksum, so that is only used if the user's own has none.
    pub(super) fn can_be_index(&self, repository: &Repository) -> bool {
        let [ours, theirs] = [&self.index, &repository.index()].map(|index| has_sum(index));
        ours.is_ok_and(|ours| ours || theirs.is_ok_and(|theirs| !theirs))
    }

    fn update(
        &mut self,
        repository: &Repository,
        how: &str,
        paths: Vec<u8>,
    ) -> Result<(), VcsError> {
        if paths.is_empty() {
            return Ok(());
        }
        self.holds = None;
        let call = repository.git(&["update-index", how, "-z", "--stdin"]).index(&self.index);
        repository.commands.output(call.stdin(paths)).map(drop)
    }

    /// Copies the user's index, or updates which files are tracked, unless the index is unchanged.
    /// Changes by the user or the agent count: tracked files that are ignored, files no longer
    /// tracked, files outside a sparse checkout.
    fn follow(&mut self, repository: &Repository) -> Result<(), VcsError> {
        let index = repository.index();
        let seed = Seed::of(&index);
        if self.seed == seed && self.index.exists() {
            return Ok(());
        }
        self.holds = None;
        self.committed = None;
        let failed = |error: io::Error| VcsError {
            message: format!("cannot copy the index `{}`: {error}", index.display()),
        };
        if let Seed::Copied(_) = seed
            && self.learns(repository)?
        {
            self.unstage_runtime_files(repository)?;
            self.seed = Seed::of(&index);
            return Ok(());
        }
        if let Seed::Copied(_) = seed {
            copy(&index, &self.index).map_err(failed)?;
            self.unstage_runtime_files(repository)?;
        } else {
            match fs::remove_file(&self.index) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                Ok(()) | Err(_) => {}
            }
            if let Some(commit) = repository.head()?.commit {
                let call = repository.git(&["read-tree", &commit]).index(&self.index);
                repository.commands.output(call)?;
            }
        }
        self.seed = seed;
        Ok(())
    }

    /// Takes over which files the user's index tracks, and nothing else. An agent can mark a file
    /// there as assumed unchanged, or forge the times and sizes by which git detects changes: only
    /// those of the shadow index are trusted. Returns whether that was possible.
    fn learns(&mut self, repository: &Repository) -> Result<bool, VcsError> {
        let is_index = fs::metadata(repository.index())
            .is_ok_and(|about| about.is_file() && about.len() <= LARGEST_INDEX);
        // Files outside of a sparse checkout are marked in the index itself.
        if !self.index.exists() || !is_index || repository.is_sparse() {
            return Ok(false);
        }
        let args = ["ls-files", "-z", "-s", "-v"];
        let theirs = repository.commands.run(repository.git(&args))?;
        let ours = repository.commands.run(repository.git(&args).index(&self.index))?;
        if theirs.code != 0 || ours.code != 0 {
            return Ok(false);
        }
        let (theirs, ours) = (Entry::all(&theirs.stdout), Entry::all(&ours.stdout));
        let gone = ours.keys().filter(|path| !theirs.contains_key(*path));
        self.forget(repository, gone.copied())?;
        let mut new = Vec::new();
        let is_embedded = |path: &[u8], entry: &Entry<'_>| {
            entry.what.starts_with(b"160000") && repository.has_repository_of_its_own(path)
        };
        for (path, entry) in theirs.iter().filter(|(path, _)| !ours.contains_key(*path)) {
            if is_embedded(path, entry) {
                continue;
            }
            new.extend_from_slice(&[entry.what, b" 0\t", *path, b"\0"].concat());
        }
        if !new.is_empty() {
            let call = repository.git(&["update-index", "-z", "--index-info"]).index(&self.index);
            repository.commands.output(call.stdin(new))?;
        }
        let is_news = |path: &&[u8]| ours.get(*path).is_none_or(|entry| !entry.is_hidden);
        let hidden = theirs.iter().filter(|(_, entry)| entry.is_hidden).map(|(path, _)| *path);
        let hidden: Vec<&[u8]> = hidden.filter(is_news).collect();
        for how in ["--no-assume-unchanged", "--no-skip-worktree"] {
            if !hidden.is_empty() {
                let call = repository.git(&["update-index", how, "-z", "--stdin"]);
                repository.commands.output(call.stdin(zero_ended(hidden.iter().copied())))?;
            }
        }
        self.hidden.extend(hidden.iter().map(|path| {
            let path = repository.named_from_project(path);
            format!("{path} (its changes were hidden from git)")
        }));
        Ok(true)
    }

    /// Resets staged runtime files to the last commit.
    fn unstage_runtime_files(&mut self, repository: &Repository) -> Result<(), VcsError> {
        let head = repository.head()?;
        let args = ["diff-index", "--cached", "--raw", "-z", "--no-renames", "-R", &head.tree];
        let mut changes = repository.changes(repository.git(&args).index(&self.index))?;
        changes.retain(|change| repository.is_runtime_file(&change.path));
        if changes.is_empty() {
            return Ok(());
        }
        let call = repository.git(&["update-index", "-z", "--index-info"]).index(&self.index);
        repository.commands.output(call.stdin(index_info(&changes))).map(drop)
    }

    /// Adds everything, and returns the tree too if the same script wrote it.
    fn add_everything(
        &mut self,
        repository: &Repository,
        query: &mut Asked<'_>,
    ) -> Result<(Ran, Option<(String, Difference)>), VcsError> {
        self.holds = None;
        let mut args = repository.add_everything();
        let mut unborn: Vec<Vec<u8>> = Vec::new();
        for _ in 0..MOST_TRIES {
            let call = || {
                let call = repository.git(&[]).args(&args).index(&self.index);
                if is_large(&self.index) { call.own_setting("index.skipHash=true") } else { call }
            };
            let Added { ran, tree } = match repository.commands.breath() {
                Breath::One => Added::run(repository, call, query)?,
                Breath::Many => Added { ran: repository.commands.run(call())?, tree: None },
            };
            match (ran.code, unborn_repository(&ran.stderr), special_file(&ran.stderr)) {
                (0, _, _) => {
                    // Such a repository may have replaced a tracked file.
                    self.forget(repository, unborn.iter().map(Vec::as_slice))?;
                    let tree = tree.filter(|_| unborn.is_empty());
                    return Ok((ran, tree));
                }
                (_, Some(path), _) => {
                    args.push(OsString::from_vec([b":(top,exclude,literal)", path].concat()));
                    unborn.push(path.to_vec());
                }
                // A special file has replaced a tracked file.
                (_, None, Some(path)) => self.forget(repository, [path])?,
                (_, None, None) => return Err(ran.failed()),
            }
        }
        Err(VcsError {
            message: "the work tree is full of pipes, or of repositories without a commit"
                .to_owned(),
        })
    }

    /// Removes nested repositories again. As an entry they would be a broken submodule, and their
    /// files would be in no commit anyway.
    fn drop_embedded(&mut self, repository: &Repository) -> Result<(), VcsError> {
        let head = repository.head()?;
        let args = ["diff-index", "--cached", "--raw", "-z", "--no-renames", &head.tree];
        let added = repository.changes(repository.git(&args).index(&self.index))?;
        let args = ["config", "-z", "--file", ".gitmodules", "--get-regexp", "\\.path$"];
        let listed = repository.commands.run(repository.git(&args))?.stdout;
        let is_submodule = |change: &Change| {
            split_zero(&listed).any(|entry| {
                entry.splitn(2, |byte| *byte == b'\n').nth(1) == Some(change.path.as_slice())
            })
        };
        let is_embedded = |change: &Change| {
            !is_submodule(change) || repository.has_repository_of_its_own(&change.path)
        };
        let embedded: Vec<&Change> =
            added.iter().filter(|change| change.adds_gitlink() && is_embedded(change)).collect();
        self.forget(repository, embedded.iter().map(|change| change.path.as_slice()))
    }
}

/// A tracked file of an index.
struct Entry<'a> {
    /// Mode and object id, as git prints them.
    what: &'a [u8],
    /// Whether git does not check it for changes.
    is_hidden: bool,
}

impl<'a> Entry<'a> {
    /// Parses the output of `git ls-files -z -s -v`: a tag, mode, object and stage, a tab, the
    /// path.
    fn all(listed: &'a [u8]) -> BTreeMap<&'a [u8], Self> {
        let read = |line: &'a [u8]| {
            let tab = line.iter().position(|byte| *byte == b'\t')?;
            let (tag, about) = (line.first()?, line.get(2..tab)?);
            let stage = about.iter().rposition(|byte| *byte == b' ')?;
            let is_hidden = tag.is_ascii_lowercase() || *tag == b'S';
            Some((&line[tab + 1..], Self { what: &about[..stage], is_hidden }))
        };
        split_zero(listed).filter_map(read).collect()
    }
}

impl Seed {
    fn of(index: &Path) -> Self {
        match fs::metadata(index) {
            Ok(metadata) => Self::Copied(Stamp::of(&metadata)),
            Err(_) => Self::Missing,
        }
    }
}

impl Stamp {
    /// Returns the stamp of a file.
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Returns the ctime of the file, in seconds and nanoseconds.
    pub(super) fn changed(&self) -> (i64, i64) {
        self.changed
    }
}

impl Repository {
    /// Returns whether a directory is a repository but not one of our submodules. To check it for
    /// changes, git would run in it, with its unprotected configuration.
    fn has_repository_of_its_own(&self, path: &[u8]) -> bool {
        let directory = self.top.join(OsStr::from_bytes(path));
        let file = directory.join(".git");
        if file.symlink_metadata().is_err() {
            return false;
        }
        let link = bounded::read_file(&file, 4096).unwrap_or_default();
        let named = link.strip_prefix(b"gitdir: ").map(<[u8]>::trim_ascii_end);
        let named = named.map(|named| directory.join(OsStr::from_bytes(named)));
        let place = named.and_then(|named| named.canonicalize().ok());
        // A linked work tree has submodules of its own.
        let ours = [self.common_dir(), self.git_dir.clone()].map(|it| it.join("modules"));
        let mut ours = ours.iter().filter_map(|it| it.canonicalize().ok());
        !ours.any(|ours| place.as_ref().is_some_and(|place| place.starts_with(ours)))
    }

    /// Runs a command that lists changes.
    pub(super) fn changes(&self, call: Call<'_>) -> Result<Vec<Change>, VcsError> {
        diff::parse(&self.commands.output(call)?)
    }

    /// Returns the changes between two trees.
    pub(super) fn diff_trees(&self, before: &str, after: &str) -> Result<Vec<Change>, VcsError> {
        if before == after {
            return Ok(Vec::new());
        }
        let args = ["diff-tree", "-r", "--raw", "-z", "--no-renames", before, after];
        self.changes(self.git(&args))
    }
}

/// Copies an index with its modification time. git checks files that are as new as the index for
/// changes; with a newer index it would miss changes within the same second.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let temporary = to.with_extension("seed");
    copy_into(from, &File::create(&temporary)?)?;
    fs::rename(&temporary, to)
}

/// Copies an index with its modification time into an open file.
pub(super) fn copy_into(from: &Path, mut to: &File) -> io::Result<()> {
    // An agent may have put a pipe or an endless file there.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut source = OpenOptions::new().read(true).custom_flags(flags).open(from)?;
    let about = source.metadata()?;
    if !about.is_file() || about.len() > LARGEST_INDEX {
        return Err(io::Error::other("it is not an index"));
    }

    let times = FileTimes::new().set_modified(source.metadata()?.modified()?);
    io::copy(&mut source, &mut to)?;
    to.set_times(times)
}

/// Returns whether the checksum of an index takes so long that it is computed only once.
fn is_large(index: &Path) -> bool {
    fs::metadata(index).is_ok_and(|about| about.len() >= LARGE_INDEX)
}

/// Returns whether an index ends with a checksum.
pub(super) fn has_sum(index: &Path) -> io::Result<bool> {
    let mut sum = [0; 20];
    let mut file = File::open(index)?;
    file.seek(SeekFrom::End(-20))?;
    file.read_exact(&mut sum)?;
    Ok(sum != [0; 20])
}

/// Returns the path that git refused to add because it is a repository without a commit.
fn unborn_repository(stderr: &[u8]) -> Option<&[u8]> {
    complaint(stderr, b"error: '", b"/' does not have a commit checked out\n")
}

/// Returns the path that git refused to add because it is a pipe, a socket or a device.
fn special_file(stderr: &[u8]) -> Option<&[u8]> {
    const END: &[u8] = b": can only add regular files, symbolic links or git-directories\n";
    complaint(stderr, b"error: ", END)
}

/// Returns the path in an error message of git.
fn complaint<'a>(stderr: &'a [u8], start: &[u8], end: &[u8]) -> Option<&'a [u8]> {
    let end = stderr.windows(end.len()).position(|window| window == end)?;
    let line = [b"\n", start].concat();
    let place = stderr[..end].windows(line.len()).rposition(|window| window == line);
    match place {
        Some(place) => Some(&stderr[place + line.len()..end]),
        None => stderr[..end].strip_prefix(start),
    }
}
