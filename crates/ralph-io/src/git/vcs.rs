//! The version control port: checkpoints, surveys, commits, rollbacks, and the user's own commands.
//!
//! Not here: the steps of a commit (`commit`) and of a rollback (`restore`).

use std::collections::BTreeSet;
use std::path::PathBuf;

use ralph_core::ports::{
    CheckpointDepth, CommitOrder, CommitResult, FailedWorkLocation, FailureBranchOrder,
    FetchOutcome, HookResult, HookTrial, Observation, SavedBranch, ScmResult, Survey, Vcs,
    VcsError,
};
use ralph_model::glob::Pattern;
use ralph_model::ids::{IterationNumber, RunId, TaskId, WorkerId};
use ralph_model::parallel_state::{Candidate, MergeOutcome};
use ralph_model::run::IterationMark;
use ralph_model::worker::JobResult;
use ralph_model::worktree::{
    CheckedOut, Checkpoint, CommitId, MAX_AUTORUN_CHANGES, TreeDiff, TreeId,
};

use super::git_dir_guard::GuardedFiles;
use super::head::HeadState;
use super::hooks::{CommitHookRun, CommitHooks};
use super::kept_refs::KeptRefs;
use super::locks::GitLockFile;
use super::programs::ProgramWatch;
use super::repository::GitRepository;
use super::restore::{HeadPosition, RestoreTarget};
use super::scan::SecretScan;
use super::scm_call::{commit_with_other_scm, is_git, run_scm};
use super::shadow::ShadowIndex;
use crate::store::layout::{GIT_SCRATCH, create_private_directories};

/// How many checkpoints of a run have a ref. A task may be rolled back after many attempts; older
/// checkpoints rely on git's own grace period of two weeks.
const MOST_CHECKPOINTS: u32 = 100;

/// How many subjects of commits are kept in memory.
const KEPT_SUBJECTS: usize = 20;

/// The repository of a run.
#[derive(Debug)]
pub struct GitVcs {
    pub(super) repository: GitRepository,
    pub(super) directory: PathBuf,
    /// The subdirectory that git itself writes: indexes that are not the user's. Hooks and filters
    /// that git runs can write there, so nothing in it is trusted.
    pub(super) scratch: PathBuf,
    pub(super) shadow: ShadowIndex,
    /// The locks that existed at the last checkpoint. Others are the agent's.
    pub(super) locks: Vec<GitLockFile>,
    pub(super) scan: SecretScan,
    /// git's own files at the last checkpoint.
    pub(super) recorded_files: Option<GuardedFiles>,
    /// Whether they are on disk, for a process that resumes the run.
    pub(super) is_record_written: bool,
    /// Project files that are protected with them, because git ignores them.
    pub(super) guarded: Vec<PathBuf>,
    /// Files that were tampered with and restored since the last report.
    pub(super) tampering: Vec<String>,
    /// The commit hooks, once they were looked for.
    pub(super) hooks: Option<CommitHooks>,
    /// Whether the unreported restores of an earlier process were read.
    pub(super) is_unreported_read: bool,
    /// Programs of the project that gates may start.
    pub(super) programs: ProgramWatch,
    /// The user's refs and their objects, if agents can write the repository.
    pub(super) kept_refs: Option<KeptRefs>,
    /// The submodules whose changes were reported.
    pub(super) reported_submodules: BTreeSet<String>,
    /// The last commit whose subject is known, with the subjects up to it, newest first.
    pub(super) subjects: Option<(String, Vec<String>)>,
}

