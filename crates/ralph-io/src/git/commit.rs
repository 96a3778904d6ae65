//! A commit: exactly the surveyed tree, with the user's identity and signature.
//!
//! It is created with plumbing, outside the sandbox, where the user's whole configuration can be
//! read: the work tree, filters and hooks play no part in it. The commit hooks run before
//! (`hooks`). Not here: the text of the message.

use std::fs;
use std::path::PathBuf;

use ralph_core::checking::secret::leak;
use ralph_core::ports::{CommitOrder, CommitResult, HookResult, VcsError};
use ralph_model::ids::{IterationNumber, RunId};
use ralph_model::run::IterationMark;
use ralph_model::worktree::{CommitId, TreeId};

use super::dirty::{CHERRY_PICK, MERGE, REVERT};
use super::head::HeadState;
use super::head::is_object_id;
use super::hooks::{CommitHook, CommitHookRun, clean_message};
use super::identity::{CommitSigning, build_signing_error};
use super::repository::{GitRepository, is_within};
use super::user_index::IndexLock;
use super::vcs::{GitVcs, format_trailers};
use crate::bounded_read;

/// Every so many iterations git may run its garbage collection. It only does so after thousands of
/// objects, and asking costs a process with every commit.
const GC_INTERVAL: u32 = 16;

/// Enough for a merge of some hundred branches.
const LARGEST_MERGE: u64 = 64 * 1024;

impl GitVcs {
    pub(super) fn commit_with_git(
        &mut self,
        order: &CommitOrder,
    ) -> Result<CommitResult, VcsError> {
        let head = self.repository.head()?;
        if let Some(before) = self.find_tree_before(&order.mark, &head)? {
            return self.update_index_after(&order.mark, &before, &head);
        }
        let now = head.checked_out();
        if let Some(then) = order.expected_head.clone().filter(|then| *then != now) {
            return Ok(CommitResult::Moved { then, now });
        }
        let tree = match &order.tree {
            Some(TreeId(tree)) => tree.clone(),
            None => self.shadow.survey_tree(&self.repository)?,
        };
        if tree == head.tree && self.repository.operation() != Some(MERGE) {
            return Ok(CommitResult::Nothing);
        }
        if order.message.trim().is_empty() {
            return Err(VcsError { message: "the commit message is empty".to_owned() });
        }
        let leaks = self.find_leaks_between(&head.tree, &tree)?;
        if !leaks.is_empty() {
            return Ok(CommitResult::Refused { output: leak::format_leak_feedback(&leaks) });
        }
        self.shadow.load_tree(&self.repository, &tree)?;
        let message = self.with_trailers(&order.message, &format_trailers(&order.mark))?;
        let message = match self.run_message_hooks(message, &tree)? {
            Ok(message) => message,
            Err(refused) => return Ok(refused),
        };
        self.record_intent(&order.mark, &head)?;
        let now = match self.make_commit(&head, &tree, &message) {
            Ok(now) => now,
            Err(error) => return self.find_made_commit(&order.mark, &head).ok_or(error),
        };
        let landed = self.follow_commit(&order.mark, &head, &now)?;
        // The commit exists, whatever happens to these.
        let _ = self.run_hook(CommitHook::PostCommit, &[], &self.repository.index_path());
        if order.mark.iteration.0 % GC_INTERVAL == 1 && self.repository.is_gc_due() {
            self.repository.run_gc();
        }
        Ok(landed)
    }

    /// Updates the user's index to the commit that was just made.
    fn follow_commit(
        &mut self,
        mark: &IterationMark,
        before: &HeadState,
        now: &HeadState,
    ) -> Result<CommitResult, VcsError> {
        // The usual case: nothing was staged, and the shadow index holds what is now committed.
        if let Some(lock) = IndexLock::acquire(&self.repository.index_path())?
            && self.is_nothing_staged(&before.tree)?
            && self.shadow.can_be_index(&self.repository)
        {
            let installed = lock.install(self.shadow.index_path())?;
            self.shadow.note_index_replaced(&installed, Some(now.tree.clone()));
            return build_commit_result(now);
        }
        self.update_index_after(mark, &before.tree, now)
    }

