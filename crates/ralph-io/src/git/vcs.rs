//! The port: checkpoints, surveys, commits, the way back, and the user's own commands.
//!
//! Not here: the steps of a commit (`commit`) and of the way back (`back`).

use std::path::PathBuf;

use ralph_core::event::{Changes, Checkpoint, CommitId, TreeId};
use ralph_core::ids::RunId;
use ralph_core::ports::{CommitOrder, CommitResult, Depth, Mark, ScmResult, Survey, Vcs, VcsError};

use super::back::{Place, Target};
use super::command::{Call, Commands};
use super::head::Head;
use super::repository::Repository;
use super::shadow::Shadow;

/// How many checkpoints of a run have a ref. Only the last is ever gone back to; a few more
/// help a person.
const CHECKPOINTS: u32 = 3;

/// The repository of a run.
#[derive(Debug)]
pub struct Git {
    pub(super) repository: Repository,
    pub(super) directory: PathBuf,
    pub(super) shadow: Shadow,
}

impl Git {
    /// Returns the repository for a run, whose directory takes the shadow index.
    pub fn new(repository: Repository, run_directory: impl Into<PathBuf>) -> Self {
        let directory = run_directory.into();
        let shadow = Shadow::in_directory(&directory);
        Self { repository, directory, shadow }
    }

    /// Returns the repository as it was found.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Puts a checkpoint on a ref, so that git does not take it for garbage, and writes down
    /// what the port's own checkpoint has no room for.
    fn note(&self, mark: &Mark, head: &Head, tree: &str) -> Result<(), VcsError> {
        let index = self.repository.index_tree(&head.tree, &self.directory)?;
        let mut parents: Vec<String> = head.commit.iter().cloned().collect();
        if let Some(index) = index.as_ref().filter(|index| **index != head.tree) {
            parents.push(self.repository.commit_tree(index, &parents, "ralph: what was staged")?);
        }
        let mut message = format!("ralph: checkpoint\n\n{}", trailers(mark));
        for (name, value) in [
            (BRANCH, head.branch.as_deref()),
            (INDEX, index.as_deref()),
            (OPERATION, self.repository.operation()),
        ] {
            if let Some(value) = value {
                message.extend([name, value, "\n"]);
            }
        }
        let commit = self.repository.commit_tree(tree, &parents, &message)?;
        let mut orders = format!("update {}\0{commit}\0\0", checkpoint_ref(mark, 0));
        if mark.iteration.0 > CHECKPOINTS {
            orders.extend(["delete ", &checkpoint_ref(mark, CHECKPOINTS), "\0\0"]);
        }
        let call = self.repository.git(&["update-ref", "-z", "--stdin"]);
        self.repository.commands.output(call.stdin(orders.into_bytes())).map(drop)
    }

    /// Reads what [`Git::note`] wrote down. Without it, the branch is taken to be the current one
    /// and nothing to have been staged.
    fn target(&self, mark: &Mark, head: Option<&str>, tree: &str) -> Result<Target, VcsError> {
        let name = checkpoint_ref(mark, 0);
        let ran =
            self.repository.commands.run(self.repository.git(&["cat-file", "commit", &name]))?;
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        let value = |name: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| line.strip_prefix(name)).map(str::to_owned)
        };
        let noted = ran.code == 0 && value("tree ").as_deref() == Some(tree);
        let index = match (value(INDEX).filter(|_| noted), head) {
            (Some(index), _) => index,
            (None, Some(head)) => self
                .repository
                .resolve(&format!("{head}^{{tree}}"))?
                .ok_or_else(|| VcsError { message: format!("the commit {head} is gone") })?,
            (None, None) => self.repository.empty_tree()?,
        };
        let branch = if noted { value(BRANCH) } else { self.repository.head()?.branch };
        Ok(Target {
            tree: tree.to_owned(),
            index,
            place: Some(Place { branch, commit: head.map(str::to_owned) }),
            operation: value(OPERATION).filter(|_| noted),
        })
    }
}

