//! Protects the files of git that make it run programs or look elsewhere: configuration, hooks,
//! attributes, and where its objects and its common directory are; also protected project files
//! that git ignores.
//!
//! ralph records them in the run's directory at every checkpoint, and checks them before it runs
//! its own git on the work of an agent. Changed files are restored, and their changed content is
//! kept with the run. Not here: other refs, objects, and what follows from a change.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::diff::{join_with_zeros, split_at_zeros};
use super::repository::GitRepository;
use super::vcs::GitVcs;
use crate::atomic_file;
use crate::bounded_read;

/// Hooks and configurations are small; larger files are not restored.
const LARGEST: u64 = 1024 * 1024;

/// How many entries of a directory are checked.
const MOST_ENTRIES: usize = 1000;

/// Files in the directory of a run: the record, the changed files, and the restored files that may
/// not be reported yet.
const RECORD: &str = "git-files.json";
const CHANGED: &str = "git-changed";
const UNREPORTED: &str = "git-untold.json";

/// A recorded file, or whatever else is at its path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GuardedFile {
    mode: u32,
    /// The content of a file, the target of a link, or metadata that identifies anything else.
    content: Vec<u8>,
    #[serde(default)]
    kind: GuardedKind,
}

/// The type of a recorded file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum GuardedKind {
    #[default]
    File,
    Link,
    /// A pipe, a directory, a huge file: a change is noticed but cannot be reverted.
    Other,
}

/// The protected files as a checkpoint recorded them.
pub(super) type GuardedFiles = BTreeMap<PathBuf, GuardedFile>;

impl GitVcs {
    /// Also protects those of `files` that git ignores: git neither sees their changes nor can
    /// restore them.
    #[must_use]
    pub fn with_guarded_files(mut self, files: &[PathBuf]) -> Self {
        self.guarded = self.repository.find_ignored(files).into_iter().collect();
        self
    }

    /// Returns the current state of all protected files.
    fn read_guarded_files(&self) -> GuardedFiles {
        let mut files = self.repository.read_git_files();
        let guarded = self.guarded.iter();
        files.extend(guarded.filter_map(|path| Some((path.clone(), read_guarded(path)?))));
        files
    }

    /// Records the protected files as they are now.
    pub(super) fn record_guarded_files(&mut self) {
        self.forget_unreported();
        let files = self.read_guarded_files();
        if self.recorded_files.as_ref() != Some(&files) {
            self.recorded_files = Some(files);
            self.is_record_written = false;
        }
        self.write_record();
    }

    /// Makes sure that the record is on disk while an agent or a gate runs. A process that resumed
    /// the run and finds no record takes one: nothing that it does not trust has run since.
    pub(super) fn ensure_record(&mut self) {
        if self.is_record_written {
            return;
        }
        if self.recorded_files.is_none() {
            self.is_record_written = self.load_recorded_files().is_some();
        }
        if self.recorded_files.is_none() {
            self.recorded_files = Some(self.read_guarded_files());
        }
        self.write_record();
    }

    fn write_record(&mut self) {
        if self.is_record_written {
            return;
        }
        if let Some(Ok(text)) = self.recorded_files.as_ref().map(serde_json::to_vec) {
            // Without it, a run that resumes after a crash records what it finds.
            let path = self.directory.join(RECORD);
            self.is_record_written = atomic_file::replace_unsynced(&path, &text).is_ok();
        }
    }

    /// Reads the record of a resumed run.
    fn load_recorded_files(&mut self) -> Option<&GuardedFiles> {
        if self.recorded_files.is_none() {
            let text = fs::read(self.directory.join(RECORD)).ok()?;
            self.recorded_files = serde_json::from_slice(&text).ok();
        }
        self.recorded_files.as_ref()
    }

    /// Restores the protected files, and remembers which were changed.
    pub(super) fn repair_git_dir(&mut self) {
        if !self.is_unreported_read {
            // An earlier process may have died between restoring files and reporting them.
            self.is_unreported_read = true;
            let text = fs::read(self.directory.join(UNREPORTED)).unwrap_or_default();
            self.tampering = serde_json::from_slice(&text).unwrap_or_default();
        }
        self.restore_guarded_files();
        // The agent's changes are handled: changes before the run is resumed some other day are the
        // user's.
        let _ = fs::remove_file(self.directory.join(RECORD));
        self.is_record_written = false;
    }

