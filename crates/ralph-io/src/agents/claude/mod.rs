//! Claude Code: its flags and environment, its stream of events, its ways to end.
//!
//! Not here: hooks and the plugin, which are files that the binary writes.

mod call;
mod failure;
pub(super) mod glued;
pub mod manage;
mod todo;
mod translate;
pub(super) mod wire;

pub(super) use call::{call, output};
pub(super) use failure::{INSTALL_HINT, judge_text};
pub(super) use translate::ClaudeTranslator;

#[cfg(test)]
mod tests;
