//! Looks at a backend: probes it, puts it to trial, and remembers that it passed.
//!
//! What passed is remembered for this kernel and this binary, as a trial costs more than a child.
//! What failed is not: it may have been mended. Not here: what to do with the answer.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ralph_core::recipe::AgentKind;
use ralph_core::sandbox::Backend;
use serde::{Deserialize, Serialize};

use super::probe::{Finding, known, probe};
use super::trial::trial;
use super::{Bounds, Wall};
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
    /// The image for containers, where there is one.
    pub image: Option<String>,
    /// The agents that are to run inside.
    pub kinds: Vec<AgentKind>,
    /// What a VM may use.
    pub bounds: Bounds,
}

impl Surroundings {
    /// Returns what looking at the backends of this machine's kernel needs.
    pub fn of_the_kernel(ralph: &Path, project: &Path, env: Variables) -> Self {
        let bounds =
            Bounds { pids: 0, counted: super::Counted::ByUser, memory: 0, tmp: 0, file: 0 };
        Self {
            ralph: ralph.to_owned(),
            project: project.to_owned(),
            state_root: PathBuf::new(),
            env,
            watch: Watch::detached(),
            image: None,
            kinds: Vec::new(),
            bounds,
        }
    }
}

/// Says whether a backend works.
pub fn look(backend: Backend, around: &Surroundings) -> Finding {
    let Surroundings { ralph, state_root, watch, .. } = around;
    let memory = state_root.join("sandbox-passed.json");
    let passed = Passed::read(&memory);
    // To try namespaces takes as long as to make a cell.
    if let Some(wall) = known(backend, around)
        && Key::of(&wall, "", ralph).is_some_and(|now| passed.keys.contains(&now))
    {
        return Finding::Works(wall);
    }
    let (wall, version) = match probe(backend, around) {
        Finding::Works(found) => found,
        Finding::Fails { why, remedy } => return Finding::Fails { why, remedy },
    };
    match &wall {
        // It takes minutes to make one; the run's own is put to trial.
        Wall::Sbx(_) => return Finding::Works(wall),
        Wall::Native | Wall::Bwrap { .. } | Wall::Container(_) | Wall::Landlock => {}
    }
    let now = Key::of(&wall, &version, ralph);
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
    /// What decides whether namespaces can be made: settings of the kernel, and what holds for this
    /// process already.
    knobs: String,
    binary: PathBuf,
    modified: i64,
    /// The program of the backend, its age, or its image.
    #[serde(default)]
    tool: String,
}

/// What decides whether namespaces can be made.
const KNOBS: [&str; 4] = [
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/user/max_user_namespaces",
    "/proc/self/attr/current",
];

impl Key {
    fn of(wall: &Wall, version: &str, ralph: &Path) -> Option<Self> {
        let kernel = rustix::system::uname();
        let kernel = [kernel.release(), kernel.version()].map(|it| it.to_string_lossy());
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut knobs: Vec<String> =
            KNOBS.iter().map(|path| read(path).trim_matches(['\n', '\0']).to_owned()).collect();
        let status = read("/proc/self/status");
        let own = ["CapEff:", "NoNewPrivs:", "Seccomp:"];
        let own = status.lines().filter(|line| own.iter().any(|name| line.starts_with(name)));
        knobs.extend(own.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")));
        let modified = |path: &Path| fs::metadata(path).ok().map(|about| about.mtime());
        let tool = match wall {
            Wall::Bwrap { program, .. } => {
                format!("{} {}", program.display(), modified(program)?)
            }
            Wall::Native | Wall::Container(_) | Wall::Sbx(_) | Wall::Landlock => version.to_owned(),
        };
        Some(Self {
            backend: wall.backend(),
            user: rustix::process::geteuid().as_raw(),
            kernel: kernel.join(" "),
            knobs: knobs.join(", "),
            binary: ralph.to_owned(),
            modified: modified(ralph)?,
            tool,
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
