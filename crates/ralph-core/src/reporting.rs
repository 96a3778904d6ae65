//! What users read about a run: current action, report, statistics, notifications, telemetry.

pub mod current_action;
pub mod notification;
pub mod parallel_status;
pub mod report;
pub mod stats;
pub mod telemetry;
