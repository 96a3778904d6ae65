//! `OpenCode`: its flags, its stream of events, how it ends.
//!
//! Not here: anything that all agents share.

mod belongings;
mod call;
mod translate;
mod wire;

pub(super) use belongings::BELONGINGS;
pub(super) use call::{INSTALL_HINT, call};
pub(super) use translate::OpencodeTranslator;

#[cfg(test)]
mod tests;
