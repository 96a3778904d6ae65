//! Restores a checkpoint, after everything that this removes is saved on a ref.
//!
//! Ignored files are never touched. The ignore rules are those of the checkpoint: an agent that
//! edits a `.gitignore` can neither hide its files nor expose the user's. Not here: when to
//! restore.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ralph_core::ports::VcsError;

use super::command::GitCommand;
use super::diff::{TreeChange, join_with_zeros, split_at_zeros};
use super::dirty::BISECT;
use super::head::HeadState;
use super::repository::GitRepository;
use super::vcs::GitVcs;

/// The first round restores; the second finds files that a changed `.gitignore` had hidden; a
/// third must find nothing.
const ROUNDS: u32 = 3;

/// How many refs with numbered names are tried.
const MOST_KEPT: u32 = 1000;

/// A state to restore.
#[derive(Debug)]
pub(super) struct RestoreTarget {
    /// The tree of the work tree.
    pub(super) tree: String,
    /// The tree of the user's index.
    pub(super) index: String,
    /// What is to be checked out; none to leave that as it is.
    pub(super) place: Option<HeadPosition>,
    /// The git operation that was in progress; one that was started later is aborted.
    pub(super) operation: Option<String>,
}

/// A branch and its commit.
#[derive(Debug)]
pub(super) struct HeadPosition {
    /// The full name of the branch; none if HEAD is detached.
    pub(super) branch: Option<String>,
    /// The commit; none before the first one.
    pub(super) commit: Option<String>,
}

/// The difference between the work tree and a target.
struct WorkTreeDiff {
    now: String,
    changes: Vec<TreeChange>,
    /// Paths that only exist now and stay: runtime files, and files that the target's rules ignore.
    spared: BTreeSet<Vec<u8>>,
    /// Pipes, sockets and devices in the way. They have no content that could be saved.
    special: BTreeSet<Vec<u8>>,
}

impl GitVcs {
    /// Restores a state. Returns the ref that keeps the replaced state, or none if nothing
    /// differed. After a crash in between, returns the ref of the first try again.
    pub(super) fn restore(
        &mut self,
        target: &RestoreTarget,
        name: &str,
    ) -> Result<Option<String>, VcsError> {
        let mut kept = self.repository.has_ref(name)?.then(|| name.to_owned());
        for round in 0..ROUNDS {
            let head = self.repository.head()?;
            let distance = self.compute_diff_to(&target.tree)?;
            let has_moved = target.place.as_ref().is_some_and(|place| place.differs_from(&head));
            if distance.changes.is_empty() && !has_moved {
                if round == 0 {
                    self.repository.abort_operation(target)?;
                    self.repository.reset_index(&target.index)?;
                }
                return Ok(kept);
            }
            let message = "ralph: the work tree before a rollback";
            let now = self.save_all(&head, target, &distance.now, name, message)?;
            kept.get_or_insert(now);
            self.check_out_tree(&distance, &target.tree)?;
            if let Some(place) = target.place.as_ref().filter(|_| has_moved) {
                self.repository.restore_head(place, &head)?;
            }
            self.repository.abort_operation(target)?;
            self.repository.reset_index(&target.index)?;
        }
        Err(VcsError {
            message: format!(
                "the work tree keeps changing during the rollback; all of it is kept on {name}"
            ),
        })
    }

    /// Changes the work tree to another tree. Everything that this removes must be saved before.
    fn check_out_tree(&mut self, distance: &WorkTreeDiff, tree: &str) -> Result<(), VcsError> {
        self.shadow.load_tree(&self.repository, &distance.now)?;
        self.shadow.remove_paths(&self.repository, distance.spared.iter().map(Vec::as_slice))?;
        for path in &distance.special {
            let path = self.repository.top.join(OsStr::from_bytes(path));
            fs::remove_file(&path).map_err(|error| VcsError {
                message: format!("cannot remove `{}`: {error}", path.display()),
            })?;
        }
        self.shadow.check_out(&self.repository, tree)
    }

    /// Changes the work tree from a surveyed tree to another one.
    pub(super) fn switch_tree(&mut self, now: &str, tree: &str) -> Result<(), VcsError> {
        self.shadow.load_tree(&self.repository, now)?;
        self.shadow.check_out(&self.repository, tree)
    }

