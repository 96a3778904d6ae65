//! Finds a container engine that answers.
//!
//! Not here: what it is used for.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::process::{getgid, getuid};
use serde::{Deserialize, Serialize};

use super::super::ask::{Answer, PROBE, ask, talker};
use crate::process::{Spawn, Watch, find_program};

/// A container engine that answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engine {
    /// Its client.
    pub program: PathBuf,
    pub user: User,
    /// Whether `SELinux` keeps containers from the user's files.
    pub labels: Labels,
}

/// The user inside, chosen so that it is the user outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum User {
    /// The same ids: the engine runs as root.
    Same { uid: u32, gid: u32 },
    /// The same ids, which rootless podman maps on request.
    Kept { uid: u32, gid: u32 },
    /// Root inside, which rootless docker maps to the user.
    Mapped,
}

/// `SELinux` and the files of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Labels {
    /// There is no `SELinux`.
    Absent,
    /// Switched off for ralph's containers: relabeling would change the user's files.
    SwitchedOff,
}

/// Why there is no usable engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct NoEngine {
    pub why: String,
    pub remedy: Option<String>,
    pub nearness: Nearness,
}

/// How close an engine is to being usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// It is not installed.
    Absent,
    /// It is installed and does not answer correctly.
    Broken,
    Answers,
}

/// A kind of engine: how it is queried, and how its answer is parsed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    question: &'static str,
    read: fn(&str) -> Result<User, NoEngine>,
}

/// All kinds, in the order in which they are tried.
pub(super) const KINDS: [Kind; 2] = [
    Kind {
        name: "docker",
        question: "{{.OSType}}|{{.OperatingSystem}}|{{.SecurityOptions}}",
        read: read_docker,
    },
    Kind {
        name: "podman",
        question: "{{.Host.OS}}|{{.Host.Security.Rootless}}",
        read: read_podman,
    },
];

impl Engine {
    /// Queries an engine, for no longer than half a minute. A program inside the project is
    /// refused, because an agent can change it.
    pub(super) fn ask(
        kind: Kind,
        project: &Path,
        env: &[(OsString, OsString)],
        watch: &Watch,
    ) -> Result<Self, NoEngine> {
        let name = kind.name;
        let spawn = talker(Path::new(name), &["info", "--format", kind.question], env, PROBE);
        let absent = |why: String| NoEngine {
            why,
            remedy: Some("install docker or podman".to_owned()),
            nearness: Nearness::Absent,
        };
        let program = find_program(&Spawn { program: name.into(), ..spawn.clone() })
            .map_err(|_| absent(format!("{name} is not installed")))?;
        let real = program.canonicalize().unwrap_or_else(|_| program.clone());
        if real.starts_with(project) {
            let path = real.display();
            let why = format!("`{path}` is inside the project, where an agent can change it");
            return Err(absent(why));
        }
        match ask(&spawn, watch) {
            Answer::Said(answer) => {
                let user = (kind.read)(answer.trim())?;
                let has_labels = Path::new("/sys/fs/selinux/enforce").exists();
                let labels = if has_labels { Labels::SwitchedOff } else { Labels::Absent };
                Ok(Self { program, user, labels })
            }
            Answer::Failed(message) | Answer::Silent(message) => Err(NoEngine {
                why: format!("{name} does not work: {message}"),
                remedy: Some(format!("start the engine; `{name} info` says whether it answers")),
                nearness: Nearness::Broken,
            }),
            Answer::Absent => Err(absent(format!("{name} is not installed"))),
        }
    }
}

pub(super) fn read_docker(answer: &str) -> Result<User, NoEngine> {
    let mut parts = answer.splitn(3, '|');
    let (system, product) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if system != "linux" {
        let why = format!("docker runs containers of `{system}`, not of linux");
        return Err(NoEngine { why, remedy: None, nearness: Nearness::Broken });
    }
    if product.contains("Docker Desktop") {
        return Err(NoEngine {
            why: "Docker Desktop does not share sockets with its containers".to_owned(),
            remedy: Some("use Docker Sandboxes there: --sandbox=sbx".to_owned()),
            nearness: Nearness::Broken,
        });
    }
    let rootless = parts.next().unwrap_or_default().contains("rootless");
    Ok(if rootless { User::Mapped } else { same() })
}

pub(super) fn read_podman(answer: &str) -> Result<User, NoEngine> {
    match answer.split_once('|') {
        Some(("linux", "true")) => {
            Ok(User::Kept { uid: getuid().as_raw(), gid: getgid().as_raw() })
        }
        Some(("linux", _)) => Ok(same()),
        Some(_) | None => {
            let why = format!("podman gives an answer that is not understood: `{answer}`");
            Err(NoEngine { why, remedy: None, nearness: Nearness::Broken })
        }
    }
}

fn same() -> User {
    User::Same { uid: getuid().as_raw(), gid: getgid().as_raw() }
}
