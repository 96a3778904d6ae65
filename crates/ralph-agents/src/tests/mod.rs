//! What the tests of the adapters share.

pub(crate) mod conformance;
pub(crate) mod recorded;
