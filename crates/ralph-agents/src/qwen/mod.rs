//! Qwen Code: its flags, its stream of events, how it ends.
//!
//! It is a fork of Gemini CLI with Claude Code's stream format. Not here: what it shares with
//! either.

mod belongings;
mod call;
mod translate;
mod wire;

pub(super) use belongings::BELONGINGS;
pub(super) use call::{INSTALL_HINT, call};
pub(super) use translate::QwenTranslator;

#[cfg(test)]
mod tests;
