//! The version control port: checkpoints, surveys, commits, rollbacks, and the user's own commands.
//!
//! Not here: the steps of a commit (`commit`) and of a rollback (`restore`).

use std::path::PathBuf;

use ralph_core::event::{self, Changes, Checkpoint, CommitId, TreeId};
use ralph_core::glob::Pattern;
use ralph_core::ids::TaskId;
use ralph_core::ports::{
    CommitOrder, CommitResult, Depth, HookResult, HookTrial, Mark, Observation, ScmResult,
    ShelveOrder, Shelved, Survey, Vcs, VcsError,
};

use super::back::{Place, Target};
use super::command::{Breath, Call, Commands};
use super::head::Head;
use super::hooks::Hooks;
use super::identity::Signing;
use super::kept_refs::KeptRefs;
use super::locks::Lock;
use super::own_files::OwnFiles;
use super::repository::Repository;
use super::scan::Scan;
use super::shadow::Shadow;
use crate::store::layout::{GIT_SCRATCH, private_directories};

/// How many checkpoints of a run have a ref. A task may be rolled back after many attempts; older
/// checkpoints rely on git's own grace period of two weeks.
const CHECKPOINTS: u32 = 100;

/// The repository of a run.
#[derive(Debug)]
pub struct Git {
    pub(super) repository: Repository,
    pub(super) directory: PathBuf,
    /// The subdirectory that git itself writes: indexes that are not the user's. Hooks and filters
    /// that git runs can write there, so nothing in it is trusted.
    pub(super) scratch: PathBuf,
    pub(super) shadow: Shadow,
    /// The locks that existed at the last checkpoint. Others are the agent's.
    pub(super) locks: Vec<Lock>,
    pub(super) scan: Scan,
    /// git's own files at the last checkpoint.
    pub(super) own_files: Option<OwnFiles>,
    /// Project files that are protected with them, because git ignores them.
    pub(super) guarded: Vec<PathBuf>,
    /// Files that were tampered with and restored since the last report.
    pub(super) meddling: Vec<String>,
    /// The commit hooks, once they were looked for.
    pub(super) hooks: Option<Hooks>,
    /// How commits are signed, as configured before an agent had worked.
    pub(super) signing: Option<Signing>,
    /// Whether the unreported restores of an earlier process were read.
    pub(super) is_untold_read: bool,
    /// The user's refs and their objects, if agents can write the repository.
    pub(super) kept_refs: Option<KeptRefs>,
}

impl Git {
    /// Returns the repository of a run, whose directory gets the shadow index.
    pub fn new(repository: Repository, run_directory: impl Into<PathBuf>) -> Self {
        let directory = run_directory.into();
        let scratch = directory.join(GIT_SCRATCH);
        // If this fails, the first write there reports it.
        let _ = private_directories(&scratch);
        let shadow = Shadow::in_directory(&scratch);
        let locks = repository.locks(&directory);
        Self {
            repository,
            directory,
            scratch,
            shadow,
            locks,
            scan: Scan::default(),
            own_files: None,
            guarded: Vec::new(),
            meddling: Vec::new(),
            hooks: None,
            signing: None,
            is_untold_read: false,
            kept_refs: None,
        }
    }

    /// Runs something with a short time limit, even if the user has stopped the run.
    pub(super) fn parting<T>(&mut self, action: impl FnOnce(&mut Self) -> T) -> T {
        let shutdown = self.repository.commands.clone().parting();
        let usual = std::mem::replace(&mut self.repository.commands, shutdown);
        let done = action(self);
        self.repository.commands = usual;
        done
    }

    /// Returns the repository.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Repairs what an agent may have broken, so that git can work at all.
    fn make_ready(&mut self, since: &Checkpoint) {
        self.mend_own_files();
        self.free_locks();
        if let Checkpoint::Git { head, branch, .. } = since {
            let commit = head.as_ref().map(|CommitId(commit)| commit.as_str());
            let aside = self.directory.join("HEAD.broken");
            self.repository.mend_head(branch.as_deref(), commit, &aside);
        }
        self.restore_refs();
    }

