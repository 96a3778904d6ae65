//! Kilo Code: a fork of `OpenCode` with directories, variables and limits of its own.
//!
//! Not here: its flags and its stream of events, which are those of `OpenCode`.

mod adapter;
mod call;

pub(super) use adapter::ADAPTER;

#[cfg(test)]
pub(super) mod tests;
