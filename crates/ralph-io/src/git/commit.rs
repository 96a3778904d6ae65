//! A commit: exactly the surveyed tree, with the user's identity and signature.
//!
//! It is created with plumbing, outside the sandbox, where the user's whole configuration can be
//! read: the work tree, filters and hooks play no part in it. The commit hooks run before
//! (`hooks`). Not here: the text of the message.

use std::fs;
use std::path::PathBuf;

use ralph_core::event::{CommitId, TreeId};
use ralph_core::ids::{IterationNumber, RunId};
use ralph_core::ports::{CommitOrder, CommitResult, HookResult, Mark, VcsError};

use ralph_core::secret::leak;

use super::compared::is_object_id;
use super::dirty::{CHERRY_PICK, MERGE, REVERT};
use super::head::Head;
use super::hooks::{Hook, HookRun, without_extra_space};
use super::identity::not_signed;
use super::repository::{Repository, is_within};
use super::user_index::IndexLock;
use super::vcs::{Git, trailers};
use crate::bounded;

/// Every so many iterations git may run its garbage collection. It only does so after thousands of
/// objects, and asking costs a process with every commit.
const HOUSEKEEPING: u32 = 16;

/// Enough for a merge of some hundred branches.
const LARGEST_MERGE: u64 = 64 * 1024;

impl Git {
    pub(super) fn commit_with_git(
        &mut self,
        order: &CommitOrder,
    ) -> Result<CommitResult, VcsError> {
        let head = self.repository.head()?;
        if let Some(before) = self.made_before(&order.mark, &head)? {
            return self.land(&order.mark, &before, &head);
        }
        let now = head.checked_out();
        if let Some(then) = order.on.clone().filter(|then| *then != now) {
            return Ok(CommitResult::Moved { then, now });
        }
        let tree = match &order.tree {
            Some(TreeId(tree)) => tree.clone(),
            None => self.shadow.survey(&self.repository)?,
        };
        if tree == head.tree && self.repository.operation() != Some(MERGE) {
            return Ok(CommitResult::Nothing);
        }
        if order.message.trim().is_empty() {
            return Err(VcsError { message: "the commit message is empty".to_owned() });
        }
        let leaks = self.leaks_between(&head.tree, &tree)?;
        if !leaks.is_empty() {
            return Ok(CommitResult::Refused { output: leak::complaint(&leaks) });
        }
        self.shadow.hold(&self.repository, &tree)?;
        let message = self.with_trailers(&order.message, &trailers(&order.mark))?;
        let message = match self.pass_hooks(message, &tree)? {
            Ok(message) => message,
            Err(refused) => return Ok(refused),
        };
        self.announce(&order.mark, &head)?;
        let now = match self.make_commit(&head, &tree, &message) {
            Ok(now) => now,
            Err(error) => return self.made_after_all(&order.mark, &head).ok_or(error),
        };
        let landed = self.follow_commit(&order.mark, &head, &now)?;
        // The commit exists, whatever happens to these.
        let _ = self.run_hook(Hook::PostCommit, &[], &self.repository.index());
        if order.mark.iteration.0 % HOUSEKEEPING == 1 {
            self.repository.tidy_up();
        }
        Ok(landed)
    }

    /// Updates the user's index to the commit that was just made.
    fn follow_commit(
        &mut self,
        mark: &Mark,
        before: &Head,
        now: &Head,
    ) -> Result<CommitResult, VcsError> {
        // The usual case: nothing was staged, and the shadow index holds what is now committed.
        if let Some(lock) = IndexLock::take(&self.repository.index())?
            && self.is_nothing_staged(&before.tree)?
            && self.shadow.can_be_index(&self.repository)
        {
            let installed = lock.install(self.shadow.index())?;
            self.shadow.became_the_index(&installed, Some(now.tree.clone()));
            return made(now);
        }
        self.land(mark, &before.tree, now)
    }

    /// Commits some files and directories as they are in the work tree, outside of any run. Other
    /// changes, staged or not, stay as they are.
    pub fn commit_only(
        &mut self,
        paths: &[PathBuf],
        message: &str,
    ) -> Result<CommitResult, VcsError> {
        let head = self.repository.head()?;
        let now = self.shadow.survey(&self.repository)?;
        let tree = self.only(&self.places(paths), &head.tree, &now)?;
        if tree == head.tree {
            return Ok(CommitResult::Nothing);
        }
        self.shadow.hold(&self.repository, &tree)?;
        match self.pass_tree(&tree)? {
            HookResult::Absent | HookResult::Passed => {}
            HookResult::Refused { output } => return Ok(CommitResult::Refused { output }),
            HookResult::Interrupted => return Ok(CommitResult::Interrupted),
        }
        let message = match self.pass_hooks(without_extra_space(message), &tree)? {
            Ok(message) => message,
            Err(refused) => return Ok(refused),
        };
        let now = self.make_commit(&head, &tree, &message)?;
        let mark = Mark { run: RunId("archive".into()), iteration: IterationNumber(0), task: None };
        let landed = self.land(&mark, &head.tree, &now)?;
        let _ = self.run_hook(Hook::PostCommit, &[], &self.repository.index());
        Ok(landed)
    }

