//! Codex: its flags, its stream of events, how it ends.
//!
//! Not here: what it prints in text mode. That repeats the prompt; the answer is in a file.

mod belongings;
mod call;
mod failure;
mod text_mode;
mod translate;
mod wire;

pub(super) use belongings::BELONGINGS;
pub(super) use call::{call, output};
pub(super) use failure::INSTALL_HINT;
pub(super) use text_mode::CodexText;
pub(super) use translate::CodexTranslator;

#[cfg(test)]
mod tests;
