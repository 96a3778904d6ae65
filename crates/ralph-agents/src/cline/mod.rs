//! Cline: its flags, its stream of events, how it ends.
//!
//! Not here: the hub daemon that each run of Cline leaves running. It carries the run id and is
//! ended with the other leftover processes.

mod agent_env;
mod call;
mod failure;
mod translate;
mod wire;

pub(super) use agent_env::AGENT_ENV;
pub(super) use call::build_call;
pub(super) use failure::INSTALL_HINT;
pub(super) use translate::ClineTranslator;

#[cfg(test)]
mod tests;