    /// Returns the files restored since the last report. They stay on disk until they are in the
    /// journal, so that a resumed run reports them if this process dies.
    pub(super) fn take_tampering(&mut self) -> Vec<String> {
        if !self.shadow.hidden.is_empty() {
            self.tampering.append(&mut self.shadow.hidden);
            self.record_unreported();
        }
        std::mem::take(&mut self.tampering)
    }

    pub(super) fn record_unreported(&self) {
        if let Ok(text) = serde_json::to_vec(&self.tampering) {
            // Without it the files are restored all the same.
            let _ = atomic_file::replace_unsynced(&self.directory.join(UNREPORTED), &text);
        }
    }

    /// Forgets what was reported, unless there is more to report.
    pub(super) fn forget_reported(&mut self) {
        if self.is_unreported_read && self.tampering.is_empty() {
            self.forget_unreported();
        }
    }

    fn forget_unreported(&mut self) {
        self.is_unreported_read = true;
        let _ = fs::remove_file(self.directory.join(UNREPORTED));
    }

    /// Restores the protected files to the record of the last checkpoint.
    fn restore_guarded_files(&mut self) {
        let now = self.read_guarded_files();
        let Some(before) = self.load_recorded_files().cloned() else { return };
        let paths: BTreeSet<&PathBuf> = before.keys().chain(now.keys()).collect();
        let is_changed = |path: &&PathBuf| match now.get(*path) {
            Some(is) => !is_unchanged(path, before.get(*path), is),
            None => true,
        };
        let changed: Vec<&PathBuf> = paths.into_iter().filter(is_changed).collect();
        if changed.is_empty() {
            return;
        }
        for path in &changed {
            let shown = self.format_shown_path(path);
            if !self.tampering.contains(&shown) {
                self.tampering.push(shown);
            }
        }
        self.record_unreported();
        let directory = self.directory.join(CHANGED);
        for path in changed {
            if let Err(error) = restore_file(path, before.get(path), &directory) {
                let shown = self.format_shown_path(path);
                self.tampering.retain(|it| *it != shown);
                self.tampering.push(format!("{shown} (cannot be restored: {error})"));
            }
        }
    }

    fn format_shown_path(&self, path: &Path) -> String {
        path.strip_prefix(&self.repository.top).unwrap_or(path).display().to_string()
    }
}

/// Restores a file, after moving its current content aside.
fn restore_file(path: &Path, was: Option<&GuardedFile>, aside: &Path) -> io::Result<()> {
    if path.symlink_metadata().is_ok() {
        move_aside(path, aside)?;
    }
    let Some(GuardedFile { mode, content, kind }) = was else { return Ok(()) };
    if let Some(directory) = path.parent() {
        if directory.is_symlink() {
            fs::remove_file(directory)?;
        }
        fs::create_dir_all(directory)?;
    }
    match kind {
        GuardedKind::File => {
            atomic_file::replace_with(path, content, Permissions::from_mode(*mode))
        }
        GuardedKind::Link => symlink(OsStr::from_bytes(content), path),
        GuardedKind::Other => Err(io::Error::other("it was neither a link nor a small file")),
    }
}

/// Moves a file to a free name in a directory of the run.
fn move_aside(path: &Path, aside: &Path) -> io::Result<()> {
    fs::create_dir_all(aside)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let place = |number: u32| aside.join(format!("{number}-{name}"));
    let is_free = |place: &PathBuf| place.symlink_metadata().is_err();
    let place = (1..10_000).map(place).find(is_free).ok_or(io::ErrorKind::AlreadyExists)?;
    // The state directory may be on another file system; only a file is worth a copy.
    fs::rename(path, &place).or_else(|_| {
        if let Ok(content) = bounded_read::read_file(path, LARGEST) {
            atomic_file::replace_file(&place, &content)?;
        }
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        }
    })
}

