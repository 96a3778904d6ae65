//! Formats times of day and durations for people.
//!
//! Not here: reading a clock. The caller passes one in.

use jiff::tz::TimeZone;
use ralph_model::units::{Millis, Timestamp};

/// A clock with the user's time zone.
#[derive(Debug, Clone)]
pub struct WallClock {
    pub zone: TimeZone,
    /// Returns the current time.
    pub now: fn() -> Timestamp,
}

impl WallClock {
    /// Returns `23:15:04`.
    pub(crate) fn format_seconds(&self, at: Timestamp) -> String {
        self.format_time(at, "%H:%M:%S")
    }

    /// Returns `2026-11-14 23:15:04`.
    pub(crate) fn format_full(&self, at: Timestamp) -> String {
        self.format_time(at, "%F %H:%M:%S")
    }

    /// Returns `23:15`, with the day if it is not the day of `from`.
    pub(crate) fn format_minutes(&self, at: Timestamp, from: Timestamp) -> String {
        const WEEK: Millis = Millis::from_mins(7 * 24 * 60);
        let day = |at| self.format_time(at, "%F");
        let format = if day(at) == day(from) {
            "%H:%M"
        } else if at.elapsed_since(from) < WEEK {
            "%a %H:%M"
        } else {
            "%F %H:%M"
        };
        self.format_time(at, format)
    }

    /// Returns `12 min ago`, `3 h ago` or `2 days ago`, or the date if that is long ago or, because
    /// of a wrong clock, in the future.
    pub(crate) fn format_age(&self, at: Timestamp) -> String {
        const MINUTE: u64 = 60;
        const HOUR: u64 = 60 * MINUTE;
        const DAY: u64 = 24 * HOUR;
        let now = (self.now)();
        let ahead = at.elapsed_since(now).0 / 1000;
        match now.elapsed_since(at).0 / 1000 {
            0 if ahead >= MINUTE => self.format_time(at, "%F"),
            0..MINUTE => "just now".to_owned(),
            seconds @ MINUTE..HOUR => format!("{} min ago", seconds / MINUTE),
            seconds @ HOUR..DAY => format!("{} h ago", seconds / HOUR),
            seconds if seconds < 2 * DAY => "1 day ago".to_owned(),
            seconds if seconds < 14 * DAY => format!("{} days ago", seconds / DAY),
            _ => self.format_time(at, "%F"),
        }
    }

    fn format_time(&self, at: Timestamp, format: &str) -> String {
        // Only a time thousands of years away has no date. It is shown as a placeholder.
        jiff::Timestamp::from_millisecond(at.0).map_or_else(
            |_| "--:--".to_owned(),
            |at| at.to_zoned(self.zone.clone()).strftime(format).to_string(),
        )
    }
}

/// Returns `0:07`, `12:07` or `1:12:07`: a countdown that is rewritten each second.
pub(crate) fn format_countdown(left: Millis) -> String {
    // Rounds up: the last second still counts.
    let seconds = left.0.div_ceil(1000);
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

/// Returns `6m7s`: a span without spaces, for lists of figures.
pub(crate) fn format_compact(span: Millis) -> String {
    span.to_string().replace(' ', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_day_is_named_only_if_it_differs() {
        let clock = WallClock { zone: TimeZone::UTC, now: || Timestamp(0) };
        let from = Timestamp::from_seconds(1_794_698_100);
        assert_eq!(clock.format_seconds(from), "23:15:00");
        for (hours, expect) in
            [(0, "23:15"), (3, "Sun 02:15"), (26, "Mon 01:15"), (240, "2026-11-24 23:15")]
        {
            assert_eq!(
                clock.format_minutes(from.saturating_add(Millis::from_mins(hours * 60)), from),
                expect
            );
        }
        assert_eq!(clock.format_minutes(Timestamp(i64::MAX), from), "--:--");
    }

    #[test]
    fn past_times_are_shown_by_age() {
        const NOW: i64 = 1_794_698_100;
        let clock =
            WallClock { zone: TimeZone::UTC, now: || Timestamp::from_seconds(1_794_698_100) };
        for (seconds, expect) in [
            (0, "just now"),
            (59, "just now"),
            (-59, "just now"),
            (60, "1 min ago"),
            (3_599, "59 min ago"),
            (3_600, "1 h ago"),
            (86_399, "23 h ago"),
            (86_400, "1 day ago"),
            (2 * 86_400, "2 days ago"),
            (14 * 86_400 - 1, "13 days ago"),
            (14 * 86_400, "2026-10-31"),
            (-86_400, "2026-11-15"),
            (NOW, "1970-01-01"),
        ] {
            assert_eq!(
                clock.format_age(Timestamp::from_seconds(NOW - seconds)),
                expect,
                "{seconds}"
            );
        }
        assert_eq!(clock.format_age(Timestamp(i64::MAX)), "--:--");
        assert_eq!(clock.format_age(Timestamp(i64::MIN)), "--:--");
    }

    #[test]
    fn a_countdown_keeps_its_shape() {
        let shown =
            [0, 1, 6_500, 727_000, 4_327_000].map(|millis| format_countdown(Millis(millis)));
        assert_eq!(shown, ["0:00", "0:01", "0:07", "12:07", "1:12:07"]);
    }
}