    /// Saves a checkpoint on a ref, so that git does not remove it as garbage, and records what the
    /// port's checkpoint type has no field for.
    fn note(&self, mark: &Mark, head: &Head, tree: &str) -> Result<(), VcsError> {
        let index = if self.shadow.is_index_of(&self.repository, &head.tree) {
            Some(head.tree.clone())
        } else {
            self.repository.index_tree(&head.tree, &self.scratch)?
        };
        let mut parents: Vec<String> = head.commit.iter().cloned().collect();
        if let Some(index) = index.as_ref().filter(|index| **index != head.tree) {
            parents.push(self.repository.commit_tree(index, &parents, "ralph: what was staged")?);
        }
        let mut message = format!("ralph: checkpoint\n\n{}", trailers(mark));
        for (name, value) in [
            (HEAD, head.commit.as_deref()),
            (INDEX, index.as_deref()),
            (OPERATION, self.repository.operation()),
        ] {
            if let Some(value) = value {
                message.extend([name, value, "\n"]);
            }
        }
        let call = self.repository.committing(tree, &parents, &message);
        let orders = |commit: &str| {
            let mut orders = format!("update {} {commit}\n", checkpoint_ref(mark, 0));
            if mark.iteration.0 > CHECKPOINTS {
                orders.extend(["delete ", &checkpoint_ref(mark, CHECKPOINTS), "\n"]);
            }
            orders
        };
        let commands = &self.repository.commands;
        if commands.breath() == Breath::One && is_plain(&checkpoint_ref(mark, 0)) {
            let orders = orders("$commit");
            let script = format!(
                "commit=$({{this}}) && printf %s \"{orders}\" | {{git}} update-ref --stdin"
            );
            return commands.output(call.within_script(script)).map(drop);
        }
        let commit = commands.line(call)?;
        let call = self.repository.git(&["update-ref", "--stdin"]);
        commands.output(call.stdin(orders(&commit).into_bytes())).map(drop)
    }

    /// Reads what [`GitVcs::save_checkpoint`] recorded, in this iteration or in an earlier one that
    /// started from the same state.
    pub(super) fn noted(
        &self,
        mark: &Mark,
        head: Option<&str>,
        tree: &str,
    ) -> Result<Option<Noted>, VcsError> {
        let commands = &self.repository.commands;
        let directory = checkpoints(mark);
        let format = "--format=%(refname:lstrip=-1)%00%(tree)%00%(contents)%00";
        let args = ["for-each-ref", "--sort=version:refname", format, &directory];
        let output = commands.output(self.repository.git(&args))?;
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
        Ok(note.map(|note| Noted { index: value(note, INDEX), operation: value(note, OPERATION) }))
    }

    /// Returns the state to restore for a checkpoint. Without a record, the index is assumed to be
    /// clean.
    pub(super) fn target(&self, mark: &Mark, to: &Checkpoint) -> Result<Target, VcsError> {
        let (head, branch, tree) = match to {
            Checkpoint::Git { head, branch, tree: Some(TreeId(tree)) } => (head, branch, tree),
            Checkpoint::Git { tree: None, .. } | Checkpoint::None => {
                return Err(VcsError {
                    message: "the checkpoint has no record of the work tree".to_owned(),
                });
            }
        };
        let head = head.as_ref().map(|CommitId(head)| head.clone());
        let noted = self.noted(mark, head.as_deref(), tree)?;
        let (index, operation) = noted.map_or((None, None), |it| (it.index, it.operation));
        let index = match index {
            Some(index) => index,
            None => self.repository.tree_of(head.as_deref())?,
        };
        let place = Some(Place { branch: branch.clone(), commit: head });
        Ok(Target { tree: tree.clone(), index, place, operation })
    }
}

/// What a checkpoint recorded besides the tree.
#[derive(Debug)]
pub(super) struct Noted {
    /// The tree of the index; none while a merge was in conflict.
    pub(super) index: Option<String>,
    /// The git operation that was in progress.
    pub(super) operation: Option<String>,
}

const HEAD: &str = "Ralph-Head: ";
const INDEX: &str = "Ralph-Index: ";
const OPERATION: &str = "Ralph-Operation: ";

impl Vcs for Git {
    fn checkpoint(&mut self, mark: &Mark, depth: Depth) -> Result<Checkpoint, VcsError> {
        self.note_own_files();
        self.know_locks();
        if self.signing.is_none() {
            self.signing = Some(self.repository.signing()?);
        }
        let head = self.repository.head()?;
        let tree = match depth {
            Depth::Head => None,
            Depth::Tree => {
                let tree = self.shadow.survey(&self.repository)?;
                self.note(mark, &head, &tree)?;
                Some(TreeId(tree))
            }
        };
        self.note_refs(mark, head.branch.as_deref());
        Ok(Checkpoint::Git { head: head.commit.map(CommitId), branch: head.branch, tree })
    }

