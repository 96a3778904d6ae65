//! Looks at a backend: probes it, puts it to trial, and remembers that it passed.
//!
//! What passed is remembered for this kernel and this binary, as a trial costs more than a child.
//! What failed is not: it may have been mended. Not here: what to do with the answer.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ralph_core::sandbox::Backend;
use serde::{Deserialize, Serialize};

use super::probe::{Finding, probe};
use super::trial::trial;
use crate::environment::Variables;
use crate::process::Watch;
use crate::store::layout::{private_directories, write_json};

/// What looking needs to know of the world.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// ralph's own executable.
    pub ralph: PathBuf,
    /// The project, in which no backend may lie.
    pub project: PathBuf,
    /// The directory with the state of all projects, where what passed is remembered.
    pub state_root: PathBuf,
    /// ralph's environment.
    pub env: Variables,
    /// ralph's own signals.
    pub watch: Watch,
}

/// Says whether a backend of this machine's kernel works.
pub fn look(backend: Backend, around: &Surroundings) -> Finding {
    let Surroundings { ralph, project, state_root, env, watch } = around;
    let memory = state_root.join("sandbox-passed.json");
    let (passed, now) = (Passed::read(&memory), Key::of(backend, ralph));
    let wall = match probe(backend, ralph, project, env, watch) {
        Finding::Works(wall) => wall,
        Finding::Fails { why, remedy } => return Finding::Fails { why, remedy },
    };
    if now.as_ref().is_some_and(|now| passed.keys.contains(now)) {
        return Finding::Works(wall);
    }
    let tried = private_directories(state_root)
        .map_err(|error| format!("`{}` cannot be made: {error}", state_root.display()))
        .and_then(|()| {
            trial(&wall, ralph, state_root, watch).map_err(|surprise| surprise.to_string())
        });
    match tried {
        Ok(()) => {
            passed.remember(now, &memory);
            Finding::Works(wall)
        }
        Err(surprise) => {
            let why = format!("its walls failed their trial: {surprise}");
            Finding::Fails { why, remedy: None }
        }
    }
}

/// What passed on this machine.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Passed {
    version: u32,
    keys: Vec<Key>,
}

/// What a trial holds for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Key {
    backend: Backend,
    user: u32,
    kernel: String,
    binary: PathBuf,
    modified: i64,
}

impl Key {
    fn of(backend: Backend, ralph: &Path) -> Option<Self> {
        let kernel = rustix::system::uname();
        let kernel = [kernel.release(), kernel.version()].map(|it| it.to_string_lossy());
        Some(Self {
            backend,
            user: rustix::process::geteuid().as_raw(),
            kernel: kernel.join(" "),
            binary: ralph.to_owned(),
            modified: fs::metadata(ralph).ok()?.mtime(),
        })
    }
}

impl Passed {
    fn read(path: &Path) -> Self {
        let text = fs::read(path).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn remember(mut self, key: Option<Key>, path: &Path) {
        self.version = 1;
        self.keys.retain(|known| Some(known.backend) != key.as_ref().map(|key| key.backend));
        self.keys.extend(key);
        // At worst the trial is made again.
        let _ = write_json(path, &self);
    }
}
