//! The work of a worker that has not ended, on the git remote: pushed with its progress, and fetched
//! by the machine that takes the job over.
//!
//! Not here: continuing it (`ralph worker` starts the job with it).

use std::fs;
use std::io;
use std::path::Path;

use ralph_core::ports::VcsError;
use ralph_core::tasks::earlier_work::find_resume_point;
use ralph_model::attempt_label::AttemptLabel;
use ralph_model::event::Recorded;
use ralph_model::ids::{RunId, WorkerId};
use ralph_model::remote_job::{RemoteVersion, UnfinishedWork};
use ralph_model::worker::{EarlierWork, TakenOver};
use ralph_model::worktree::CommitId;

use super::git_host::files::{JOURNAL_FILE, WORK_FILE, read_json};
use crate::git::{RemoteError, RemoteRefs};

/// The journal up to the end of the last iteration, in the files of a job.
const EARLIER_JOURNAL: &str = "earlier.jsonl";

/// Returns what another machine needs to continue the run of a worker, if an iteration has ended.
/// `journal` is what will be pushed beside it. The commits are then in the repository.
pub(super) fn collect_work(
    refs: &RemoteRefs,
    worker: &WorkerId,
    clone: &Path,
    journal: &[u8],
    (machine, version): (&str, &str),
) -> Result<Option<UnfinishedWork>, VcsError> {
    let Some(point) = parse_journal(journal).and_then(|events| find_resume_point(&events)) else {
        return Ok(None);
    };
    let found = refs.repository.fetch_checkpoints(clone, &RunId(worker.0.clone()))?;
    // The journal is out of reach of agents; the refs of the clone are not.
    let kept = point.trees.iter().filter_map(|(iteration, tree)| {
        let (commit, found) = found.get(iteration)?;
        (found == tree).then(|| (*iteration, commit.clone()))
    });
    let work = UnfinishedWork {
        made_by: RemoteVersion::new(version),
        machine: machine.to_owned(),
        iterations: point.iterations,
        events: point.events,
        start: point.start,
        checkpoints: kept.collect(),
    };
    // All but the oldest, of a very long run, must be there.
    let last = point.trees.last_key_value().map(|(iteration, _)| *iteration);
    let is_complete = last.is_some_and(|it| work.checkpoints.contains_key(&it));
    Ok(is_complete.then_some(work))
}

/// Fetches the work of the attempt at a job that came farthest, if there is another one.
pub fn fetch_earlier_work(
    refs: &RemoteRefs,
    worker: &WorkerId,
    own: &AttemptLabel,
    files: &Path,
    version: &str,
) -> Result<Option<EarlierWork>, RemoteError> {
    let start = refs.build_name("journals", &format!("{worker}/"));
    let mut best: Option<(UnfinishedWork, AttemptLabel, CommitId)> = None;
    for (name, commit) in refs.list_refs(&[format!("{start}*")])? {
        let label = name.strip_prefix(&start).and_then(|it| it.parse::<AttemptLabel>().ok());
        let Some(label) = label.filter(|it| it != own) else { continue };
        refs.fetch_commit(&commit, &format!("refs/ralph/journals/here/{worker}-{label}"))?;
        let work: Option<UnfinishedWork> = read_json(refs, &commit, WORK_FILE)?;
        let is_ours = |it: &UnfinishedWork| RemoteVersion::new(version).check(&it.made_by).is_ok();
        let known = best.as_ref().map_or(0, |(it, _, _)| it.iterations);
        if let Some(work) = work.filter(|it| is_ours(it) && it.iterations > known) {
            best = Some((work, label, commit));
        }
    }
    let Some((work, attempt, commit)) = best else { return Ok(None) };
    let journal = refs.read_file(&commit, JOURNAL_FILE)?.unwrap_or_default();
    let lines = journal.split_inclusive(|byte| *byte == b'\n').take(work.events);
    let path = files.join(EARLIER_JOURNAL);
    fs::write(&path, lines.collect::<Vec<_>>().concat()).map_err(|error: io::Error| {
        RemoteError::Failed { message: format!("cannot store the journal: {error}") }
    })?;
    let UnfinishedWork { machine, iterations, start, checkpoints, .. } = work;
    let from = TakenOver { machine, attempt, iterations };
    Ok(Some(EarlierWork { from, journal: path, start, checkpoints }))
}

fn parse_journal(journal: &[u8]) -> Option<Vec<Recorded>> {
    let lines = journal.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).ok()).collect()
}
