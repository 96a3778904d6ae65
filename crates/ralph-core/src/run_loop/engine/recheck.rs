//! Rechecks the work tree before an iteration is judged and before a review agent is
//! called: it must still be what the gates ran on. A gate may rewrite files (`eslint
//! --fix`), and gates run code that agents wrote. The project's own commit hook is one
//! more gate, and is test-run before any work.

use ralph_model::event::Event;
use ralph_model::handoff::{FileAction, FileTouched};
use ralph_model::outcome::Outcome;
use ralph_model::phase::{Checking, Iteration};
use ralph_model::recipe::{CommitPolicy, HistoryOwner};
use ralph_model::refusal::RefusalKind;
use ralph_model::text;
use ralph_model::worktree::{CheckedOut, Checkpoint, Survey, TreeDiff, UNCOMMITTED_FILES};

use super::{Engine, EngineError, StepError};
use crate::landing::scm;
use crate::ports::{HookResult, HookTrial, Observation};
use crate::run_loop::choose;

/// How often all gates run again in one iteration. A formatter needs one more round, and
/// two that depend on each other need two.
const MAX_GATE_RESTARTS: u32 = 2;

/// Whether the work tree is still what the gates checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recheck {
    Same,
    /// The tree changed: the gates have to run again, or the attempt has failed.
    Again,
}

/// How much of a hook's output a warning shows.
const HOOK_OUTPUT_CHARS: usize = 200;

