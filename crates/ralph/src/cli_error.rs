//! The error that the binary prints when a command fails: message, causes, hints, exit code.
//!
//! Not here: how it is printed, and outcomes of a run, which are not errors.

use std::error::Error;

use ralph_core::ports::VcsError;
use ralph_core::run_loop::engine::EngineError;
use ralph_model::outcome::ExitStatus;
use ralph_model::text::{quote_for_shell, quote_word};
use ralph_model::worktree::CheckedOut;
use ralph_ui::error_report::ErrorReport;

/// An error ready to be printed.
#[derive(Debug)]
pub(crate) struct CliError {
    pub(crate) message: String,
    /// Why, outermost first.
    pub(crate) causes: Vec<String>,
    pub(crate) hints: Vec<String>,
    pub(crate) status: ExitStatus,
}

impl CliError {
    /// Returns an error without causes or hints.
    pub(crate) fn new(status: ExitStatus, message: impl Into<String>) -> Self {
        Self { message: message.into(), causes: Vec::new(), hints: Vec::new(), status }
    }

    /// Returns an error about bad settings, arguments or input files.
    pub(crate) fn for_input(message: impl Into<String>) -> Self {
        Self::new(ExitStatus::BadInput, message)
    }

    /// Builds it from an error and its chain of causes.
    pub(crate) fn from_error(status: ExitStatus, error: &dyn Error) -> Self {
        let ErrorReport { message, causes, hints } = ErrorReport::from_error(error);
        Self { message, causes, hints, status }
    }

    /// Builds it from an error about bad settings, arguments or input files.
    pub(crate) fn from_input_error(error: impl Error) -> Self {
        Self::from_error(ExitStatus::BadInput, &error)
    }

    /// Builds it from an error of git.
    pub(crate) fn from_git_error(error: VcsError) -> Self {
        Self::new(ExitStatus::GitFailed, error.message)
    }

    /// Adds a hint.
    #[must_use]
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

/// Returns the error for a run that cannot continue.
pub(crate) fn to_engine_error(error: &EngineError) -> CliError {
    match error {
        EngineError::Journal(_) | EngineError::Fold(_) => {
            CliError::from_error(ExitStatus::Incomplete, error)
                .with_hint("nothing is lost: `ralph resume` continues once the journal can be written")
        }
        EngineError::Git(_) => CliError::from_error(ExitStatus::GitFailed, error)
            .with_hint("nothing is lost: `ralph resume` continues once `git status` works here"),
        EngineError::Moved { left, now } => to_history_moved_error(error, left, now),
        EngineError::Protected { paths, left } => CliError::from_error(ExitStatus::BadInput, error)
            .with_hint("a resumed run uses the settings and gates it was started with")
            .with_hint(format!(
                "`git restore --source={} -- {}` restores the old files; keep a copy of yours, and move new files away",
                left.0,
                quote_for_shell(paths)
            ))
            .with_hint("or start a new run, which uses them as they are now"),
    }
}

/// Returns the error for a history that the user moved, with hints how to resume.
fn to_history_moved_error(error: &EngineError, left: &CheckedOut, now: &CheckedOut) -> CliError {
    let mut complaint = CliError::from_error(ExitStatus::BadInput, error).with_hint(
        "the run has work that has not landed, and would take your commits for its agent's",
    );
    match (left.short_branch(), &left.head) {
        (Some(branch), _) if left.branch != now.branch => {
            let branch = quote_word(branch);
            let hint = format!("`git switch {branch}` goes back, then the run can be resumed");
            complaint = complaint.with_hint(hint);
        }
        (Some(_), Some(head)) => {
            let head = &head.0;
            complaint = complaint
                .with_hint(format!("`git log -p {head}..` shows what came since"))
                .with_hint(format!(
                    "`git reset --soft {head}` makes it a part of that work, then the run can be resumed"
                ));
        }
        (None, Some(head)) => {
            complaint = complaint.with_hint(format!("`git switch --detach {}` goes back", head.0));
        }
        (_, None) => {}
    }
    complaint.with_hint(
        "or start a new run on top of it; `--include-dirty` includes uncommitted changes",
    )
}