impl GitVcs {
    /// Returns the repository of a run, whose directory gets the shadow index.
    pub fn new(repository: GitRepository, run_directory: impl Into<PathBuf>) -> Self {
        let directory = run_directory.into();
        let scratch = directory.join(GIT_SCRATCH);
        // If this fails, the first write there reports it.
        let _ = create_private_directories(&scratch);
        let shadow = ShadowIndex::new_in_directory(&scratch);
        let locks = repository.find_locks(&directory);
        Self {
            repository,
            directory,
            scratch,
            shadow,
            locks,
            scan: SecretScan::default(),
            recorded_files: None,
            is_record_written: false,
            guarded: Vec::new(),
            tampering: Vec::new(),
            hooks: None,
            is_unreported_read: false,
            programs: ProgramWatch::default(),
            kept_refs: None,
            reported_submodules: BTreeSet::new(),
            subjects: None,
        }
    }

    /// Runs something with a short time limit, even if the user has stopped the run.
    pub(super) fn with_shutdown_deadline<T>(&mut self, action: impl FnOnce(&mut Self) -> T) -> T {
        let shutdown = self.repository.commands.clone().for_shutdown();
        let usual = std::mem::replace(&mut self.repository.commands, shutdown);
        let done = action(self);
        self.repository.commands = usual;
        done
    }

    /// Adds the subject of a commit that ralph made, so that git need not read it again.
    pub(super) fn record_subject(&mut self, order: &CommitOrder, made: &CommitId) {
        let parent = order.expected_head.as_ref().and_then(|it| it.head.as_ref());
        self.subjects = match (self.subjects.take(), parent) {
            (Some((known, mut subjects)), Some(parent)) if known == parent.0 => {
                let subject = order.message.lines().next().unwrap_or_default();
                subjects.insert(0, subject.to_owned());
                subjects.truncate(KEPT_SUBJECTS);
                Some((made.0.clone(), subjects))
            }
            (_, _) => None,
        };
    }

    /// Returns the repository.
    pub fn repository(&self) -> &GitRepository {
        &self.repository
    }

    /// Repairs what an agent may have broken, so that git can work at all.
    fn repair_repository(&mut self, since: &Checkpoint) {
        self.repair_git_dir();
        self.remove_agent_locks();
        if let Checkpoint::Git { head, branch, .. } = since {
            let commit = head.as_ref().map(|CommitId(commit)| commit.as_str());
            let aside = self.directory.join("HEAD.broken");
            self.repository.repair_head(branch.as_deref(), commit, &aside);
        }
        self.restore_refs();
    }

    /// Saves a checkpoint on a ref, so that git does not remove it as garbage, and records what the
    /// port's checkpoint type has no field for.
    fn save_checkpoint(
        &self,
        mark: &IterationMark,
        head: &HeadState,
        tree: &str,
    ) -> Result<(), VcsError> {
        let index = if self.shadow.is_index_at(&self.repository, &head.tree) {
            Some(head.tree.clone())
        } else {
            self.repository.write_index_tree(&head.tree, &self.scratch)?
        };
        let mut parents: Vec<String> = head.commit.iter().cloned().collect();
        if let Some(index) = index.as_ref().filter(|index| **index != head.tree) {
            parents.push(self.repository.commit_tree(index, &parents, "ralph: what was staged")?);
        }
        let mut message = format!("ralph: checkpoint\n\n{}", format_trailers(mark));
        for (name, value) in [
            (HEAD, head.commit.as_deref()),
            (INDEX, index.as_deref()),
            (OPERATION, self.repository.operation()),
        ] {
            if let Some(value) = value {
                message.extend([name, value, "\n"]);
            }
        }
        let commit = self.repository.commit_tree(tree, &parents, &message)?;
        self.repository.set_ref(&format_checkpoint_ref(mark, 0), &commit)?;
        if mark.iteration.0 > MOST_CHECKPOINTS {
            self.repository.remove_ref(&format_checkpoint_ref(mark, MOST_CHECKPOINTS))?;
        }
        Ok(())
    }

    /// Saves the state before a run restores earlier work, and returns it.
    pub fn save_start(&mut self, run: &RunId) -> Result<Checkpoint, VcsError> {
        let mark = IterationMark { run: run.clone(), iteration: IterationNumber(0), task: None };
        let head = self.repository.head()?;
        let tree = self.shadow.survey_tree(&self.repository)?;
        self.save_checkpoint(&mark, &head, &tree)?;
        let (head, branch) = (head.commit.map(CommitId), head.branch);
        Ok(Checkpoint::Git { head, branch, tree: Some(TreeId(tree)) })
    }

