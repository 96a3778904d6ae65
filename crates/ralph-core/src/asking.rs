//! Asking an agent: prompts within a budget.

pub mod capability;
pub mod context;
pub mod handoff_levels;
pub mod prompt;
pub mod template;