    fn compute_diff_to(&mut self, tree: &str) -> Result<WorkTreeDiff, VcsError> {
        let mut now = self.shadow.survey_tree(&self.repository)?;
        let mut changes = self.repository.diff_trees(tree, &now)?;
        // What is in the way is newer than the target, even if it is ignored, and must be saved as
        // well.
        let top = &self.repository.top;
        let (special, obstacles): (BTreeSet<_>, BTreeSet<_>) =
            find_obstacles(top, &changes)?.into_iter().partition(|path| is_special(top, path));
        if !obstacles.is_empty() {
            self.shadow.add_paths(&self.repository, obstacles.iter().map(Vec::as_slice))?;
            now = self.shadow.write_tree(&self.repository)?;
            changes = self.repository.diff_trees(tree, &now)?;
        }
        // The commit of a submodule belongs to its own history; ralph does not move it.
        changes.retain(|change| !change.has_gitlink());
        let mut spared = self.find_ignored_by(tree, &changes)?;
        let added = changes.iter().filter(|change| change.before.is_none());
        let runtime = added.filter(|change| self.repository.is_runtime_file(&change.path));
        spared.extend(runtime.map(|change| change.path.clone()));
        spared.retain(|path| !obstacles.contains(path));
        changes.retain(|change| !spared.contains(&change.path));
        Ok(WorkTreeDiff { now, changes, spared, special })
    }

    /// Returns the added paths that the rules of a tree ignore.
    fn find_ignored_by(
        &self,
        tree: &str,
        changes: &[TreeChange],
    ) -> Result<BTreeSet<Vec<u8>>, VcsError> {
        let added = changes.iter().filter(|change| change.before.is_none());
        let added = join_with_zeros(added.map(|change| change.path.as_slice()));
        if added.is_empty() {
            return Ok(BTreeSet::new());
        }
        let args = ["check-ignore", "--no-index", "-z", "--stdin"];
        let ran = if changes.iter().any(TreeChange::is_ignore_file) {
            let rules = self.write_ignore_rules(tree)?;
            let call = GitCommand::new_plumbing(rules.path(), &args)
                .with_env("GIT_DIR", &self.repository.git_dir)
                .with_env("GIT_WORK_TREE", rules.path());
            self.repository.commands.run(call.with_stdin(added))?
        } else {
            self.repository.commands.run(self.repository.build_plumbing(&args).with_stdin(added))?
        };
        match ran.code {
            0 | 1 => Ok(split_at_zeros(&ran.stdout).map(<[u8]>::to_vec).collect()),
            _ => Err(ran.to_error()),
        }
    }

    /// Writes the `.gitignore` files of a tree to a temporary directory.
    fn write_ignore_rules(&self, tree: &str) -> Result<tempfile::TempDir, VcsError> {
        let directory = tempfile::tempdir_in(&self.scratch).map_err(|error| VcsError {
            message: format!("cannot write to `{}`: {error}", self.scratch.display()),
        })?;
        let index = self.scratch.join("index.scratch");
        let git = |args: &[&str]| self.repository.build_plumbing(args).with_index(&index);
        let commands = &self.repository.commands;
        commands.run_for_output(git(&["read-tree", "--reset", tree]))?;
        let rules =
            commands.run_for_output(git(&["ls-files", "-z", "--", ":(top,glob)**/.gitignore"]))?;
        let mut prefix = directory.path().as_os_str().to_owned();
        prefix.push("/");
        let call = git(&["checkout-index", "-z", "--stdin", "--prefix"]);
        commands.run_for_output(call.with_args([prefix]).with_stdin(rules))?;
        Ok(directory)
    }

    /// Saves the work tree, with the commits and staged contents that a restore would lose.
    pub(super) fn save_all(
        &self,
        head: &HeadState,
        target: &RestoreTarget,
        now: &str,
        name: &str,
        message: &str,
    ) -> Result<String, VcsError> {
        let mut parents: Vec<String> = head.commit.iter().cloned().collect();
        let index = self.repository.write_index_tree(&head.tree, &self.scratch)?;
        // A staged tree that equals the work tree is lost only if the index is restored too.
        let is_elsewhere = |index: &String| {
            [&head.tree, &target.index].contains(&index) || (index == now && target.place.is_some())
        };
        if let Some(index) = index.filter(|index| !is_elsewhere(index)) {
            let parent: Vec<String> = head.commit.iter().cloned().collect();
            parents.push(self.repository.commit_tree(&index, &parent, "ralph: what was staged")?);
        }
        if let Some(branch) = target.place.as_ref().and_then(|place| place.branch.as_ref())
            && head.branch.as_ref() != Some(branch)
            && let Some(tip) = self.repository.resolve_name(branch)?
            && !parents.contains(&tip)
        {
            parents.push(tip);
        }
        self.repository.save_on_ref(name, now, &parents, message)
    }
}

impl HeadPosition {
    pub(super) fn differs_from(&self, head: &HeadState) -> bool {
        self.branch != head.branch || self.commit != head.commit
    }
}

