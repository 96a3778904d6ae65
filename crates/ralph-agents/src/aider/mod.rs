//! Aider: its flags, its text, how it ends.
//!
//! It prints text for people, and exits with 0 whatever happened: success is the line that counts
//! the tokens. Not here: anything that all agents share.

mod adapter;
mod call;
mod translate;

pub(super) use adapter::ADAPTER;

#[cfg(test)]
pub(super) mod tests;
