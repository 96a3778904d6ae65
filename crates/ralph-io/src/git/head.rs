//! HEAD: the branch, its commit, and that commit's tree.
//!
//! Not here: moving it, which only a restore does.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ralph_core::ports::VcsError;
use ralph_model::worktree::{CheckedOut, CommitId};
use rustix::process::geteuid;

use super::object_store::parse_id;
use super::ref_files::read_packed_ref;
use super::repository::GitRepository;
use super::shadow::GitFileStamp;
use crate::bounded_read;

/// Enough for a name or an id; an agent may have replaced the file by anything.
const LARGEST_REF: u64 = 4096;

/// The state of HEAD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HeadState {
    /// The full name of the branch; none if HEAD is detached.
    pub(super) branch: Option<String>,
    /// The commit; none before the first one.
    pub(super) commit: Option<String>,
    /// The commit's tree, or the empty one.
    pub(super) tree: String,
}

/// HEAD and the index at a moment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HeadStamp {
    branch: Option<String>,
    commit: String,
    index: GitFileStamp,
}

/// How many reflog entries of HEAD are read.
const MOST_REFLOG_ENTRIES: &str = "--max-count=1000";

/// Prints commit, tree and branch of HEAD.
const HEAD_ARGS: [&str; 5] = ["rev-parse", "HEAD", "HEAD^{tree}", "--symbolic-full-name", "HEAD"];

impl HeadState {
    /// Parses git's output if there is a commit.
    fn parse(output: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(output).ok()?;
        let lines: Vec<&str> = text.lines().collect();
        let [commit, tree, name] = lines[..] else { return None };
        let branch = (name != "HEAD").then(|| name.to_owned());
        Some(Self { branch, commit: Some(commit.to_owned()), tree: tree.to_owned() })
    }

    /// Returns the same without the tree.
    pub(super) fn checked_out(&self) -> CheckedOut {
        CheckedOut { head: self.commit.clone().map(CommitId), branch: self.branch.clone() }
    }
}

/// Returns whether a text is an object id.
pub(crate) fn is_object_id(text: &str) -> bool {
    [40, 64].contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn to_unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |it| it.as_secs())
}

impl GitRepository {
    /// Reads HEAD. A commit that was seen before costs no process.
    pub(super) fn head(&self) -> Result<HeadState, VcsError> {
        let seen = self.seen.borrow().clone();
        if let (Some(seen), Some((branch, commit))) = (seen, self.read_head_files())
            && seen.commit.as_ref() == Some(&commit)
        {
            return Ok(HeadState { branch, ..seen });
        }
        let head = match self.read_plain_head() {
            Some(head) => head,
            None => self.query_head()?,
        };
        *self.seen.borrow_mut() = Some(head.clone());
        Ok(head)
    }

    /// Returns what HEAD and the index are before a command that may show that they agree.
    pub(super) fn read_head_stamp(&self) -> Option<HeadStamp> {
        let index = fs::metadata(self.index_path()).ok()?;
        let (branch, commit) = self.read_head_files()?;
        Some(HeadStamp { branch, commit, index: GitFileStamp::from_metadata(&index) })
    }

    /// Notes HEAD with the tree of the index, after git showed that nothing is staged. Runtime files
    /// may be staged all the same.
    pub(super) fn note_nothing_staged(&self, stamp: Option<HeadStamp>) {
        let Some(stamp) = stamp.filter(|_| self.seen.borrow().is_none()) else { return };
        if let Some(index) = self.read_index(&self.index_path())
            && !index.paths().any(|path| self.is_runtime_file(path))
            && let Some(tree) = index.hash_tree()
            && self.read_head_stamp().as_ref() == Some(&stamp)
        {
            self.remember_tree(&tree, index);
            let HeadStamp { branch, commit, .. } = stamp;
            *self.seen.borrow_mut() = Some(HeadState { branch, commit: Some(commit), tree });
        }
    }

