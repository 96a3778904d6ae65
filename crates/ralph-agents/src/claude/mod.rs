//! Claude Code: its flags and environment, its stream of events, its ways to end.
//!
//! Not here: the plugin and what its hooks decide; they are the binary's.

mod belongings;
mod call;
mod failure;
mod glued;
mod hooks;
pub mod manage;
mod todo;
mod translate;
pub(super) mod wire;

pub(super) use belongings::BELONGINGS;
pub(super) use call::{call, output, takes_plugin};
pub(super) use failure::{INSTALL_HINT, judge_text};
pub(super) use translate::ClaudeTranslator;

#[cfg(test)]
mod tests;
