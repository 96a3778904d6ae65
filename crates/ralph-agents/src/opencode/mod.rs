//! `OpenCode`: its flags, its stream of events, how it ends.
//!
//! Not here: anything that all agents share.

mod adapter;
mod call;
mod translate;
mod wire;

pub(super) use adapter::ADAPTER;
pub(super) use call::{RunVariables, build_run_call};
pub(super) use translate::OpencodeTranslator;

#[cfg(test)]
pub(super) mod tests;
