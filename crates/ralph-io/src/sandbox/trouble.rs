//! Why walls could not be made.
//!
//! Not here: how it is told.

use std::fmt::Display;
use std::path::Path;

/// What went wrong while a cell was made, in words that name the place.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub struct Trouble {
    words: String,
}

impl Trouble {
    /// Returns a trouble in these words.
    pub(in crate::sandbox) fn new(words: impl Into<String>) -> Self {
        Self { words: words.into() }
    }

    /// Returns what to make of an error of the system that came up while this was being done.
    pub(in crate::sandbox) fn with<E: Display>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::new(format!("cannot {doing}: {error}"))
    }

    /// Returns the same for something that was done to a place.
    pub(in crate::sandbox) fn at<E: Display>(doing: &str, path: &Path) -> impl FnOnce(E) -> Self {
        let what = format!("cannot {doing} `{}`", path.display());
        move |error| Self::new(format!("{what}: {error}"))
    }
}
