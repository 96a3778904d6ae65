//! The shadow index: a copy of the user's index to which everything can be added without touching
//! the original. It has the stat data of all files, so that adding is as fast as with the original.
//!
//! Not here: what is done with the trees.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, Metadata, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ralph_core::ports::VcsError;
use rustix::fs::{OFlags, Stat};

use super::command::{FinishedCommand, GitCommand};
use super::diff::{self, TreeChange, format_index_info, join_with_zeros, split_at_zeros};
use super::gitlinks::{build_exclusion, is_about_ignored};
use super::repository::GitRepository;
use crate::atomic_file::remove_if_exists;
use crate::bounded_read;

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
pub(super) struct ShadowIndex {
    index: PathBuf,
    seed: IndexSeed,
    /// The tree in the shadow index.
    tree: Option<String>,
    /// Files whose changes were hidden from git, since the last report.
    pub(super) hidden: Vec<String>,
    /// The tree of the user's index, as long as that is still the copied one.
    committed: Option<String>,
}

/// The state of the user's index when it was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IndexSeed {
    Unknown,
    Missing,
    Copied(GitFileStamp),
}

/// Identifies a state of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GitFileStamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl ShadowIndex {
    /// Returns a shadow index in a directory of the run. No other process uses it, so a lock there
    /// is left over from a crash.
    pub(super) fn new_in_directory(directory: &Path) -> Self {
        let index = directory.join("index");
        let _ = fs::remove_file(directory.join("index.lock"));
        Self { index, seed: IndexSeed::Unknown, tree: None, hidden: Vec::new(), committed: None }
    }

    /// Returns the path of the shadow index.
    pub(super) fn index_path(&self) -> &Path {
        &self.index
    }

    /// Returns the tree of the work tree as of the last survey or checkout of this process.
    pub(super) fn surveyed_tree(&self) -> Option<&str> {
        self.tree.as_deref()
    }

    /// Adds everything in the work tree that `git add --all` would add to the user's index, and
    /// returns the tree.
    pub(super) fn survey_tree(&mut self, repository: &GitRepository) -> Result<String, VcsError> {
        match self.survey_once(repository) {
            // No ref leads to the objects of the shadow index: `git gc --prune=now` removes them.
            Err(error) if error.message.contains("invalid object") => {
                self.reset_to_head(repository)?;
                self.survey_once(repository)
            }
            surveyed => surveyed,
        }
    }

    /// Resets the shadow index to the last commit.
    fn reset_to_head(&mut self, repository: &GitRepository) -> Result<(), VcsError> {
        (self.seed, self.tree, self.committed) = (IndexSeed::Unknown, None, None);
        let _ = fs::remove_file(&self.index);
        match repository.head()?.commit {
            Some(commit) => {
                let call =
                    repository.build_plumbing(&["read-tree", &commit]).with_index(&self.index);
                repository.commands.run_for_output(call).map(drop)
            }
            None => Ok(()),
        }
    }

    fn survey_once(&mut self, repository: &GitRepository) -> Result<String, VcsError> {
        repository.clear_pipes();
        self.follow_user_index(repository)?;
        let ran = self.add_everything(repository)?;
        if ran.has_error_text("adding embedded git repository") {
            self.drop_embedded(repository)?;
        }
        if !repository.ignores_runtime_files() {
            self.unstage_runtime_files(repository)?;
        }
        self.write_tree(repository)
    }

    /// Returns the tree in the shadow index.
    pub(super) fn write_tree(&mut self, repository: &GitRepository) -> Result<String, VcsError> {
        let tree = if let Some(tree) = repository.write_tree_of(&self.index) {
            tree
        } else {
            let call = repository.build_plumbing(&["write-tree"]).with_index(&self.index);
            repository.commands.run_for_line(call)?
        };
        self.tree = Some(tree.clone());
        Ok(tree)
    }

    /// Makes the shadow index hold a tree, and keeps the stat data of unchanged files.
    pub(super) fn load_tree(
        &mut self,
        repository: &GitRepository,
        tree: &str,
    ) -> Result<(), VcsError> {
        if self.tree.as_deref() == Some(tree) {
            return Ok(());
        }
        self.follow_user_index(repository)?;
        let call =
            repository.build_plumbing(&["read-tree", "--reset", tree]).with_index(&self.index);
        repository.commands.run_for_output(call)?;
        self.tree = Some(tree.to_owned());
        Ok(())
    }

    /// Changes the work tree from the tree in the shadow index to another one.
    pub(super) fn check_out(
        &mut self,
        repository: &GitRepository,
        tree: &str,
    ) -> Result<(), VcsError> {
        let now = match self.tree.take() {
            Some(now) => now,
            None => self.write_tree(repository)?,
        };
        // git removes files that are only in the first tree, with the directories that become
        // empty, and writes those that are only in the second. It stops before doing anything if a
        // file differs from the first tree or an untracked file is in the way.
        let args = ["read-tree", "-m", "-u", "--no-recurse-submodules", &now, tree];
        repository
            .commands
            .run_for_output(repository.build_plumbing(&args).with_index(&self.index))?;
        self.tree = Some(tree.to_owned());
        Ok(())
    }

    /// Removes paths from the shadow index; the files stay.
    pub(super) fn remove_paths<'a>(
        &mut self,
        repository: &GitRepository,
        paths: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(), VcsError> {
        self.update_paths(repository, "--force-remove", join_with_zeros(paths))
    }

    /// Adds files to the shadow index, also ignored ones.
    pub(super) fn add_paths<'a>(
        &mut self,
        repository: &GitRepository,
        paths: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(), VcsError> {
        self.update_paths(repository, "--add", join_with_zeros(paths))
    }

    /// Notes that the user's index was updated to match the shadow index and need not be copied
    /// again.
    pub(super) fn note_index_updated(&mut self, repository: &GitRepository) {
        self.seed = IndexSeed::from_index(&repository.index_path());
        self.tree = None;
        self.committed = None;
    }

    /// Notes that the user's index is now a copy of the shadow index, and its tree, if known. The
    /// copy is identified by its own metadata: another file may replace it a moment later.
    pub(super) fn note_index_replaced(&mut self, copy: &Metadata, tree: Option<String>) {
        self.seed = IndexSeed::Copied(GitFileStamp::from_metadata(copy));
        self.tree = None;
        self.committed = tree;
    }

    /// Returns whether the user's index is unchanged and known to hold a tree.
    pub(super) fn is_index_at(&self, repository: &GitRepository, tree: &str) -> bool {
        self.committed.as_deref() == Some(tree)
            && self.seed == IndexSeed::from_index(&repository.index_path())
    }

    /// Returns whether it can replace the user's index. Programs other than git may refuse an index
    /// without a checksum, so that is only used if the user's own has none.
    pub(super) fn can_be_index(&self, repository: &GitRepository) -> bool {
        let [ours, theirs] =
            [&self.index, &repository.index_path()].map(|index| has_checksum(index));
        ours.is_ok_and(|ours| ours || theirs.is_ok_and(|theirs| !theirs))
    }

    fn update_paths(
        &mut self,
        repository: &GitRepository,
        how: &str,
        paths: Vec<u8>,
    ) -> Result<(), VcsError> {
        if paths.is_empty() {
            return Ok(());
        }
        self.tree = None;
        let call = repository
            .build_plumbing(&["update-index", how, "-z", "--stdin"])
            .with_index(&self.index);
        repository.commands.run_for_output(call.with_stdin(paths)).map(drop)
    }

    /// Copies the user's index, or updates which files are tracked, unless the index is unchanged.
    /// Changes by the user or the agent count: tracked files that are ignored, files no longer
    /// tracked, files outside a sparse checkout.
    fn follow_user_index(&mut self, repository: &GitRepository) -> Result<(), VcsError> {
        let index = repository.index_path();
        let seed = IndexSeed::from_index(&index);
        if self.seed == seed && self.index.exists() {
            return Ok(());
        }
        self.tree = None;
        self.committed = None;
        let failed = |error: io::Error| VcsError {
            message: format!("cannot copy the index `{}`: {error}", index.display()),
        };
        if let IndexSeed::Copied(_) = seed
            && self.copy_tracked_paths(repository)?
        {
            self.unstage_runtime_files(repository)?;
            self.seed = IndexSeed::from_index(&index);
            return Ok(());
        }
        if let IndexSeed::Copied(_) = seed {
            copy_index(&index, &self.index).map_err(failed)?;
            self.unstage_runtime_files(repository)?;
        } else {
            remove_if_exists(&self.index).map_err(failed)?;
            if let Some(commit) = repository.head()?.commit {
                let call =
                    repository.build_plumbing(&["read-tree", &commit]).with_index(&self.index);
                repository.commands.run_for_output(call)?;
            }
        }
        self.seed = seed;
        Ok(())
    }

    /// Takes over which files the user's index tracks, and nothing else. An agent can mark a file
    /// there as assumed unchanged, or forge the times and sizes by which git detects changes: only
    /// those of the shadow index are trusted. Returns whether that was possible.
    fn copy_tracked_paths(&mut self, repository: &GitRepository) -> Result<bool, VcsError> {
        let is_index = fs::metadata(repository.index_path())
            .is_ok_and(|about| about.is_file() && about.len() <= LARGEST_INDEX);
        // Files outside of a sparse checkout are marked in the index itself.
        if !self.index.exists() || !is_index || repository.is_sparse() {
            return Ok(false);
        }
        let args = ["ls-files", "-z", "-s", "-v"];
        let theirs = repository.commands.run(repository.build_plumbing(&args))?;
        let ours =
            repository.commands.run(repository.build_plumbing(&args).with_index(&self.index))?;
        if theirs.code != 0 || ours.code != 0 {
            return Ok(false);
        }
        let (theirs, ours) =
            (IndexEntry::parse_all(&theirs.stdout), IndexEntry::parse_all(&ours.stdout));
        let gone = ours.keys().filter(|path| !theirs.contains_key(*path));
        self.remove_paths(repository, gone.copied())?;
        let mut new = Vec::new();
        let is_embedded = |path: &[u8], entry: &IndexEntry<'_>| {
            entry.what.starts_with(b"160000") && repository.has_nested_repository(path)
        };
        for (path, entry) in theirs.iter().filter(|(path, _)| !ours.contains_key(*path)) {
            if is_embedded(path, entry) {
                continue;
            }
            new.extend_from_slice(&[entry.what, b" 0\t", *path, b"\0"].concat());
        }
        if !new.is_empty() {
            let call = repository
                .build_plumbing(&["update-index", "-z", "--index-info"])
                .with_index(&self.index);
            repository.commands.run_for_output(call.with_stdin(new))?;
        }
        let is_news = |path: &&[u8]| ours.get(*path).is_none_or(|entry| !entry.is_hidden);
        let hidden = theirs.iter().filter(|(_, entry)| entry.is_hidden).map(|(path, _)| *path);
        let hidden: Vec<&[u8]> = hidden.filter(is_news).collect();
        for how in ["--no-assume-unchanged", "--no-skip-worktree"] {
            if !hidden.is_empty() {
                let call = repository.build_plumbing(&["update-index", how, "-z", "--stdin"]);
                repository
                    .commands
                    .run_for_output(call.with_stdin(join_with_zeros(hidden.iter().copied())))?;
            }
        }
        self.hidden.extend(hidden.iter().map(|path| {
            let path = repository.name_bytes_from_project(path);
            format!("{path} (its changes were hidden from git)")
        }));
        Ok(true)
    }

    /// Resets staged runtime files to the last commit.
    fn unstage_runtime_files(&mut self, repository: &GitRepository) -> Result<(), VcsError> {
        let head = repository.head()?;
        if repository.write_tree_of(&self.index).as_deref() == Some(&head.tree) {
            return Ok(());
        }
        let args = ["diff-index", "--cached", "--raw", "-z", "--no-renames", "-R", &head.tree];
        let mut changes =
            repository.run_for_changes(repository.build_plumbing(&args).with_index(&self.index))?;
        changes.retain(|change| repository.is_runtime_file(&change.path));
        if changes.is_empty() {
            return Ok(());
        }
        let call = repository
            .build_plumbing(&["update-index", "-z", "--index-info"])
            .with_index(&self.index);
        repository.commands.run_for_output(call.with_stdin(format_index_info(&changes))).map(drop)
    }

    /// Adds everything.
    fn add_everything(&mut self, repository: &GitRepository) -> Result<FinishedCommand, VcsError> {
        self.tree = None;
        let mut args = repository.build_add_all_args();
        let gitlinks = repository.list_gitlinks(&self.index)?;
        args.extend(gitlinks.iter().map(|path| build_exclusion(path)));
        let mut unborn: Vec<Vec<u8>> = Vec::new();
        for _ in 0..MOST_TRIES {
            let mut call = repository.build_plumbing(&[]).with_args(&args).with_index(&self.index);
            if is_large(&self.index) {
                call = call.with_setting("index.skipHash=true");
            }
            let ran = repository.commands.run(call)?;
            let is_done = ran.code == 0 || is_about_ignored(&ran);
            match (is_done, find_unborn_repository(&ran.stderr), find_special_file(&ran.stderr)) {
                (true, _, _) => {
                    // Such a repository may have replaced a tracked file.
                    self.remove_paths(repository, unborn.iter().map(Vec::as_slice))?;
                    self.update_gitlinks(repository, &gitlinks)?;
                    return Ok(ran);
                }
                (_, Some(path), _) => {
                    args.push(build_exclusion(path));
                    unborn.push(path.to_vec());
                }
                // A special file has replaced a tracked file.
                (_, None, Some(path)) => self.remove_paths(repository, [path])?,
                (_, None, None) => return Err(ran.to_error()),
            }
        }
        Err(VcsError {
            message: "the work tree is full of pipes, or of repositories without a commit"
                .to_owned(),
        })
    }

    /// Removes nested repositories again. As an entry they would be a broken submodule, and their
    /// files would be in no commit anyway.
    fn drop_embedded(&mut self, repository: &GitRepository) -> Result<(), VcsError> {
        let head = repository.head()?;
        let args = ["diff-index", "--cached", "--raw", "-z", "--no-renames", &head.tree];
        let added =
            repository.run_for_changes(repository.build_plumbing(&args).with_index(&self.index))?;
        let args = ["config", "-z", "--file", ".gitmodules", "--get-regexp", "\\.path$"];
        let listed = repository.commands.run(repository.build_plumbing(&args))?.stdout;
        let is_submodule = |change: &TreeChange| {
            split_at_zeros(&listed).any(|entry| {
                entry.splitn(2, |byte| *byte == b'\n').nth(1) == Some(change.path.as_slice())
            })
        };
        let is_embedded = |change: &TreeChange| {
            !is_submodule(change) || repository.has_nested_repository(&change.path)
        };
        let embedded: Vec<&TreeChange> =
            added.iter().filter(|change| change.adds_gitlink() && is_embedded(change)).collect();
        self.remove_paths(repository, embedded.iter().map(|change| change.path.as_slice()))
    }
}

