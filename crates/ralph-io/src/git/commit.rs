//! A commit: exactly the surveyed tree, with the user's identity and hooks.
//!
//! Not here: what the message says.

use std::fs;
use std::path::PathBuf;

use ralph_core::event::{CommitId, TreeId};
use ralph_core::ids::{IterationNumber, RunId};
use ralph_core::ports::{CommitOrder, CommitResult, Mark, VcsError};

use ralph_core::secret::leak;

use super::command::{Breath, Call, NotRun};
use super::dirty::MERGE;
use super::head::{Head, and_head};
use super::repository::is_within;
use super::user_index::IndexLock;
use super::vcs::{Git, trailers};

/// How many iterations of a run go by before git is asked whether it wants to tidy up. It does so
/// after thousands of objects, and asking costs a process with every commit.
const HOUSEKEEPING: u32 = 16;

/// Whether git may tidy up after a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Housekeeping {
    /// If it thinks that it is time.
    IfDue,
    /// Not now.
    Later,
}

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
        self.announce(&order.mark, &head)?;
        let trailers = trailers(&order.mark);
        let housekeeping = match order.mark.iteration.0 % HOUSEKEEPING {
            1 => Housekeeping::IfDue,
            _ => Housekeeping::Later,
        };
        let ran = self.run_commit(&order.command, &order.message, &trailers, housekeeping);
        if ran != Ok(None)
            && let Some(made) = self.made_after_all(&order.mark)
        {
            return Ok(made);
        }
        if let Some(output) = ran? {
            return Ok(CommitResult::Refused { output });
        }
        // The usual case: nothing was staged, and the shadow is what is committed now.
        if let Some(lock) = IndexLock::take(&self.repository.index())?
            && self.is_nothing_staged(&head.tree)?
            && self.shadow.can_be_index(&self.repository)
        {
            let installed = lock.install(self.shadow.index())?;
            let now = self.repository.head()?;
            // A hook may have committed something else than what the shadow held before.
            let tree = Some(tree).filter(|tree| *tree == now.tree);
            self.shadow.became_the_index(&installed, tree);
            return made(&now);
        }
        let now = self.repository.head()?;
        self.land(&order.mark, &head.tree, &now)
    }

    /// Commits some files and directories as they are in the work tree, outside of any run. What
    /// else is changed or staged stays so.
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
        if let Some(output) = self.run_commit("git", message, "", Housekeeping::IfDue)? {
            return Ok(CommitResult::Refused { output });
        }
        let mark = Mark { run: RunId("archive".into()), iteration: IterationNumber(0), task: None };
        let now = self.repository.head()?;
        self.land(&mark, &head.tree, &now)
    }

    /// Returns where files and directories are in a tree.
    pub(super) fn places(&self, paths: &[PathBuf]) -> Vec<Vec<u8>> {
        paths.iter().filter_map(|path| self.repository.path_from_top(path)).collect()
    }

    /// Returns a tree in which only these places are as they are now.
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

    /// Runs `git commit`; returns what a hook said that refused it.
    fn run_commit(
        &self,
        command: &str,
        message: &str,
        trailers: &str,
        housekeeping: Housekeeping,
    ) -> Result<Option<String>, VcsError> {
        let mut call = Call::users(command, &self.repository.top)
            .setting("core.quotePath=false")
            // Housekeeping must be over when the commit is: what is left running is ended.
            .setting("gc.autoDetach=false")
            .setting("maintenance.autoDetach=false")
            .index(self.shadow.index())
            .args(["commit", "--quiet", "--no-status", "--cleanup=whitespace", "--file=-"]);
        call = match housekeeping {
            Housekeeping::IfDue => call,
            Housekeeping::Later => call.setting("maintenance.auto=false"),
        };
        let message = message.trim_end();
        let text = if message.lines().count() == 1 {
            format!("{message}\n\n{trailers}")
        } else {
            // A longer message may end with trailers of its own; git knows how to join them, at
            // the price of a further process.
            for trailer in trailers.lines() {
                call = call.args([format!("--trailer={trailer}")]);
            }
            message.to_owned()
        };
        call = match self.repository.commands.breath() {
            Breath::One => call.within_script(and_head()),
            Breath::Many => call,
        };
        match self.repository.commands.attempt(call.stdin(text.into_bytes())) {
            Ok(ran) if ran.code == 0 => {
                self.repository.hear_head(&ran.stdout);
                Ok(None)
            }
            // git itself fails with 128; 1 is what it makes of a hook's no.
            Ok(ran) if ran.code == 1 || ran.complains_of("aborted by hook") => {
                Ok(Some(ran.words()))
            }
            Ok(ran) => Err(ran.failed()),
            Err(NotRun::TimedOut { words }) => {
                Ok(Some(format!("{words}\n[ralph] the hooks took longer than ten minutes")))
            }
            Err(NotRun::NotFound) => {
                Err(VcsError { message: format!("`{command}` was not found") })
            }
            Err(NotRun::Other { message }) => {
                Err(VcsError { message: format!("`git commit` could not be run: {message}") })
            }
        }
    }

    /// Returns a commit of this mark that was made although git did not say so: whoever ends it, or a hook
    /// that comes later and takes too long, does not undo it.
    fn made_after_all(&mut self, mark: &Mark) -> Option<CommitResult> {
        self.parting(|git| {
            let head = git.repository.head()?;
            let before = git.made_before(mark, &head)?;
            before.map(|before| git.land(mark, &before, &head)).transpose()
        })
        .ok()?
    }

    /// Returns whether nothing is staged, compared with what was committed before. An index that is
    /// still the one that was put there with that commit needs no looking at.
    fn is_nothing_staged(&self, before: &str) -> Result<bool, VcsError> {
        Ok(self.shadow.is_index_of(&self.repository, before)
            || self.repository.staged(before)?.is_empty())
    }

    /// Brings the user's index to where the commit is, for what was committed. Other things that
    /// are staged stay so; staged contents that the commit passed over are kept on a ref.
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

    /// Writes down that a commit is about to be made on this one. Together with the trailers that
    /// tells our own commit after a crash; the trailers alone an agent could write.
    fn announce(&self, mark: &Mark, head: &Head) -> Result<(), VcsError> {
        let path = self.announcement(mark);
        let parent = head.commit.as_deref().unwrap_or_default();
        // Not synced: it need not outlive the machine, for after a power cut a commit that did
        // survive is found to have the tree already.
        fs::write(&path, format!("{parent}\n{}\n", head.tree)).map_err(|error| VcsError {
            message: format!("cannot write `{}`: {error}", path.display()),
        })
    }

    /// Brings a commit of this mark to its end that a run had made when it died, and returns it with
    /// its subject. Nothing if it had not come to that.
    pub fn finish_commit(&mut self, mark: &Mark) -> Result<Option<(CommitId, String)>, VcsError> {
        self.mend_own_files();
        let head = self.repository.head()?;
        let Some(before) = self.made_before(mark, &head)? else { return Ok(None) };
        let CommitResult::Made(commit) = self.land(mark, &before, &head)? else { return Ok(None) };
        let args = ["log", "-1", "--no-show-signature", "--format=%B", &commit.0];
        let message = self.repository.commands.line(self.repository.git(&args))?;
        Ok(Some((commit, message.lines().next().unwrap_or_default().to_owned())))
    }

    /// Returns the tree before the commit of this mark, if that commit is what is checked out.
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

fn made(now: &Head) -> Result<CommitResult, VcsError> {
    match &now.commit {
        Some(commit) => Ok(CommitResult::Made(CommitId(commit.clone()))),
        None => Err(VcsError {
            message: "git says that it committed, and there is no commit".to_owned(),
        }),
    }
}
