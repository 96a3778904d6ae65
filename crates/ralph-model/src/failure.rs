//! Why an agent call gave no answer, and what follows from each kind of failure.
//!
//! Not here: recognizing a failure in an agent's output. Each adapter does that for its agent.

use serde::{Deserialize, Serialize};

use crate::units::{Millis, Timestamp};

/// An agent call without an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of failure, which decides what follows.
    pub class: FailureClass,
    /// What happened: the agent's own message, if it printed one.
    #[serde(rename = "words")]
    pub message: String,
    /// How to fix it, if known.
    pub hint: Option<String>,
}

impl Failure {
    /// Returns a failure without a hint.
    pub fn new(class: FailureClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), hint: None }
    }

    /// Returns the same failure with a hint.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// The kinds of failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// It ended with an error or by a signal.
    Crashed,
    /// Its output could not be read as an answer.
    Malformed,
    Empty,
    /// It ran past its hard limit.
    HardTimeout,
    /// It printed or wrote to the disk more than allowed, or the disk was nearly full.
    Overran,
    /// It did nothing useful for too long.
    IdleTimeout,
    /// It used up its own limit of turns or money without an answer.
    TurnLimit,
    /// A rate or usage limit refused it.
    RateLimited {
        /// When the limit resets, where that is known.
        resets_at: Option<Timestamp>,
    },
    /// The model's servers are overloaded or failing.
    Overloaded,
    /// No connection to the model's servers.
    Unreachable,
    /// The sandbox refuses the connection to the model's servers, or a file that it needs.
    Blocked,
    NotInstalled,
    /// It has no valid login or key, or no credit.
    NotLoggedIn,
    /// It does not support a flag, a model or an option it was given.
    BadCall,
    /// The prompt does not fit into the model's context window.
    ContextExceeded,
    /// The model's API does not accept the JSON Schema of the answer.
    SchemaRefused,
    /// The user ended it.
    Interrupted,
}

impl FailureClass {
    /// Returns the rule that this class of failure follows.
    pub fn rule(&self) -> FailureRule {
        match self {
            Self::Crashed
            | Self::Malformed
            | Self::Empty
            | Self::Overloaded
            | Self::Unreachable => FailureRule::Retry,
            Self::HardTimeout | Self::Overran | Self::IdleTimeout | Self::TurnLimit => {
                FailureRule::FailedAttempt
            }
            Self::RateLimited { resets_at } => FailureRule::Wait { until: *resets_at },
            Self::NotInstalled | Self::NotLoggedIn | Self::BadCall | Self::Blocked => {
                FailureRule::Stop
            }
            Self::ContextExceeded => FailureRule::RetrySmaller,
            Self::SchemaRefused => FailureRule::RetryWithoutSchema,
            Self::Interrupted => FailureRule::RetryAfterResume,
        }
    }

    /// Returns a name for people.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Crashed => "crashed",
            Self::Malformed => "malformed output",
            Self::Empty => "empty output",
            Self::HardTimeout => "hard timeout",
            Self::Overran => "too much output or disk",
            Self::IdleTimeout => "idle timeout",
            Self::TurnLimit => "turn or cost limit",
            Self::RateLimited { .. } => "usage limit",
            Self::Overloaded => "overloaded",
            Self::Unreachable => "cannot reach its model",
            Self::Blocked => "blocked by the sandbox",
            Self::NotInstalled => "not installed",
            Self::NotLoggedIn => "not logged in",
            Self::BadCall => "bad call",
            Self::ContextExceeded => "context window exceeded",
            Self::SchemaRefused => "schema refused",
            Self::Interrupted => "interrupted",
        }
    }
}

/// What follows from a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureRule {
    /// Ask again after a pause, up to the retry limit; then give up.
    Retry,
    /// Ask once more with the smallest prompt; then it is a failed attempt.
    RetrySmaller,
    /// Ask once more, with the schema in the prompt and not as a flag; then give up.
    RetryWithoutSchema,
    /// The attempt failed; the loop continues.
    FailedAttempt,
    /// Wait, and ask again; does not count as a retry.
    Wait {
        /// Until when, if the agent reports it.
        until: Option<Timestamp>,
    },
    /// Give up at once: asking again cannot help.
    Stop,
    /// The user interrupted it: ask again when the run is resumed.
    RetryAfterResume,
}

/// How often and with which pauses a failed call is repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retries {
    /// Retries of one iteration, after its first call.
    pub max: u32,
    /// The pause before the first retry; each further one doubles it.
    pub backoff: Millis,
}

/// The longest pause between retries: an overloaded service is asked a few times an hour,
/// not once a night.
const MAX_BACKOFF: Millis = Millis::from_mins(5);

impl Retries {
    /// Returns the pause before retry `count` (from 1): doubled each time, bounded, and
    /// shifted by up to a quarter so that several runs do not retry at the same time.
    pub fn retry_pause(&self, count: u32, seed: u64) -> Millis {
        let doubled = self.backoff.0.saturating_mul(1 << count.saturating_sub(1).min(16));
        let base = doubled.min(MAX_BACKOFF.0);
        Millis(base - base / 4 + compute_jitter(seed, count) % (base / 2 + 1))
    }
}

/// Returns a pseudo-random number from seed and count (`SplitMix64`).
fn compute_jitter(seed: u64, count: u32) -> u64 {
    let mut mixed = seed.wrapping_add(u64::from(count).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// What to do at a rate or usage limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimitPolicy {
    /// Whether to wait at all.
    pub wait: RateLimitAction,
    /// The longest wait, and the longest sum of waits within one iteration.
    pub max_wait: Millis,
}

/// Whether to wait for a limit to reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateLimitAction {
    Wait,
    Stop,
}

/// The first pause at a limit that names no reset time. Providers count in minutes.
pub const FIRST_LIMIT_PAUSE: Millis = Millis::from_mins(1);

/// A reset time is seldom exact to the second, and asking too early costs a refused call.
pub const AFTER_RESET: Millis = Millis::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_within_a_quarter_and_stay_bounded() {
        let retries = Retries { max: 3, backoff: Millis::from_secs(5) };
        for seed in 0..100 {
            for (count, base) in [(1, 5_000), (2, 10_000), (3, 20_000), (40, 300_000)] {
                let pause = retries.retry_pause(count, seed).0;
                assert!(
                    (base * 3 / 4..=base * 5 / 4).contains(&pause),
                    "retry {count}, seed {seed}: {pause}"
                );
            }
        }
    }

    #[test]
    fn no_backoff_means_no_pause() {
        assert_eq!(Retries { max: 3, backoff: Millis::ZERO }.retry_pause(2, 7), Millis::ZERO);
    }
}
