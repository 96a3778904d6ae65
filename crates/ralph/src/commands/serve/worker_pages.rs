//! The pages of workers: which workers of the shown runs have a run to show, and its key.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use ralph_core::reporting::report::Summary;
use ralph_io::store::layout::{KnownProject, find_worker_run};
use ralph_model::ids::{RunId, WorkerId};
use ralph_ui::html::WorkerKeys;

/// The workers of the runs that were shown so far. No other worker has a page.
pub(super) struct WorkerPages {
    root: PathBuf,
    known: Mutex<BTreeMap<String, (KnownProject, RunId)>>,
}

impl WorkerPages {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root, known: Mutex::default() }
    }

    /// Finds the run of a worker by the key of its page.
    pub(super) fn find_run(&self, key: &str) -> Option<(KnownProject, RunId)> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Adds the keys of the workers of a run that have begun since.
    pub(super) fn add_keys(&self, keys: &mut WorkerKeys, summary: &Summary) {
        let tasks = summary.parallel_figures.iter().flat_map(|it| &it.tasks);
        for worker in tasks.flat_map(|it| &it.workers).map(|it| &it.worker) {
            if keys.contains_key(worker) {
                continue;
            }
            if let Some(place) = find_worker_run(&self.root, worker) {
                let key = build_key(worker);
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                known.insert(key.clone(), (place, RunId(worker.0.clone())));
                keys.insert(worker.clone(), key);
            }
        }
    }
}

/// Returns an id for a worker, valid for this process only. Its own name may have other characters
/// than an address.
fn build_key(worker: &WorkerId) -> String {
    let mut hasher = DefaultHasher::new();
    worker.hash(&mut hasher);
    format!("worker-{:016x}", hasher.finish())
}