    /// Returns the branch and commit of HEAD.
    pub fn checked_out(&self) -> Result<CheckedOut, VcsError> {
        Ok(self.head()?.checked_out())
    }

    /// Returns the commit at a time, and HEAD now, if the reflog has a change in between. An entry
    /// dated in the future is ignored, because it must be forged.
    pub fn find_checkout_since(
        &self,
        since: SystemTime,
    ) -> Result<Option<(Option<CommitId>, CheckedOut)>, VcsError> {
        let now = self.checked_out()?;
        let args =
            ["log", "--walk-reflogs", "--no-show-signature", "--date=unix", MOST_REFLOG_ENTRIES];
        let call = self.build_plumbing(&args).with_args(["--format=%gd %H", "HEAD", "--"]);
        // A branch without a commit has no reflog.
        let Ok(entries) = self.commands.run_for_line(call) else { return Ok(None) };
        let mut entries = entries.lines().filter_map(|line| {
            let (when, commit) = line.strip_prefix("HEAD@{")?.split_once("} ")?;
            Some((when.parse::<u64>().ok()?, CommitId(commit.to_owned())))
        });
        let since_then = to_unix_seconds(since) + 1..=to_unix_seconds(SystemTime::now());
        match entries.next() {
            Some((when, _)) if since_then.contains(&when) => {
                let before = entries.find(|(when, _)| !since_then.contains(when));
                Ok(Some((before.map(|(_, commit)| commit), now)))
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Reads the branch and its commit from git's files. Other ref formats and a branch without a
    /// commit need git.
    pub(super) fn read_head_files(&self) -> Option<(Option<String>, String)> {
        let id = |text: &str| {
            let id = text.trim_end();
            is_object_id(id).then(|| id.to_owned())
        };
        let read = |path: PathBuf| {
            let bytes = bounded_read::read_file(&path, LARGEST_REF).ok()?;
            String::from_utf8(bytes).ok()
        };
        let head = read(self.git_dir.join("HEAD"))?;
        let Some(branch) = head.strip_prefix("ref: ") else {
            return Some((None, id(&head)?));
        };
        let branch = branch.trim_end();
        // A linked work tree shares its branches with the others.
        let shared = match read(self.git_dir.join("commondir")) {
            Some(path) => self.git_dir.join(path.trim_end()),
            None => PathBuf::from(&self.git_dir),
        };
        if !branch.starts_with("refs/heads/") || branch.contains("..") {
            return None;
        }
        let commit = read(shared.join(branch)).or_else(|| read_packed_ref(&shared, branch))?;
        Some((Some(branch.to_owned()), id(&commit)?))
    }

    /// Returns the name of the current branch, without `refs/heads/`.
    pub fn branch(&self) -> Result<Option<String>, VcsError> {
        let branch = self.head()?.branch;
        Ok(branch.map(|name| name.trim_start_matches("refs/heads/").to_owned()))
    }

    /// Switches to a branch, and creates it here if it does not exist. Uncommitted changes stay;
    /// fails if the other branch changes the same files.
    pub fn switch_branch(&self, name: &str) -> Result<(), VcsError> {
        let branch = format!("refs/heads/{name}");
        let known = self.build_plumbing(&["rev-parse", "--verify", "--quiet"]).with_args([&branch]);
        let is_known = self.commands.run(known)?.code == 0;
        let call = self.build_plumbing(&["switch", "--quiet"]);
        let call = if is_known { call } else { call.with_args(["--create"]) };
        if name.starts_with('-') {
            return Err(VcsError { message: format!("`{name}` is no name for a branch") });
        }
        self.commands.run_for_output(call.with_args([name])).map(drop)
    }

    /// Returns the date of the last commit that changed a file, such as `2026-11-15`.
    pub fn find_last_change_date(&self, file: &Path) -> Result<Option<String>, VcsError> {
        if self.head()?.commit.is_none() {
            return Ok(None);
        }
        let call = self.build_plumbing(&["log", "-1", "--no-show-signature", "--format=%cs", "--"]);
        let day = self.commands.run_for_line(call.with_args([file]))?;
        Ok(Some(day).filter(|day| !day.is_empty()))
    }

    /// Writes the HEAD file again, if it is missing or damaged: git does not recognize such a
    /// directory as a repository.
    pub(super) fn repair_head(&self, branch: Option<&str>, commit: Option<&str>, aside: &Path) {
        let path = self.git_dir.join("HEAD");
        let is_sound = bounded_read::read_file(&path, LARGEST_REF).is_ok_and(|text| {
            let text = String::from_utf8_lossy(&text);
            let text = text.trim_end();
            text.starts_with("ref: refs/") || text.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        let text = match (branch, commit) {
            (Some(branch), _) => format!("ref: {branch}\n"),
            (None, Some(commit)) => format!("{commit}\n"),
            (None, None) => return,
        };
        if !is_sound && self.git_dir.is_dir() {
            // If this fails, git reports the problem.
            let _ = fs::rename(&path, aside);
            let _ = fs::write(&path, text);
        }
    }

    /// Reads HEAD without git, if its commit has a file of its own. git refuses directories of
    /// another user, and says so itself.
    fn read_plain_head(&self) -> Option<HeadState> {
        let user = geteuid().as_raw();
        let is_own = |path: &Path| fs::metadata(path).is_ok_and(|it| it.uid() == user);
        if ![&self.top, &self.git_dir].into_iter().all(|path| is_own(path)) {
            return None;
        }
        let (branch, commit) = self.read_head_files()?;
        let content = self.open_objects()?.read_commit(&parse_id(&commit)?)?;
        let tree = content.strip_prefix(b"tree ")?.split(|byte| *byte == b'\n').next()?;
        let tree = std::str::from_utf8(tree).ok().filter(|tree| is_object_id(tree))?.to_owned();
        Some(HeadState { branch, commit: Some(commit), tree })
    }

    fn query_head(&self) -> Result<HeadState, VcsError> {
        let ran = self.commands.run(self.build_plumbing(&HEAD_ARGS))?;
        if let Some(head) = HeadState::parse(&ran.stdout).filter(|_| ran.code == 0) {
            return Ok(head);
        }
        // Before the first commit there is only the name of the branch.
        let branch =
            self.commands.run(self.build_plumbing(&["symbolic-ref", "--quiet", "HEAD"]))?;
        let name = String::from_utf8_lossy(&branch.stdout).trim_end().to_owned();
        let unborn = branch.code == 0 && !self.has_ref(&name)?;
        if !unborn {
            return Err(ran.to_error());
        }
        Ok(HeadState { branch: Some(name), commit: None, tree: self.empty_tree()? })
    }

    /// Returns whether a ref exists.
    pub(super) fn has_ref(&self, name: &str) -> Result<bool, VcsError> {
        Ok(self.resolve_name(name)?.is_some())
    }

    /// Returns the object that a ref or other name refers to.
    pub(super) fn resolve_name(&self, name: &str) -> Result<Option<String>, VcsError> {
        let ran =
            self.commands.run(self.build_plumbing(&["rev-parse", "--quiet", "--verify", name]))?;
        let id = String::from_utf8_lossy(&ran.stdout).trim_end().to_owned();
        Ok((ran.code == 0).then_some(id))
    }

    /// Returns the tree of a commit, or the empty tree for `None`.
    pub(super) fn resolve_tree(&self, commit: Option<&str>) -> Result<String, VcsError> {
        match commit {
            None => self.empty_tree(),
            Some(commit) => self
                .resolve_name(&format!("{commit}^{{tree}}"))?
                .ok_or_else(|| VcsError { message: format!("the commit {commit} is gone") }),
        }
    }

    /// Returns the id of the empty tree.
    pub(super) fn empty_tree(&self) -> Result<String, VcsError> {
        self.commands.run_for_line(self.build_plumbing(&["mktree"]))
    }
}