/// A tracked file of an index.
struct IndexEntry<'a> {
    /// Mode and object id, as git prints them.
    what: &'a [u8],
    /// Whether git does not check it for changes.
    is_hidden: bool,
}

impl<'a> IndexEntry<'a> {
    /// Parses the output of `git ls-files -z -s -v`: a tag, mode, object and stage, a tab, the
    /// path.
    fn parse_all(listed: &'a [u8]) -> BTreeMap<&'a [u8], Self> {
        let read = |line: &'a [u8]| {
            let tab = line.iter().position(|byte| *byte == b'\t')?;
            let (tag, about) = (line.first()?, line.get(2..tab)?);
            let stage = about.iter().rposition(|byte| *byte == b' ')?;
            let is_hidden = tag.is_ascii_lowercase() || *tag == b'S';
            Some((&line[tab + 1..], Self { what: &about[..stage], is_hidden }))
        };
        split_at_zeros(listed).filter_map(read).collect()
    }
}

impl IndexSeed {
    fn from_index(index: &Path) -> Self {
        match fs::metadata(index) {
            Ok(metadata) => Self::Copied(GitFileStamp::from_metadata(&metadata)),
            Err(_) => Self::Missing,
        }
    }
}

impl GitFileStamp {
    /// Returns the stamp of a file.
    pub(super) fn from_metadata(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Returns the same for what `statat` says.
    pub(super) fn from_stat(stat: &Stat) -> Self {
        let nanos = |nanos| i64::try_from(nanos).unwrap_or_default();
        Self {
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            modified: (stat.st_mtime, nanos(stat.st_mtime_nsec)),
            changed: (stat.st_ctime, nanos(stat.st_ctime_nsec)),
        }
    }

    /// Returns the size of the file.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the ctime of the file, in seconds and nanoseconds.
    pub(super) fn changed(&self) -> (i64, i64) {
        self.changed
    }
}

impl GitRepository {
    /// Returns whether a directory is a repository but not one of our submodules. To check it for
    /// changes, git would run in it, with its unprotected configuration.
    pub(super) fn has_nested_repository(&self, path: &[u8]) -> bool {
        let file = self.top.join(OsStr::from_bytes(path)).join(".git");
        file.symlink_metadata().is_ok() && self.find_submodule_dir(path).is_none()
    }