    /// Reads what [`GitVcs::save_checkpoint`] recorded, in this iteration or in an earlier one that
    /// started from the same state.
    pub(super) fn read_checkpoint(
        &self,
        mark: &IterationMark,
        head: Option<&str>,
        tree: &str,
    ) -> Result<Option<CheckpointRecord>, VcsError> {
        let commands = &self.repository.commands;
        let directory = format_checkpoint_prefix(mark);
        let format = "--format=%(refname:lstrip=-1)%00%(tree)%00%(contents)%00";
        let args = ["for-each-ref", "--sort=version:refname", format, &directory];
        let output = commands.run_for_output(self.repository.build_plumbing(&args))?;
        let fields: Vec<String> = output
            .split(|byte| *byte == 0)
            .map(|field| String::from_utf8_lossy(field).into_owned())
            .collect();
        let value = |note: &[String], name: &str| {
            let mut lines = note[2].lines();
            lines.find_map(|line| line.strip_prefix(name)).map(str::to_owned)
        };
        let matches = fields
            .chunks_exact(3)
            .filter(|note| note[1] == tree && value(note, HEAD).as_deref() == head);
        // That of this very iteration, else the first: whatever was staged later was staged by an
        // agent.
        let own = mark.iteration.to_string();
        let notes: Vec<&[String]> = matches.collect();
        let note = notes.iter().find(|note| note[0].trim_start() == own).or(notes.first());
        Ok(note.map(|note| CheckpointRecord {
            index: value(note, INDEX),
            operation: value(note, OPERATION),
        }))
    }

    /// Returns the state to restore for a checkpoint. Without a record, the index is assumed to be
    /// clean.
    pub(super) fn build_restore_target(
        &self,
        mark: &IterationMark,
        to: &Checkpoint,
    ) -> Result<RestoreTarget, VcsError> {
        let (head, branch, tree) = match to {
            Checkpoint::Git { head, branch, tree: Some(TreeId(tree)) } => (head, branch, tree),
            Checkpoint::Git { tree: None, .. } | Checkpoint::None => {
                return Err(VcsError {
                    message: "the checkpoint has no record of the work tree".to_owned(),
                });
            }
        };
        let head = head.as_ref().map(|CommitId(head)| head.clone());
        let noted = self.read_checkpoint(mark, head.as_deref(), tree)?;
        let (index, operation) = noted.map_or((None, None), |it| (it.index, it.operation));
        let index = match index {
            Some(index) => index,
            None => self.repository.resolve_tree(head.as_deref())?,
        };
        let place = Some(HeadPosition { branch: branch.clone(), commit: head });
        Ok(RestoreTarget { tree: tree.clone(), index, place, operation })
    }
}

/// What a checkpoint recorded besides the tree.
#[derive(Debug)]
pub(super) struct CheckpointRecord {
    /// The tree of the index; none while a merge was in conflict.
    pub(super) index: Option<String>,
    /// The git operation that was in progress.
    pub(super) operation: Option<String>,
}

const HEAD: &str = "Ralph-Head: ";
const INDEX: &str = "Ralph-Index: ";
const OPERATION: &str = "Ralph-Operation: ";

impl Vcs for GitVcs {
    fn create_checkpoint(
        &mut self,
        mark: &IterationMark,
        depth: CheckpointDepth,
    ) -> Result<Checkpoint, VcsError> {
        self.record_guarded_files();
        self.record_foreign_locks();
        let head = self.repository.head()?;
        let tree = match depth {
            CheckpointDepth::Head => None,
            CheckpointDepth::Tree => {
                let tree = self.shadow.survey_tree(&self.repository)?;
                self.save_checkpoint(mark, &head, &tree)?;
                Some(TreeId(tree))
            }
        };
        self.record_refs(mark, head.branch.as_deref());
        Ok(Checkpoint::Git { head: head.commit.map(CommitId), branch: head.branch, tree })
    }