impl Engine<'_> {
    /// Runs the project's pre-commit hook on work that ralph is going to commit. If the
    /// hook rewrites files, the gates run on the result and then the hook again. Its
    /// refusal fails the attempt.
    pub(super) fn run_commit_hook(&mut self) -> Result<Recheck, StepError> {
        let is_due = |current: &Iteration| {
            let is_changed = |seen: &Observation| seen.changes == TreeDiff::Dirty;
            let checking = current.checking()?;
            let is_ours = self.state.recipe.ownership().history == HistoryOwner::Ralph;
            let is_due = is_ours
                && choose::needs_recheck(current.role, checking)
                && checking.observation().is_some_and(is_changed);
            Some(is_due)
        };
        let (Some(true), Some(seen)) =
            (self.map_current(is_due).flatten(), self.state.observed_state())
        else {
            return Ok(Recheck::Same);
        };
        let Checkpoint::Git { tree: Some(tree), .. } = &seen else { return Ok(Recheck::Same) };
        self.ports.store.sync_events().map_err(EngineError::from)?;
        let refusal = match self.ports.vcs.run_commit_hook(tree)? {
            HookResult::Absent => return Ok(Recheck::Same),
            HookResult::Interrupted => return Err(StepError::Outcome(Outcome::Interrupted)),
            HookResult::Passed => None,
            HookResult::Refused { output } => Some(output),
        };
        let now = self.ports.vcs.survey_tree()?;
        if now.as_ref().is_some_and(|now| now.tree != *tree) {
            if self.restart_gates(&seen, "the pre-commit hook changed files")? == Recheck::Again {
                return Ok(Recheck::Again);
            }
            self.record_event(Event::Rechecked { survey: now })?;
        }
        let Some(output) = refusal else { return Ok(Recheck::Same) };
        self.record_refusal(RefusalKind::CommitHook, output, Vec::new())?;
        Ok(Recheck::Again)
    }

    /// Test-runs the commit hooks once, before an agent call is paid for: an agent cannot
    /// do anything about a protected branch or a required message format. Other
    /// complaints may be what the work is about, so they are only a warning.
    pub(super) fn test_commit_hooks(&mut self) -> Result<(), StepError> {
        let is_ours = self.state.recipe.ownership().history == HistoryOwner::Ralph;
        if self.state.are_hooks_tested || !is_ours {
            return Ok(());
        }
        let subject = match self.state.recipe.landing.commit {
            CommitPolicy::Ralph => {
                self.map_current(|it| choose::build_commit_message(&self.state, it))
            }
            CommitPolicy::Scm(_) | CommitPolicy::Agent | CommitPolicy::NoCommit => None,
        };
        match self.ports.vcs.test_commit_hooks(&self.git_mark(), subject.as_deref())? {
            HookTrial::Passed => Ok(()),
            HookTrial::Interrupted => Err(StepError::Outcome(Outcome::Interrupted)),
            HookTrial::MessageRefused { output } => {
                Err(build_message_error(&subject.unwrap_or_default(), &output))
            }
            HookTrial::CommitRefused { output, branch } => {
                let branch = branch.unwrap_or_default();
                if scm::mentions_branch(&output, &branch) {
                    let message = format!(
                        "the pre-commit hook refuses commits on `{branch}`:\n{output}\n\
                         hint: `git switch -c NAME`, then start again"
                    );
                    return Err(StepError::Outcome(Outcome::GitFailed { message }));
                }
                let output = text::shorten_to_line(&output, HOOK_OUTPUT_CHARS);
                self.warn(format!("the pre-commit hook fails before any work: {output}"))?;
                Ok(())
            }
        }
    }

    /// Warns about changes of git's own files that the observation of the work does not have: they
    /// were made later, by a reviewer, a gate or a process that outlived the run, so the work is
    /// not refused for them.
    fn warn_of_late_tampering(&mut self, now: &Observation) -> Result<(), StepError> {
        let seen = self.state.current.as_ref().and_then(Iteration::checking);
        let seen = seen.and_then(|it| it.observed.as_ref()?.observation.as_ref());
        let is_known = |path: &&String| seen.is_some_and(|it| it.git_tampering.contains(path));
        let late: Vec<&str> =
            now.git_tampering.iter().filter(|it| !is_known(it)).map(String::as_str).collect();
        if !late.is_empty() {
            let paths = late.join(", ");
            let text = format!(
                "these files changed before the run was resumed, and were restored: {paths}"
            );
            self.record_event(Event::Warned { text })?;
        }
        self.ports.vcs.forget_reported_tampering();
        Ok(())
    }

    /// Compares the work tree with the one that the gates checked. If files were changed, all
    /// gates run again on what is there now.
    pub(super) fn recheck_tree(&mut self) -> Result<(), StepError> {
        let Some(seen) = self.state.observed_state() else { return Ok(()) };
        let checking = self.map_current(|it| it.checking().cloned()).flatten();
        let Some(Checking { was_stopped, survey: known, altered, .. }) = checking.clone() else {
            return Ok(());
        };
        let (survey, cause) = if was_stopped {
            let now = self.ports.vcs.observe(&seen, &self.watched_patterns())?;
            if let Some(now) = &now {
                self.warn_of_late_tampering(now)?;
            }
            (now.map(|now| now.to_survey()), "files changed while the run was stopped")
        } else {
            let now = match known {
                Some(known) => Some(known),
                None => self.ports.vcs.survey_tree()?,
            };
            (now, "the gates changed files")
        };
        let ownership = self.state.recipe.ownership();
        let is_same = |now: &Survey| checking.is_some_and(|it| it.is_as_observed(now, ownership));
        let is_kept = survey.as_ref().is_none_or(is_same) && (altered.is_empty() || was_stopped);
        if is_kept || self.restart_gates(&seen, cause)? == Recheck::Same {
            self.record_event(Event::Rechecked { survey })?;
        }
        Ok(())
    }

    /// Returns the files that are not what the gates check, or were not after one of them,
    /// and what is checked out, if that may not change either. Ignores the task file and
    /// its notes, and files that gates only add where ralph does not commit them.
    fn find_altered_paths(&mut self, seen: &Checkpoint) -> Result<Vec<String>, StepError> {
        let ownership = self.state.recipe.ownership();
        let altered = self.map_current(|it| it.checking().map(|it| it.altered.clone())).flatten();
        let altered = altered.unwrap_or_default();
        let states = std::iter::once(seen.clone()).chain(altered.iter().map(Survey::to_checkpoint));
        let (mut paths, mut places) = (Vec::new(), Vec::new());
        for state in states {
            let Some(now) = self.ports.vcs.peek_changes_since(&state, &[])? else { continue };
            let counts = |file: &FileTouched| {
                let is_added = file.action == FileAction::Created;
                ownership.history == HistoryOwner::Ralph || !is_added
            };
            let files = now.files.into_iter().filter(counts).map(|file| file.path);
            paths.extend(files.filter(|path| !self.is_list_document(path)));
            paths.extend((now.more_files > 0).then(|| "other files".to_owned()));
            places.extend(now.checked_out);
        }
        if let (Checkpoint::Git { head, branch, .. }, true) = (seen, ownership.do_agents_commit()) {
            let is_moved = |now: &&CheckedOut| now.head != *head || now.branch != *branch;
            let moved = places.iter().find(is_moved);
            paths.extend(moved.map(|now| format!("what is checked out ({now})")));
        }
        paths.sort_unstable();
        paths.dedup();
        Ok(paths)
    }

    /// Observes the work tree again after files changed behind the agent, so that all
    /// gates run on the current files. Fails the attempt after too many rounds. Changes
    /// of only the task file and its notes are ignored.
    fn restart_gates(&mut self, seen: &Checkpoint, cause: &str) -> Result<Recheck, StepError> {
        let mut paths = self.find_altered_paths(seen)?;
        if paths.is_empty() {
            return Ok(Recheck::Same);
        }
        paths.truncate(UNCOMMITTED_FILES);
        let is_over = |it: &Checking| !it.was_stopped && it.rounds >= MAX_GATE_RESTARTS;
        if self.map_current(|it| it.checking().is_some_and(is_over)) == Some(true) {
            let output = format!(
                "These files change each time gates and hooks run, so what passed is not what is left. \
                 A check must not write into the files that it checks. Make sure that a second run \
                 changes nothing; delete files that are generated and add them to `.gitignore`:\n- {}",
                paths.join("\n- ")
            );
            self.record_refusal(RefusalKind::UnstableFiles, output, Vec::new())?;
            return Ok(Recheck::Again);
        }
        self.warn(format!("{cause}, so all gates run again: {}", paths.join(", ")))?;
        self.observe_changes()?;
        Ok(Recheck::Again)
    }
}

/// Returns the error that ends a run whose commit message a hook refuses. No agent can
/// change that.
pub(super) fn build_message_error(message: &str, output: &str) -> StepError {
    let subject = message.lines().next().unwrap_or_default();
    let message = format!(
        "the commit-msg hook refuses the message `{subject}`:\n{output}\n\
         hint: set `commitMessage`, such as \"${{TYPE}}: ${{SUBJECT}}\"; `ralph resume` then uses it"
    );
    StepError::Outcome(Outcome::GitFailed { message })
}
