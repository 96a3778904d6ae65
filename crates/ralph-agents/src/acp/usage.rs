//! Token usage, which every agent of the protocol counts in its own way.
//!
//! Not here: where it is in a message.

use ralph_model::agent_output::{AgentEvent, Usage, UsageScope};
use ralph_model::units::{Tokens, UsdMicros};

use super::wire;

/// What a call has used so far, as the agent reports it.
#[derive(Debug, Default)]
pub(super) struct AcpUsage(Usage);

impl AcpUsage {
    /// Adds the usage of a step.
    pub(super) fn add_step(&mut self, tokens: wire::Tokens) -> AgentEvent {
        let step = convert_tokens(tokens);
        self.0 = self.0.plus(step);
        self.build_total()
    }

    /// Sets the usage of the whole turn. Agents that report steps report no total.
    pub(super) fn set_turn(&mut self, tokens: wire::Tokens) -> Option<AgentEvent> {
        let turn = convert_tokens(tokens);
        if turn.tokens() == Tokens(0) {
            return None;
        }
        self.0 = Usage { cost: self.0.cost, ..turn };
        Some(self.build_total())
    }

    /// Sets the cost so far. Ignores currencies other than dollars.
    pub(super) fn set_cost(&mut self, cost: &wire::Cost) -> Option<AgentEvent> {
        let is_dollars = cost.currency.as_deref().is_none_or(|currency| currency == "USD");
        let amount = cost.amount.filter(|amount| is_dollars && *amount > 0.0)?;
        self.0.cost = Some(UsdMicros::from_dollars(amount));
        Some(self.build_total())
    }

    fn build_total(&self) -> AgentEvent {
        AgentEvent::Usage { usage: self.0, scope: UsageScope::Total }
    }
}

/// Separates cached and thought tokens from the counts that may include them: the total shows
/// whether they were counted twice.
fn convert_tokens(tokens: wire::Tokens) -> Usage {
    let input = tokens.input.unwrap_or(0);
    let output = tokens.output.unwrap_or(0);
    let thoughts = tokens.thought.unwrap_or(0);
    let read = tokens.cache_read.unwrap_or(0);
    let write = tokens.cache_write.unwrap_or(0);
    let cache = read.saturating_add(write);
    let plain = input.saturating_add(output);
    let total = tokens.total.unwrap_or(plain.saturating_add(cache));
    let excludes_cache = total >= plain.saturating_add(cache);
    let excludes_thoughts = total >= plain.saturating_add(cache).saturating_add(thoughts);
    Usage {
        input: Tokens(if excludes_cache { input } else { input.saturating_sub(cache) }),
        output: Tokens(if excludes_thoughts { output.saturating_add(thoughts) } else { output }),
        cache_read: Tokens(read),
        cache_write: Tokens(write),
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(figures: [u64; 6], expect: [u64; 4]) {
        let [input, output, thoughts, read, write, total] = figures.map(Some);
        let usage = convert_tokens(wire::Tokens {
            input,
            output,
            thought: thoughts,
            cache_read: read,
            cache_write: write,
            total: total.filter(|total| *total > 0),
        });
        let found = [usage.input.0, usage.output.0, usage.cache_read.0, usage.cache_write.0];
        assert_eq!(found, expect);
    }

    #[test]
    fn nothing_is_counted_twice() {
        // The cache apart, thoughts in the output; the cache in the input; everything apart.
        check([1500, 200, 15, 6000, 0, 7700], [1500, 200, 6000, 0]);
        check([5100, 110, 5, 4700, 0, 5210], [400, 110, 4700, 0]);
        check([100, 25, 5, 1400, 0, 1530], [100, 30, 1400, 0]);
        check([100, 25, 5, 1400, 0, 0], [100, 25, 1400, 0]);
        check([0; 6], [0; 4]);
        check([u64::MAX; 6], [u64::MAX, u64::MAX, u64::MAX, u64::MAX]);
    }
}
