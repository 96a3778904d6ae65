//! What users are told: report, notifications, telemetry.

pub mod notification;
pub mod report;
pub mod telemetry;
