//! What the tests of the adapters share.

mod answers;
mod calls;
pub(crate) mod conformance;
mod damage;
mod failures;
pub(crate) mod recorded;
pub(crate) mod suite;
mod table;