    /// Commits some files and directories as they are in the work tree, outside of any run. Other
    /// changes, staged or not, stay as they are.
    pub fn commit_only(
        &mut self,
        paths: &[PathBuf],
        message: &str,
    ) -> Result<CommitResult, VcsError> {
        let head = self.repository.head()?;
        let now = self.shadow.survey_tree(&self.repository)?;
        let tree =
            self.build_tree_with_only(&self.resolve_paths_from_top(paths), &head.tree, &now)?;
        if tree == head.tree {
            return Ok(CommitResult::Nothing);
        }
        self.shadow.load_tree(&self.repository, &tree)?;
        match self.run_tree_hook(&tree)? {
            HookResult::Absent | HookResult::Passed => {}
            HookResult::Refused { output } => return Ok(CommitResult::Refused { output }),
            HookResult::Interrupted => return Ok(CommitResult::Interrupted),
        }
        let message = match self.run_message_hooks(clean_message(message), &tree)? {
            Ok(message) => message,
            Err(refused) => return Ok(refused),
        };
        let now = self.make_commit(&head, &tree, &message)?;
        let mark = IterationMark {
            run: RunId("archive".into()),
            iteration: IterationNumber(0),
            task: None,
        };
        let landed = self.update_index_after(&mark, &head.tree, &now)?;
        let _ = self.run_hook(CommitHook::PostCommit, &[], &self.repository.index_path());
        Ok(landed)
    }

    /// Returns the paths of files and directories in a tree.
    pub(super) fn resolve_paths_from_top(&self, paths: &[PathBuf]) -> Vec<Vec<u8>> {
        paths.iter().filter_map(|path| self.repository.resolve_path_from_top(path)).collect()
    }

    /// Returns a tree in which only these paths are taken from `now`.
    pub(super) fn build_tree_with_only(
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
        self.build_tree_with(tree, is_one, now)
    }

    /// Returns a message that ends with the trailers.
    pub(super) fn with_trailers(&self, message: &str, trailers: &str) -> Result<String, VcsError> {
        let message = clean_message(message);
        if message.lines().count() == 1 {
            return Ok(format!("{message}\n{trailers}"));
        }
        let is_ours = |last: &str| last.lines().all(|line| line.starts_with("Ralph-"));
        if message.rsplit_once("\n\n").is_some_and(|(_, last)| is_ours(last)) {
            return Ok(format!("{message}{trailers}"));
        }
        // A longer message may end with trailers of its own; git knows how to join them, at the
        // cost of another process.
        let added = trailers.lines().map(|trailer| format!("--trailer={trailer}"));
        let call = self.repository.build_plumbing(&["interpret-trailers"]).with_args(added);
        let joined =
            self.repository.commands.run_for_output(call.with_stdin(message.into_bytes()))?;
        Ok(String::from_utf8_lossy(&joined).into_owned())
    }

    /// Runs the hooks for the message. Returns the message, or the result if a hook refused.
    fn run_message_hooks(
        &mut self,
        message: String,
        tree: &str,
    ) -> Result<Result<String, CommitResult>, VcsError> {
        let refused = |run: CommitHookRun| match run {
            CommitHookRun::Refused { output } => CommitResult::MessageRefused { output },
            CommitHookRun::Interrupted | CommitHookRun::Passed => CommitResult::Interrupted,
        };
        Ok(self.run_message_hook(message, tree)?.map_err(refused))
    }

    /// Commits a tree on top of HEAD, and moves the branch to it. Hooks and the work tree play no
    /// part in it.
    fn make_commit(
        &mut self,
        head: &HeadState,
        tree: &str,
        message: &str,
    ) -> Result<HeadState, VcsError> {
        let repository = &self.repository;
        let merged = repository.merge_heads();
        let commit = self.make_commit_object(head, &merged, tree, message)?;
        let how = match (&head.commit, merged.is_empty()) {
            (None, _) => "commit (initial)",
            (Some(_), false) => "commit (merge)",
            (Some(_), true) => "commit",
        };
        let note = format!("{how}: {}", message.lines().next().unwrap_or_default());
        if !repository.move_branch(head, &commit, &note) {
            // git refuses if something else is checked out by now.
            let old = head.commit.clone().unwrap_or_default();
            let args = ["update-ref", "-m", &note, "HEAD", &commit, &old];
            repository
                .commands
                .run_for_output(repository.build_plumbing(&args).without_sandbox())?;
        }
        if let Some(operation @ (MERGE | CHERRY_PICK | REVERT)) = repository.operation() {
            // The commit ends the operation. If this fails, the commit is made all the same.
            let _ = repository.commands.run(repository.build_plumbing(&[operation, "--quit"]));
        }
        let branch = head.branch.clone();
        let now = HeadState { branch, commit: Some(commit), tree: tree.to_owned() };
        *repository.seen.borrow_mut() = Some(now.clone());
        Ok(now)
    }

