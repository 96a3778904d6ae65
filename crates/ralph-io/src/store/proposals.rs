//! Proposals of agents that wait for the user: changes and removals of tasks, and tasks beyond the
//! limit of an iteration.
//!
//! They are kept in the state directory, which agents cannot write, across the runs of a work tree.
//! Only the process that holds the lock of the work tree writes the file. Not here: what a proposal
//! does to a list.

use std::path::{Path, PathBuf};

use ralph_core::ports::StoreError;
use ralph_model::amendment::{AmendmentRecord, Proposal};
use ralph_model::ids::IterationNumber;
use serde::{Deserialize, Serialize};

use super::layout::write_json;
use crate::bounded_read;

const VERSION: u32 = 1;

/// ralph writes no larger file.
const LARGEST: u64 = 16 * 1024 * 1024;

/// How many are kept. Decided ones are dropped first, oldest first.
const MOST_PROPOSALS: usize = 200;

/// A proposal and the user's decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredProposal {
    pub proposal: Proposal,
    /// The task file that it would change.
    pub file: PathBuf,
    /// The iteration that made it.
    pub iteration: IterationNumber,
    pub decision: ProposalDecision,
}

/// The user's decision about a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProposalDecision {
    Open,
    /// The change was made.
    Accepted,
    Rejected,
}

#[derive(Serialize, Deserialize)]
struct ProposalFile {
    version: u32,
    proposals: Vec<StoredProposal>,
}

/// Returns all proposals about a task file, oldest first.
pub fn read_proposals(state: &Path, file: &Path) -> Result<Vec<StoredProposal>, StoreError> {
    let all = read_all(state)?.into_iter();
    Ok(all.filter(|stored| stored.file == file).collect())
}

/// Returns how many proposals about a task file the user has not decided on.
pub fn count_open(state: &Path, file: &Path) -> usize {
    let all = read_proposals(state, file).unwrap_or_default();
    all.iter().filter(|stored| stored.decision == ProposalDecision::Open).count()
}

/// Adds the proposals among the amendments of an iteration. Skips known ones, so that the user is
/// not asked twice about the same change.
pub(super) fn add_proposals(
    state: &Path,
    file: &Path,
    iteration: IterationNumber,
    log: &[AmendmentRecord],
) -> Result<(), StoreError> {
    let mut new = log.iter().filter_map(|amended| amended.proposed.as_deref()).peekable();
    if new.peek().is_none() {
        return Ok(());
    }
    let mut all = read_all(state)?;
    for proposal in new {
        if all.iter().any(|stored| stored.proposal.id == proposal.id && stored.file == file) {
            continue;
        }
        all.push(StoredProposal {
            proposal: proposal.clone(),
            file: file.to_owned(),
            iteration,
            decision: ProposalDecision::Open,
        });
    }
    while all.len() > MOST_PROPOSALS {
        let decided = all.iter().position(|stored| stored.decision != ProposalDecision::Open);
        all.remove(decided.unwrap_or(0));
    }
    write_all(state, all)
}

/// Saves the user's decision about a proposal.
pub fn save_decision(
    state: &Path,
    file: &Path,
    id: &str,
    decision: ProposalDecision,
) -> Result<(), StoreError> {
    let mut all = read_all(state)?;
    for stored in &mut all {
        if stored.proposal.id == id && stored.file == file {
            stored.decision = decision;
        }
    }
    write_all(state, all)
}

/// Drops the proposals about a task file that was replaced by another.
pub fn drop_proposals(state: &Path, file: &Path) -> Result<(), StoreError> {
    let mut all = read_all(state)?;
    let before = all.len();
    all.retain(|stored| stored.file != file);
    if all.len() == before { Ok(()) } else { write_all(state, all) }
}

fn build_proposals_path(state: &Path) -> PathBuf {
    state.join("proposals.json")
}

fn read_all(state: &Path) -> Result<Vec<StoredProposal>, StoreError> {
    let path = build_proposals_path(state);
    let failed =
        |why: String| StoreError { message: format!("cannot read `{}`: {why}", path.display()) };
    match bounded_read::read_file(&path, LARGEST) {
        Ok(bytes) => serde_json::from_slice::<ProposalFile>(&bytes)
            .map(|file| file.proposals)
            .map_err(|error| failed(error.to_string())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed(error.to_string())),
    }
}

fn write_all(state: &Path, proposals: Vec<StoredProposal>) -> Result<(), StoreError> {
    let path = build_proposals_path(state);
    write_json(&path, &ProposalFile { version: VERSION, proposals }).map_err(|error| StoreError {
        message: format!("cannot write `{}`: {error}", path.display()),
    })
}

#[cfg(test)]
mod tests {
    use ralph_model::handoff::Amendment;
    use ralph_model::ids::TaskId;

    use super::*;

    fn proposed(id: &str) -> AmendmentRecord {
        let amendment = Amendment::Remove { task_id: TaskId(id.into()), reason: "r".into() };
        let proposed = Some(Box::new(Proposal::new(amendment)));
        AmendmentRecord {
            proposal: format!("remove {id}"),
            reason: "r".into(),
            refusal: None,
            proposed,
        }
    }

    #[test]
    fn a_decision_outlives_the_same_proposal() {
        let state = tempfile::tempdir().expect("a directory");
        let (state, file) = (state.path(), Path::new("/p/plan.json"));
        let (first, log) = (IterationNumber(1), [proposed("a"), proposed("b")]);
        add_proposals(state, file, first, &log).expect("written");
        let all = read_proposals(state, file).expect("read");
        assert_eq!((all.len(), count_open(state, file)), (2, 2));
        assert_eq!(count_open(state, Path::new("/q/plan.json")), 0);
        save_decision(state, file, &all[0].proposal.id, ProposalDecision::Rejected)
            .expect("written");
        add_proposals(state, file, IterationNumber(2), &log).expect("written");
        assert_eq!(count_open(state, file), 1);
        drop_proposals(state, file).expect("written");
        assert_eq!(read_proposals(state, file).expect("read"), []);
    }

    #[test]
    fn decided_ones_make_room() {
        let state = tempfile::tempdir().expect("a directory");
        let (state, file) = (state.path(), Path::new("/p/plan.json"));
        let log: Vec<AmendmentRecord> =
            (0..MOST_PROPOSALS).map(|n| proposed(&format!("t{n}"))).collect();
        add_proposals(state, file, IterationNumber(1), &log).expect("written");
        let decided = read_proposals(state, file).expect("read")[5].proposal.id.clone();
        save_decision(state, file, &decided, ProposalDecision::Accepted).expect("written");
        add_proposals(state, file, IterationNumber(2), &[proposed("new")]).expect("written");
        assert_eq!(
            (read_proposals(state, file).expect("read").len(), count_open(state, file)),
            (MOST_PROPOSALS, MOST_PROPOSALS)
        );
    }
}
