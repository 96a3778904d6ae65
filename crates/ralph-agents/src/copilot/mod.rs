//! GitHub Copilot CLI: its flags, its stream of events, how it ends.
//!
//! Not here: anything that all agents share.

mod adapter;
mod call;
mod translate;
mod wire;

pub(super) use adapter::ADAPTER;

#[cfg(test)]
pub(super) mod tests;
