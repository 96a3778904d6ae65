//! The way back to a state, after everything that it removes is kept on a ref.
//!
//! Ignored files are never touched, by the rules of the state that is gone back to: what an
//! agent writes into a `.gitignore` neither hides its files nor gives away the user's. Not
//! here: when to go back.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ralph_core::ports::VcsError;

use super::command::Call;
use super::diff::{Change, split_zero, zero_ended};
use super::dirty::BISECT;
use super::head::Head;
use super::repository::Repository;
use super::vcs::Git;

/// The first round goes back; the second finds what a changed `.gitignore` had hidden; a third
/// must find nothing.
const ROUNDS: u32 = 3;

/// No state is kept more often than this under one name.
const MOST_KEPT: u32 = 1000;

/// A state to go back to.
#[derive(Debug)]
pub(super) struct Target {
    /// Everything in the work tree.
    pub(super) tree: String,
    /// Everything in the user's index.
    pub(super) index: String,
    /// What is checked out; none to leave that as it is.
    pub(super) place: Option<Place>,
    /// The operation of git's that was under way; a later one is given up.
    pub(super) operation: Option<String>,
}

/// A branch and where it stands.
#[derive(Debug)]
pub(super) struct Place {
    /// The full name of the branch; none if HEAD was detached.
    pub(super) branch: Option<String>,
    /// The commit; none before the first one.
    pub(super) commit: Option<String>,
}

/// What stands between the work tree and a target.
struct Distance {
    /// The tree that is there now.
    now: String,
    /// What is different.
    changes: Vec<Change>,
    /// Paths that are only there now and are to stay: runtime files, and files that the rules of
    /// the target ignore.
    spared: BTreeSet<Vec<u8>>,
    /// Pipes, sockets and devices in the way. They have no content that could be kept.
    special: BTreeSet<Vec<u8>>,
}

impl Git {
    /// Goes back to a state. Returns the ref that keeps what was there, or nothing if there was
    /// no difference. After a crash on the way, the ref of the first try is returned again.
    pub(super) fn go_back(
        &mut self,
        target: &Target,
        name: &str,
    ) -> Result<Option<String>, VcsError> {
        let mut kept = self.repository.has_ref(name)?.then(|| name.to_owned());
        for round in 0..ROUNDS {
            let head = self.repository.head()?;
            let distance = self.distance(&target.tree)?;
            let has_moved = target.place.as_ref().is_some_and(|place| place.is_left(&head));
            if distance.changes.is_empty() && !has_moved {
                if round == 0 {
                    self.repository.give_up_operation(target)?;
                    self.repository.reset_index(&target.index)?;
                }
                return Ok(kept);
            }
            let message = "ralph: the work tree before it went back";
            let now = self.keep_all(&head, target, &distance.now, name, message)?;
            kept.get_or_insert(now);
            self.check_out(&distance, &target.tree)?;
            if let Some(place) = target.place.as_ref().filter(|_| has_moved) {
                self.repository.put_head_back(place, &head)?;
            }
            self.repository.give_up_operation(target)?;
            self.repository.reset_index(&target.index)?;
        }
        Err(VcsError {
            message: format!(
                "the work tree keeps changing while ralph goes back; all of it is kept on {name}"
            ),
        })
    }

    /// Changes the work tree to another tree. Everything that this removes must be kept before.
    fn check_out(&mut self, distance: &Distance, tree: &str) -> Result<(), VcsError> {
        self.shadow.hold(&self.repository, &distance.now)?;
        self.shadow.forget(&self.repository, distance.spared.iter().map(Vec::as_slice))?;
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
        self.shadow.hold(&self.repository, now)?;
        self.shadow.check_out(&self.repository, tree)
    }

    fn distance(&mut self, tree: &str) -> Result<Distance, VcsError> {
        let mut now = self.shadow.survey(&self.repository)?;
        let mut changes = self.repository.diff_trees(tree, &now)?;
        // What is in the way is younger than the target, even if it is ignored, and belongs to
        // what is kept.
        let top = &self.repository.top;
        let (special, obstacles): (BTreeSet<_>, BTreeSet<_>) =
            obstacles(top, &changes)?.into_iter().partition(|path| is_special(top, path));
        if !obstacles.is_empty() {
            self.shadow.add(&self.repository, obstacles.iter().map(Vec::as_slice))?;
            now = self.shadow.tree(&self.repository)?;
            changes = self.repository.diff_trees(tree, &now)?;
        }
        // Where a submodule stands is its own history; ralph does not move it.
        changes.retain(|change| !change.concerns_gitlink());
        let mut spared = self.ignored_by(tree, &changes)?;
        let added = changes.iter().filter(|change| change.before.is_none());
        let runtime = added.filter(|change| self.repository.is_runtime_file(&change.path));
        spared.extend(runtime.map(|change| change.path.clone()));
        spared.retain(|path| !obstacles.contains(path));
        changes.retain(|change| !spared.contains(&change.path));
        Ok(Distance { now, changes, spared, special })
    }

