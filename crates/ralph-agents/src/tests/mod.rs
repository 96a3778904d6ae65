//! What the tests of the adapters share.

mod answers;
mod calls;
pub(crate) mod conformance;
mod damage;
mod failures;
mod lines;
pub(crate) mod recorded;
mod table;
