//! Codex: its flags, its stream of events, how it ends.
//!
//! Not here: what it prints in text mode. That repeats the prompt; the answer is in a file.

mod agent_env;
mod call;
mod failure;
mod text_mode;
mod translate;
mod wire;

pub(super) use agent_env::AGENT_ENV;
pub(super) use call::{build_call, select_output};
pub(super) use failure::INSTALL_HINT;
pub(super) use text_mode::CodexTextTranslator;
pub(super) use translate::CodexTranslator;

#[cfg(test)]
mod tests;