    fn survey_tree(&mut self) -> Result<Option<Survey>, VcsError> {
        self.repair_git_dir();
        self.restore_refs();
        let tree = match self.repository.take_clean_tree() {
            Some(tree) => tree,
            None => self.shadow.survey_tree(&self.repository)?,
        };
        let head = self.repository.head()?;
        let changes = if tree == head.tree { TreeDiff::Clean } else { TreeDiff::Dirty };
        let checked_out = Some(head.checked_out());
        Ok(Some(Survey { tree: TreeId(tree), changes, checked_out }))
    }

    fn survey_documents(&mut self, documents: &[PathBuf]) -> Result<Option<Survey>, VcsError> {
        let Some(survey) = self.survey_tree()? else { return Ok(None) };
        let head = self.repository.head()?;
        let mut places = self.resolve_paths_from_top(documents);
        // The run's documents become part of its first commit, whatever that is for.
        places.extend(self.repository.documents.iter().cloned());
        let tree = self.build_tree_with_only(&places, &head.tree, &survey.tree.0)?;
        let changes = if tree == head.tree { TreeDiff::Clean } else { TreeDiff::Dirty };
        Ok(Some(Survey { tree: TreeId(tree), changes, ..survey }))
    }

    fn observe(
        &mut self,
        since: &Checkpoint,
        watched: &[Pattern],
    ) -> Result<Option<Observation>, VcsError> {
        self.repair_repository(since);
        let seen = self.observe_since(since, watched)?;
        let tampering = self.take_tampering();
        let mut seen = seen.map(|seen| Observation { git_tampering: tampering, ..seen });
        if let Some(seen) = &mut seen {
            let room = MAX_AUTORUN_CHANGES.saturating_sub(seen.autorun_changes.len());
            seen.autorun_changes.extend(self.programs.find_changes().into_iter().take(room));
        }
        Ok(seen)
    }

    fn peek_changes_since(
        &mut self,
        since: &Checkpoint,
        watched: &[Pattern],
    ) -> Result<Option<Observation>, VcsError> {
        let Checkpoint::Git { head, branch, tree } = since else { return Ok(None) };
        if let Some(TreeId(tree)) = tree
            && self.repository.resolve_name(&format!("{tree}^{{tree}}"))?.is_some()
        {
            return self.observe_since(since, watched);
        }
        let (head, branch) = (head.clone(), branch.clone());
        let seen = self.observe_since(&Checkpoint::Git { head, branch, tree: None }, watched)?;
        Ok(seen.map(|seen| Observation { files: Vec::new(), ..seen }))
    }

    fn find_changed_submodules(&mut self) -> Vec<String> {
        self.list_changed_submodules()
    }

    fn take_final_survey(&mut self) -> Option<Survey> {
        self.with_shutdown_deadline(Vcs::survey_tree).ok()?
    }

    fn restore_last_refs(&mut self) -> Vec<String> {
        if !self.has_unchecked_refs() {
            return Vec::new();
        }
        self.with_shutdown_deadline(Self::restore_refs);
        self.take_tampering()
    }

    fn keep_reachable(&mut self, mark: &IterationMark, to: &Checkpoint) {
        if let Checkpoint::Git { tree: Some(TreeId(tree)), .. } = to {
            let name = format!("refs/ralph/asked/{}", mark.run);
            let _ = self.repository.set_ref(&name, tree);
        }
    }

    fn ensure_git_files_recorded(&mut self) {
        self.ensure_record();
    }

    fn forget_reported_tampering(&mut self) {
        self.forget_reported();
    }

    fn run_commit_hook(&mut self, tree: &TreeId) -> Result<HookResult, VcsError> {
        self.repair_git_dir();
        self.run_tree_hook(&tree.0)
    }

