//! Asking an agent: prompts within a budget, and the request of a call.

pub mod capability;
pub mod context;
pub mod handoff_levels;
pub mod materials;
pub mod prompt;
pub mod request;
