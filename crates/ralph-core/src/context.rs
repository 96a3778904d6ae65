//! What joins a prompt within a budget: its sections, what each costs, and what gives way.
//!
//! Tokens are estimated from characters, by a [`Calibration`] that the run's own agents improve.
//! Not here: what the sections say beyond memory, and in which order they stand, which is the
//! template's.

mod calibration;
mod cut;
mod memory;

use serde::{Deserialize, Serialize};

use crate::asking::PromptSize;
use crate::units::Tokens;

pub use calibration::Calibration;
pub(crate) use cut::{Block, CutFrom, Fitted, Label, Piece, Section, Step, fit};
pub(crate) use memory::memory_section;

/// How much a prompt may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextPlan {
    /// The whole prompt, without what failed checks said.
    pub budget: Tokens,
    /// The task. Never cut, so this is for people to compare with.
    pub task: Tokens,
    /// What the answer must look like. Never cut either.
    pub output: Tokens,
    /// Skills.
    pub skills: Tokens,
    /// The previous iteration, and the record of failed attempts.
    pub previous: Tokens,
    /// Memory.
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
    /// Returns what a section may take, where that is bounded.
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

/// The room that a prompt has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// What is allowed.
    pub plan: ContextPlan,
    /// How many characters a token has.
    pub calibration: Calibration,
    /// Whether the whole prompt fits into the model's window. If it does not, everything goes that
    /// may.
    pub size: PromptSize,
    /// The characters that are added to the prompt after it is put together.
    pub reserved: usize,
}

/// A section of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SectionName {
    /// The task, and what a review wants to be mended. Never cut.
    Task,
    /// How to work and to answer: what the template says, the checks, who commits. Never cut.
    Output,
    /// What the project says of itself: its orders, requirements and patterns. Never cut.
    Project,
    /// The skills that the task names.
    Skills,
    /// The iteration before, and the record of failed attempts, which is never cut.
    Previous,
    /// What was distilled from all iterations.
    Memory,
    /// The iterations before the last one, a line each.
    Earlier,
    /// What failed checks said, word for word. It has a bound of its own and is not counted.
    Failure,
}

impl SectionName {
    /// Returns its name for people.
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

    /// Returns whether it counts against the budget.
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

/// What a section of a prompt costs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionCost {
    /// The section.
    pub name: SectionName,
    /// Its tokens, estimated.
    pub tokens: Tokens,
    /// What was left out of it for room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

impl SectionCost {
    /// Returns what counts against the budget of all sections together.
    pub fn counted(costs: &[Self]) -> Tokens {
        let counted = costs.iter().filter(|cost| cost.name.is_counted());
        counted.fold(Tokens(0), |sum, cost| sum.plus(cost.tokens))
    }
}

/// Adds characters to a section of a table, which is made if it is not there.
pub fn charge(
    costs: &mut Vec<SectionCost>,
    name: SectionName,
    chars: usize,
    calibration: Calibration,
) {
    if chars == 0 {
        return;
    }
    let tokens = calibration.tokens(chars);
    if let Some(cost) = costs.iter_mut().find(|cost| cost.name == name) {
        cost.tokens = cost.tokens.plus(tokens);
    } else {
        costs.push(SectionCost { name, tokens, left_out: Vec::new() });
        costs.sort_by_key(|cost| cost.name);
    }
}

#[cfg(test)]
mod tests;
