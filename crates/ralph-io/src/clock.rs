//! The time of day and the local time zone.
//!
//! The only place that reads the system clock. Not here: the clock of a run (`run_clock`).

use std::sync::LazyLock;
use std::time::SystemTime;

use jiff::tz::TimeZone;
use ralph_model::units::Timestamp;

/// Returns the time of day.
pub fn now() -> Timestamp {
    let millis = match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
    };
    Timestamp(millis)
}

/// Returns the zone of local times.
///
/// Where only `/etc/localtime` decides, that file is read: looking up its name in the time-zone
/// database would take more than a millisecond of every start.
pub fn find_local_zone() -> TimeZone {
    static ZONE: LazyLock<TimeZone> = LazyLock::new(|| {
        let is_named = std::env::var_os("TZ").is_some();
        let file = if is_named { None } else { std::fs::read("/etc/localtime").ok() };
        let zone = file.and_then(|data| TimeZone::tzif("local", &data).ok());
        zone.unwrap_or_else(TimeZone::system)
    });
    ZONE.clone()
}
