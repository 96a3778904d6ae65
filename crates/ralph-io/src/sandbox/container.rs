//! The backend `container`: each call is a container of docker or podman that contains the project
//! and nothing else of this machine, and has no network except for the proxy.
//!
//! The container runs an image of the user's, in which the agent is installed. ralph itself is its
//! first process, as with the native backend: it hands a listener to the proxy, gives up rights and
//! system calls, and reaps orphans. The socket of the engine is never inside, nor any privilege.
//! Not here: the process around the engine's client (`stage`), and choosing a backend.

mod argv;
mod engine;
mod note;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use engine::{ContainerEngine, ContainerEngineError, ContainerUser, SelinuxLabels};
use serde::{Deserialize, Serialize};

use super::boundary::Boundary;
use super::tool_query::{PROBE_TIMEOUT, ToolAnswer, build_query, query_tool};
use crate::process::{Spawn, Watch};

#[cfg(target_os = "linux")]
pub(super) use note::ContainerNote;
pub(super) use note::remove_stale_containers;

/// Removing a running container takes the engine a second; 60 s leaves room for a busy machine.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(60);

/// An engine that answers, and the image to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    pub engine: ContainerEngine,
    pub image: String,
    /// ralph's own executable, which must run in the image too, at the same path.
    pub ralph: PathBuf,
    /// The environment of the engine's client.
    pub env: Vec<(String, String)>,
}

/// What is specific to the container of one call.
#[derive(Debug, Clone, Copy)]
pub struct ContainerSlot<'a> {
    pub name: &'a str,
    /// The name of the run, by which containers of a dead run are found.
    pub run: &'a str,
    /// The unix socket at which the process outside waits for the first one inside.
    pub channel: &'a Path,
    /// An empty directory, mounted over hidden ones.
    pub empty: &'a Path,
    /// The unix socket at which the proxy takes over listeners, if there is one.
    pub proxy: Option<&'a Path>,
}

impl Container {
    /// Finds an engine that answers and has an image, and returns the id of that image.
    ///
    /// Downloads nothing: whether to spend time and network on that is the user's decision.
    pub fn find_engine(
        image: &str,
        ralph: &Path,
        project: &Path,
        env: &[(OsString, OsString)],
        watch: &Watch,
    ) -> Result<(Self, String), ContainerEngineError> {
        let mut failures: Vec<ContainerEngineError> = Vec::new();
        for kind in engine::KINDS {
            let found =
                ContainerEngine::query_engine(kind, project, env, watch).and_then(|engine| {
                    let env = argv::select_client_env(env);
                    let (image, ralph) = (image.to_owned(), ralph.to_owned());
                    let container = Self { engine, image, ralph, env };
                    container.query_image_id(kind.name, watch).map(|id| (container, id))
                });
            match found {
                Ok(found) => return Ok(found),
                Err(failure) => failures.push(failure),
            }
        }
        let why: Vec<&str> = failures.iter().map(|failure| failure.why.as_str()).collect();
        // An engine that answers and lacks the image gives a better hint than one that is missing.
        let nearest = failures.iter().rev().max_by_key(|it| it.readiness);
        let remedy = nearest.and_then(|it| it.remedy.clone());
        let nearness = engine::EngineReadiness::Absent;
        Err(ContainerEngineError { why: why.join("; "), remedy, readiness: nearness })
    }

    /// Returns how to start ralph as the first process of a container, to run this child.
    ///
    /// The caller must remove the container after it has ended, however it did.
    pub fn wrap_spawn(&self, spawn: Spawn, boundary: &Boundary, slot: &ContainerSlot<'_>) -> Spawn {
        let args = argv::build_run_arguments(self, &spawn, boundary, slot);
        let env = argv::build_client_env(&self.env, &spawn.env);
        Spawn { program: self.engine.program.clone().into(), args, cwd: "/".into(), env, ..spawn }
    }

    /// Returns how to remove a container. A missing one is no error.
    pub(crate) fn build_remove_command(&self, name: &str) -> Spawn {
        self.build_client(&["rm", "--force", "--volumes", name], REMOVE_TIMEOUT)
    }

    /// Removes the containers of a dead run.
    pub fn remove_run_containers(&self, run: &str, watch: &Watch) {
        let filter = format!("label={}", build_run_label(run));
        let list =
            self.build_client(&["ps", "--all", "--quiet", "--filter", &filter], REMOVE_TIMEOUT);
        match query_tool(&list, watch) {
            ToolAnswer::Output(ids) => {
                for id in ids.split_whitespace() {
                    let _ = query_tool(&self.build_remove_command(id), watch);
                }
            }
            // The next call reports what is wrong with the engine.
            ToolAnswer::Failed(_) | ToolAnswer::Silent(_) | ToolAnswer::Absent => {}
        }
    }

    fn query_image_id(&self, name: &str, watch: &Watch) -> Result<String, ContainerEngineError> {
        let question = ["image", "inspect", "--format", "{{.Id}}", &self.image];
        match query_tool(&self.build_client(&question, PROBE_TIMEOUT), watch) {
            ToolAnswer::Output(id) => Ok(id.trim().to_owned()),
            ToolAnswer::Silent(message) => Err(ContainerEngineError {
                why: format!("{name} does not work: asked for the image, {message}"),
                remedy: Some(format!("`{name} image inspect {}` says what it finds", self.image)),
                readiness: engine::EngineReadiness::Broken,
            }),
            ToolAnswer::Failed(_) | ToolAnswer::Absent => Err(ContainerEngineError {
                why: format!("{name} has no image `{}`", self.image),
                remedy: Some(format!(
                    "`{name} pull {0}` fetches it, or `{name} build -t {0} .` builds it; ralph \
                     fetches nothing by itself",
                    self.image
                )),
                readiness: engine::EngineReadiness::Answers,
            }),
        }
    }

    fn build_client(&self, args: &[&str], longest: Duration) -> Spawn {
        let env: Vec<_> =
            self.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
        build_query(&self.engine.program, args, &env, longest)
    }
}

/// Returns the name of a container: unique for the call `number` of a process in a run.
pub fn build_container_name(run: &str, number: &str) -> String {
    format!("ralph-{}-{number}", replace_special_characters(run))
}

/// Returns the label by which the containers of a run are found.
fn build_run_label(run: &str) -> String {
    format!("ralph.run={}", replace_special_characters(run))
}

fn replace_special_characters(run: &str) -> String {
    let is_known = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '.' | '_');
    run.chars().map(|it| if is_known(it) { it } else { '-' }).collect()
}

#[cfg(test)]
mod tests;
