//! What is counted: time, calls, tokens and money; runs of gates; waits; and lists that keep
//! their latest items.

use ralph_model::agent_output::Usage;
use ralph_model::event::WaitReason;
use ralph_model::gate::{GateResult, GateStatus, Severity, TestNumbers};
use ralph_model::units::{Millis, Tokens, UsdMicros};
use ralph_model::work_figures::GateRuns;
use serde::Serialize;

/// Resources that a task, a role or a run used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceUse {
    pub iterations: u32,
    pub asks: u32,
    /// Running time, without waits and pauses.
    #[serde(rename = "ranMs")]
    pub ran: Millis,
    /// The cost that the agents report, in millionths of a US dollar; `None` if they report none.
    #[serde(rename = "costUsdMicros")]
    pub cost: Option<UsdMicros>,
    pub tokens: TokenCount,
    /// How often agents called their models, as far as they report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
}

/// Tokens by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenCount {
    /// Without those read from the cache.
    pub input: Tokens,
    pub cache_read: Tokens,
    pub cache_write: Tokens,
    pub output: Tokens,
}

impl ResourceUse {
    /// Adds tokens, money and turns.
    pub(super) fn add_usage(&mut self, usage: Usage) {
        let sum = self.usage().plus(usage);
        (self.cost, self.turns) = (sum.cost, sum.turns);
        self.tokens = TokenCount {
            input: sum.input,
            cache_read: sum.cache_read,
            cache_write: sum.cache_write,
            output: sum.output,
        };
    }

    /// Adds the resources that another one used.
    pub(super) fn add_figures(&mut self, other: &Self) {
        self.iterations = self.iterations.saturating_add(other.iterations);
        self.asks = self.asks.saturating_add(other.asks);
        self.ran = self.ran.saturating_add(other.ran);
        self.add_usage(other.usage());
    }

    /// Returns tokens, money and turns as agents report them.
    pub fn usage(&self) -> Usage {
        Usage {
            input: self.tokens.input,
            output: self.tokens.output,
            cache_read: self.tokens.cache_read,
            cache_write: self.tokens.cache_write,
            cost: self.cost,
            turns: self.turns,
        }
    }
}

/// The figures of a gate over a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateCount {
    pub severity: Severity,
    /// How often it was run on work.
    pub runs: u32,
    pub passed: u32,
    /// How often it was skipped because it had passed on the same tree.
    pub cached: u32,
    pub ran: Millis,
    /// Its result before any work, if it was run then.
    pub before: Option<GateStatus>,
    pub last: Option<GateStatus>,
    /// How many tests it ran first and last, where it is known.
    pub tests: Option<TestNumbers>,
}

impl GateCount {
    pub(super) fn new(severity: Severity) -> Self {
        let ran = Millis::ZERO;
        Self { severity, runs: 0, passed: 0, cached: 0, ran, before: None, last: None, tests: None }
    }

    pub(super) fn count_result(&mut self, result: &GateResult) {
        match result.status {
            GateStatus::Passed => (self.runs, self.passed) = (self.runs + 1, self.passed + 1),
            GateStatus::Cached => self.cached += 1,
            GateStatus::Failed => self.runs += 1,
        }
        self.ran = self.ran.saturating_add(result.end.as_ref().map_or(Millis::ZERO, |end| end.ran));
        self.last = Some(result.status);
        if result.status == GateStatus::Passed {
            self.count_tests(result);
        }
    }

    pub(super) fn count_tests(&mut self, result: &GateResult) {
        if let Some(tests) = result.tests {
            self.tests.get_or_insert(TestNumbers { before: tests, now: tests }).now = tests;
        }
    }

    /// Adds the runs of a worker.
    pub(super) fn add_runs(&mut self, other: GateRuns) {
        self.runs += other.runs;
        self.passed += other.runs.saturating_sub(other.failed);
        self.ran = self.ran.saturating_add(other.ran);
    }

    /// Counts a refusal like a gate that failed.
    pub(super) fn count_refusal(&mut self) {
        self.runs += 1;
        self.last = Some(GateStatus::Failed);
    }
}

/// How often a run waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitCount {
    /// Waits for usage limits.
    pub usage_limits: u32,
    #[serde(rename = "usageLimitsMs")]
    pub waited: Millis,
    /// Before a failed call was repeated.
    pub retries: u32,
    #[serde(rename = "retriesMs")]
    pub retry_waited: Millis,
    pub delays: u32,
}

impl WaitCount {
    pub(super) fn count_wait(&mut self, reason: WaitReason) {
        match reason {
            WaitReason::UsageLimit => self.usage_limits += 1,
            WaitReason::Retry => self.retries += 1,
            WaitReason::Delay => self.delays += 1,
        }
    }
}

/// The latest items of a list that may be long, and its full length.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LatestItems<T> {
    /// How many there were in total.
    pub count: u32,
    /// Oldest first.
    pub latest: Vec<T>,
}

impl<T> Default for LatestItems<T> {
    fn default() -> Self {
        Self { count: 0, latest: Vec::new() }
    }
}

impl<T> LatestItems<T> {
    /// A task list for a night has fewer commits, and a reader wants no more.
    const KEPT: usize = 200;

    pub(super) fn push_item(&mut self, item: T) {
        self.count = self.count.saturating_add(1);
        if self.latest.len() == Self::KEPT {
            self.latest.remove(0);
        }
        self.latest.push(item);
    }

    /// Returns how many earlier items were dropped.
    pub fn dropped_count(&self) -> usize {
        (self.count as usize).saturating_sub(self.latest.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_keep_their_end() {
        let mut list = LatestItems::default();
        (0..205).for_each(|number| list.push_item(number));
        assert_eq!((list.count, list.dropped_count(), list.latest.first()), (205, 5, Some(&5)));
    }
}
