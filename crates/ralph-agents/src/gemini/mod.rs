//! Gemini CLI: its flags, its stream of events, how it ends.
//!
//! Qwen Code is a fork of it, and shares its flags, its tools and its exit codes; its stream
//! differs. Not here: anything that all agents share.

mod adapter;
mod call;
mod call_state;
mod failure;
mod tools;
mod translate;
mod wire;

pub(super) use adapter::{ADAPTER, LEGACY_ARGS, REMOVED_KEYS};
pub(super) use call::{MODEL, begin_flags};
pub(super) use call_state::{GeminiCallState, TurnAnswer};
pub(super) use failure::{ExitRules, GeminiFailure};

#[cfg(test)]
pub(super) mod tests;
