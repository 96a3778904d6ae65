//! What a child can reach, in the form that third-party backends need: container engines, `sbx`,
//! `sandbox-exec`.
//!
//! Plain data, derived from a [`SandboxSpec`]. Not here: how the spec follows from the policy.

use std::path::{Path, PathBuf};

use ralph_model::sandbox::NetworkMode;

use super::{Mount, ResourceLimits, SandboxNetwork, SandboxSpec};

/// What a child can reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boundary {
    pub project: PathBuf,
    /// The user's home directory, of which only the entries in `places` are visible.
    pub home: Option<PathBuf>,
    /// Paths that differ from the default. None is inside a later one, and no two are the same:
    /// engines sort them by path.
    pub places: Vec<BoundaryEntry>,
    /// Names that the child may not create, for backends that can refuse a name that does not
    /// exist. ralph removes what appears there after the call in any case.
    pub absent: Vec<PathBuf>,
    pub network: NetworkMode,
    pub bounds: ResourceLimits,
}

/// A path that differs from the default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoundaryEntry {
    /// A directory that is empty at first, writable, and removed afterwards.
    Scratch(PathBuf),
    /// Writable, and the directory itself cannot be moved away.
    Writable(PathBuf),
    ReadOnly(PathBuf),
    /// A file or directory of another path.
    Elsewhere {
        /// The path inside.
        path: PathBuf,
        /// The path on the host.
        source: PathBuf,
        is_writable: bool,
    },
    /// A directory without visible entries.
    HiddenDirectory(PathBuf),
    /// A file that appears empty.
    HiddenFile(PathBuf),
}

impl BoundaryEntry {
    /// Returns the path inside the sandbox.
    pub fn path(&self) -> &Path {
        match self {
            Self::Scratch(path)
            | Self::Writable(path)
            | Self::ReadOnly(path)
            | Self::Elsewhere { path, .. }
            | Self::HiddenDirectory(path)
            | Self::HiddenFile(path) => path,
        }
    }
}

impl Boundary {
    /// Derives the boundary from a spec.
    pub fn from_spec(spec: &SandboxSpec, project: &Path, home: Option<&Path>) -> Self {
        let mut places: Vec<BoundaryEntry> = Vec::new();
        for mount in &spec.mounts {
            let place = match mount {
                Mount::Scratch { path } => BoundaryEntry::Scratch(path.clone()),
                Mount::Hidden { path } if path.is_dir() => {
                    BoundaryEntry::HiddenDirectory(path.clone())
                }
                Mount::Hidden { path } if path.exists() => BoundaryEntry::HiddenFile(path.clone()),
                Mount::Hidden { .. } => continue,
                Mount::Shown { path } | Mount::Protected { path } => {
                    BoundaryEntry::ReadOnly(path.clone())
                }
                Mount::Writable { path } | Mount::Pinned { path } => {
                    BoundaryEntry::Writable(path.clone())
                }
                Mount::Cache { path, source } => BoundaryEntry::Elsewhere {
                    path: path.clone(),
                    source: source.clone(),
                    is_writable: true,
                },
                Mount::ShownAs { path, source } => BoundaryEntry::Elsewhere {
                    path: path.clone(),
                    source: source.clone(),
                    is_writable: false,
                },
            };
            // A later mount covers the earlier ones inside it.
            places.retain(|earlier| !earlier.path().starts_with(place.path()));
            places.push(place);
        }
        let network = match spec.network {
            SandboxNetwork::None => NetworkMode::None,
            SandboxNetwork::Host => NetworkMode::Host,
            SandboxNetwork::Proxy(_) => NetworkMode::Proxy,
        };
        Self {
            project: project.to_owned(),
            home: home.map(Path::to_owned),
            places,
            absent: spec.absent.iter().map(|name| name.path.clone()).collect(),
            network,
            bounds: spec.bounds,
        }
    }
}

