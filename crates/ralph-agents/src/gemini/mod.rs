//! Gemini CLI: its flags, its stream of events, how it ends.
//!
//! Qwen Code is a fork of it, and shares its flags, its tools and its exit codes; its stream
//! differs. Not here: anything that all agents share.

mod agent_env;
mod call;
mod call_state;
mod failure;
mod tools;
mod translate;
mod wire;

pub(super) use agent_env::AGENT_ENV;
pub(super) use call::{Flag, INSTALL_HINT, build_call, build_call_with_flags};
pub(super) use call_state::{GeminiCallState, TurnAnswer};
pub(super) use failure::{ExitRules, GeminiFailure};
pub(super) use translate::GeminiTranslator;

#[cfg(test)]
mod tests;
