//! Why a sandbox could not be set up.
//!
//! Not here: how the error is printed.

use std::fmt::Display;
use std::path::Path;

/// An error while a sandbox was set up; its message names the path or the operation.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct LaunchError {
    message: String,
}

impl LaunchError {
    /// Returns an error with this message.
    pub(in crate::sandbox) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// Returns a converter for an error of the system that occurred while ralph was `doing` this.
    pub(in crate::sandbox) fn for_operation<E: Display>(
        doing: &'static str,
    ) -> impl FnOnce(E) -> Self {
        move |error| Self::new(format!("cannot {doing}: {error}"))
    }

    /// Like [`Self::for_operation`], for an operation on a path.
    pub(in crate::sandbox) fn for_path<E: Display>(
        doing: &str,
        path: &Path,
    ) -> impl FnOnce(E) -> Self {
        let what = format!("cannot {doing} `{}`", path.display());
        move |error| Self::new(format!("{what}: {error}"))
    }
}