/// Returns whether a file is effectively unchanged. git itself edits upstream branches and
/// submodule URLs in its configuration when a user pushes or creates a branch or a submodule.
fn is_unchanged(path: &Path, was: Option<&GuardedFile>, is: &GuardedFile) -> bool {
    let is_file =
        is.kind == GuardedKind::File && was.is_none_or(|was| was.kind == GuardedKind::File);
    if path.file_name() != Some(OsStr::new("config")) || !is_file {
        return was == Some(is);
    }
    let significant = |kept: &GuardedFile| find_significant_lines(path, &kept.content);
    match was {
        Some(was) => was.mode == is.mode && significant(was) == significant(is),
        None => significant(is).is_empty(),
    }
}

/// Returns the lines of a configuration except such bookkeeping.
fn find_significant_lines(path: &Path, config: &[u8]) -> Vec<Vec<u8>> {
    const BOOKKEEPING: [(&[u8], &[&str]); 2] =
        [(b"[branch \"", &["remote", "merge", "rebase"]), (b"[submodule \"", &["url", "active"])];
    const OF_MODULES: [(&[u8], &[&str]); 2] = [
        (
            b"[core]",
            &["repositoryformatversion", "filemode", "bare", "logallrefupdates", "worktree"],
        ),
        (b"[remote \"", &["url", "fetch"]),
    ];
    let is_module = path.parent().and_then(Path::parent).is_some_and(|it| it.ends_with("modules"));
    let of_modules = OF_MODULES.iter().filter(|_| is_module);
    let known: Vec<_> = BOOKKEEPING.iter().chain(of_modules).collect();
    let mut plain: &[&str] = &[];
    let mut significant = Vec::new();
    for line in config.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
        if line.starts_with(b"[") {
            // Only if the line is nothing but a header: git accepts a setting on the same line.
            let section = known.iter().find(|(start, _)| line.starts_with(start));
            plain = section.filter(|_| line.ends_with(b"]")).map_or(&[], |(_, keys)| keys);
            if plain.is_empty() {
                significant.push(line.to_vec());
            }
            continue;
        }
        let key = line.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
        let is_plain = plain.iter().any(|known| known.as_bytes() == key) && !line.ends_with(b"\\");
        if !line.is_empty() && !is_plain {
            significant.push(line.to_vec());
        }
    }
    significant
}

impl GitRepository {
    /// Returns which of some files git ignores; tracked files are not ignored.
    pub fn find_ignored(&self, files: &[PathBuf]) -> BTreeSet<PathBuf> {
        let is_there = |file: &&PathBuf| file.is_file() || file.is_symlink();
        // git refuses the whole list if one path leads through a link.
        let is_direct = |file: &&PathBuf| {
            file.parent().is_some_and(|it| it.canonicalize().is_ok_and(|real| real == it))
        };
        let index = self.read_index(&self.index_path());
        let is_tracked = |file: &&PathBuf| {
            let path = file.strip_prefix(&self.top).ok().map(|it| it.as_os_str().as_bytes());
            index.as_ref().zip(path).is_some_and(|(index, path)| index.has_path(path))
        };
        let files = files.iter().filter(is_there).filter(is_direct).filter(|it| !is_tracked(it));
        let paths: Vec<&[u8]> = files.map(|file| file.as_os_str().as_bytes()).collect();
        if paths.is_empty() {
            return BTreeSet::new();
        }
        let call = self.build_plumbing(&["check-ignore", "-z", "--stdin"]);
        match self.commands.run(call.with_stdin(join_with_zeros(paths))) {
            Ok(ran) => split_at_zeros(&ran.stdout).map(|it| OsStr::from_bytes(it).into()).collect(),
            Err(_) => BTreeSet::new(),
        }
    }

