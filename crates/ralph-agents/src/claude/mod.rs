//! Claude Code: its flags and environment, its stream of events, how it ends.
//!
//! Not here: the plugin and what its hooks decide; they belong to the `ralph` crate.

mod agent_env;
mod call;
mod failure;
mod hooks;
mod interleaved;
pub mod plugin_commands;
mod todo;
mod translate;
pub(super) mod wire;

pub(super) use agent_env::AGENT_ENV;
pub(super) use call::{build_call, can_use_plugin, select_output};
pub(super) use failure::{INSTALL_HINT, judge_text};
pub(super) use translate::ClaudeTranslator;

#[cfg(test)]
mod tests;