    /// Returns the index of one of our submodules, if its repository is there.
    pub(super) fn find_submodule_index(&self, path: &[u8]) -> Option<PathBuf> {
        Some(self.find_submodule_dir(path)?.join("index")).filter(|index| index.is_file())
    }

    fn find_submodule_dir(&self, path: &[u8]) -> Option<PathBuf> {
        let directory = self.top.join(OsStr::from_bytes(path));
        let link = bounded_read::read_file(&directory.join(".git"), 4096).unwrap_or_default();
        let named = link.strip_prefix(b"gitdir: ").map(<[u8]>::trim_ascii_end);
        let named = named.map(|named| directory.join(OsStr::from_bytes(named)));
        let place = named.and_then(|named| named.canonicalize().ok())?;
        // A linked work tree has submodules of its own.
        let ours = [self.common_dir(), self.git_dir.clone()].map(|it| it.join("modules"));
        let mut ours = ours.iter().filter_map(|it| it.canonicalize().ok());
        ours.any(|ours| place.starts_with(ours)).then_some(place)
    }

    /// Runs a command that lists changes.
    pub(super) fn run_for_changes(
        &self,
        call: GitCommand<'_>,
    ) -> Result<Vec<TreeChange>, VcsError> {
        diff::parse_raw_changes(&self.commands.run_for_output(call)?)
    }

