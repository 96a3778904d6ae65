//! Qwen Code: its flags, its stream of events, its ways to end.
//!
//! It is a copy of Gemini CLI that learned Claude Code's stream. Not here: what it still has in
//! common with either.

mod belongings;
mod call;
mod translate;
mod wire;

pub(super) use belongings::BELONGINGS;
pub(super) use call::{INSTALL_HINT, call};
pub(super) use translate::QwenTranslator;

#[cfg(test)]
mod tests;
