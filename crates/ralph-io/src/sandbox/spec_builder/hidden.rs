//! What is hidden: ralph's own state, and what the settings hide.
//!
//! Not here: the home and other places that are empty in every sandbox.

use std::path::{Path, PathBuf};

use ralph_model::sandbox::{SandboxPolicy, UnixSockets};

use super::super::home::keep_outermost;
use super::super::spec::Mount;
use super::{SandboxPaths, SpecBuilder};

impl SpecBuilder {
    /// Hides the directories that the work tree lies in, after making writable what lies around
    /// them: the clone of a worker is in ralph's state. Returns what is to be made writable in them.
    pub(super) fn add_hidden_around(
        &mut self,
        places: &SandboxPaths,
        policy: &SandboxPolicy,
        writable: Vec<PathBuf>,
    ) -> Vec<PathBuf> {
        let hidden = list_hidden(places, policy).filter(|it| places.work_tree.starts_with(it));
        let hidden = keep_outermost(hidden.collect());
        let (around, inside) =
            writable.into_iter().partition(|path| hidden.iter().any(|it| it.starts_with(path)));
        self.push_writable(around);
        for path in hidden {
            if self.is_visible(&path) {
                self.mounts.push(Mount::Hidden { path: path.clone() });
                self.hidden_around.push(path);
            }
        }
        inside
    }

    /// Hides ralph's own state and what the settings hide.
    pub(super) fn add_hidden(
        &mut self,
        places: &SandboxPaths,
        policy: &SandboxPolicy,
        sockets: UnixSockets,
    ) {
        let hidden = list_hidden(places, policy).filter(|path| !places.work_tree.starts_with(path));
        for path in keep_outermost(hidden.collect()) {
            if self.is_visible(&path) {
                self.mounts.push(Mount::Hidden { path });
            }
        }
        match sockets {
            UnixSockets::Deny => {}
            UnixSockets::Private => self.hide_sockets(),
        }
    }

    /// Hides every socket that is still reachable by its path: a read-only mount does not prevent
    /// connecting to it.
    fn hide_sockets(&mut self) {
        let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let paths = table.lines().filter_map(|line| line.split_whitespace().nth(7));
        let mut sockets: Vec<PathBuf> = paths
            .filter(|path| path.starts_with('/'))
            .filter_map(|path| Path::new(path).canonicalize().ok())
            .filter(|path| !path.is_dir() && self.is_visible(path))
            .collect();
        sockets.sort();
        sockets.dedup();
        self.mounts.extend(sockets.into_iter().map(|path| Mount::Hidden { path }));
    }
}

/// Returns what is hidden: ralph's own state, and what the settings hide.
fn list_hidden(places: &SandboxPaths, policy: &SandboxPolicy) -> impl Iterator<Item = PathBuf> {
    let state = places.state.parent().unwrap_or(&places.state).to_owned();
    let named = policy.hide.iter().map(|setting| places.resolve_setting(setting));
    named.chain([state]).filter(|path| path.exists())
}