    /// Returns the current state of git's own files.
    fn read_git_files(&self) -> GuardedFiles {
        let mut files = GuardedFiles::new();
        let mut note = |path: PathBuf| {
            if let Some(found) = read_guarded(&path) {
                files.insert(path, found);
            }
        };
        let common = self.common_dir();
        for directory in BTreeSet::from([&self.git_dir, &common]) {
            for name in [
                "config",
                "config.worktree",
                "commondir",
                "gitdir",
                "info/attributes",
                // Files that these name are hidden from every survey of the work tree.
                "info/exclude",
                "info/sparse-checkout",
                "info/grafts",
                // Commits that it names have no parents for git.
                "shallow",
                "objects/info/alternates",
                "objects/info/http-alternates",
            ] {
                note(directory.join(name));
            }
        }
        let git = self.top.join(".git");
        if !git.is_dir() || git.is_symlink() {
            note(git);
        }
        let hooks = common.join("hooks");
        if hooks.is_symlink() {
            note(hooks);
        } else {
            let is_example = |path: &PathBuf| path.extension() == Some(OsStr::new("sample"));
            list_entries(&hooks).filter(|path| !is_example(path)).for_each(&mut note);
        }
        // Replacement refs make git show other objects.
        list_entries(&common.join("refs/replace")).for_each(&mut note);
        list_entries(&common.join("modules")).for_each(|module| note(module.join("config")));
        files
    }

    /// Returns the git directory that all work trees share. It was found when the run began: an
    /// agent may have changed the file that names it.
    pub(super) fn common_dir(&self) -> PathBuf {
        // A linked work tree has its directory in `worktrees/` of the common one.
        let parent = self.git_dir.parent();
        match parent.filter(|it| it.file_name() == Some(OsStr::new("worktrees"))) {
            Some(worktrees) => worktrees.parent().unwrap_or(worktrees).to_owned(),
            None => self.git_dir.clone(),
        }
    }
}

fn read_guarded(path: &Path) -> Option<GuardedFile> {
    let about = path.symlink_metadata().ok()?;
    let mode = about.permissions().mode() & 0o7777;
    if let Ok(target) = fs::read_link(path) {
        // A link's own mode means nothing.
        let content = target.as_os_str().as_bytes().to_vec();
        return Some(GuardedFile { mode: 0, content, kind: GuardedKind::Link });
    }
    let content = bounded_read::read_file(path, LARGEST).ok().filter(|_| about.len() < LARGEST);
    Some(match content {
        Some(content) => GuardedFile { mode, content, kind: GuardedKind::File },
        None => {
            GuardedFile { mode, content: build_metadata_stamp(&about), kind: GuardedKind::Other }
        }
    })
}

/// Returns metadata that identifies a file that is not read.
fn build_metadata_stamp(about: &Metadata) -> Vec<u8> {
    let kind = about.mode() & 0o170_000;
    // The time of a directory changes with what is in it.
    let file =
        about.is_file().then(|| (about.ino(), about.len(), about.mtime(), about.mtime_nsec()));
    format!("{kind:o} {file:?}").into_bytes()
}

fn list_entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.take(MOST_ENTRIES).map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_the_same_but_for_which_branch_follows_which() {
        let config = "[core]\n\tbare = false\n[branch \"main\"]\n\tremote = origin\n";
        let kept = |text: &str| {
            let content = text.as_bytes().to_vec();
            GuardedFile { mode: 0o644, content, kind: GuardedKind::File }
        };
        let path = Path::new(".git/config");
        for (now, expect) in [
            (config.to_owned(), true),
            (format!("{config}[branch \"x\"]\n\tremote = origin\n\tmerge = refs/heads/x\n"), true),
            (format!("{config}[submodule \"x\"]\n\turl = /x\n\tactive = true\n"), true),
            (format!("{config}[submodule \"x\"]\n\tupdate = !evil\n"), false),
            (format!("{config}[core]\n\tfsmonitor = evil\n"), false),
            (format!("{config}[branch \"x\"]\n\tremote = o\n[alias]\n\tx = !y\n"), false),
            (format!("{config}[branch \"x\"] fsmonitor = evil\n"), false),
            (format!("{config}[branch \"x\"]\n\tmergeOptions = x\n"), false),
        ] {
            assert_eq!(is_unchanged(path, Some(&kept(config)), &kept(&now)), expect, "{now}");
        }
        assert!(!is_unchanged(Path::new("hooks/pre-commit"), Some(&kept("a")), &kept("b")));
        let module = Path::new(".git/modules/sub/config");
        let made = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = /x\n";
        assert!(is_unchanged(module, None, &kept(made)));
        assert!(!is_unchanged(module, None, &kept(&format!("{made}[core]\n\tfsmonitor = evil\n"))));
    }
}
