//! A directory of an agent on a user's machine, which a variable can move.

use std::path::{Path, PathBuf};

/// A directory that an environment variable can move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentDirectory {
    /// The variable that names the parent directory.
    pub variable: &'static str,
    /// The parent directory if the variable is not set, relative to home.
    pub default: &'static str,
    /// The directory itself, relative to the parent.
    pub subdirectory: &'static str,
}

impl AgentDirectory {
    /// Returns the path. `variable` returns the value of a variable that is set and not empty.
    pub fn resolve_path(&self, variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
        let above =
            variable(self.variable).or_else(|| Some(variable("HOME")?.join(self.default)))?;
        Some(self.join_to(&above))
    }

    /// Returns the path below the given parent directory.
    pub fn join_to(&self, above: &Path) -> PathBuf {
        if self.subdirectory.is_empty() { above.to_owned() } else { above.join(self.subdirectory) }
    }
}
