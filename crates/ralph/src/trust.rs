//! Which projects the user trusts, and with what exactly.
//!
//! The mark lies in the user's state, where no project and no sandboxed agent can write, and names
//! what was accepted key by key: a project that asks for more later is asked about again, and so
//! is one whose user has become stricter since. `stateDir` does not move it, since a project may
//! set that. Where a setting runs or reads a file of the project, its content is remembered as a
//! digest. Not here: what counts as looser (`settings::bound`), and asking the user.

pub(crate) mod demands;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use ralph_core::units::Timestamp;
use ralph_io::bounded;
use ralph_io::store::{atomic, layout};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::complaint::Complaint;
use crate::project::complain_of_layout;
use crate::settings::{Loosening, LooseningCause};

/// The version of the file.
const VERSION: u32 = 1;

/// Thousands of projects fit; a larger file is not ours.
const LARGEST: u64 = 1 << 22;

/// What is trusted.
#[derive(Debug)]
pub(crate) struct Trust {
    file: PathBuf,
    projects: Vec<Trusted>,
}

/// A project that may loosen its isolation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Trusted {
    /// Its canonical path.
    pub(crate) path: PathBuf,
    /// The settings file, where one was given in the place of the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) config: Option<PathBuf>,
    /// What it may ask for, by key; of lists, what it may add.
    pub(crate) accepted: BTreeMap<String, Value>,
    /// By key, the digest of what a setting runs or reads.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) digests: BTreeMap<String, String>,
    /// When it was marked.
    pub(crate) at: Timestamp,
}

impl Trusted {
    /// Returns the mark for a project that loosens this.
    pub(crate) fn new(subject: Subject<'_>, loosenings: &[Loosening], at: Timestamp) -> Self {
        let accepted = loosenings.iter().map(|it| (it.key.clone(), it.asks.clone())).collect();
        let digests = loosenings.iter().filter_map(|it| match &it.cause {
            LooseningCause::Demand { digest, .. } => Some((it.key.clone(), digest.clone())),
            LooseningCause::BeyondBound { .. } => None,
        });
        Self {
            path: subject.project.to_owned(),
            config: subject.config.map(Path::to_owned),
            accepted,
            digests: digests.collect(),
            at,
        }
    }

    fn is_of(&self, subject: Subject<'_>) -> bool {
        self.path == subject.project && self.config.as_deref() == subject.config
    }

    fn accepts(&self, loosening: &Loosening) -> bool {
        match &loosening.cause {
            LooseningCause::Demand { digest, .. } => {
                return self.digests.get(&loosening.key) == Some(digest);
            }
            LooseningCause::BeyondBound { .. } => {}
        }
        match (self.accepted.get(&loosening.key), &loosening.asks) {
            (Some(Value::Array(accepted)), Value::Array(asked)) => {
                asked.iter().all(|entry| accepted.contains(entry))
            }
            (Some(accepted), asked) => accepted == asked,
            (None, _) => false,
        }
    }
}

/// What is trusted or not: a project with its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subject<'a> {
    /// The canonical path of the project.
    pub(crate) project: &'a Path,
    /// The settings file that was given, as a canonical path.
    pub(crate) config: Option<&'a Path>,
}

#[derive(Serialize, Deserialize)]
struct TrustFile {
    version: u32,
    projects: Vec<Trusted>,
}