/// A boundary for tests of the argument lists.
#[cfg(test)]
pub(super) fn build_example_boundary() -> Boundary {
    let counted = super::ProcessCounting::Together;
    let bounds =
        ResourceLimits { pids: 512, counted, memory: 8 << 30, tmp: 2 << 30, file: 1 << 30 };
    Boundary {
        project: "/home/ann/my project".into(),
        home: Some("/home/ann".into()),
        places: vec![
            BoundaryEntry::Scratch("/tmp".into()),
            BoundaryEntry::Scratch("/home/ann".into()),
            BoundaryEntry::Writable("/home/ann/my project".into()),
            BoundaryEntry::ReadOnly("/home/ann/my project/.git".into()),
            BoundaryEntry::ReadOnly("/home/ann/my project/.ralph".into()),
            BoundaryEntry::HiddenDirectory("/home/ann/my project/secrets".into()),
            BoundaryEntry::HiddenFile("/home/ann/my project/.env".into()),
            BoundaryEntry::ReadOnly("/home/ann/.local/state/ralph/run/mcp.json".into()),
            BoundaryEntry::Writable("/home/ann/.local/state/ralph/agent/claude".into()),
        ],
        absent: vec!["/home/ann/my project/.envrc".into()],
        network: NetworkMode::Proxy,
        bounds,
    }
}

/// A child for tests of the argument lists.
#[cfg(test)]
pub(super) fn build_example_spawn() -> crate::process::Spawn {
    let env = [
        ("PATH", "/home/ann/bin:/usr/bin"),
        ("HOME", "/home/ann"),
        ("LANG", "C.UTF-8"),
        ("MODEL_API_KEY", "sk-123"),
        ("DOCKER_HOST", "unix:///run/docker.sock"),
    ];
    crate::process::Spawn {
        program: "claude".into(),
        args: vec!["-p".into(), "two words".into()],
        cwd: "/home/ann/my project/web".into(),
        env: env.map(|(name, value)| (name.into(), value.into())).to_vec(),
        stdin: crate::process::StdinSource::Bytes(b"prompt".to_vec()),
        limits: crate::process::ProcessLimits::default(),
    }
}

/// Shows a child as it would be started, one option per line.
#[cfg(test)]
pub(super) fn format_spawn(spawn: &crate::process::Spawn) -> String {
    let mut text = spawn.program.to_string_lossy().into_owned();
    for word in &spawn.args {
        let word = word.to_string_lossy();
        text.push(if word.starts_with('-') { '\n' } else { ' ' });
        text.push_str(&word);
    }
    let names: Vec<_> = spawn.env.iter().map(|(name, _)| name.to_string_lossy()).collect();
    format!("{text}\nin {} with {}\n", spawn.cwd.display(), names.join(" "))
}

#[cfg(test)]
mod tests {
    use super::super::AbsentName;
    use super::*;

    #[test]
    fn entries_follow_from_a_spec_and_none_is_inside_a_later_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        for name in ["p/.git", "p/hidden/deep"] {
            std::fs::create_dir_all(root.join(name)).expect("a directory");
        }
        std::fs::write(root.join("p/secret"), "x").expect("written");
        let at = |name: &str| root.join(name);
        let spec = SandboxSpec {
            mounts: vec![
                Mount::Scratch { path: "/tmp".into() },
                Mount::Shown { path: at("p/tools") },
                Mount::Writable { path: at("p") },
                Mount::Pinned { path: at("p/docs") },
                Mount::Protected { path: at("p/.git") },
                Mount::Shown { path: at("p/hidden/deep") },
                Mount::Hidden { path: at("p/hidden") },
                Mount::Hidden { path: at("p/secret") },
                Mount::Hidden { path: at("p/absent") },
            ],
            present: Vec::new(),
            absent: vec![AbsentName { path: at("p/.envrc"), above: at("p") }],
            network: SandboxNetwork::None,
            unix_sockets: ralph_model::sandbox::UnixSockets::Deny,
            bounds: build_example_boundary().bounds,
            notes: Vec::new(),
        };
        let boundary = Boundary::from_spec(&spec, &at("p"), None);
        assert_eq!(boundary.absent, [at("p/.envrc")]);
        assert_eq!(
            boundary.places,
            [
                BoundaryEntry::Scratch("/tmp".into()),
                BoundaryEntry::Writable(at("p")),
                BoundaryEntry::Writable(at("p/docs")),
                BoundaryEntry::ReadOnly(at("p/.git")),
                BoundaryEntry::HiddenDirectory(at("p/hidden")),
                BoundaryEntry::HiddenFile(at("p/secret")),
            ]
        );
    }
}
