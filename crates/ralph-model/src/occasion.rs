//! The occasions of notifications. Not here: when one is sent, and what it says.

use serde::{Deserialize, Serialize};

/// What a user may want to be notified about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Occasion {
    /// The work is complete.
    Finish,
    /// The run stopped before completion.
    Failure,
    /// A task was given up: tasks that depend on it are blocked.
    Blocked,
    /// A task is stuck, or its reviews do not converge.
    Stuck,
    /// The run waits long for a usage limit.
    Waiting,
    /// Iterations, money, tokens or time are used up.
    Budget,
    /// The run needs a person to continue.
    Person,
    /// A test of the delivery, which no setting names.
    #[cfg_attr(feature = "schema", schemars(skip))]
    Test,
}

impl Occasion {
    /// Those that settings may name.
    pub const SETTINGS: [Self; 7] = [
        Self::Finish,
        Self::Failure,
        Self::Blocked,
        Self::Stuck,
        Self::Waiting,
        Self::Budget,
        Self::Person,
    ];

    /// Returns the name used in settings and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Finish => "finish",
            Self::Failure => "failure",
            Self::Blocked => "blocked",
            Self::Stuck => "stuck",
            Self::Waiting => "waiting",
            Self::Budget => "budget",
            Self::Person => "person",
            Self::Test => "test",
        }
    }
}