impl Trust {
    /// Reads what is trusted. Without a home nothing can be.
    pub(crate) fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, Complaint> {
        let root =
            layout::state_root(None, variable).map_err(|error| complain_of_layout(&error))?;
        let file = root.join("trust.json");
        let unusable = |why: String| {
            Complaint::input(format!("cannot use the list of trusted projects: {why}"))
                .hint(format!("mend or remove `{}`; `ralph trust` writes it anew", file.display()))
        };
        let bytes = match bounded::read_beginning(&file, LARGEST) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { file, projects: Vec::new() });
            }
            Err(error) => return Err(unusable(error.to_string())),
        };
        let read: TrustFile =
            serde_json::from_slice(&bytes).map_err(|error| unusable(error.to_string()))?;
        if read.version > VERSION {
            return Err(unusable("a newer ralph has written it".to_owned()));
        }
        Ok(Self { file, projects: read.projects })
    }

    /// Returns the projects that are trusted.
    pub(crate) fn projects(&self) -> &[Trusted] {
        &self.projects
    }

    /// Returns what is not accepted of all that a project loosens.
    pub(crate) fn refused<'a>(
        &self,
        subject: Subject<'_>,
        loosenings: &'a [Loosening],
    ) -> Vec<&'a Loosening> {
        let mark = self.projects.iter().find(|it| it.is_of(subject));
        let is_refused = |it: &&Loosening| !mark.is_some_and(|mark| mark.accepts(it));
        loosenings.iter().filter(is_refused).collect()
    }

    /// Marks a project, in the place of an earlier mark.
    pub(crate) fn mark(mut self, trusted: Trusted) -> Result<(), Complaint> {
        let subject = Subject { project: &trusted.path, config: trusted.config.as_deref() };
        self.projects.retain(|it| !it.is_of(subject));
        self.projects.push(trusted);
        self.write()
    }

    /// Takes all marks of a project away, and returns how many there were.
    pub(crate) fn forget(mut self, project: &Path) -> Result<usize, Complaint> {
        let before = self.projects.len();
        self.projects.retain(|it| it.path != project);
        let gone = before - self.projects.len();
        if gone > 0 {
            self.write()?;
        }
        Ok(gone)
    }

    fn write(mut self) -> Result<(), Complaint> {
        self.projects
            .sort_by(|one, other| (&one.path, &one.config).cmp(&(&other.path, &other.config)));
        let failed = |error: &dyn std::fmt::Display| {
            Complaint::input(format!("cannot write `{}`: {error}", self.file.display()))
        };
        let content = TrustFile { version: VERSION, projects: self.projects };
        let text = serde_json::to_string_pretty(&content).map_err(|error| failed(&error))?;
        let directory = self.file.parent().unwrap_or(&self.file);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .and_then(|()| atomic::replace(&self.file, format!("{text}\n").as_bytes()))
            .map_err(|error| failed(&error))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::settings::problem::Origin;

    fn loosening(key: &str, asks: Value) -> Loosening {
        let cause = LooseningCause::BeyondBound { bound: Value::Null, origin: Origin::Default };
        Loosening { key: key.to_owned(), asks, origin: Origin::Default, cause }
    }

    fn demand(key: &str, digest: &str) -> Loosening {
        let cause = LooseningCause::Demand { effect: String::new(), digest: digest.to_owned() };
        Loosening { cause, ..loosening(key, json!("x")) }
    }

    #[test]
    fn a_demand_is_accepted_by_its_digest_alone() {
        let subject = Subject { project: Path::new("/p"), config: None };
        let mark = Trusted::new(subject, &[demand("scm.command", "1")], Timestamp(0));
        let trust = Trust { file: "/x".into(), projects: vec![mark] };
        for (asked, is_accepted) in [
            (demand("scm.command", "1"), true),
            (demand("scm.command", "2"), false),
            (demand("scm.tasks", "1"), false),
        ] {
            let asked = [asked];
            assert_eq!(trust.refused(subject, &asked).is_empty(), is_accepted, "{asked:?}");
        }
    }

    #[test]
    fn only_what_was_accepted_is() {
        let subject = Subject { project: Path::new("/p"), config: None };
        let accepted = [
            loosening("sandbox.network.mode", json!("host")),
            loosening("sandbox.rw", json!(["/a", "/b"])),
            loosening("sandbox.git", Value::Null),
        ];
        let mark = Trusted::new(subject, &accepted, Timestamp(0));
        let trust = Trust { file: "/x".into(), projects: vec![mark] };
        for (asked, is_accepted) in [
            (loosening("sandbox.network.mode", json!("host")), true),
            (loosening("sandbox.rw", json!(["/b"])), true),
            (loosening("sandbox.rw", json!(["/b", "/c"])), false),
            (loosening("sandbox.git", Value::Null), true),
            (loosening("sandbox.git", json!("agent")), false),
            (loosening("sandbox.backend", json!("none")), false),
        ] {
            let asked = [asked];
            assert_eq!(trust.refused(subject, &asked).is_empty(), is_accepted, "{asked:?}");
            for other in [
                Subject { project: Path::new("/p/q"), ..subject },
                Subject { config: Some(Path::new("/p/c.json")), ..subject },
            ] {
                assert!(!trust.refused(other, &asked).is_empty(), "{other:?}");
            }
        }
    }
}
