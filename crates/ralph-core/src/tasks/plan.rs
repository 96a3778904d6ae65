//! The plan that an agent maintains: its state after the agent.
//!
//! An agent may do anything to the file. So ralph keeps a copy of the last usable plan,
//! and restores a plan that is lost. Not here: reading the file, and its items.

use std::path::Path;

use ralph_model::plan::{PlanCopy, PlanLoss, PlanState};

use crate::tasks::checklist::Checklist;

/// How many open items the feedback names to an agent that reports completion.
const NAMED_ITEMS: usize = 5;

/// Returns the feedback for an agent that reports completion while items of its plan are
/// open.
pub(crate) fn build_open_items_feedback(file: &Path, open: u32, next: &[String]) -> String {
    let items: Vec<String> = next.iter().map(|item| format!("  - [ ] {item}")).collect();
    let more = (open as usize).saturating_sub(items.len());
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    let (noun, them) = if open == 1 { ("item is", "it") } else { ("items are", "them") };
    format!(
        "You said that the work is complete, but {open} {noun} open in `{}`:\n{}{more}\nDo {them}, or remove items that are no longer needed and note why there; then report completion again.",
        file.display(),
        items.join("\n")
    )
}

/// Returns the state for the text of a plan.
pub fn assess_plan_text(text: &str) -> PlanState {
    let list = Checklist::read(text);
    let next = list.open().take(NAMED_ITEMS).map(|item| item.text.clone()).collect();
    let person = list.person().take(NAMED_ITEMS).map(|item| item.text.clone()).collect();
    PlanState::Usable { counts: list.counts(), next, person }
}

/// Returns the state for a file that was read, if there is no copy of it.
pub fn assess_plan(read: Result<Option<String>, String>) -> PlanState {
    let loss = match read {
        Ok(Some(text)) if text.trim().is_empty() => PlanLoss::Empty,
        Ok(Some(text)) => return assess_plan_text(&text),
        Ok(None) => PlanLoss::Missing,
        Err(why) => PlanLoss::Unusable { why },
    };
    PlanState::Lost { loss, copy: PlanCopy::None }
}
