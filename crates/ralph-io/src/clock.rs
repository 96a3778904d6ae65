//! The time of day.
//!
//! The only place that reads the system clock. Not here: the clock of a run (`run_clock`).

use std::time::SystemTime;

use ralph_model::units::Timestamp;

/// Returns the time of day.
pub fn now() -> Timestamp {
    let millis = match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
    };
    Timestamp(millis)
}