    /// Returns which of the added paths the rules of a tree ignore.
    fn ignored_by(&self, tree: &str, changes: &[Change]) -> Result<BTreeSet<Vec<u8>>, VcsError> {
        let added = changes.iter().filter(|change| change.before.is_none());
        let added = zero_ended(added.map(|change| change.path.as_slice()));
        if added.is_empty() {
            return Ok(BTreeSet::new());
        }
        let args = ["check-ignore", "--no-index", "-z", "--stdin"];
        let ran = if changes.iter().any(Change::concerns_ignore_rules) {
            let rules = self.rules_of(tree)?;
            let call = Call::git(rules.path(), &args)
                .env("GIT_DIR", &self.repository.git_dir)
                .env("GIT_WORK_TREE", rules.path());
            self.repository.commands.run(call.stdin(added))?
        } else {
            self.repository.commands.run(self.repository.git(&args).stdin(added))?
        };
        match ran.code {
            0 | 1 => Ok(split_zero(&ran.stdout).map(<[u8]>::to_vec).collect()),
            _ => Err(ran.failed()),
        }
    }

    /// Writes the `.gitignore` files of a tree to a directory of their own.
    fn rules_of(&self, tree: &str) -> Result<tempfile::TempDir, VcsError> {
        let directory = tempfile::tempdir_in(&self.scratch).map_err(|error| VcsError {
            message: format!("cannot write to `{}`: {error}", self.scratch.display()),
        })?;
        let index = self.scratch.join("index.scratch");
        let git = |args: &[&str]| self.repository.git(args).index(&index);
        let commands = &self.repository.commands;
        commands.output(git(&["read-tree", "--reset", tree]))?;
        let rules = commands.output(git(&["ls-files", "-z", "--", ":(top,glob)**/.gitignore"]))?;
        let mut prefix = directory.path().as_os_str().to_owned();
        prefix.push("/");
        let call = git(&["checkout-index", "-z", "--stdin", "--prefix"]);
        commands.output(call.args([prefix]).stdin(rules))?;
        Ok(directory)
    }

    /// Keeps the work tree, with the commits and staged contents that a way back would lose.
    pub(super) fn keep_all(
        &self,
        head: &Head,
        target: &Target,
        now: &str,
        name: &str,
        message: &str,
    ) -> Result<String, VcsError> {
        let mut parents: Vec<String> = head.commit.iter().cloned().collect();
        let index = self.repository.index_tree(&head.tree, &self.scratch)?;
        // What is in the work tree as well is lost only where staging itself is to be put back.
        let is_elsewhere = |index: &String| {
            [&head.tree, &target.index].contains(&index) || (index == now && target.place.is_some())
        };
        if let Some(index) = index.filter(|index| !is_elsewhere(index)) {
            let parent: Vec<String> = head.commit.iter().cloned().collect();
            parents.push(self.repository.commit_tree(&index, &parent, "ralph: what was staged")?);
        }
        if let Some(branch) = target.place.as_ref().and_then(|place| place.branch.as_ref())
            && head.branch.as_ref() != Some(branch)
            && let Some(tip) = self.repository.resolve(branch)?
            && !parents.contains(&tip)
        {
            parents.push(tip);
        }
        self.repository.keep(name, now, &parents, message)
    }
}

impl Place {
    pub(super) fn is_left(&self, head: &Head) -> bool {
        self.branch != head.branch || self.commit != head.commit
    }
}

impl Repository {
    /// Puts a tree on a ref, or on the next free one of that name with a number. What a ref keeps
    /// is never replaced.
    pub(super) fn keep(
        &self,
        name: &str,
        tree: &str,
        parents: &[String],
        message: &str,
    ) -> Result<String, VcsError> {
        let commit = self.commit_tree(tree, parents, message)?;
        for number in 1..=MOST_KEPT {
            let name = if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
            // The empty old value makes git refuse where the ref exists.
            let call = self.git(&["update-ref", "-m", "ralph: kept", &name, &commit, ""]);
            let ran = self.commands.run(call.signed_by_ralph())?;
            if ran.code == 0 {
                return Ok(name);
            }
            if !self.has_ref(&name)? {
                return Err(ran.failed());
            }
        }
        Err(VcsError { message: format!("there is no free name for {name}") })
    }

