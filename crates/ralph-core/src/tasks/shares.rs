//! What each worker of a parallel run may use of the run's budget.
//!
//! All numbers count from the beginning of a worker's run, so a share that is sent twice
//! changes nothing.

use ralph_model::agent_output::Usage;
use ralph_model::budget::Budget;
use ralph_model::parallel_state::{ParallelState, RunningWorker};
use ralph_model::recipe::{ParallelPolicy, RunLimits};
use ralph_model::units::{Millis, Tokens, UsdMicros};
use ralph_model::worker::WorkerShare;

/// Returns what a new worker may use; none if something is used up or promised to others.
pub(crate) fn choose_share(
    limits: &RunLimits,
    parallel: &ParallelState,
    policy: &ParallelPolicy,
    ran: Millis,
) -> Option<WorkerShare> {
    let free_slots = u64::from(policy.jobs).saturating_sub(parallel.running.len() as u64);
    let divide = |left: u64| (left > 0).then(|| (left / (free_slots + 1)).max(1));
    let budget = &limits.budget;
    let cost = match budget.cost {
        Some(limit) => {
            let promised = |it: &RunningWorker| it.assignment.share.budget.cost.map(|it| it.0);
            let used = |usage: Usage| usage.cost.unwrap_or_default().0;
            let left = find_left(limit.0, used(parallel.spent), parallel, |it| {
                promised(it).unwrap_or_default().max(used(it.usage))
            });
            Some(UsdMicros(divide(left)?))
        }
        None => None,
    };
    let tokens = match budget.tokens {
        Some(limit) => {
            let promised = |it: &RunningWorker| it.assignment.share.budget.tokens.map(|it| it.0);
            let left = find_left(limit.0, parallel.spent.tokens().0, parallel, |it| {
                promised(it).unwrap_or_default().max(it.usage.tokens().0)
            });
            Some(Tokens(divide(left)?))
        }
        None => None,
    };
    let left = find_left(limits.iterations.into(), parallel.iterations.into(), parallel, |it| {
        it.assignment.share.iterations.max(it.iterations).into()
    });
    let iterations = u32::try_from(divide(left)?).unwrap_or(u32::MAX);
    let time = budget.time_left(ran);
    let share = WorkerShare { budget: Budget { cost, tokens, time }, iterations };
    (time != Some(Millis::ZERO)).then_some(share)
}

/// Returns what is left of a limit after what ended workers used and running ones may use.
fn find_left(
    limit: u64,
    spent: u64,
    parallel: &ParallelState,
    claim: impl Fn(&RunningWorker) -> u64,
) -> u64 {
    let claimed = parallel.running.values().map(claim).fold(spent, u64::saturating_add);
    limit.saturating_sub(claimed)
}

/// Returns the share of a job that is started again: the old one, or a new one on top of what
/// it has used if that is used up.
pub(crate) fn update_share(
    worker: &RunningWorker,
    new: Option<WorkerShare>,
) -> Option<WorkerShare> {
    let old = worker.assignment.share;
    let is_used_up = old.budget.find_exhausted(worker.usage, worker.ran).is_some()
        || worker.iterations >= old.iterations;
    if !is_used_up {
        return Some(old);
    }
    let WorkerShare { budget, iterations } = new?;
    let used_cost = worker.usage.cost.unwrap_or_default();
    let budget = Budget {
        cost: budget.cost.map(|it| it.saturating_add(used_cost)),
        tokens: budget.tokens.map(|it| it.saturating_add(worker.usage.tokens())),
        time: budget.time.map(|it| it.saturating_add(worker.ran)),
    };
    Some(WorkerShare { budget, iterations: iterations.saturating_add(worker.iterations) })
}

#[cfg(test)]
mod tests;
