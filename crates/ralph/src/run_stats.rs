//! The statistics of runs: counted from a journal once, then read from the file kept with the run.
//!
//! Not here: what is counted (`ralph_core::reporting::stats`).

use std::path::Path;

use ralph_core::reporting::stats::{ProjectStats, RunStats, StatsFold};
use ralph_io::store::{RunDir, stats_file};
use ralph_model::units::Timestamp;

use crate::subscribers::replay_journal;

/// Sums up the runs in a state directory that began at this time or later.
pub(crate) fn read_project_stats(state: &Path, since: Option<Timestamp>) -> ProjectStats {
    let runs = read_runs(state);
    ProjectStats::from_runs(runs.filter(|run| since.is_none_or(|since| run.started >= since)))
}

/// Returns the figures of all runs in a state directory.
pub(crate) fn read_runs(state: &Path) -> impl Iterator<Item = RunStats> {
    stats_file::list_run_dirs(state).into_iter().filter_map(|files| read_run_stats(&files))
}

/// Counts a run that has ended, and keeps the result with it.
pub(crate) fn keep_run_stats(files: &RunDir) {
    let _ = read_run_stats(files);
}

/// Returns the kept figures of a run, or counts them. A journal that cannot be read has none.
pub(crate) fn read_run_stats(files: &RunDir) -> Option<RunStats> {
    if let Some(kept) = stats_file::read_stats(files) {
        return Some(kept);
    }
    let mut fold = StatsFold::default();
    let state = replay_journal(&files.journal_path(), |recorded, state| {
        fold.apply_event(recorded, state);
        Ok(())
    });
    let state = state.ok().flatten()?;
    let counted = fold.to_stats(&state);
    if state.outcome.is_some() {
        stats_file::keep_stats(files, &counted);
    }
    Some(counted)
}
