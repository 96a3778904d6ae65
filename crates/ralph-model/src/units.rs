//! Quantities that carry their unit in the type: time, money, tokens.
//!
//! Not here: reading a clock.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment of the wall clock, in milliseconds since the Unix epoch.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Returns the moment `span` later; saturates at the end of time.
    #[must_use]
    pub fn saturating_add(self, span: Millis) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.0).unwrap_or(i64::MAX)))
    }

    /// Returns how long after `earlier` this moment is; zero if it is not later.
    pub fn elapsed_since(self, earlier: Self) -> Millis {
        Millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Returns the moment as UTC, such as `2026-01-21T10:30:00Z`.
    pub fn to_utc(self) -> String {
        let (year, month, day, hour, minute, second) = self.to_civil();
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }

    /// Returns the moment as part of a name, in UTC, such as `20260121-103000`.
    pub fn to_stamp(self) -> String {
        let (year, month, day, hour, minute, second) = self.to_civil();
        format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
    }

    /// Returns year, month, day, hour, minute and second in UTC, by the proleptic Gregorian
    /// calendar with years that begin in March, so that leap days come last.
    fn to_civil(self) -> (i64, i64, i64, i64, i64, i64) {
        let seconds = self.0.div_euclid(1000);
        let (days, time) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let days = days + 719_468;
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted + 2) / 5 + 1;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        (year, month, day, time / 3600, time / 60 % 60, time % 60)
    }

    /// Returns the moment from whole seconds since the epoch, as agents report resets.
    pub fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1000))
    }
}

/// A span of time in milliseconds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// Returns a span of whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// Returns a span of whole minutes.
    pub const fn from_mins(minutes: u64) -> Self {
        Self::from_secs(minutes.saturating_mul(60))
    }

    /// Returns the sum; saturates.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the span times a factor such as `timeoutMultiplier`.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "settings allow 0.01 to 1000, and a span of a year has 35 bits"
    )]
    pub fn scale(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor.max(0.0)).round() as u64)
    }
}

impl From<Duration> for Millis {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }
}

impl From<Millis> for Duration {
    fn from(span: Millis) -> Self {
        Self::from_millis(span.0)
    }
}

impl fmt::Display for Millis {
    /// Writes `0.3s`, `4.2s`, `1m 5s`, `2h 3m`: at most two units, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / 1000;
        match seconds {
            0..60 => write!(f, "{}.{}s", seconds, self.0 % 1000 / 100),
            60..3600 => write!(f, "{}m {}s", seconds / 60, seconds % 60),
            3600.. => write!(f, "{}h {}m", seconds / 3600, seconds % 3600 / 60),
        }
    }
}

/// Money in millionths of a US dollar.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct UsdMicros(pub u64);

impl UsdMicros {
    /// Returns the amount for a figure in dollars; negative and non-numbers are zero.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the float is clamped to zero, and a saturating cast is what is wanted above"
    )]
    pub fn from_dollars(dollars: f64) -> Self {
        if dollars.is_finite() {
            Self((dollars.max(0.0) * 1_000_000.0).round() as u64)
        } else {
            Self(0)
        }
    }

    /// Returns the sum; saturates.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for UsdMicros {
    /// Writes `$5.76`; amounts under a cent keep four digits, so that they do not read as free.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 > 0 && self.0 < 10_000 {
            write!(f, "${}.{:04}", self.0 / 1_000_000, self.0 % 1_000_000 / 100)
        } else {
            let cents = self.0.saturating_add(5_000) / 10_000;
            write!(f, "${}.{:02}", cents / 100, cents % 100)
        }
    }
}

/// A number of model tokens.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Tokens(pub u64);

impl Tokens {
    /// Returns the sum; saturates.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Tokens {
    /// Writes `980`, `45K`, `1.2M`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000 => write!(f, "{}", self.0),
            1_000..10_000 => write!(f, "{}.{}K", self.0 / 1_000, self.0 % 1_000 / 100),
            10_000..1_000_000 => write!(f, "{}K", self.0 / 1_000),
            1_000_000.. => write!(f, "{}.{}M", self.0 / 1_000_000, self.0 % 1_000_000 / 100_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_shown_with_at_most_two_units() {
        let shown: Vec<String> =
            [0, 340, 4_260, 65_000, 7_380_000].map(|millis| Millis(millis).to_string()).to_vec();
        assert_eq!(shown, ["0.0s", "0.3s", "4.2s", "1m 5s", "2h 3m"]);
    }

    #[test]
    fn small_amounts_are_not_shown_as_zero() {
        let shown = [0.0, 0.0003, 0.05, 5.756, f64::NAN, -1.0]
            .map(|dollars| UsdMicros::from_dollars(dollars).to_string());
        assert_eq!(shown, ["$0.00", "$0.0003", "$0.05", "$5.76", "$0.00", "$0.00"]);
        assert_eq!(UsdMicros(u64::MAX).to_string(), "$18446744073709.55");
    }

    #[test]
    fn token_counts_are_shown_rounded() {
        let shown = [980, 4_512, 45_100, 1_250_000].map(|count| Tokens(count).to_string());
        assert_eq!(shown, ["980", "4.5K", "45K", "1.2M"]);
    }

    #[test]
    fn time_never_runs_backwards() {
        assert_eq!(Timestamp(5).elapsed_since(Timestamp(9)), Millis::ZERO);
        assert_eq!(Timestamp(i64::MAX).saturating_add(Millis(1)), Timestamp(i64::MAX));
    }
}
