//! Cline: its flags, its stream of events, how it ends.
//!
//! Not here: the hub daemon that each run of Cline leaves running. It carries the run id and is
//! ended with the other leftover processes.

mod adapter;
mod call;
mod failure;
mod translate;
mod wire;

pub(super) use adapter::ADAPTER;

#[cfg(test)]
pub(super) mod tests;