    /// Returns the paths of files and directories in a tree.
    pub(super) fn places(&self, paths: &[PathBuf]) -> Vec<Vec<u8>> {
        paths.iter().filter_map(|path| self.repository.path_from_top(path)).collect()
    }

    /// Returns a tree in which only these paths are taken from `now`.
    pub(super) fn only(
        &self,
        places: &[Vec<u8>],
        tree: &str,
        now: &str,
    ) -> Result<String, VcsError> {
        let is_one = |path: &[u8]| places.iter().any(|place| is_within(path, place));
        let changes =
            if tree == now { Vec::new() } else { self.repository.diff_trees(tree, now)? };
        if changes.iter().all(|change| is_one(&change.path)) {
            return Ok(now.to_owned());
        }
        self.tree_with(tree, is_one, now)
    }

    /// Returns a message that ends with the trailers.
    pub(super) fn with_trailers(&self, message: &str, trailers: &str) -> Result<String, VcsError> {
        let message = without_extra_space(message);
        if message.lines().count() == 1 {
            return Ok(format!("{message}\n{trailers}"));
        }
        // A longer message may end with trailers of its own; git knows how to join them, at the
        // cost of another process.
        let added = trailers.lines().map(|trailer| format!("--trailer={trailer}"));
        let call = self.repository.git(&["interpret-trailers"]).args(added);
        let joined = self.repository.commands.output(call.stdin(message.into_bytes()))?;
        Ok(String::from_utf8_lossy(&joined).into_owned())
    }

    /// Runs the hooks for the message. Returns the message, or the result if a hook refused.
    fn pass_hooks(
        &mut self,
        message: String,
        tree: &str,
    ) -> Result<Result<String, CommitResult>, VcsError> {
        let refused = |run: HookRun| match run {
            HookRun::Refused { output } => CommitResult::MessageRefused { output },
            HookRun::Interrupted | HookRun::Passed => CommitResult::Interrupted,
        };
        Ok(self.pass_message(message, tree)?.map_err(refused))
    }

    /// Commits a tree on top of HEAD, and moves the branch to it. Hooks and the work tree play no
    /// part in it.
    fn make_commit(&mut self, head: &Head, tree: &str, message: &str) -> Result<Head, VcsError> {
        if self.signing.is_none() {
            self.signing = Some(self.repository.signing()?);
        }
        let signing = self.signing.clone().unwrap_or_default();
        let repository = &self.repository;
        let merged = repository.merge_heads();
        let parents = head.commit.iter().chain(&merged).flat_map(|it| ["-p", it.as_str()]);
        let mut call = repository.git(&["commit-tree", tree]).args(parents);
        if signing.is_wanted {
            call = call.args(["-S"]).config(&signing.settings);
        }
        // Missing objects are an error, and not fetched by a program that the configuration names.
        let call = call.env("GIT_NO_LAZY_FETCH", "1").outside();
        let ran = repository.commands.run(call.stdin(message.as_bytes().to_vec()))?;
        if ran.code != 0 {
            let is_signing = signing.is_wanted && !ran.complains_of("tell me who you are");
            return Err(if is_signing { not_signed(&ran) } else { ran.failed() });
        }
        let commit = String::from_utf8_lossy(&ran.stdout).trim_end().to_owned();
        let how = match (&head.commit, merged.is_empty()) {
            (None, _) => "commit (initial)",
            (Some(_), false) => "commit (merge)",
            (Some(_), true) => "commit",
        };
        let note = format!("{how}: {}", message.lines().next().unwrap_or_default());
        // git refuses if something else is checked out by now.
        let old = head.commit.clone().unwrap_or_default();
        let call = repository.git(&["update-ref", "-m", &note, "HEAD", &commit, &old]);
        repository.commands.output(call.outside())?;
        if let Some(operation @ (MERGE | CHERRY_PICK | REVERT)) = repository.operation() {
            // The commit ends the operation. If this fails, the commit is made all the same.
            let _ = repository.commands.run(repository.git(&[operation, "--quit"]));
        }
        let branch = head.branch.clone();
        let now = Head { branch, commit: Some(commit), tree: tree.to_owned() };
        *repository.seen.borrow_mut() = Some(now.clone());
        Ok(now)
    }

    /// Returns the result of a commit although git failed: it may have been made all the same, or
    /// something else is checked out now.
    fn made_after_all(&mut self, mark: &Mark, then: &Head) -> Option<CommitResult> {
        let found: Result<_, VcsError> = self.parting(|git| {
            let head = git.repository.head()?;
            if let Some(before) = git.made_before(mark, &head)? {
                return git.land(mark, &before, &head).map(Some);
            }
            let (then, now) = (then.checked_out(), head.checked_out());
            Ok((then != now).then_some(CommitResult::Moved { then, now }))
        });
        found.ok().flatten()
    }

