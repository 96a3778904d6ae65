//! Finds an engine that answers.
//!
//! Not here: what is asked of it then.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::process::{getgid, getuid};

use super::super::ask::{Answer, PROBE, ask, talker};
use crate::process::{Spawn, Watch, find_program};

/// An engine that answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engine {
    /// Its client.
    pub program: PathBuf,
    /// Who the child is inside.
    pub user: User,
    /// Whether the system's labels keep containers from the user's files.
    pub labels: Labels,
}

/// Who a child is inside, so that it is the user outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
}

impl Engine {
    /// Asks docker, then podman, whether they are there; neither for longer than 3 s.
    pub fn find(env: &[(OsString, OsString)], watch: &Watch) -> Result<Self, NoEngine> {
        let docker = look(env, watch, "docker", DOCKER_QUESTION, read_docker);
        docker.or_else(|first| {
            look(env, watch, "podman", PODMAN_QUESTION, read_podman).map_err(|second| NoEngine {
                why: format!("{}; {}", first.why, second.why),
                remedy: first.remedy.or(second.remedy),
            })
        })
    }
}

const DOCKER_QUESTION: &str = "{{.OSType}}|{{.OperatingSystem}}|{{.SecurityOptions}}";
const PODMAN_QUESTION: &str = "{{.Host.OS}}|{{.Host.Security.Rootless}}";

fn look(
    env: &[(OsString, OsString)],
    watch: &Watch,
    name: &str,
    question: &str,
    read: impl FnOnce(&str) -> Result<User, NoEngine>,
) -> Result<Engine, NoEngine> {
    let spawn = talker(Path::new(name), &["info", "--format", question], env, PROBE);
    let absent = || NoEngine {
        why: format!("{name} is not installed"),
        remedy: Some("install docker or podman".to_owned()),
    };
    let program = find_program(&Spawn { program: name.into(), ..spawn.clone() });
    let program = program.map_err(|_| absent())?;
    match ask(&spawn, watch) {
        Answer::Said(answer) => {
            let user = read(answer.trim())?;
            let has_labels = Path::new("/sys/fs/selinux/enforce").exists();
            let labels = if has_labels { Labels::SwitchedOff } else { Labels::Absent };
            Ok(Engine { program, user, labels })
        }
        Answer::Failed(words) => Err(NoEngine {
            why: format!("{name} does not work: {words}"),
            remedy: Some(format!("start the engine; `{name} info` says whether it answers")),
        }),
        Answer::Absent => Err(absent()),
    }
}

pub(super) fn read_docker(answer: &str) -> Result<User, NoEngine> {
    let mut parts = answer.splitn(3, '|');
    let (system, product) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if system != "linux" {
        let why = format!("docker runs containers of `{system}`, not of linux");
        return Err(NoEngine { why, remedy: None });
    }
    if product.contains("Docker Desktop") {
        return Err(NoEngine {
            why: "Docker Desktop does not share sockets with its containers".to_owned(),
            remedy: Some("use Docker Sandboxes there: --sandbox=sbx".to_owned()),
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
            Err(NoEngine { why, remedy: None })
        }
    }
}

fn same() -> User {
    User::Same { uid: getuid().as_raw(), gid: getgid().as_raw() }
}
