//! Qwen Code: its flags, its stream of events, how it ends.
//!
//! It is a fork of Gemini CLI with Claude Code's stream format. Not here: what it shares with
//! either.

mod adapter;
mod call;
mod translate;
mod wire;

pub(super) use adapter::ADAPTER;

#[cfg(test)]
pub(super) mod tests;
