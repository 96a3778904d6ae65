//! Which projects the user trusts, and which of their settings exactly.
//!
//! The trust file is in the user's state directory, where no project and no sandboxed agent can
//! write. It lists what was accepted key by key: the user is asked again if the project asks for
//! more later, or if the user's own settings have become stricter. `stateDir` does not move it,
//! since a project may set that. If a setting runs or reads a file of the project, the digest of
//! that file is recorded. Not here: what counts as looser (`settings::trust_limits`), and asking the user.

pub(crate) mod agent_code;
pub(crate) mod demands;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use ralph_io::store::layout;
use ralph_io::{atomic_file, bounded_read};
use ralph_model::units::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli_error::CliError;
use crate::settings::{Loosening, LooseningCause};

/// Version of the trust file.
const VERSION: u32 = 1;

/// Thousands of projects fit; a larger file is not ours.
const MAX_FILE_BYTES: u64 = 1 << 22;

/// The trust file.
#[derive(Debug)]
pub(crate) struct TrustStore {
    file: PathBuf,
    projects: Vec<TrustEntry>,
}

/// A project that may loosen its isolation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TrustEntry {
    pub(crate) path: PathBuf,
    /// The settings file, if one was given in place of the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) config: Option<PathBuf>,
    /// Accepted values by key; for lists, the entries that may be added.
    pub(crate) accepted: BTreeMap<String, Value>,
    /// By key, the digest of the file that a setting runs or reads.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) digests: BTreeMap<String, String>,
    /// When the user accepted it.
    pub(crate) at: Timestamp,
}

impl TrustEntry {
    /// Returns the trust entry for a project with these loosenings.
    pub(crate) fn new(subject: TrustSubject<'_>, loosenings: &[Loosening], at: Timestamp) -> Self {
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

    fn is_for(&self, subject: TrustSubject<'_>) -> bool {
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

/// A project with its settings, as the subject of trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrustSubject<'a> {
    /// The canonical path of the project.
    pub(crate) project: &'a Path,
    /// The settings file that was given, as a canonical path.
    pub(crate) config: Option<&'a Path>,
}

#[derive(Serialize, Deserialize)]
struct TrustFile {
    version: u32,
    projects: Vec<TrustEntry>,
}

impl TrustStore {
    /// Reads the trust file. Fails without a home directory.
    pub(crate) fn load(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, CliError> {
        let root = layout::find_state_root(None, variable).map_err(CliError::from_input_error)?;
        let file = root.join("trust.json");
        let unusable = |why: String| {
            CliError::for_input(format!("cannot use the list of trusted projects: {why}"))
                .with_hint(format!(
                    "fix or remove `{}`; `ralph trust` writes it again",
                    file.display()
                ))
        };
        let bytes = match bounded_read::read_beginning(&file, MAX_FILE_BYTES) {
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

    /// Returns the trusted projects.
    pub(crate) fn projects(&self) -> &[TrustEntry] {
        &self.projects
    }

    /// Returns the loosenings of a project that are not accepted.
    pub(crate) fn find_refused<'a>(
        &self,
        subject: TrustSubject<'_>,
        loosenings: &'a [Loosening],
    ) -> Vec<&'a Loosening> {
        let entry = self.projects.iter().find(|it| it.is_for(subject));
        let is_refused = |it: &&Loosening| !entry.is_some_and(|entry| entry.accepts(it));
        loosenings.iter().filter(is_refused).collect()
    }

    /// Adds a project, replacing an earlier entry for it.
    pub(crate) fn add_entry(mut self, trusted: TrustEntry) -> Result<(), CliError> {
        let subject = TrustSubject { project: &trusted.path, config: trusted.config.as_deref() };
        self.projects.retain(|it| !it.is_for(subject));
        self.projects.push(trusted);
        self.write_file()
    }

    /// Removes all entries of a project, and returns how many there were.
    pub(crate) fn remove_entries(mut self, project: &Path) -> Result<usize, CliError> {
        let before = self.projects.len();
        self.projects.retain(|it| it.path != project);
        let gone = before - self.projects.len();
        if gone > 0 {
            self.write_file()?;
        }
        Ok(gone)
    }

    fn write_file(mut self) -> Result<(), CliError> {
        self.projects
            .sort_by(|one, other| (&one.path, &one.config).cmp(&(&other.path, &other.config)));
        let failed = |error: &dyn std::fmt::Display| {
            CliError::for_input(format!("cannot write `{}`: {error}", self.file.display()))
        };
        let content = TrustFile { version: VERSION, projects: self.projects };
        let text = serde_json::to_string_pretty(&content).map_err(|error| failed(&error))?;
        let directory = self.file.parent().unwrap_or(&self.file);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .and_then(|()| atomic_file::replace_file(&self.file, format!("{text}\n").as_bytes()))
            .map_err(|error| failed(&error))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::settings::problem::SettingOrigin;

    fn loosening(key: &str, asks: Value) -> Loosening {
        let cause =
            LooseningCause::BeyondBound { bound: Value::Null, origin: SettingOrigin::Default };
        Loosening { key: key.to_owned(), asks, origin: SettingOrigin::Default, cause }
    }

    fn demand(key: &str, digest: &str) -> Loosening {
        let cause = LooseningCause::Demand { effect: String::new(), digest: digest.to_owned() };
        Loosening { cause, ..loosening(key, json!("x")) }
    }

    #[test]
    fn a_demand_is_accepted_by_its_digest_alone() {
        let subject = TrustSubject { project: Path::new("/p"), config: None };
        let mark = TrustEntry::new(subject, &[demand("scm.command", "1")], Timestamp(0));
        let trust = TrustStore { file: "/x".into(), projects: vec![mark] };
        for (asked, is_accepted) in [
            (demand("scm.command", "1"), true),
            (demand("scm.command", "2"), false),
            (demand("scm.tasks", "1"), false),
        ] {
            let asked = [asked];
            assert_eq!(trust.find_refused(subject, &asked).is_empty(), is_accepted, "{asked:?}");
        }
    }

    #[test]
    fn only_accepted_loosenings_pass() {
        let subject = TrustSubject { project: Path::new("/p"), config: None };
        let accepted = [
            loosening("sandbox.network.mode", json!("host")),
            loosening("sandbox.rw", json!(["/a", "/b"])),
            loosening("sandbox.git", Value::Null),
        ];
        let mark = TrustEntry::new(subject, &accepted, Timestamp(0));
        let trust = TrustStore { file: "/x".into(), projects: vec![mark] };
        for (asked, is_accepted) in [
            (loosening("sandbox.network.mode", json!("host")), true),
            (loosening("sandbox.rw", json!(["/b"])), true),
            (loosening("sandbox.rw", json!(["/b", "/c"])), false),
            (loosening("sandbox.git", Value::Null), true),
            (loosening("sandbox.git", json!("agent")), false),
            (loosening("sandbox.backend", json!("none")), false),
        ] {
            let asked = [asked];
            assert_eq!(trust.find_refused(subject, &asked).is_empty(), is_accepted, "{asked:?}");
            for other in [
                TrustSubject { project: Path::new("/p/q"), ..subject },
                TrustSubject { config: Some(Path::new("/p/c.json")), ..subject },
            ] {
                assert!(!trust.find_refused(other, &asked).is_empty(), "{other:?}");
            }
        }
    }
}
