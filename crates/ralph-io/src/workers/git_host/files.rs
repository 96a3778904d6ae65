//! The names of files in commits of jobs, and reading them.

use ralph_core::ports::VcsError;
use ralph_model::worktree::CommitId;
use serde::de::DeserializeOwned;

use crate::git::RemoteRefs;

pub(in crate::workers) const JOB_FILE: &str = "job.json";
pub(in crate::workers) const RESULT_FILE: &str = "result.json";
/// Files of a commit with the progress of a worker.
pub(in crate::workers) const PROGRESS_FILE: &str = "progress.json";
pub(in crate::workers) const JOURNAL_FILE: &str = "journal.jsonl";
pub(in crate::workers) const WORK_FILE: &str = "work.json";

/// Reads a file of a commit; none if it is not there or means nothing to this version.
pub(in crate::workers) fn read_json<T: DeserializeOwned>(
    refs: &RemoteRefs,
    commit: &CommitId,
    name: &str,
) -> Result<Option<T>, VcsError> {
    let bytes = refs.read_file(commit, name)?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}