    fn test_commit_hooks(
        &mut self,
        mark: &IterationMark,
        message: Option<&str>,
    ) -> Result<HookTrial, VcsError> {
        self.try_all_hooks(mark, message)
    }

    fn commit_tree(&mut self, order: &CommitOrder) -> Result<CommitResult, VcsError> {
        self.repair_git_dir();
        self.restore_refs_before_commit();
        let tampering = self.take_tampering();
        if !tampering.is_empty() {
            // The agent's changes were not observed before, so the tampering is reported here.
            return Ok(CommitResult::Refused {
                output: ralph_model::worktree::describe_git_tampering(&tampering),
            });
        }
        self.remove_agent_locks();
        // The user's own commands may change any ref.
        self.forget_refs();
        if is_git(&order.command) {
            let result = self.commit_with_git(order)?;
            if let CommitResult::Made(commit) = &result {
                self.record_subject(order, commit);
            }
            Ok(result)
        } else {
            let project = &self.repository.project;
            commit_with_other_scm(&self.repository.commands, project, order)
        }
    }

    fn find_commit(
        &mut self,
        mark: &IterationMark,
    ) -> Result<Option<(CommitId, String)>, VcsError> {
        self.finish_commit(mark)
    }

    fn roll_back(
        &mut self,
        mark: &IterationMark,
        to: &Checkpoint,
    ) -> Result<Option<String>, VcsError> {
        self.repair_repository(to);
        match to {
            Checkpoint::None => Ok(None),
            Checkpoint::Git { .. } => {
                let target = self.build_restore_target(mark, to)?;
                self.restore(&target, &format_kept_ref(mark))
            }
        }
    }

    fn restore_paths(
        &mut self,
        mark: &IterationMark,
        to: &Checkpoint,
        is_restored: &dyn Fn(&str) -> bool,
    ) -> Result<Option<String>, VcsError> {
        self.repair_repository(to);
        match to {
            Checkpoint::None => Ok(None),
            Checkpoint::Git { .. } => self.restore_some_paths(mark, to, is_restored),
        }
    }

    fn replace_files(
        &mut self,
        TreeId(tree): &TreeId,
        is_replaced: &dyn Fn(&str) -> bool,
    ) -> Result<(), VcsError> {
        let now = self.shadow.survey_tree(&self.repository)?;
        let is_kept = |path: &[u8]| !is_replaced(&self.repository.name_bytes_from_project(path));
        let target = self.build_tree_with(tree, is_kept, &now)?;
        if target == now { Ok(()) } else { self.switch_tree(&now, &target) }
    }

    fn reset_history(
        &mut self,
        mark: &IterationMark,
        to: &Checkpoint,
    ) -> Result<Option<String>, VcsError> {
        self.repair_repository(to);
        match to {
            Checkpoint::None => Ok(None),
            Checkpoint::Git { head, branch, tree } => {
                let commit = head.as_ref().map(|CommitId(head)| head.clone());
                let place = HeadPosition { branch: branch.clone(), commit };
                self.restore_history(mark, place, tree.as_ref())
            }
        }
    }

    fn save_to_failure_branch(
        &mut self,
        order: &FailureBranchOrder,
    ) -> Result<SavedBranch, VcsError> {
        self.repair_repository(&order.checkpoint);
        if let FailedWorkLocation::Candidate(_) = &order.work {
            return self.commit_to_failure_branch(order);
        }
        let target = self.build_restore_target(&order.mark, &order.checkpoint)?;
        let failed_work = self.commit_to_failure_branch(order)?;
        self.restore(&target, &format_kept_ref(&order.mark))?;
        Ok(failed_work)
    }

    fn diff_trees(&mut self, from: &TreeId, to: &TreeId, chars: usize) -> Result<String, VcsError> {
        self.repository.build_patch(from, to, chars).or_else(|error| {
            // No ref leads to the last observed tree: another survey creates it again.
            self.shadow.survey_tree(&self.repository).map_err(|_| error)?;
            self.repository.build_patch(from, to, chars)
        })
    }

