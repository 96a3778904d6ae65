//! Test support for ralph: scripted and faulty ports, and sealed environments.
//!
//! Not published. Not here: any decision of ralph's own; those are never faked.

#![expect(clippy::wildcard_enum_match_arm, reason = "worlds act out a few cases out of many")]

pub mod browser;
pub mod effort;
pub mod fuzzing;
pub mod measure;
pub mod models;
pub mod receiver;
pub mod sealed;
pub mod simulation;
pub mod world;
