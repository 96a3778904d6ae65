//! Failures that consecutive iterations on a prompt repeat.
//!
//! A refusal counts whatever the iteration changed, because nothing of it was accepted. Failed
//! gates count if it changed nothing: an agent may need many iterations for tests that it works
//! on. Not here: the end of the run, which `choose` decides, and stuck tasks, which `judge` finds.

use ralph_model::run::{Iteration, RunState};
use ralph_model::stuck::{ErrorHash, RepeatedFailure};

use crate::checking::stuck::ErrorHasher;

/// The name of a refused commit in messages.
const COMMIT: &str = "commit";

/// Returns the failure of an iteration on a prompt, with the iterations before it that failed in
/// the same way.
pub(crate) fn find_repeated_failure(
    state: &RunState,
    current: &Iteration,
) -> Option<RepeatedFailure> {
    let failures = list_failures(state, current);
    let before = state.repeated_failure.as_ref().filter(|it| it.failures == failures);
    let iterations = before.map_or(0, |it| it.iterations).saturating_add(1);
    (!failures.is_empty()).then_some(RepeatedFailure { failures, iterations })
}

fn list_failures(state: &RunState, current: &Iteration) -> Vec<(String, ErrorHash)> {
    let refusals = current.refusals().iter();
    let mut failures: Vec<(String, ErrorHash)> =
        refusals.map(|it| (it.kind.name().to_owned(), it.hash.clone())).collect();
    if let Some(output) = current.commit_refusal() {
        let mut hasher = ErrorHasher::new(COMMIT);
        hasher.feed_text(output);
        failures.push((COMMIT.to_owned(), hasher.finish_hash()));
    }
    if failures.is_empty() && state.has_changed_nothing(current) {
        let failed = current.gates().iter().filter(|result| result.is_hard_failure());
        failures.extend(failed.filter_map(|it| Some((it.gate.clone(), it.hash.clone()?))));
    }
    failures
}