const BRANCH: &str = "Ralph-Branch: ";
const INDEX: &str = "Ralph-Index: ";
const OPERATION: &str = "Ralph-Operation: ";

impl Vcs for Git {
    fn checkpoint(&mut self, mark: &Mark, depth: Depth) -> Result<Checkpoint, VcsError> {
        let head = self.repository.head()?;
        let tree = match depth {
            Depth::Head => None,
            Depth::Tree => {
                let tree = self.shadow.survey(&self.repository)?;
                self.note(mark, &head, &tree)?;
                Some(TreeId(tree))
            }
        };
        Ok(Checkpoint::Git { head: head.commit.map(CommitId), tree })
    }

    fn survey(&mut self) -> Result<Option<Survey>, VcsError> {
        let tree = self.shadow.survey(&self.repository)?;
        let changes =
            if tree == self.repository.head()?.tree { Changes::None } else { Changes::Some };
        Ok(Some(Survey { tree: TreeId(tree), changes }))
    }

    fn commit(&mut self, order: &CommitOrder) -> Result<CommitResult, VcsError> {
        if is_git(&order.command) {
            self.commit_with_git(order)
        } else {
            let project = &self.repository.project;
            commit_elsewhere(&self.repository.commands, project, order)
        }
    }

    fn rollback(&mut self, mark: &Mark, to: &Checkpoint) -> Result<Option<String>, VcsError> {
        match to {
            Checkpoint::None => Ok(None),
            Checkpoint::Git { tree: None, .. } => Err(VcsError {
                message: "the checkpoint does not say what was in the work tree".to_owned(),
            }),
            Checkpoint::Git { head, tree: Some(TreeId(tree)) } => {
                let head = head.as_ref().map(|CommitId(head)| head.as_str());
                let target = self.target(mark, head, tree)?;
                let Mark { run, iteration } = mark;
                self.go_back(&target, &format!("refs/ralph/kept/{run}/{iteration}"))
            }
        }
    }

    fn scm(&mut self, command: &str, words: &[String]) -> Result<ScmResult, VcsError> {
        let project = &self.repository.project;
        run_scm(&self.repository.commands, Call::users(command, project).args(words))
    }
}

/// Runs a source-control command of the user's.
pub(super) fn run_scm(commands: &Commands, call: Call<'_>) -> Result<ScmResult, VcsError> {
    let ran = commands.run(call)?;
    Ok(if ran.code == 0 { ScmResult::Done } else { ScmResult::Failed { output: ran.words() } })
}

/// Commits with a program that is not git. It gives no id that would mean something to us.
pub(super) fn commit_elsewhere(
    commands: &Commands,
    project: &std::path::Path,
    order: &CommitOrder,
) -> Result<CommitResult, VcsError> {
    let call = Call::users(&order.command, project).args(["commit", "-m", &order.message]);
    let ran = commands.run(call)?;
    let words = ran.words();
    match ran.code {
        0 => Ok(CommitResult::Made(CommitId(String::new()))),
        // Mercurial's words for it.
        _ if words.contains("nothing changed") => Ok(CommitResult::Nothing),
        code => Err(VcsError {
            message: format!("`{} commit` failed (exit code {code}): {words}", order.command),
        }),
    }
}

/// Returns the trailers that mark what belongs to an iteration.
pub(super) fn trailers(mark: &Mark) -> String {
    format!("Ralph-Run: {}\nRalph-Iteration: {}\n", mark.run, mark.iteration)
}

fn checkpoint_ref(mark: &Mark, ago: u32) -> String {
    let RunId(run) = &mark.run;
    format!("refs/ralph/checkpoints/{run}/{}", mark.iteration.0.saturating_sub(ago))
}

pub(super) fn is_git(command: &str) -> bool {
    std::path::Path::new(command).file_name().is_some_and(|name| name == "git")
}
