//! Tests of the engine in a scripted world, of whole processes through binaries of this crate,
//! and of the house rules.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test names only the variants that it is about"
)]

mod active;
mod control;
mod dependencies;
mod engine;
mod fuzzing;
mod keeper;
mod memory;
mod old_journals;
mod parallel;
mod parallel_deaths;
mod parallel_graphs;
mod parallel_seeds;
mod planned;
mod process;
mod prompts;
mod run_tests;
mod scheduling;
mod sim;
mod simulation;
mod tasks;
mod telemetry;
mod tidy;
mod vocabulary;
