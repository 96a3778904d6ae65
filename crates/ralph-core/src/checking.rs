//! Checking work: results of gates, verdicts of reviews, repeated failures, secrets and
//! files that run by themselves.

pub mod autorun_changes;
pub mod empty_test_run;
pub mod gate;
pub mod instruction_changes;
pub mod review;
pub mod secret;
pub mod stuck;