    /// Returns whether nothing is staged, compared with the previous commit. An index that ralph
    /// installed with that commit and that is unchanged need not be read.
    fn is_nothing_staged(&self, before: &str) -> Result<bool, VcsError> {
        Ok(self.shadow.is_index_of(&self.repository, before)
            || self.repository.staged(before)?.is_empty())
    }

    /// Updates the committed paths in the user's index. Other staged changes stay; staged contents
    /// that the commit skipped are saved on a ref.
    fn land(&mut self, mark: &Mark, before: &str, now: &Head) -> Result<CommitResult, VcsError> {
        let committed = self.repository.diff_trees(before, &now.tree)?;
        let staged = self.repository.staged(before)?;
        if staged != committed {
            let passed_over = staged.iter().any(|change| {
                committed
                    .iter()
                    .any(|other| change.path == other.path && change.after != other.after)
            });
            if passed_over
                && let Some(tree) = self.repository.index_tree(&now.tree, &self.scratch)?
            {
                let name = format!("refs/ralph/kept/{}/{}-index", mark.run, mark.iteration);
                let message = format!("ralph: what was staged\n\n{}", trailers(mark));
                let parents: Vec<String> = now.commit.iter().cloned().collect();
                self.repository.keep(&name, &tree, &parents, &message)?;
            }
            self.repository.stage(&committed)?;
        }
        self.shadow.is_followed(&self.repository);
        made(now)
    }

    /// Records that a commit is about to be made on this one. After a crash, the record together
    /// with the trailers identifies our own commit; an agent could write the trailers alone.
    fn announce(&self, mark: &Mark, head: &Head) -> Result<(), VcsError> {
        let path = self.announcement(mark);
        let parent = head.commit.as_deref().unwrap_or_default();
        // Not synced: it need not survive a power failure, after which a commit that did survive is
        // recognized by its tree.
        fs::write(&path, format!("{parent}\n{}\n", head.tree)).map_err(|error| VcsError {
            message: format!("cannot write `{}`: {error}", path.display()),
        })
    }

    /// Finishes a commit with this mark that a run had made when it died, and returns it with its
    /// subject. None if no commit was made.
    pub fn finish_commit(&mut self, mark: &Mark) -> Result<Option<(CommitId, String)>, VcsError> {
        self.mend_own_files();
        let head = self.repository.head()?;
        let Some(before) = self.made_before(mark, &head)? else { return Ok(None) };
        let CommitResult::Made(commit) = self.land(mark, &before, &head)? else { return Ok(None) };
        let args = ["log", "-1", "--no-show-signature", "--format=%B", &commit.0];
        let message = self.repository.commands.line(self.repository.git(&args))?;
        Ok(Some((commit, message.lines().next().unwrap_or_default().to_owned())))
    }

    /// Returns the tree before the commit with this mark, if that commit is checked out.
    fn made_before(&self, mark: &Mark, head: &Head) -> Result<Option<String>, VcsError> {
        let Ok(announced) = fs::read_to_string(self.announcement(mark)) else {
            return Ok(None);
        };
        let (Some((parent, tree)), Some(commit)) = (announced.split_once('\n'), &head.commit)
        else {
            return Ok(None);
        };
        let format = "--format=%P%n%(trailers:only,unfold)";
        let args = ["log", "-1", "--no-show-signature", format, commit];
        let text = self.repository.commands.line(self.repository.git(&args))?;
        let (parents, written) = text.split_once('\n').unwrap_or((&text, ""));
        let is_child = parents.split(' ').next() == Some(parent);
        let is_marked = trailers(mark).lines().all(|line| written.lines().any(|it| it == line));
        Ok((is_child && is_marked).then(|| tree.trim_end().to_owned()))
    }

    fn announcement(&self, mark: &Mark) -> PathBuf {
        self.directory.join(format!("commit-{}", mark.iteration))
    }
}

impl Repository {
    /// Returns the commits that a merge in progress joins with HEAD.
    fn merge_heads(&self) -> Vec<String> {
        let text = bounded::read_file(&self.git_dir.join("MERGE_HEAD"), LARGEST_MERGE);
        let text = String::from_utf8(text.unwrap_or_default()).unwrap_or_default();
        text.lines().map(str::to_owned).filter(|line| is_object_id(line)).collect()
    }

    /// Runs git's garbage collection, if git considers it due. It must be over when this returns:
    /// ralph ends processes that are left running.
    fn tidy_up(&self) {
        let call = self.git(&["gc", "--auto", "--quiet"]);
        let _ = self.commands.run(call.setting("gc.autoDetach=false"));
    }
}

fn made(now: &Head) -> Result<CommitResult, VcsError> {
    match &now.commit {
        Some(commit) => Ok(CommitResult::Made(CommitId(commit.clone()))),
        None => {
            Err(VcsError { message: "git reported a commit, but HEAD has no commit".to_owned() })
        }
    }
}
