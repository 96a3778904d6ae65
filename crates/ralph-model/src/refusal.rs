//! Refusals: work that ralph itself rejects, whatever the gates say.
//!
//! Not here: finding a reason to refuse, and what the next prompt says about it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::gate::GateResult;
use crate::stuck::ErrorHash;

/// Work that ralph rejected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub kind: RefusalKind,
    /// What is wrong, for the next attempt.
    pub output: String,
    /// The fingerprint of the output.
    pub hash: ErrorHash,
    /// Changed paths that were restored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restored: Vec<String>,
}

/// Why ralph rejects work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// It changed protected or out-of-scope paths.
    ProtectedPaths,
    /// It contains secrets.
    Secrets,
    /// It came with changes to git's own files.
    GitTampering,
    /// It left conflict markers of a merge.
    ConflictMarkers,
    /// Its files change each time the gates run.
    UnstableFiles,
    /// The project's commit hook does not accept it.
    CommitHook,
}

impl RefusalKind {
    pub const ALL: [Self; 6] = [
        Self::ProtectedPaths,
        Self::Secrets,
        Self::GitTampering,
        Self::ConflictMarkers,
        Self::UnstableFiles,
        Self::CommitHook,
    ];

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::ProtectedPaths => "protected paths",
            Self::Secrets => "secrets",
            Self::GitTampering => "git's own files",
            Self::ConflictMarkers => "conflict markers",
            Self::UnstableFiles => "files changed by gates",
            Self::CommitHook => "commit hook",
        }
    }
}

impl fmt::Display for RefusalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Refusal {
    /// Returns the refusal that an older version recorded as the result of a gate which
    /// has no command and no log.
    pub fn from_gate_result(result: &GateResult) -> Option<Self> {
        let kind = RefusalKind::ALL.into_iter().find(|kind| kind.name() == result.gate)?;
        let is_refusal = result.command == result.gate && result.log.is_none();
        let hash = result.hash.clone().filter(|_| is_refusal)?;
        Some(Self { kind, output: result.output.clone(), hash, restored: Vec::new() })
    }
}
