//! Finds an engine that answers.
//!
//! Not here: what is asked of it then.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::process::{getgid, getuid};
use serde::{Deserialize, Serialize};

use super::super::ask::{Answer, PROBE, ask, talker};
use crate::process::{Spawn, Watch, find_program};

/// An engine that answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engine {
    /// Its client.
    pub program: PathBuf,
    /// Who the child is inside.
    pub user: User,
    /// Whether the system's labels keep containers from the user's files.
    pub labels: Labels,
}

/// Who a child is inside, so that it is the user outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum User {
    /// The same numbers: the engine runs as root.
    Same {
        /// Of the user.
        uid: u32,
        /// Of the group.
        gid: u32,
    },
    /// The same numbers, which podman without root maps if it is asked.
    Kept {
        /// Of the user.
        uid: u32,
        /// Of the group.
        gid: u32,
    },
    /// Root inside, which docker without root makes of the user.
    Mapped,
}

/// `SELinux` and the files of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Labels {
    /// There are none.
    Absent,
    /// They are switched off for our containers: relabeling would change the user's files.
    SwitchedOff,
}

/// Why there is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct NoEngine {
    /// What is wrong.
    pub why: String,
    /// What to do about it.
    pub remedy: Option<String>,
    /// How near it is to being one.
    pub nearness: Nearness,
}

/// How near an engine is to being of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// It is not there.
    Absent,
    /// It is there and does not answer as it should.
    Broken,
    /// It answers.
    Answers,
}

/// A kind of engine: how it is asked about itself, and what its answers mean.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    question: &'static str,
    read: fn(&str) -> Result<User, NoEngine>,
}

/// All of them, in the order in which they are asked.
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
    /// Asks one whether it is there, for no longer than half a minute. One in the project is none: an agent
    /// can change it.
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
            let place = real.display();
            let why = format!("`{place}` lies in the project, where an agent can change it");
            return Err(absent(why));
        }
        match ask(&spawn, watch) {
            Answer::Said(answer) => {
                let user = (kind.read)(answer.trim())?;
                let has_labels = Path::new("/sys/fs/selinux/enforce").exists();
                let labels = if has_labels { Labels::SwitchedOff } else { Labels::Absent };
                Ok(Self { program, user, labels })
            }
            Answer::Failed(words) | Answer::Silent(words) => Err(NoEngine {
                why: format!("{name} does not work: {words}"),
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
