//! Budgets of money, tokens and time, and their use.
//!
//! Not here: the limit of iterations, which belongs to the choice of the next step.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::agent_output::Usage;
use crate::units::{Millis, Tokens, UsdMicros};

/// Limits of a run; none means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Budget {
    /// Money, as the agents report it.
    pub cost: Option<UsdMicros>,
    /// Tokens of all kinds.
    pub tokens: Option<Tokens>,
    /// Running time of the run, without waits for a limit and without pauses.
    pub time: Option<Millis>,
}

/// A budget that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExhaustedBudget {
    Cost { used: UsdMicros, limit: UsdMicros },
    Tokens { used: Tokens, limit: Tokens },
    Time { used: Millis, limit: Millis },
}

impl fmt::Display for ExhaustedBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cost { used, limit } => write!(f, "cost budget used up ({used} of {limit})"),
            Self::Tokens { used, limit } => {
                write!(f, "token budget used up ({used} of {limit})")
            }
            Self::Time { used, limit } => write!(f, "time budget used up ({used} of {limit})"),
        }
    }
}

impl Budget {
    /// Returns the first budget that is used up, if any.
    pub fn find_exhausted(&self, usage: Usage, time: Millis) -> Option<ExhaustedBudget> {
        let used = usage.cost.unwrap_or_default();
        let tokens = usage.tokens();
        if let Some(limit) = self.cost.filter(|limit| used >= *limit) {
            return Some(ExhaustedBudget::Cost { used, limit });
        }
        if let Some(limit) = self.tokens.filter(|limit| tokens >= *limit) {
            return Some(ExhaustedBudget::Tokens { used: tokens, limit });
        }
        self.time
            .filter(|limit| time >= *limit)
            .map(|limit| ExhaustedBudget::Time { used: time, limit })
    }

    /// Returns the money that is left, where money is bounded.
    pub fn cost_left(&self, usage: Usage) -> Option<UsdMicros> {
        let used = usage.cost.unwrap_or_default();
        self.cost.map(|limit| UsdMicros(limit.0.saturating_sub(used.0)))
    }

    /// Returns the time that is left, where time is bounded.
    pub fn time_left(&self, used: Millis) -> Option<Millis> {
        self.time.map(|limit| Millis(limit.0.saturating_sub(used.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_used_up_when_it_is_reached() {
        let budget =
            Budget { cost: Some(UsdMicros(50)), tokens: Some(Tokens(100)), time: Some(Millis(9)) };
        let usage = |cost, tokens| Usage {
            cost: Some(UsdMicros(cost)),
            input: Tokens(tokens),
            ..Usage::default()
        };
        assert_eq!(budget.find_exhausted(usage(49, 99), Millis(8)), None);
        assert_eq!(
            budget.find_exhausted(usage(50, 0), Millis(0)),
            Some(ExhaustedBudget::Cost { used: UsdMicros(50), limit: UsdMicros(50) })
        );
        assert_eq!(
            budget.find_exhausted(usage(0, 100), Millis(0)),
            Some(ExhaustedBudget::Tokens { used: Tokens(100), limit: Tokens(100) })
        );
        assert_eq!(
            budget.find_exhausted(usage(0, 0), Millis(9)),
            Some(ExhaustedBudget::Time { used: Millis(9), limit: Millis(9) })
        );
        assert_eq!(Budget::default().find_exhausted(usage(u64::MAX, 5), Millis(u64::MAX)), None);
    }
}
