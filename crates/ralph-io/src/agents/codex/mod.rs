//! Codex: its flags, its stream of events, its ways to end.
//!
//! Not here: its text mode, which prints the prompt among its steps; the events say more.

mod call;
mod failure;
mod pieces;
mod translate;
mod wire;

pub(super) use call::call;
pub(super) use failure::INSTALL_HINT;
pub(super) use translate::CodexTranslator;

#[cfg(test)]
mod tests;
