//! A job for another machine and what comes back: the files in commits on refs of a git remote.
//!
//! Not here: the refs (`ralph-io`), and what a job leaves to the machine.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::control::ControlRequest;
use crate::event::JOURNAL_VERSION;
use crate::units::Millis;
use crate::version::Version;
use crate::worker::{Job, JobResult, WorkerEvent};
use crate::worker_protocol::PROTOCOL;

/// Which start of a job this is, such as `a2`. A service with retries of its own adds its number,
/// as in `a2.1`. Names of refs contain it, so that a late push cannot replace another result.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AttemptLabel(String);

/// A file `job.json`: a job as another machine gets it. It contains no secrets, and nothing that
/// depends on a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RemoteJob {
    pub made_by: RemoteVersion,
    pub attempt: AttemptLabel,
    /// How often the worker looks whether the job is still wanted.
    pub poll: Millis,
    pub job: Job,
    /// The task file: the one task and those that it depends on.
    pub list: String,
    /// What the run asked of the worker since.
    #[serde(default)]
    pub requests: Vec<ControlRequest>,
}

/// A file `result.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RemoteResult {
    pub made_by: RemoteVersion,
    pub attempt: AttemptLabel,
    pub end: JobEnd,
}

/// How a job ended on a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobEnd {
    Ended(Box<JobResult>),
    /// It may not or cannot run there. Another try would end in the same way.
    Refused {
        reason: String,
    },
    /// The worker is gone, or the job was given up.
    Lost {
        reason: String,
    },
}

/// A file `progress.json`: what the worker reported so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RemoteProgress {
    /// The last report of each kind.
    pub reports: Vec<WorkerEvent>,
}

/// The versions that both sides must share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteVersion {
    pub protocol: u32,
    pub journal: u32,
    pub ralph: String,
}

/// A text is no label of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the label of an attempt, such as `a1`: letters, digits, dots and dashes")]
pub struct BadLabel(pub String);

impl AttemptLabel {
    /// Returns the label of the first attempt.
    pub fn new_first() -> Self {
        Self("a1".to_owned())
    }

    /// Returns the label of the attempt after this one.
    #[must_use]
    pub fn next(&self) -> Self {
        let number = self.0.strip_prefix('a').and_then(|it| it.split('.').next()?.parse().ok());
        Self(format!("a{}", number.unwrap_or(1_u32).saturating_add(1)))
    }

    /// Returns whether this is an attempt, or a try within it by a service with own retries.
    pub fn is_try_of(&self, attempt: &Self) -> bool {
        let rest = self.0.strip_prefix(&attempt.0);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for AttemptLabel {
    type Error = BadLabel;

    fn try_from(text: String) -> Result<Self, BadLabel> {
        let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '.' || it == '-';
        let is_label = text.len() <= 40
            && text.starts_with(|it: char| it.is_ascii_alphanumeric())
            && text.chars().all(is_plain)
            && !text.contains("..")
            && !text.ends_with(['.', '-'])
            && text.rsplit('.').next() != Some("lock");
        if is_label { Ok(Self(text)) } else { Err(BadLabel(text)) }
    }
}

impl std::str::FromStr for AttemptLabel {
    type Err = BadLabel;

    fn from_str(text: &str) -> Result<Self, BadLabel> {
        text.to_owned().try_into()
    }
}

impl From<AttemptLabel> for String {
    fn from(label: AttemptLabel) -> Self {
        label.0
    }
}

impl fmt::Display for AttemptLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl RemoteVersion {
    /// Returns the version of this program.
    pub fn new(ralph: &str) -> Self {
        Self { protocol: PROTOCOL, journal: JOURNAL_VERSION, ralph: ralph.to_owned() }
    }

    /// Fails with what differs, if another program does not understand the files of this one.
    pub fn check(&self, other: &Self) -> Result<(), String> {
        let [own, theirs] = [self, other].map(|it| Version::find_in(&it.ralph));
        let is_same = self.protocol == other.protocol
            && self.journal == other.journal
            && own.zip(theirs).is_some_and(|(own, theirs)| own.is_same_minor(theirs));
        if is_same { Ok(()) } else { Err(format!("it is from {other}, and this is {self}")) }
    }
}

impl fmt::Display for RemoteVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { protocol, journal, ralph } = self;
        write!(f, "ralph {ralph} (journal version {journal}, protocol {protocol})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(text: &str) -> AttemptLabel {
        text.parse().expect("a label")
    }

    #[test]
    fn labels_are_parts_of_refs_and_count_attempts() {
        assert_eq!(AttemptLabel::new_first().next(), label("a2"));
        assert_eq!(label("a9.3").next(), label("a10"));
        assert!(label("a1.2").is_try_of(&label("a1")));
        assert!(label("a1").is_try_of(&label("a1")));
        assert!(!label("a12").is_try_of(&label("a1")));
        for bad in ["", "a 1", "a/1", "a..1", "-a", "a1.lock", "a1.", "$(x)", "ä"] {
            assert!(bad.parse::<AttemptLabel>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_patch_version_may_differ_and_nothing_else() {
        let own = RemoteVersion::new("1.2.3");
        assert_eq!(own.check(&RemoteVersion::new("1.2.9")), Ok(()));
        for other in [
            RemoteVersion::new("1.3.3"),
            RemoteVersion::new("2.2.3"),
            RemoteVersion { journal: 99, ..own.clone() },
            RemoteVersion { protocol: 99, ..own.clone() },
        ] {
            assert!(own.check(&other).is_err_and(|it| it.contains("ralph")), "{other}");
        }
    }
}
