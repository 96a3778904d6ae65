//! Finds out whether Docker Sandboxes is installed and answers.
//!
//! Not here: signing in, and the policy of the machine; the user decides about both.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::super::ask::{Answer, PROBE, ask, talker};
use crate::process::{Watch, find_program};

/// The program of Docker Sandboxes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    pub program: PathBuf,
    pub form: Form,
}

/// How its commands are spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Form {
    /// `sbx ...`.
    Sbx,
    /// `docker sandbox ...`, which is deprecated.
    DockerSandbox,
}

/// Why Docker Sandboxes cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unavailable {
    pub why: String,
    pub remedy: Option<String>,
}

impl Tool {
    /// Looks for `sbx`, and for `docker sandbox` if there is none; neither check takes longer than
    /// half a minute. A program inside the project is refused, because an agent can change it.
    pub fn find(
        project: &Path,
        env: &[(OsString, OsString)],
        watch: &Watch,
    ) -> Result<Self, Unavailable> {
        let found = Self::ask(env, watch)?;
        let real = found.program.canonicalize().unwrap_or_else(|_| found.program.clone());
        if real.starts_with(project) {
            let path = real.display();
            let why = format!("`{path}` is inside the project, where an agent can change it");
            return Err(Unavailable { why, remedy: None });
        }
        Ok(found)
    }

    fn ask(env: &[(OsString, OsString)], watch: &Watch) -> Result<Self, Unavailable> {
        let mut env = env.to_vec();
        env.push(("SBX_NO_TELEMETRY".into(), "1".into()));
        let question = |program: &str, args: &[&str]| {
            let spawn = talker(Path::new(program), args, &env, PROBE);
            (find_program(&spawn).ok(), ask(&spawn, watch))
        };
        let unavailable =
            |why: String, remedy: &str| Err(Unavailable { why, remedy: Some(remedy.to_owned()) });
        match question("sbx", &["version"]) {
            (Some(program), Answer::Said(_)) => {
                let remedy =
                    "start it and sign in with `sbx login`; `sbx ls` shows whether it works";
                match question("sbx", &["ls", "--json"]).1 {
                    // Without its daemon it prints a message instead of the list.
                    Answer::Said(list) if is_json(&list) => {
                        return Ok(Self { program, form: Form::Sbx });
                    }
                    Answer::Said(_) | Answer::Absent => {
                        return unavailable("the sbx daemon does not answer".to_owned(), remedy);
                    }
                    Answer::Failed(message) | Answer::Silent(message) => {
                        return unavailable(format!("sbx does not work: {message}"), remedy);
                    }
                }
            }
            (_, Answer::Failed(message) | Answer::Silent(message)) => {
                let why = format!("sbx does not work: {message}");
                return unavailable(why, "`sbx version` shows whether it works");
            }
            (_, Answer::Said(_) | Answer::Absent) => {}
        }
        let absent = "sbx is not installed".to_owned();
        let remedy = "install Docker Sandboxes (`sbx`) and sign in";
        if !has_plugin(&env) {
            return unavailable(absent, remedy);
        }
        match question("docker", &["sandbox", "version"]) {
            (Some(program), Answer::Said(_)) => match question("docker", &["sandbox", "ls"]).1 {
                Answer::Said(_) => Ok(Self { program, form: Form::DockerSandbox }),
                Answer::Failed(message) | Answer::Silent(message) => {
                    unavailable(format!("docker sandbox does not work: {message}"), remedy)
                }
                Answer::Absent => unavailable(absent, remedy),
            },
            (_, Answer::Said(_) | Answer::Failed(_) | Answer::Silent(_) | Answer::Absent) => {
                unavailable(absent, remedy)
            }
        }
    }
}

/// Returns whether Docker Sandboxes seems to be installed, without running it.
pub fn may_be_there(env: &[(OsString, OsString)]) -> bool {
    find_program(&talker(Path::new("sbx"), &[], env, PROBE)).is_ok() || has_plugin(env)
}

/// Returns whether the deprecated form is installed. Asking docker itself takes some 30 ms.
fn has_plugin(env: &[(OsString, OsString)]) -> bool {
    const PLACES: [&str; 4] = [
        "/usr/local/lib/docker/cli-plugins",
        "/usr/local/libexec/docker/cli-plugins",
        "/usr/lib/docker/cli-plugins",
        "/usr/libexec/docker/cli-plugins",
    ];
    let variable = |name: &str| {
        env.iter().find(|(known, _)| known == name).map(|(_, value)| PathBuf::from(value))
    };
    let own = variable("DOCKER_CONFIG").or_else(|| Some(variable("HOME")?.join(".docker")));
    let own = own.map(|directory| directory.join("cli-plugins"));
    let places = PLACES.into_iter().map(PathBuf::from).chain(own);
    places.into_iter().any(|place| place.join("docker-sandbox").exists())
}

/// Some versions print `null` if there is nothing to list.
fn is_json(text: &str) -> bool {
    matches!(
        serde_json::from_str(text),
        Ok(serde_json::Value::Array(_) | serde_json::Value::Object(_) | serde_json::Value::Null)
    )
}