    fn make_commit_object(
        &self,
        head: &HeadState,
        merged: &[String],
        tree: &str,
        message: &str,
    ) -> Result<String, VcsError> {
        let repository = &self.repository;
        let signing = CommitSigning::from_config(&repository.config);
        if !signing.is_wanted && merged.is_empty() {
            let parent = head.commit.as_deref();
            if let Some(commit) = repository.write_plain_commit(tree, parent, message) {
                return Ok(commit);
            }
        }
        let parents = head.commit.iter().chain(merged).flat_map(|it| ["-p", it.as_str()]);
        let mut call = repository.build_plumbing(&["commit-tree", tree]).with_args(parents);
        if signing.is_wanted {
            call = call.with_args(["-S"]).with_config(&signing.settings);
        }
        // Missing objects are an error, and not fetched by a program that the configuration names.
        let call = call.with_env("GIT_NO_LAZY_FETCH", "1").without_sandbox();
        let ran = repository.commands.run(call.with_stdin(message.as_bytes().to_vec()))?;
        if ran.code != 0 {
            let is_signing = signing.is_wanted && !ran.has_error_text("tell me who you are");
            return Err(if is_signing { build_signing_error(&ran) } else { ran.to_error() });
        }
        Ok(String::from_utf8_lossy(&ran.stdout).trim_end().to_owned())
    }

    /// Returns the result of a commit although git failed: it may have been made all the same, or
    /// something else is checked out now.
    fn find_made_commit(&mut self, mark: &IterationMark, then: &HeadState) -> Option<CommitResult> {
        let found: Result<_, VcsError> = self.with_shutdown_deadline(|git| {
            let head = git.repository.head()?;
            if let Some(before) = git.find_tree_before(mark, &head)? {
                return git.update_index_after(mark, &before, &head).map(Some);
            }
            let (then, now) = (then.checked_out(), head.checked_out());
            Ok((then != now).then_some(CommitResult::Moved { then, now }))
        });
        found.ok().flatten()
    }

    /// Returns whether nothing is staged, compared with the previous commit. An index that ralph
    /// installed with that commit and that is unchanged need not be read.
    fn is_nothing_staged(&self, before: &str) -> Result<bool, VcsError> {
        Ok(self.shadow.is_index_at(&self.repository, before)
            || self.repository.write_tree_of(&self.repository.index_path()).as_deref()
                == Some(before)
            || self.repository.list_staged(before)?.is_empty())
    }

    /// Updates the committed paths in the user's index. Other staged changes stay; staged contents
    /// that the commit skipped are saved on a ref.
    fn update_index_after(
        &mut self,
        mark: &IterationMark,
        before: &str,
        now: &HeadState,
    ) -> Result<CommitResult, VcsError> {
        let committed = self.repository.diff_trees(before, &now.tree)?;
        let staged = self.repository.list_staged(before)?;
        if staged != committed {
            let passed_over = staged.iter().any(|change| {
                committed
                    .iter()
                    .any(|other| change.path == other.path && change.after != other.after)
            });
            if passed_over
                && let Some(tree) = self.repository.write_index_tree(&now.tree, &self.scratch)?
            {
                let name = format!("refs/ralph/kept/{}/{}-index", mark.run, mark.iteration);
                let message = format!("ralph: what was staged\n\n{}", format_trailers(mark));
                let parents: Vec<String> = now.commit.iter().cloned().collect();
                self.repository.save_on_ref(&name, &tree, &parents, &message)?;
            }
            self.repository.stage_changes(&committed)?;
        }
        self.shadow.note_index_updated(&self.repository);
        build_commit_result(now)
    }