    fn survey(&mut self) -> Result<Option<Survey>, VcsError> {
        self.mend_own_files();
        self.restore_refs();
        let tree = self.shadow.survey(&self.repository)?;
        let head = self.repository.head()?;
        let changes = if tree == head.tree { Changes::None } else { Changes::Some };
        let checked_out = Some(head.checked_out());
        Ok(Some(Survey { tree: TreeId(tree), changes, checked_out }))
    }

    fn survey_of(&mut self, documents: &[PathBuf]) -> Result<Option<Survey>, VcsError> {
        let Some(survey) = self.survey()? else { return Ok(None) };
        let head = self.repository.head()?;
        let mut places = self.places(documents);
        // The run's documents become part of its first commit, whatever that is for.
        places.extend(self.repository.documents.iter().cloned());
        let tree = self.only(&places, &head.tree, &survey.tree.0)?;
        let changes = if tree == head.tree { Changes::None } else { Changes::Some };
        Ok(Some(Survey { tree: TreeId(tree), changes, ..survey }))
    }

    fn observe(
        &mut self,
        since: &Checkpoint,
        watched: &[Pattern],
    ) -> Result<Option<Observation>, VcsError> {
        self.make_ready(since);
        let seen = self.observe_since(since, watched)?;
        let tampering = self.take_meddling();
        Ok(seen.map(|seen| Observation { meddling: tampering, ..seen }))
    }

    fn changed_since(
        &mut self,
        since: &Checkpoint,
        watched: &[Pattern],
    ) -> Result<Option<Observation>, VcsError> {
        let Checkpoint::Git { head, branch, tree } = since else { return Ok(None) };
        if let Some(TreeId(tree)) = tree
            && self.repository.resolve(&format!("{tree}^{{tree}}"))?.is_some()
        {
            return self.observe_since(since, watched);
        }
        let (head, branch) = (head.clone(), branch.clone());
        let seen = self.observe_since(&Checkpoint::Git { head, branch, tree: None }, watched)?;
        Ok(seen.map(|seen| Observation { files: Vec::new(), ..seen }))
    }

    fn last_look(&mut self) -> Option<Survey> {
        self.parting(Vcs::survey).ok()?
    }

    fn restore_last_refs(&mut self) -> Vec<String> {
        if !self.has_unseen_refs() {
            return Vec::new();
        }
        self.parting(Self::restore_refs);
        self.take_meddling()
    }

    fn hold(&mut self, mark: &Mark, to: &Checkpoint) {
        if let Checkpoint::Git { tree: Some(TreeId(tree)), .. } = to {
            let name = format!("refs/ralph/asked/{}", mark.run);
            let call = self.repository.git(&["update-ref", &name, tree]);
            let _ = self.repository.commands.run(call);
        }
    }

    fn run_commit_hook(&mut self, tree: &TreeId) -> Result<HookResult, VcsError> {
        self.mend_own_files();
        self.pass_tree(&tree.0)
    }

    fn try_hooks(&mut self, mark: &Mark, message: Option<&str>) -> Result<HookTrial, VcsError> {
        self.try_all_hooks(mark, message)
    }

    fn commit(&mut self, order: &CommitOrder) -> Result<CommitResult, VcsError> {
        self.mend_own_files();
        self.restore_refs();
        let tampering = self.take_meddling();
        if !tampering.is_empty() {
            // The agent's changes were not observed before, so the tampering is reported here.
            return Ok(CommitResult::Refused { output: event::meddled(&tampering) });
        }
        self.free_locks();
        // The user's own commands may change any ref.
        self.forget_refs();
        if is_git(&order.command) {
            self.commit_with_git(order)
        } else {
            let project = &self.repository.project;
            commit_elsewhere(&self.repository.commands, project, order)
        }
    }

    fn rollback(&mut self, mark: &Mark, to: &Checkpoint) -> Result<Option<String>, VcsError> {
        self.make_ready(to);
        match to {
            Checkpoint::None => Ok(None),
            Checkpoint::Git { .. } => {
                let target = self.target(mark, to)?;
                self.go_back(&target, &kept_ref(mark))
            }
        }
    }

