//! Task lists: what to do next, which changes are allowed, and mistakes in a list.

pub mod agent_list_edits;
pub mod amend;
pub mod attempt;
pub mod checklist;
pub mod external_edits;
pub mod next_work;
pub mod plan;
pub mod progress;
pub mod rules;
pub mod skill;
pub mod validation;
