//! What can be wrong with a file, where it is, and how that reads.

use std::fmt;
use std::path::PathBuf;

use super::json_text::Position;

/// One thing wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileProblem {
    /// The file, as it was named.
    pub file: PathBuf,
    /// Where in it; not known of a file that cannot be read.
    pub position: Option<Position>,
    /// The JSON path, such as `tasks[2].status`; empty where it is about the whole file.
    pub at: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
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
