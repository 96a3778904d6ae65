//! Finds out whether Docker Sandboxes is installed and answers.
//!
//! Not here: signing in, and the policy of the machine; the user decides about both.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::super::tool_query::{PROBE_TIMEOUT, ToolAnswer, build_query, query_tool};
use crate::process::{Watch, find_program};

/// The program of Docker Sandboxes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SbxTool {
    pub program: PathBuf,
    pub form: SbxForm,
}

/// How its commands are spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SbxForm {
    /// `sbx ...`.
    Sbx,
    /// `docker sandbox ...`, which is deprecated.
    DockerSandbox,
}

/// Why Docker Sandboxes cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct SbxUnavailable {
    pub why: String,
    pub remedy: Option<String>,
}

impl SbxTool {
    /// Looks for `sbx`, and else for `docker sandbox`; neither check takes longer than
    /// half a minute. A program inside the project is refused, because an agent can change it.
    pub fn find(
        project: &Path,
        env: &[(OsString, OsString)],
        watch: &Watch,
    ) -> Result<Self, SbxUnavailable> {
        let found = Self::query_tools(env, watch)?;
        let real = found.program.canonicalize().unwrap_or_else(|_| found.program.clone());
        if real.starts_with(project) {
            let path = real.display();
            let why = format!("`{path}` is inside the project, where an agent can change it");
            return Err(SbxUnavailable { why, remedy: None });
        }
        Ok(found)
    }

    fn query_tools(env: &[(OsString, OsString)], watch: &Watch) -> Result<Self, SbxUnavailable> {
        let mut env = env.to_vec();
        env.push(("SBX_NO_TELEMETRY".into(), "1".into()));
        let question = |program: &str, args: &[&str]| {
            let spawn = build_query(Path::new(program), args, &env, PROBE_TIMEOUT);
            (find_program(&spawn).ok(), query_tool(&spawn, watch))
        };
        let unavailable = |why: String, remedy: &str| {
            Err(SbxUnavailable { why, remedy: Some(remedy.to_owned()) })
        };
        match question("sbx", &["version"]) {
            (Some(program), ToolAnswer::Output(_)) => {
                let remedy =
                    "start it and sign in with `sbx login`; `sbx ls` shows whether it works";
                match question("sbx", &["ls", "--json"]).1 {
                    // Without its daemon it prints a message instead of the list.
                    ToolAnswer::Output(list) if is_json(&list) => {
                        return Ok(Self { program, form: SbxForm::Sbx });
                    }
                    ToolAnswer::Output(_) | ToolAnswer::Absent => {
                        return unavailable("the sbx daemon does not answer".to_owned(), remedy);
                    }
                    ToolAnswer::Failed(message) | ToolAnswer::Silent(message) => {
                        return unavailable(format!("sbx does not work: {message}"), remedy);
                    }
                }
            }
            (_, ToolAnswer::Failed(message) | ToolAnswer::Silent(message)) => {
                let why = format!("sbx does not work: {message}");
                return unavailable(why, "`sbx version` shows whether it works");
            }
            (_, ToolAnswer::Output(_) | ToolAnswer::Absent) => {}
        }
        let absent = "sbx is not installed".to_owned();
        let remedy = "install Docker Sandboxes (`sbx`) and sign in";
        if !has_plugin(&env) {
            return unavailable(absent, remedy);
        }
        match question("docker", &["sandbox", "version"]) {
            (Some(program), ToolAnswer::Output(_)) => {
                match question("docker", &["sandbox", "ls"]).1 {
                    ToolAnswer::Output(_) => Ok(Self { program, form: SbxForm::DockerSandbox }),
                    ToolAnswer::Failed(message) | ToolAnswer::Silent(message) => {
                        unavailable(format!("docker sandbox does not work: {message}"), remedy)
                    }
                    ToolAnswer::Absent => unavailable(absent, remedy),
                }
            }
            (
                _,
                ToolAnswer::Output(_)
                | ToolAnswer::Failed(_)
                | ToolAnswer::Silent(_)
                | ToolAnswer::Absent,
            ) => unavailable(absent, remedy),
        }
    }
}

/// Returns whether Docker Sandboxes seems to be installed, without running it.
pub fn may_be_installed(env: &[(OsString, OsString)]) -> bool {
    find_program(&build_query(Path::new("sbx"), &[], env, PROBE_TIMEOUT)).is_ok() || has_plugin(env)
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
