//! Finds a container engine that answers.
//!
//! Not here: what it is used for.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::process::{getgid, getuid};
use serde::{Deserialize, Serialize};

use super::super::tool_query::{PROBE_TIMEOUT, ToolAnswer, build_query, query_tool};
use crate::process::{Spawn, Watch, find_program};

/// A container engine that answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerEngine {
    /// Its client.
    pub program: PathBuf,
    pub user: ContainerUser,
    /// Whether `SELinux` keeps containers from the user's files.
    pub labels: SelinuxLabels,
}

/// The user inside, chosen so that it is the user outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContainerUser {
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
pub enum SelinuxLabels {
    /// There is no `SELinux`.
    Absent,
    /// Switched off for ralph's containers: relabeling would change the user's files.
    SwitchedOff,
}

/// Why there is no usable engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct ContainerEngineError {
    pub why: String,
    pub remedy: Option<String>,
    pub readiness: EngineReadiness,
}

/// How close an engine is to being usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EngineReadiness {
    /// It is not installed.
    Absent,
    /// It is installed and does not answer correctly.
    Broken,
    Answers,
}

/// A kind of engine: how it is queried, and how its answer is parsed.
#[derive(Debug, Clone, Copy)]
pub(super) struct EngineKind {
    pub(super) name: &'static str,
    question: &'static str,
    read: fn(&str) -> Result<ContainerUser, ContainerEngineError>,
}

/// All kinds, in the order in which they are tried.
pub(super) const KINDS: [EngineKind; 2] = [
    EngineKind {
        name: "docker",
        question: "{{.OSType}}|{{.OperatingSystem}}|{{.SecurityOptions}}",
        read: read_docker,
    },
    EngineKind {
        name: "podman",
        question: "{{.Host.OS}}|{{.Host.Security.Rootless}}",
        read: read_podman,
    },
];

impl ContainerEngine {
    /// Queries an engine, for no longer than half a minute. A program inside the project is
    /// refused, because an agent can change it.
    pub(super) fn query_engine(
        kind: EngineKind,
        project: &Path,
        env: &[(OsString, OsString)],
        watch: &Watch,
    ) -> Result<Self, ContainerEngineError> {
        let name = kind.name;
        let spawn =
            build_query(Path::new(name), &["info", "--format", kind.question], env, PROBE_TIMEOUT);
        let absent = |why: String| ContainerEngineError {
            why,
            remedy: Some("install docker or podman".to_owned()),
            readiness: EngineReadiness::Absent,
        };
        let program = find_program(&Spawn { program: name.into(), ..spawn.clone() })
            .map_err(|_| absent(format!("{name} is not installed")))?;
        let real = program.canonicalize().unwrap_or_else(|_| program.clone());
        if real.starts_with(project) {
            let path = real.display();
            let why = format!("`{path}` is inside the project, where an agent can change it");
            return Err(absent(why));
        }
        match query_tool(&spawn, watch) {
            ToolAnswer::Output(answer) => {
                let user = (kind.read)(answer.trim())?;
                let has_labels = Path::new("/sys/fs/selinux/enforce").exists();
                let labels =
                    if has_labels { SelinuxLabels::SwitchedOff } else { SelinuxLabels::Absent };
                Ok(Self { program, user, labels })
            }
            ToolAnswer::Failed(message) | ToolAnswer::Silent(message) => {
                Err(ContainerEngineError {
                    why: format!("{name} does not work: {message}"),
                    remedy: Some(format!(
                        "start the engine; `{name} info` says whether it answers"
                    )),
                    readiness: EngineReadiness::Broken,
                })
            }
            ToolAnswer::Absent => Err(absent(format!("{name} is not installed"))),
        }
    }
}

pub(super) fn read_docker(answer: &str) -> Result<ContainerUser, ContainerEngineError> {
    let mut parts = answer.splitn(3, '|');
    let (system, product) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if system != "linux" {
        let why = format!("docker runs containers of `{system}`, not of linux");
        return Err(ContainerEngineError { why, remedy: None, readiness: EngineReadiness::Broken });
    }
    if product.contains("Docker Desktop") {
        return Err(ContainerEngineError {
            why: "Docker Desktop does not share sockets with its containers".to_owned(),
            remedy: Some("use Docker Sandboxes there: --sandbox=sbx".to_owned()),
            readiness: EngineReadiness::Broken,
        });
    }
    let rootless = parts.next().unwrap_or_default().contains("rootless");
    Ok(if rootless { ContainerUser::Mapped } else { to_same_user() })
}

pub(super) fn read_podman(answer: &str) -> Result<ContainerUser, ContainerEngineError> {
    match answer.split_once('|') {
        Some(("linux", "true")) => {
            Ok(ContainerUser::Kept { uid: getuid().as_raw(), gid: getgid().as_raw() })
        }
        Some(("linux", _)) => Ok(to_same_user()),
        Some(_) | None => {
            let why = format!("podman gives an answer that is not understood: `{answer}`");
            Err(ContainerEngineError { why, remedy: None, readiness: EngineReadiness::Broken })
        }
    }
}

fn to_same_user() -> ContainerUser {
    ContainerUser::Same { uid: getuid().as_raw(), gid: getgid().as_raw() }
}
