//! What the binary says when it cannot do what was asked: message, causes, hints, exit code.
//!
//! Not here: how it is printed, and outcomes of a run, which are not errors.

use std::error::Error;

use ralph_core::outcome::ExitStatus;
use ralph_ui::problem::Problem;

/// A mistake or an obstacle, ready to be printed.
#[derive(Debug)]
pub(crate) struct Complaint {
    /// What is wrong.
    pub(crate) message: String,
    /// Why, outermost first.
    pub(crate) causes: Vec<String>,
    /// What to do next.
    pub(crate) hints: Vec<String>,
    /// The exit code.
    pub(crate) status: ExitStatus,
}

impl Complaint {
    /// Returns a complaint without causes or hints.
    pub(crate) fn new(status: ExitStatus, message: impl Into<String>) -> Self {
        Self { message: message.into(), causes: Vec::new(), hints: Vec::new(), status }
    }

    /// Returns a complaint about bad settings, arguments or input files.
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self::new(ExitStatus::BadInput, message)
    }

    /// Returns a complaint made of an error and its chain of causes.
    pub(crate) fn of(status: ExitStatus, error: &dyn Error) -> Self {
        let Problem { message, causes, hints } = Problem::from_error(error);
        Self { message, causes, hints, status }
    }

    /// Returns the same complaint with a further hint.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}