    /// Returns the changes between two trees.
    pub(super) fn diff_trees(
        &self,
        before: &str,
        after: &str,
    ) -> Result<Vec<TreeChange>, VcsError> {
        if before == after {
            return Ok(Vec::new());
        }
        if let Some(changes) = self.diff_known_trees(before, after) {
            return Ok(changes);
        }
        let args = ["diff-tree", "-r", "--raw", "-z", "--no-renames", before, after];
        self.run_for_changes(self.build_plumbing(&args))
    }
}

/// Copies an index with its modification time. git checks files that are as new as the index for
/// changes; with a newer index it would miss changes within the same second.
pub(super) fn copy_index(from: &Path, to: &Path) -> io::Result<()> {
    let temporary = to.with_extension("seed");
    copy_index_into(from, &File::create(&temporary)?)?;
    fs::rename(&temporary, to)
}

/// Copies an index with its modification time into an open file.
pub(super) fn copy_index_into(from: &Path, mut to: &File) -> io::Result<()> {
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
pub(super) fn has_checksum(index: &Path) -> io::Result<bool> {
    let mut sum = [0; 20];
    let mut file = File::open(index)?;
    file.seek(SeekFrom::End(-20))?;
    file.read_exact(&mut sum)?;
    Ok(sum != [0; 20])
}

/// Returns the path that git refused to add because it is a repository without a commit.
fn find_unborn_repository(stderr: &[u8]) -> Option<&[u8]> {
    find_error_path(stderr, b"error: '", b"/' does not have a commit checked out\n")
}

/// Returns the path that git refused to add because it is a pipe, a socket or a device.
fn find_special_file(stderr: &[u8]) -> Option<&[u8]> {
    const END: &[u8] = b": can only add regular files, symbolic links or git-directories\n";
    find_error_path(stderr, b"error: ", END)
}

/// Returns the path in an error message of git.
fn find_error_path<'a>(stderr: &'a [u8], start: &[u8], end: &[u8]) -> Option<&'a [u8]> {
    let end = stderr.windows(end.len()).position(|window| window == end)?;
    let line = [b"\n", start].concat();
    let place = stderr[..end].windows(line.len()).rposition(|window| window == line);
    match place {
        Some(place) => Some(&stderr[place + line.len()..end]),
        None => stderr[..end].strip_prefix(start),
    }
}