    /// Makes a commit object that is on no branch.
    pub(super) fn commit_tree(
        &self,
        tree: &str,
        parents: &[String],
        message: &str,
    ) -> Result<String, VcsError> {
        self.commands.line(self.committing(tree, parents, message))
    }

    /// Returns the command that makes such an object.
    pub(super) fn committing(&self, tree: &str, parents: &[String], message: &str) -> Call<'_> {
        let parents = parents.iter().flat_map(|parent| ["-p", parent.as_str()]);
        let call = self.git(&["commit-tree", tree]).args(parents).signed_by_ralph();
        call.stdin(message.as_bytes().to_vec())
    }

    pub(super) fn put_head_back(&self, place: &Place, head: &Head) -> Result<(), VcsError> {
        let message = "ralph: back to the checkpoint";
        let git = |args: &[&str]| self.commands.output(self.git(args).signed_by_ralph()).map(drop);
        match (&place.branch, &place.commit) {
            (None, Some(commit)) => {
                git(&["update-ref", "--no-deref", "-m", message, "HEAD", commit])
            }
            (None, None) => Ok(()),
            (Some(branch), commit) => {
                if head.branch.as_ref() != Some(branch) {
                    git(&["symbolic-ref", "-m", message, "HEAD", branch])?;
                }
                match (commit, self.resolve(branch)?) {
                    (Some(commit), tip) if tip.as_ref() != Some(commit) => {
                        git(&["update-ref", "-m", message, branch, commit])
                    }
                    (None, Some(_)) => git(&["update-ref", "-m", message, "-d", branch]),
                    (Some(_), _) | (None, None) => Ok(()),
                }
            }
        }
    }

    /// Ends a merge or the like that was begun since, so that the next commit is an ordinary one.
    pub(super) fn give_up_operation(&self, target: &Target) -> Result<(), VcsError> {
        match self.operation() {
            Some(operation) if target.operation.is_none() && target.place.is_some() => {
                if operation == BISECT {
                    // git's only way to end it checks something out: what is checked out now,
                    // which changes nothing. Before the first commit there is no such thing, and
                    // a bisection does no harm to a commit.
                    self.commands.run(self.git(&[BISECT, "reset", "HEAD"])).map(drop)
                } else {
                    self.commands.output(self.git(&[operation, "--quit"])).map(drop)
                }
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Returns the files of the work tree that stand where a tree has others and the present one has
/// none. git does not know them, and would overwrite those that are ignored.
pub(super) fn obstacles(top: &Path, changes: &[Change]) -> Result<BTreeSet<Vec<u8>>, VcsError> {
    let mut found = BTreeSet::new();
    for change in changes.iter().filter(|it| it.after.is_none() && !it.concerns_gitlink()) {
        let path = Path::new(OsStr::from_bytes(&change.path));
        let mut ways: Vec<&Path> = path.ancestors().filter(|way| *way != Path::new("")).collect();
        ways.reverse();
        // The first thing on the way that is not a directory is in the way; with directories all
        // along, everything below the last one is.
        let kind = |way: &&Path| fs::symlink_metadata(top.join(way)).map(|it| it.file_type());
        match ways
            .iter()
            .map(|way| (way, kind(way)))
            .find(|(_, kind)| !kind.as_ref().is_ok_and(fs::FileType::is_dir))
        {
            Some((way, Ok(_))) => drop(found.insert(way.as_os_str().as_bytes().to_vec())),
            Some((_, Err(_))) => {}
            None => files_below(top, path, &mut found)?,
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

fn files_below(
    top: &Path,
    directory: &Path,
    found: &mut BTreeSet<Vec<u8>>,
) -> Result<(), VcsError> {
    let failed = |what: &str| VcsError {
        message: format!("cannot go back: {what} in `{}`", top.join(directory).display()),
    };
    let entries = fs::read_dir(top.join(directory)).map_err(|error| failed(&error.to_string()))?;
    for entry in entries {
        let entry = entry.map_err(|error| failed(&error.to_string()))?;
        let path = directory.join(entry.file_name());
        if entry.file_name() == ".git" {
            return Err(failed("a repository is in the way"));
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            files_below(top, &path, found)?;
        } else {
            found.insert(path.into_os_string().into_encoded_bytes());
        }
    }
    Ok(())
}
