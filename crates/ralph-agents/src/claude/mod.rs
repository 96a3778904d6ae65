//! Claude Code: its flags and environment, its stream of events, how it ends.
//!
//! Not here: the plugin and what its hooks decide; they belong to the `ralph` crate.

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
