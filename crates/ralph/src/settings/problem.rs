//! Mistakes in settings: what is wrong, where it is, and how it is printed.
//!
//! Not here: finding the mistakes; see `locate`, `key_value`, `environment` and `check`.

use std::fmt;
use std::path::PathBuf;

pub(crate) use ralph_io::formats::json_text::Position;

use super::path::JsonPath;

/// Every mistake found in the settings; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettingsError {
    /// The mistakes, in the order of the layers.
    pub(crate) problems: Vec<SettingProblem>,
}

impl std::error::Error for SettingsError {}

impl fmt::Display for SettingsError {
    /// Writes one mistake a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.problems.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl From<SettingProblem> for SettingsError {
    fn from(problem: SettingProblem) -> Self {
        Self { problems: vec![problem] }
    }
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettingProblem {
    pub(crate) place: ProblemLocation,
    /// The setting; empty for a whole file.
    pub(crate) path: JsonPath,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl fmt::Display for SettingProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// Where a mistake is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProblemLocation {
    /// A file that could not be used at all.
    WholeFile { path: PathBuf },
    /// Where one value came from.
    Value(SettingOrigin),
}

impl fmt::Display for ProblemLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WholeFile { path } => write!(f, "{}", path.display()),
            Self::Value(origin) => origin.fmt(f),
        }
    }
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SettingOrigin {
    /// No layer sets it.
    Default,
    File {
        /// The file, as it was named.
        path: PathBuf,
        position: Position,
    },
    Env {
        name: String,
    },
    /// A flag of the command line.
    Flag {
        /// Such as `--max-cost`.
        name: String,
    },
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, position } => {
                write!(f, "{}:{}:{}", path.display(), position.line, position.column)
            }
            Self::Env { name } | Self::Flag { name } => f.write_str(name),
        }
    }
}
