//! Amp: its flags, its stream of events, how it ends.
//!
//! Its stream resembles Claude Code's, whose wire types it shares. Not here: stop checks, which
//! are Amp's own plugins.

mod agent_env;
mod call;
mod failure;
mod translate;
mod wire;

pub(super) use agent_env::AGENT_ENV;
pub(super) use call::build_call;
pub(super) use failure::INSTALL_HINT;
pub(super) use translate::AmpTranslator;

#[cfg(test)]
mod tests;
