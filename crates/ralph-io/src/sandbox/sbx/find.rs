//! Finds out whether Docker Sandboxes is there and answers.
//!
//! Not here: signing in, and the policy of the machine; both are the user's to decide.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::super::ask::{Answer, PROBE, ask, talker};
use crate::process::{Watch, find_program};

/// The program, and which of the two it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// Its file.
    pub program: PathBuf,
    /// Which it is.
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

/// Why it cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unavailable {
    /// What is wrong.
    pub why: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl Tool {
    /// Looks for `sbx`, and for `docker sandbox` where there is none; neither question takes
    /// longer than half a minute. One in the project is none: an agent can change it.
    pub fn find(
        project: &Path,
        env: &[(OsString, OsString)],
        watch: &Watch,
    ) -> Result<Self, Unavailable> {
        let found = Self::ask(env, watch)?;
        let real = found.program.canonicalize().unwrap_or_else(|_| found.program.clone());
        if real.starts_with(project) {
            let place = real.display();
            let why = format!("`{place}` lies in the project, where an agent can change it");
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
                    // Without its daemon it prints words in place of the list.
                    Answer::Said(list) if is_json(&list) => {
                        return Ok(Self { program, form: Form::Sbx });
                    }
                    Answer::Said(_) | Answer::Absent => {
                        return unavailable("the daemon of sbx does not answer".to_owned(), remedy);
                    }
                    Answer::Failed(words) | Answer::Silent(words) => {
                        return unavailable(format!("sbx does not work: {words}"), remedy);
                    }
                }
            }
            (_, Answer::Failed(words) | Answer::Silent(words)) => {
                let why = format!("sbx does not work: {words}");
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
                Answer::Failed(words) | Answer::Silent(words) => {
                    unavailable(format!("docker sandbox does not work: {words}"), remedy)
                }
                Answer::Absent => unavailable(absent, remedy),
            },
            (_, Answer::Said(_) | Answer::Failed(_) | Answer::Silent(_) | Answer::Absent) => {
                unavailable(absent, remedy)
            }
        }
    }
}

/// Returns whether it is worth asking, without asking.
pub fn may_be_there(env: &[(OsString, OsString)]) -> bool {
    find_program(&talker(Path::new("sbx"), &[], env, PROBE)).is_ok() || has_plugin(env)
}

/// Returns whether the deprecated form is installed. To ask docker itself takes it some 30 ms.
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

/// No list at all is what some versions print when there is nothing to list.
fn is_json(text: &str) -> bool {
    matches!(
        serde_json::from_str(text),
        Ok(serde_json::Value::Array(_) | serde_json::Value::Object(_) | serde_json::Value::Null)
    )
}
