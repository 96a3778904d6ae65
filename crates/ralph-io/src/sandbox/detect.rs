//! Detects whether a backend works: probes it, runs the self-test, and remembers that it passed.
//!
//! A pass is remembered for this kernel and this binary, because a self-test takes longer than
//! starting a child. A failure is not remembered, because the user may have fixed it. Not here:
//! what to do with the result.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ralph_model::agent::AgentKind;
use ralph_model::sandbox::Backend;
use serde::{Deserialize, Serialize};

use super::probe::{ProbeResult, assume_backend, probe_backend};
use super::self_test::run_self_test;
use super::{BackendConfig, ResourceLimits};
use crate::environment::Variables;
use crate::process::Watch;
use crate::store::layout::{create_private_directories, write_json};

/// What detection needs to know.
#[derive(Debug, Clone)]
pub struct DetectionContext {
    /// ralph's own executable.
    pub ralph: PathBuf,
    /// The project; a backend's program must not be inside it.
    pub project: PathBuf,
    /// The directory with the state of all projects, where passed self-tests are remembered.
    pub state_root: PathBuf,
    pub env: Variables,
    pub watch: Watch,
    /// The image for containers, if one is set.
    pub image: Option<String>,
    /// The agents that will run inside.
    pub kinds: Vec<AgentKind>,
    /// The resource limits of a VM.
    pub bounds: ResourceLimits,
}

impl DetectionContext {
    /// Returns the context for backends of this machine's kernel.
    pub fn for_kernel_backends(ralph: &Path, project: &Path, env: Variables) -> Self {
        let bounds = ResourceLimits {
            pids: 0,
            counted: super::ProcessCounting::ByUser,
            memory: 0,
            tmp: 0,
            file: 0,
        };
        Self {
            ralph: ralph.to_owned(),
            project: project.to_owned(),
            state_root: PathBuf::new(),
            env,
            watch: Watch::new_detached(),
            image: None,
            kinds: Vec::new(),
            bounds,
        }
    }
}

/// Detects whether a backend works.
pub fn detect_backend(backend: Backend, context: &DetectionContext) -> ProbeResult {
    let DetectionContext { ralph, state_root, watch, .. } = context;
    let memory = state_root.join("sandbox-passed.json");
    let passed = PassedSelfTests::read(&memory);
    // Trying namespaces takes as long as setting up a sandbox.
    if let Some(config) = assume_backend(backend, context)
        && SelfTestKey::from_backend(&config, "", ralph)
            .is_some_and(|now| passed.keys.contains(&now))
    {
        return ProbeResult::Works(config);
    }
    let (config, version) = match probe_backend(backend, context) {
        ProbeResult::Works(found) => found,
        ProbeResult::Fails { why, remedy } => return ProbeResult::Fails { why, remedy },
    };
    match &config {
        // Creating a VM takes minutes; the run tests its own VM.
        BackendConfig::Sbx(_) => return ProbeResult::Works(config),
        BackendConfig::Native
        | BackendConfig::Bwrap { .. }
        | BackendConfig::Container(_)
        | BackendConfig::Landlock => {}
    }
    let now = SelfTestKey::from_backend(&config, &version, ralph);
    if now.as_ref().is_some_and(|now| passed.keys.contains(now)) {
        return ProbeResult::Works(config);
    }
    let run_test =
        || run_self_test(&config, ralph, state_root, watch).map_err(|failure| failure.to_string());
    // What is mounted may vanish just then, as other programs end; a real fault shows again.
    let tried = create_private_directories(state_root)
        .map_err(|error| format!("cannot create `{}`: {error}", state_root.display()))
        .and_then(|()| run_test().or_else(|_| run_test()));
    match tried {
        Ok(()) => {
            passed.remember(now, &memory);
            ProbeResult::Works(config)
        }
        Err(failure) => {
            let why = format!("it failed the sandbox self-test: {failure}");
            ProbeResult::Fails { why, remedy: None }
        }
    }
}

/// The self-tests that passed on this machine.
#[derive(Debug, Default, Serialize, Deserialize)]
struct PassedSelfTests {
    version: u32,
    keys: Vec<SelfTestKey>,
}

/// The conditions that a passed self-test is valid for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SelfTestKey {
    backend: Backend,
    user: u32,
    kernel: String,
    /// Settings that decide whether namespaces can be created: of the kernel, and of this process.
    knobs: String,
    binary: PathBuf,
    modified: i64,
    /// The program of the backend with its modification time, or its image.
    #[serde(default)]
    tool: String,
}

/// Kernel settings that decide whether namespaces can be created.
const NAMESPACE_SETTINGS: [&str; 4] = [
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/user/max_user_namespaces",
    "/proc/self/attr/current",
];

impl SelfTestKey {
    fn from_backend(config: &BackendConfig, version: &str, ralph: &Path) -> Option<Self> {
        let kernel = rustix::system::uname();
        let kernel = [kernel.release(), kernel.version()].map(|it| it.to_string_lossy());
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut knobs: Vec<String> = NAMESPACE_SETTINGS
            .iter()
            .map(|path| read(path).trim_matches(['\n', '\0']).to_owned())
            .collect();
        let status = read("/proc/self/status");
        let own = ["CapEff:", "NoNewPrivs:", "Seccomp:"];
        let own = status.lines().filter(|line| own.iter().any(|name| line.starts_with(name)));
        knobs.extend(own.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")));
        let modified = |path: &Path| fs::metadata(path).ok().map(|about| about.mtime());
        let tool = match config {
            BackendConfig::Bwrap { program, .. } => {
                format!("{} {}", program.display(), modified(program)?)
            }
            BackendConfig::Native
            | BackendConfig::Container(_)
            | BackendConfig::Sbx(_)
            | BackendConfig::Landlock => version.to_owned(),
        };
        Some(Self {
            backend: config.backend(),
            user: rustix::process::geteuid().as_raw(),
            kernel: kernel.join(" "),
            knobs: knobs.join(", "),
            binary: ralph.to_owned(),
            modified: modified(ralph)?,
            tool,
        })
    }
}

impl PassedSelfTests {
    fn read(path: &Path) -> Self {
        let text = fs::read(path).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn remember(mut self, key: Option<SelfTestKey>, path: &Path) {
        self.version = 1;
        self.keys.retain(|known| Some(known.backend) != key.as_ref().map(|key| key.backend));
        self.keys.extend(key);
        // At worst the self-test runs again.
        let _ = write_json(path, &self);
    }
}
