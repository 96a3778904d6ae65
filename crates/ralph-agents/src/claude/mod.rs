//! Claude Code: its flags and environment, its stream of events, how it ends.
//!
//! Not here: the plugin and what its hooks decide; they belong to the `ralph` crate.

mod adapter;
mod call;
mod failure;
mod hooks;
mod interleaved;
pub mod plugin_commands;
mod todo;
mod translate;
pub(super) mod wire;

pub(super) use adapter::ADAPTER;
pub use adapter::OLDEST_PLUGIN_VERSION;

#[cfg(test)]
pub(super) mod tests;
