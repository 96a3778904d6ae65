//! Problems of a file: what is wrong, where, and how it is displayed.

use std::fmt;
use std::path::PathBuf;

use super::json_text::Position;

/// One problem of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileProblem {
    /// The file as the user named it.
    pub file: PathBuf,
    /// Where in the file; unknown if the file cannot be read.
    pub position: Option<Position>,
    /// The JSON path, such as `tasks[2].status`; empty if the problem is about the whole file.
    pub at: String,
    pub message: String,
    /// What the user can do about it.
    pub remedy: Option<String>,
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(position) = self.position {
            write!(f, "{}:{}:", position.line, position.column)?;
        }
        if !self.at.is_empty() {
            write!(f, " {}:", self.at)?;
        }
        write!(f, " {}", self.message)?;
        match &self.remedy {
            Some(remedy) => write!(f, " ({remedy})"),
            None => Ok(()),
        }
    }
}
