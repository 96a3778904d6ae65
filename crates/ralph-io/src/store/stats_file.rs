//! The kept statistics of a run: one small file next to its journal.
//!
//! It counts as long as the journal has the length that it was made from. Not here: counting.

use std::fs;
use std::path::{Path, PathBuf};

use ralph_core::reporting::stats::{RunStats, STATS_VERSION};
use serde::{Deserialize, Serialize};

use super::RunDir;
use super::layout::write_json_unsynced;
use crate::bounded_read;

/// A row for each agent, model and role, and a line for each gate.
const LARGEST: u64 = 4 * 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeptStats {
    /// The length of the journal that the figures were made from.
    journal_bytes: u64,
    stats: RunStats,
}

/// Returns the kept statistics of a run, unless its journal has changed since.
pub fn read_stats(files: &RunDir) -> Option<RunStats> {
    let bytes = bounded_read::read_file(&build_path(files), LARGEST).ok()?;
    let kept: KeptStats = serde_json::from_slice(&bytes).ok()?;
    let is_current = kept.stats.version == STATS_VERSION
        && count_journal_bytes(files) == Some(kept.journal_bytes);
    is_current.then_some(kept.stats)
}

/// Keeps the statistics of a run. They can be counted again, so a failure means nothing.
pub fn keep_stats(files: &RunDir, stats: &RunStats) {
    if let Some(journal_bytes) = count_journal_bytes(files) {
        let kept = KeptStats { journal_bytes, stats: stats.clone() };
        let _ = write_json_unsynced(&build_path(files), &kept);
    }
}

/// Returns the directories of all runs in a state directory.
pub fn list_run_dirs(state: &Path) -> Vec<RunDir> {
    let entries = fs::read_dir(state.join("runs")).into_iter().flatten().flatten();
    entries.map(|entry| RunDir::from_path(entry.path())).collect()
}

fn count_journal_bytes(files: &RunDir) -> Option<u64> {
    fs::metadata(files.journal_path()).ok().map(|metadata| metadata.len())
}

fn build_path(files: &RunDir) -> PathBuf {
    files.path().join("summary.json")
}
