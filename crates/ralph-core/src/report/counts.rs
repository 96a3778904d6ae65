//! What is counted: time, calls, tokens and money; runs of gates; waits; and lists that keep
//! their end.

use serde::Serialize;

use crate::event::WaitReason;
use crate::gate::{GateResult, GateStatus, Severity};
use crate::reading::Usage;
use crate::units::{Millis, Tokens, UsdMicros};

/// What something took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spent {
    /// Iterations.
    pub iterations: u32,
    /// Calls to agents.
    pub asks: u32,
    /// Running time, without waits and pauses.
    #[serde(rename = "ranMs")]
    pub ran: Millis,
    /// The cost that the agents report, in millionths of a US dollar; none where they report
    /// none.
    #[serde(rename = "costUsdMicros")]
    pub cost: Option<UsdMicros>,
    /// Tokens.
    pub tokens: TokenCount,
}

/// Tokens by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenCount {
    /// Read afresh.
    pub input: Tokens,
    /// Read from the cache.
    pub cache_read: Tokens,
    /// Written to the cache.
    pub cache_write: Tokens,
    /// Written.
    pub output: Tokens,
}

impl Spent {
    /// Adds tokens and money.
    pub(super) fn add(&mut self, usage: Usage) {
        let sum = self.usage().plus(usage);
        self.cost = sum.cost;
        self.tokens = TokenCount {
            input: sum.input,
            cache_read: sum.cache_read,
            cache_write: sum.cache_write,
            output: sum.output,
        };
    }

    /// Returns tokens and money as agents report them.
    pub fn usage(&self) -> Usage {
        Usage {
            input: self.tokens.input,
            output: self.tokens.output,
            cache_read: self.tokens.cache_read,
            cache_write: self.tokens.cache_write,
            cost: self.cost,
        }
    }
}

/// What came of a gate over a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateCount {
    /// How severe a failure is.
    pub severity: Severity,
    /// How often it was run on work.
    pub runs: u32,
    /// How often it passed.
    pub passed: u32,
    /// How often it was not run, because it had passed on the same tree.
    pub cached: u32,
    /// How long the runs took.
    pub ran: Millis,
    /// What it said before any work, if it was asked.
    pub before: Option<GateStatus>,
    /// What it said last.
    pub last: Option<GateStatus>,
}

impl GateCount {
    pub(super) fn new(severity: Severity) -> Self {
        let ran = Millis::ZERO;
        Self { severity, runs: 0, passed: 0, cached: 0, ran, before: None, last: None }
    }

    pub(super) fn add(&mut self, result: &GateResult) {
        match result.status {
            GateStatus::Passed => (self.runs, self.passed) = (self.runs + 1, self.passed + 1),
            GateStatus::Cached => self.cached += 1,
            GateStatus::Failed => self.runs += 1,
        }
        self.ran = self.ran.plus(result.end.as_ref().map_or(Millis::ZERO, |end| end.ran));
        self.last = Some(result.status);
    }
}

/// How often a run waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitCount {
    /// For usage limits.
    pub usage_limits: u32,
    /// How long those took.
    #[serde(rename = "usageLimitsMs")]
    pub waited: Millis,
    /// Before a failed call was repeated.
    pub retries: u32,
    /// Between iterations.
    pub delays: u32,
}

impl WaitCount {
    pub(super) fn add(&mut self, reason: WaitReason) {
        match reason {
            WaitReason::UsageLimit => self.usage_limits += 1,
            WaitReason::Retry => self.retries += 1,
            WaitReason::Delay => self.delays += 1,
        }
    }
}

/// The end of a list that may be long, and how long it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Latest<T> {
    /// How many there were in all.
    pub count: u32,
    /// The last of them, oldest first.
    pub latest: Vec<T>,
}

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Self { count: 0, latest: Vec::new() }
    }
}

impl<T> Latest<T> {
    /// A list of tasks for a night has fewer commits; a reader has no patience for more.
    const KEPT: usize = 200;

    pub(super) fn push(&mut self, item: T) {
        self.count = self.count.saturating_add(1);
        if self.latest.len() == Self::KEPT {
            self.latest.remove(0);
        }
        self.latest.push(item);
    }

    /// Returns how many earlier ones are not at hand.
    pub fn left_out(&self) -> usize {
        (self.count as usize).saturating_sub(self.latest.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_keep_their_end() {
        let mut list = Latest::default();
        (0..205).for_each(|number| list.push(number));
        assert_eq!((list.count, list.left_out(), list.latest.first()), (205, 5, Some(&5)));
    }
}
