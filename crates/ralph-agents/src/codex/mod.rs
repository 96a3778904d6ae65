//! Codex: its flags, its stream of events, how it ends.
//!
//! Not here: what it prints in text mode. That repeats the prompt; the answer is in a file.

mod adapter;
mod call;
mod failure;
mod text_mode;
mod translate;
mod wire;

pub(super) use adapter::ADAPTER;

#[cfg(test)]
pub(super) mod tests;
