//! What the tests of the adapters share.

pub(crate) mod recorded;
