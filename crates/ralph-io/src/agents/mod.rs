//! Agent CLIs: how each is called, how its lines become common events, how its end is judged.
//!
//! Everything here is pure. Not here: starting processes, reading pipes, writing files. The
//! one who calls an [`Adapter`] does that.

mod adapter;
mod advice;
mod call;
mod claude;
mod ending;
pub mod limit_words;
mod sim;
mod text;
mod translator;

pub use adapter::{Adapter, NamedKind, named_kind};
pub use advice::{billing_warning, install_hint};
pub use call::{Call, CallContext, IdleWatch, Privilege};
pub use translator::{Evidence, Heard, Translator, Weight};

#[cfg(test)]
pub(crate) use call::tests;
