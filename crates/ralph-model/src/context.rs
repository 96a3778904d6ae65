//! The budget of a prompt: limits and costs of its sections.

mod calibration;

pub use calibration::Calibration;

use serde::{Deserialize, Serialize};

use crate::units::Tokens;

/// How many tokens a prompt may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextPlan {
    /// The whole prompt, without the output of failed checks.
    pub budget: Tokens,
    /// The task. Never cut, so this figure is only shown for comparison.
    pub task: Tokens,
    /// The answer format. Never cut either.
    pub output: Tokens,
    pub skills: Tokens,
    /// The previous iteration, and the record of failed attempts.
    pub previous: Tokens,
    pub memory: Tokens,
    /// Earlier iterations, a line each.
    pub earlier: Tokens,
}

impl Default for ContextPlan {
    fn default() -> Self {
        Self {
            budget: Tokens(8000),
            task: Tokens(1000),
            output: Tokens(500),
            skills: Tokens(1500),
            previous: Tokens(500),
            memory: Tokens(3000),
            earlier: Tokens(150),
        }
    }
}

impl ContextPlan {
    /// Returns the limit of a section, if it has one.
    pub fn cap(&self, name: SectionName) -> Option<Tokens> {
        match name {
            SectionName::Task => Some(self.task),
            SectionName::Output => Some(self.output),
            SectionName::Skills => Some(self.skills),
            SectionName::Previous => Some(self.previous),
            SectionName::Memory => Some(self.memory),
            SectionName::Earlier => Some(self.earlier),
            SectionName::Project | SectionName::Failure => None,
        }
    }
}

/// A section of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SectionName {
    /// The task, and what a review wants fixed. Never cut.
    Task,
    /// How to work and to answer: the template's own text, the checks, who commits. Never cut.
    Output,
    /// The project's own instructions, requirements and patterns. Never cut.
    Project,
    /// The skills that the task names.
    Skills,
    /// The previous iteration, and the record of failed attempts, which is never cut.
    Previous,
    /// The memory compacted from all iterations.
    Memory,
    /// The iterations before the last one, a line each.
    Earlier,
    /// Output of failed checks, verbatim. It has a limit of its own and does not count.
    Failure,
}

impl SectionName {
    /// Returns the name shown to users.
    pub fn name(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Output => "output",
            Self::Project => "project",
            Self::Skills => "skills",
            Self::Previous => "previous",
            Self::Memory => "memory",
            Self::Earlier => "earlier",
            Self::Failure => "failure",
        }
    }

    /// Returns whether the section counts against the budget.
    pub fn is_counted(self) -> bool {
        match self {
            Self::Task
            | Self::Output
            | Self::Project
            | Self::Skills
            | Self::Previous
            | Self::Memory
            | Self::Earlier => true,
            Self::Failure => false,
        }
    }
}

/// The cost of a section of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionCost {
    pub name: SectionName,
    /// Estimated.
    pub tokens: Tokens,
    /// What was cut to fit the budget.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

impl SectionCost {
    /// Returns the total of the sections that count against the budget.
    pub fn sum_counted(costs: &[Self]) -> Tokens {
        let counted = costs.iter().filter(|cost| cost.name.is_counted());
        counted.fold(Tokens(0), |sum, cost| sum.saturating_add(cost.tokens))
    }
}
