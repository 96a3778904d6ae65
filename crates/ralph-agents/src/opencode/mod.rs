//! `OpenCode`: its flags, its stream of events, how it ends.
//!
//! Not here: anything that all agents share.

mod agent_env;
mod call;
mod translate;
mod wire;

pub(super) use agent_env::AGENT_ENV;
pub(super) use call::{INSTALL_HINT, build_call};
pub(super) use translate::OpencodeTranslator;

#[cfg(test)]
mod tests;