    /// Records that a commit is about to be made on this one. After a crash, the record together
    /// with the trailers identifies our own commit; an agent could write the trailers alone.
    fn record_intent(&self, mark: &IterationMark, head: &HeadState) -> Result<(), VcsError> {
        let path = self.build_intent_path(mark);
        let parent = head.commit.as_deref().unwrap_or_default();
        // Not synced: it need not survive a power failure, after which a commit that did survive is
        // recognized by its tree.
        fs::write(&path, format!("{parent}\n{}\n", head.tree)).map_err(|error| VcsError {
            message: format!("cannot write `{}`: {error}", path.display()),
        })
    }

    /// Finishes a commit with this mark that a run had made when it died, and returns it with its
    /// subject. None if no commit was made.
    pub(super) fn finish_commit(
        &mut self,
        mark: &IterationMark,
    ) -> Result<Option<(CommitId, String)>, VcsError> {
        if !self.build_intent_path(mark).exists() {
            return Ok(None);
        }
        self.repair_git_dir();
        let head = self.repository.head()?;
        let Some(before) = self.find_tree_before(mark, &head)? else { return Ok(None) };
        let CommitResult::Made(commit) = self.update_index_after(mark, &before, &head)? else {
            return Ok(None);
        };
        let args = ["log", "-1", "--no-show-signature", "--format=%B", &commit.0];
        let message =
            self.repository.commands.run_for_line(self.repository.build_plumbing(&args))?;
        Ok(Some((commit, message.lines().next().unwrap_or_default().to_owned())))
    }

    /// Returns the tree before the commit with this mark, if that commit is checked out.
    fn find_tree_before(
        &self,
        mark: &IterationMark,
        head: &HeadState,
    ) -> Result<Option<String>, VcsError> {
        let Ok(announced) = fs::read_to_string(self.build_intent_path(mark)) else {
            return Ok(None);
        };
        let (Some((parent, tree)), Some(commit)) = (announced.split_once('\n'), &head.commit)
        else {
            return Ok(None);
        };
        let format = "--format=%P%n%(trailers:only,unfold)";
        let args = ["log", "-1", "--no-show-signature", format, commit];
        let text = self.repository.commands.run_for_line(self.repository.build_plumbing(&args))?;
        let (parents, written) = text.split_once('\n').unwrap_or((&text, ""));
        let is_child = parents.split(' ').next() == Some(parent);
        let is_marked =
            format_trailers(mark).lines().all(|line| written.lines().any(|it| it == line));
        Ok((is_child && is_marked).then(|| tree.trim_end().to_owned()))
    }

    fn build_intent_path(&self, mark: &IterationMark) -> PathBuf {
        self.directory.join(format!("commit-{}", mark.iteration))
    }
}

impl GitRepository {
    /// Returns the commits that a merge in progress joins with HEAD.
    fn merge_heads(&self) -> Vec<String> {
        let text = bounded_read::read_file(&self.git_dir.join("MERGE_HEAD"), LARGEST_MERGE);
        let text = String::from_utf8(text.unwrap_or_default()).unwrap_or_default();
        text.lines().map(str::to_owned).filter(|line| is_object_id(line)).collect()
    }

    /// Returns whether there may be enough objects or packs for git's garbage collection, by
    /// counting as git does.
    fn is_gc_due(&self) -> bool {
        let objects = self.common_dir().join("objects");
        let count = |name: &str| fs::read_dir(objects.join(name)).map_or(0, Iterator::count);
        let limit = |name: &str, usual: usize| {
            self.config.find(name).map_or(usual, |text| text.parse().unwrap_or_default())
        };
        // A pack has at least two files.
        count("17") >= limit("gc.auto", 6700) / 256
            || count("pack") / 2 >= limit("gc.autopacklimit", 50)
    }

    /// Runs git's garbage collection, if git considers it due. It must be over when this returns:
    /// ralph ends processes that are left running.
    fn run_gc(&self) {
        let call = self.build_plumbing(&["gc", "--auto", "--quiet"]);
        let _ = self.commands.run(call.with_setting("gc.autoDetach=false"));
    }
}

fn build_commit_result(now: &HeadState) -> Result<CommitResult, VcsError> {
    match &now.commit {
        Some(commit) => Ok(CommitResult::Made(CommitId(commit.clone()))),
        None => {
            Err(VcsError { message: "git reported a commit, but HEAD has no commit".to_owned() })
        }
    }
}
