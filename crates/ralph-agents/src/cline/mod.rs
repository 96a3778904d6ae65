//! Cline: its flags, its stream of events, how it ends.
//!
//! Not here: the hub daemon that each run of Cline leaves running. It carries the run id and is
//! ended with the other leftover processes.

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
