//! The backend `container`: each call is a container of docker or podman, with the project and
//! nothing else of this machine in it, and no network but the way to the proxy.
//!
//! The container runs an image of the user's, in which the agent is installed. ralph itself is its
//! first process: it collects what is left behind, and holds the bridge to the proxy. The socket
//! of the engine is never inside, nor any privilege. Not here: the proxy, and choosing a backend.

mod argv;
mod engine;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use engine::{Engine, NoEngine};

use super::ask::{Answer, ask, talker};
use super::boundary::Boundary;
use crate::process::{Spawn, Watch};
use crate::store::layout::fnv1a;

/// Removing a container that is running takes the engine a second; ten leave room.
const REMOVAL: Duration = Duration::from_secs(10);

/// An engine that answers, and the image to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// The engine.
    pub engine: Engine,
    /// The image.
    pub image: String,
    /// ralph's own program, which must run in the image too.
    pub ralph: PathBuf,
    /// The environment that the engine's client needs: `PATH`, `HOME`, `DOCKER_*`,
    /// `XDG_RUNTIME_DIR`.
    pub env: Vec<(OsString, OsString)>,
}

impl Container {
    /// Returns how to start a child in a container of this name.
    ///
    /// `sockets` is the directory in which the proxy listens ([`super::proxy::Proxy::listen_in`]);
    /// without it, and with a network that goes through the proxy, there is none. After the child
    /// has ended, however it did, its container is to be [removed](Self::removal).
    pub fn launch(
        &self,
        spawn: Spawn,
        boundary: &Boundary,
        sockets: Option<&Path>,
        name: &str,
    ) -> Spawn {
        let args = argv::run(self, &spawn, boundary, sockets, name);
        let env = argv::client_env(&self.env, &spawn.env);
        Spawn { program: self.engine.program.clone().into(), args, cwd: "/".into(), env, ..spawn }
    }

    /// Returns how to remove a container. One that is gone already is no error.
    pub fn removal(&self, name: &str) -> Spawn {
        self.client(&["rm", "--force", "--volumes", name])
    }

    /// Removes what killed runs of a project have left running.
    pub fn sweep(&self, project: &Path, watch: &Watch) {
        let filter = format!("label={}", label(project));
        let list = self.client(&["ps", "--all", "--quiet", "--filter", &filter]);
        match ask(&list, watch) {
            Answer::Said(ids) => {
                for id in ids.split_whitespace() {
                    let _ = ask(&self.removal(id), watch);
                }
            }
            // The next call says what is wrong with the engine.
            Answer::Failed(_) | Answer::Absent => {}
        }
    }

    fn client(&self, args: &[&str]) -> Spawn {
        talker(&self.engine.program, args, &self.env, REMOVAL)
    }
}

/// Returns the name of a container: unique for the call `number` of a run.
pub fn container_name(run: &str, number: u64) -> String {
    let is_known = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '.' | '_');
    let run: String = run.chars().map(|it| if is_known(it) { it } else { '-' }).collect();
    format!("ralph-{run}-{number}")
}

/// Returns the label by which the containers of a project are found again.
fn label(project: &Path) -> String {
    format!("ralph.project={:016x}", fnv1a(project.as_os_str().as_encoded_bytes()))
}

#[cfg(test)]
mod tests;