    fn confine(
        &mut self,
        mark: &Mark,
        to: &Checkpoint,
        scope: &[Pattern],
    ) -> Result<Option<String>, VcsError> {
        self.make_ready(to);
        match to {
            Checkpoint::None => Ok(None),
            Checkpoint::Git { .. } => self.confine_to(mark, to, scope),
        }
    }

    fn put_history_back(
        &mut self,
        mark: &Mark,
        to: &Checkpoint,
    ) -> Result<Option<String>, VcsError> {
        self.make_ready(to);
        match to {
            Checkpoint::None => Ok(None),
            Checkpoint::Git { head, branch, tree } => {
                let commit = head.as_ref().map(|CommitId(head)| head.clone());
                let place = Place { branch: branch.clone(), commit };
                self.put_place_back(mark, place, tree.as_ref())
            }
        }
    }

    fn shelve(&mut self, order: &ShelveOrder) -> Result<Shelved, VcsError> {
        self.make_ready(&order.checkpoint);
        let target = self.target(&order.mark, &order.checkpoint)?;
        let failed_work = self.put_on_branch(order)?;
        self.go_back(&target, &kept_ref(&order.mark))?;
        Ok(failed_work)
    }

    fn diff(&mut self, from: &TreeId, to: &TreeId, chars: usize) -> Result<String, VcsError> {
        self.repository.patch(from, to, chars).or_else(|error| {
            // No ref leads to the last observed tree: another survey creates it again.
            self.shadow.survey(&self.repository).map_err(|_| error)?;
            self.repository.patch(from, to, chars)
        })
    }

    fn scm(&mut self, command: &str, args: &[String]) -> Result<ScmResult, VcsError> {
        self.mend_own_files();
        self.restore_refs();
        self.forget_refs();
        let project = &self.repository.project;
        let mut call = Call::users(command, project).args(args).outside();
        if is_git(command) && self.repository.commands.is_confined() {
            // Hooks run what agents wrote, and this is outside the sandbox.
            call = call.setting("core.hooksPath=/dev/null");
        }
        run_scm(&self.repository.commands, call)
    }
}

/// Runs a source-control command of the user.
pub(super) fn run_scm(commands: &Commands, call: Call<'_>) -> Result<ScmResult, VcsError> {
    let ran = commands.run(call)?;
    Ok(if ran.code == 0 { ScmResult::Done } else { ScmResult::Failed { output: ran.words() } })
}

/// Commits with a program that is not git. Its commit ids mean nothing to ralph.
pub(super) fn commit_elsewhere(
    commands: &Commands,
    project: &std::path::Path,
    order: &CommitOrder,
) -> Result<CommitResult, VcsError> {
    let call = Call::users(&order.command, project).args(["commit", "-m", &order.message]);
    let ran = commands.run(call)?;
    let output = ran.words();
    match ran.code {
        0 => Ok(CommitResult::Made(CommitId(String::new()))),
        // Mercurial's message for it.
        _ if output.contains("nothing changed") => Ok(CommitResult::Nothing),
        code => Err(VcsError {
            message: format!("`{} commit` failed (exit code {code}): {output}", order.command),
        }),
    }
}

/// Returns the trailers that mark what belongs to an iteration.
pub(super) fn trailers(mark: &Mark) -> String {
    let mut trailers = format!("Ralph-Run: {}\nRalph-Iteration: {}\n", mark.run, mark.iteration);
    if let Some(task) = mark.task.as_ref().map(task_trailer).filter(|task| !task.is_empty()) {
        trailers.extend(["Ralph-Task: ", &task, "\n"]);
    }
    trailers
}

/// Returns a task's id as a trailer value: on one line, as git would fold it.
pub(super) fn task_trailer(TaskId(task): &TaskId) -> String {
    let clean = task.replace(char::is_control, " ");
    clean.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the ref that keeps what a rollback of an iteration removes.
pub(super) fn kept_ref(Mark { run, iteration, .. }: &Mark) -> String {
    format!("refs/ralph/kept/{run}/{iteration}")
}

fn checkpoint_ref(mark: &Mark, ago: u32) -> String {
    format!("{}{}", checkpoints(mark), mark.iteration.0.saturating_sub(ago))
}

fn checkpoints(mark: &Mark) -> String {
    format!("refs/ralph/checkpoints/{}/", mark.run)
}

/// Returns whether a name contains nothing that a shell would expand.
fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
}

pub(super) fn is_git(command: &str) -> bool {
    std::path::Path::new(command).file_name().is_some_and(|name| name == "git")
}
