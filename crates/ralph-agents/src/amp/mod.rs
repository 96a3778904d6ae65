//! Amp: its flags, its stream of events, how it ends.
//!
//! Its stream resembles Claude Code's, whose wire types it shares. Not here: stop checks, which
//! are Amp's own plugins.

mod belongings;
mod call;
mod failure;
mod translate;
mod wire;

pub(super) use belongings::BELONGINGS;
pub(super) use call::call;
pub(super) use failure::INSTALL_HINT;
pub(super) use translate::AmpTranslator;

#[cfg(test)]
mod tests;
