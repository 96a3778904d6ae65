//! Cline: its flags, its stream of events, its ways to end.
//!
//! Not here: the hub daemon that every run of it leaves behind. It carries the run's id and goes
//! with the other leftovers.

mod belongings;
mod call;
mod failure;
mod translate;
mod wire;

pub(super) use belongings::BELONGINGS;
pub(super) use call::call;
pub(super) use failure::INSTALL_HINT;
pub(super) use translate::ClineTranslator;

#[cfg(test)]
mod tests;
