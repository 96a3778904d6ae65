//! Amp: its flags, its stream of events, how it ends.
//!
//! Its stream resembles Claude Code's, whose wire types it shares. Not here: stop checks, which
//! are Amp's own plugins.

mod adapter;
mod call;
mod failure;
mod translate;
mod wire;

pub(super) use adapter::ADAPTER;

#[cfg(test)]
pub(super) mod tests;
