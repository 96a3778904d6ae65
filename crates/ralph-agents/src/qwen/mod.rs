//! Qwen Code: its flags, its stream of events, how it ends.
//!
//! It is a fork of Gemini CLI with Claude Code's stream format. Not here: what it shares with
//! either.

mod agent_env;
mod call;
mod translate;
mod wire;

pub(super) use agent_env::AGENT_ENV;
pub(super) use call::{INSTALL_HINT, build_call};
pub(super) use translate::QwenTranslator;

#[cfg(test)]
mod tests;
