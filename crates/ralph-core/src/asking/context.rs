//! Fits a prompt into a budget: which sections are cut first.
//!
//! Not here: the text of the sections other than memory, and their order, which the template
//! decides.

mod cut;
mod memory;

use ralph_model::agent_call_state::PromptSize;
use ralph_model::context::{Calibration, ContextPlan, SectionCost, SectionName};

pub(crate) use cut::{
    CutFrom, CutLabel, CutStep, FittedSection, PromptSection, SectionBlock, SectionPiece,
    fit_sections,
};
pub(crate) use memory::build_memory_section;

/// The space available in a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PromptRoom {
    pub plan: ContextPlan,
    /// Characters per token.
    pub calibration: Calibration,
    /// Whether the whole prompt fits into the model's window. If not, everything that may be cut
    /// is cut.
    pub size: PromptSize,
    /// Characters that are added to the prompt later.
    pub reserved: usize,
}

/// Adds characters to a section of the cost table; adds the row if it is missing.
pub fn add_section_cost(
    costs: &mut Vec<SectionCost>,
    name: SectionName,
    chars: usize,
    calibration: Calibration,
) {
    if chars == 0 {
        return;
    }
    let tokens = calibration.estimate_tokens(chars);
    if let Some(cost) = costs.iter_mut().find(|cost| cost.name == name) {
        cost.tokens = cost.tokens.saturating_add(tokens);
    } else {
        costs.push(SectionCost { name, tokens, left_out: Vec::new() });
        costs.sort_by_key(|cost| cost.name);
    }
}

#[cfg(test)]
mod tests;
