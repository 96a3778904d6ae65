//! The error that the binary prints when a command fails: message, causes, hints, exit code.
//!
//! Not here: how it is printed, and outcomes of a run, which are not errors.

use std::error::Error;

use ralph_core::outcome::ExitStatus;
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

    /// Adds a hint.
    #[must_use]
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}
