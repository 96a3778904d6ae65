//! Test support for ralph: scripted and faulty ports, and sealed environments.
//!
//! Not published. Not here: any decision of ralph's own; those are never faked.

pub mod browser;
pub mod effort;
pub mod fuzzing;
pub mod measure;
pub mod models;
pub mod receiver;
pub mod sealed;
pub mod simulation;
pub mod world;
