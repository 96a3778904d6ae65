//! What users read about a run: report, notifications, telemetry.

pub mod notification;
pub mod report;
pub mod telemetry;
