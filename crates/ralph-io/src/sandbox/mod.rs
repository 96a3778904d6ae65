//! Isolation: how children start so that they reach only what they may.
//!
//! Not here: what they may reach, which is the core's policy.

mod ask;
pub mod boundary;
pub mod container;
pub mod proxy;
pub mod sbx;
pub mod seatbelt;