    fn list_last_subjects(&mut self, count: usize) -> Vec<String> {
        if count == 0 {
            return Vec::new();
        }
        let head = self.repository.head().ok().and_then(|head| head.commit);
        let subjects = match (&self.subjects, &head) {
            (Some((known, subjects)), Some(head)) if known == head => subjects.clone(),
            (_, _) => self.repository.list_last_subjects(count),
        };
        self.subjects = head.map(|head| (head, subjects.clone()));
        subjects.into_iter().take(count).collect()
    }

    fn read_head(&mut self) -> Result<CheckedOut, VcsError> {
        self.repository.checked_out()
    }

    fn fetch_result(
        &mut self,
        run: &RunId,
        worker: &WorkerId,
        result: &JobResult,
    ) -> Result<FetchOutcome, VcsError> {
        self.repository.fetch_candidate(run, worker, result)
    }

    fn merge_candidate(
        &mut self,
        mark: &IterationMark,
        onto: &Checkpoint,
        candidate: &Candidate,
    ) -> Result<MergeOutcome, VcsError> {
        self.merge_into_tree(mark, onto, candidate)
    }

    fn keep_requeued_tree(
        &mut self,
        run: &RunId,
        worker: &WorkerId,
        tree: &TreeId,
    ) -> Result<(), VcsError> {
        self.repository.set_ref(&format!("refs/ralph/requeued/{run}/{worker}"), &tree.0)
    }

    fn run_scm(&mut self, command: &str, args: &[String]) -> Result<ScmResult, VcsError> {
        self.repair_git_dir();
        self.restore_refs();
        // Hooks run what agents wrote, and this is outside the sandbox.
        let is_confined = is_git(command) && self.repository.commands.is_confined();
        if is_confined && args.first().is_some_and(|word| word == "push") {
            match self.run_push_hook(command, args)? {
                CommitHookRun::Passed => {}
                CommitHookRun::Refused { output } => {
                    let output = format!("the pre-push hook refused the push:\n{output}");
                    return Ok(ScmResult::Failed { output });
                }
                CommitHookRun::Interrupted => {
                    let message = "the pre-push hook was interrupted".to_owned();
                    return Err(VcsError { message });
                }
            }
            self.repair_git_dir();
            self.restore_refs();
        }
        self.forget_refs();
        let mut call = self.build_scm_call(command).with_args(args);
        if is_confined {
            call = call.with_setting("core.hooksPath=/dev/null");
        }
        run_scm(&self.repository.commands, call)
    }
}

/// Returns the trailers that mark what belongs to an iteration.
pub(super) fn format_trailers(mark: &IterationMark) -> String {
    let mut trailers = format!("Ralph-Run: {}\nRalph-Iteration: {}\n", mark.run, mark.iteration);
    if let Some(task) = mark.task.as_ref().map(format_task_trailer).filter(|task| !task.is_empty())
    {
        trailers.extend(["Ralph-Task: ", &task, "\n"]);
    }
    trailers
}

/// Returns a task's id as a trailer value: on one line, as git would fold it.
pub(super) fn format_task_trailer(TaskId(task): &TaskId) -> String {
    let clean = task.replace(char::is_control, " ");
    clean.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the ref that keeps what a rollback of an iteration removes.
pub(super) fn format_kept_ref(IterationMark { run, iteration, .. }: &IterationMark) -> String {
    format!("refs/ralph/kept/{run}/{iteration}")
}

fn format_checkpoint_ref(mark: &IterationMark, ago: u32) -> String {
    format!("{}{}", format_checkpoint_prefix(mark), mark.iteration.0.saturating_sub(ago))
}

fn format_checkpoint_prefix(mark: &IterationMark) -> String {
    format!("refs/ralph/checkpoints/{}/", mark.run)
}
