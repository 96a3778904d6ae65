//! The refs that runs have left: checkpoints, kept work, changes set aside.
//!
//! Not here: creating any of them.

use ralph_core::ports::VcsError;
use ralph_model::ids::RunId;

use super::repository::GitRepository;

/// Where the refs of all runs are.
const RUNS: &str = "refs/ralph/";

/// What a ref of a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunRefKind {
    /// The start of an iteration, needed as long as the run can be resumed.
    Checkpoint,
    /// Work that ralph removed from the work tree or the history, and work of workers.
    Kept,
    /// The user's changes that are restored when the run ends.
    SetAside,
}

/// A ref of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRef {
    /// The run, possibly of another work tree.
    pub run: RunId,
    pub kind: RunRefKind,
    pub name: String,
}

impl GitRepository {
    /// Returns the refs of all runs, those of other work trees included.
    pub fn list_run_refs(&self) -> Result<Vec<RunRef>, VcsError> {
        let output = self.commands.run_for_output(self.build_plumbing(&[
            "for-each-ref",
            "--format=%(refname)",
            RUNS,
        ]))?;
        Ok(String::from_utf8_lossy(&output).lines().filter_map(parse_run_ref).collect())
    }

    /// Removes all refs, or none.
    pub fn remove_refs(&self, refs: &[&RunRef]) -> Result<(), VcsError> {
        let orders: String = refs.iter().flat_map(|it| ["delete ", &it.name, "\n"]).collect();
        let call = self.build_plumbing(&["update-ref", "--stdin"]);
        self.commands.run_for_output(call.with_stdin(orders.into_bytes())).map(drop)
    }
}

fn parse_run_ref(name: &str) -> Option<RunRef> {
    let (kind, rest) = name.strip_prefix(RUNS)?.split_once('/')?;
    let kind = match kind {
        "checkpoints" | "asked" => RunRefKind::Checkpoint,
        "kept" | "candidates" | "requeued" | "jobs" | "results" | "journals" => RunRefKind::Kept,
        "set-aside" => RunRefKind::SetAside,
        _ => return None,
    };
    let run = rest.split('/').next().unwrap_or(rest);
    Some(RunRef { run: RunId(run.to_owned()), kind, name: name.to_owned() })
}
