//! A job for another machine and what comes back: the files in commits on refs of a git remote.
//!
//! Not here: the refs (`ralph-io`), and what a job leaves to the machine.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::attempt_label::AttemptLabel;
use crate::control::ControlRequest;
use crate::event::JOURNAL_VERSION;
use crate::units::Millis;
use crate::version::Version;
use crate::worker::{Job, JobResult, WorkerEvent};
use crate::worker_protocol::PROTOCOL;
use crate::worktree::{Checkpoint, CommitId};

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

/// A file `work.json` beside the journal of a worker that has not ended: what another machine
/// needs to continue it. The checkpoints are the parents of the commit with this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnfinishedWork {
    pub made_by: RemoteVersion,
    pub machine: String,
    /// How many iterations have ended.
    pub iterations: u32,
    /// How many events of the journal happened until then.
    pub events: usize,
    /// What the next iteration starts from.
    pub start: Checkpoint,
    /// The commits that keep the states in which iterations began.
    pub checkpoints: BTreeMap<u32, CommitId>,
}

/// The versions that both sides must share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteVersion {
    pub protocol: u32,
    pub journal: u32,
    pub ralph: String,
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