impl GitRepository {
    /// Saves a tree on a ref, or on the next free one with a number added. Never overwrites a ref.
    pub(super) fn save_on_ref(
        &self,
        name: &str,
        tree: &str,
        parents: &[String],
        message: &str,
    ) -> Result<String, VcsError> {
        let commit = self.commit_tree(tree, parents, message)?;
        for number in 1..=MOST_KEPT {
            let name = if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
            // The empty old value makes git refuse if the ref exists.
            let call =
                self.build_plumbing(&["update-ref", "-m", "ralph: kept", &name, &commit, ""]);
            let ran = self.commands.run(call.with_ralph_identity())?;
            if ran.code == 0 {
                return Ok(name);
            }
            if !self.has_ref(&name)? {
                return Err(ran.to_error());
            }
        }
        Err(VcsError { message: format!("there is no free name for {name}") })
    }

    pub(super) fn restore_head(
        &self,
        place: &HeadPosition,
        head: &HeadState,
    ) -> Result<(), VcsError> {
        let message = "ralph: back to the checkpoint";
        let git = |args: &[&str]| {
            self.commands.run_for_output(self.build_plumbing(args).with_ralph_identity()).map(drop)
        };
        match (&place.branch, &place.commit) {
            (None, Some(commit)) => {
                git(&["update-ref", "--no-deref", "-m", message, "HEAD", commit])
            }
            (None, None) => Ok(()),
            (Some(branch), commit) => {
                if head.branch.as_ref() != Some(branch) {
                    git(&["symbolic-ref", "-m", message, "HEAD", branch])?;
                }
                match (commit, self.resolve_name(branch)?) {
                    (Some(commit), tip) if tip.as_ref() != Some(commit) => {
                        git(&["update-ref", "-m", message, branch, commit])
                    }
                    (None, Some(_)) => git(&["update-ref", "-m", message, "-d", branch]),
                    (Some(_), _) | (None, None) => Ok(()),
                }
            }
        }
    }

    /// Aborts a merge or similar operation that was started since, so that the next commit is an
    /// ordinary one.
    pub(super) fn abort_operation(&self, target: &RestoreTarget) -> Result<(), VcsError> {
        match self.operation() {
            Some(operation) if target.operation.is_none() && target.place.is_some() => {
                if operation == BISECT {
                    // git can end a bisection only by checking something out: here the current
                    // HEAD, which changes nothing. Before the first commit there is no HEAD, and a
                    // bisection does no harm to a commit.
                    self.commands.run(self.build_plumbing(&[BISECT, "reset", "HEAD"])).map(drop)
                } else {
                    self.commands
                        .run_for_output(self.build_plumbing(&[operation, "--quit"]))
                        .map(drop)
                }
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Returns the files of the work tree at paths that a tree has and the current tree lacks. git
/// does not know them, and would overwrite those that are ignored.
pub(super) fn find_obstacles(
    top: &Path,
    changes: &[TreeChange],
) -> Result<BTreeSet<Vec<u8>>, VcsError> {
    let mut found = BTreeSet::new();
    for change in changes.iter().filter(|it| it.after.is_none() && !it.has_gitlink()) {
        let path = Path::new(OsStr::from_bytes(&change.path));
        let mut prefixes: Vec<&Path> =
            path.ancestors().filter(|prefix| *prefix != Path::new("")).collect();
        prefixes.reverse();
        // The first prefix that is not a directory is an obstacle; if all are directories,
        // everything below the last one is.
        let kind = |prefix: &&Path| fs::symlink_metadata(top.join(prefix)).map(|it| it.file_type());
        match prefixes
            .iter()
            .map(|prefix| (prefix, kind(prefix)))
            .find(|(_, kind)| !kind.as_ref().is_ok_and(fs::FileType::is_dir))
        {
            Some((prefix, Ok(_))) => drop(found.insert(prefix.as_os_str().as_bytes().to_vec())),
            Some((_, Err(_))) => {}
            None => collect_files_below(top, path, &mut found)?,
        }
    }
    Ok(found)
}

fn is_special(top: &Path, path: &[u8]) -> bool {
    fs::symlink_metadata(top.join(OsStr::from_bytes(path))).is_ok_and(|metadata| {
        let kind = metadata.file_type();
        !kind.is_file() && !kind.is_dir() && !kind.is_symlink()
    })
}

fn collect_files_below(
    top: &Path,
    directory: &Path,
    found: &mut BTreeSet<Vec<u8>>,
) -> Result<(), VcsError> {
    let failed = |what: &str| VcsError {
        message: format!("cannot restore: {what} in `{}`", top.join(directory).display()),
    };
    let entries = fs::read_dir(top.join(directory)).map_err(|error| failed(&error.to_string()))?;
    for entry in entries {
        let entry = entry.map_err(|error| failed(&error.to_string()))?;
        let path = directory.join(entry.file_name());
        if entry.file_name() == ".git" {
            return Err(failed("a repository is in the way"));
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect_files_below(top, &path, found)?;
        } else {
            found.insert(path.into_os_string().into_encoded_bytes());
        }
    }
    Ok(())
}
