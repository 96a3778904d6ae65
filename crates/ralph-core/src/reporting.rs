//! What users read about a run: current action, report, notifications, telemetry.

pub mod current_action;
pub mod notification;
pub mod report;
pub mod telemetry;
