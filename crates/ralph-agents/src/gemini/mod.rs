//! Gemini CLI: its flags, its stream of events, how it ends.
//!
//! Qwen Code is a fork of it, and shares its flags, its tools and its exit codes; its stream
//! differs. Not here: anything that all agents share.

mod belongings;
mod call;
mod course;
mod failure;
mod tools;
mod translate;
mod wire;

pub(super) use belongings::BELONGINGS;
pub(super) use call::{Flag, INSTALL_HINT, call, with_flags};
pub(super) use course::{Answer, Course};
pub(super) use failure::{Manners, Trouble};
pub(super) use translate::GeminiTranslator;

#[cfg(test)]
mod tests;
