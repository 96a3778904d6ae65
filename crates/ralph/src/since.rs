//! The times that `--since` takes: `90m`, `23:15`, `2026-11-14`.

use ralph_io::clock;
use ralph_model::units::Timestamp;

use crate::cli_error::CliError;

/// Parses the value of `--since`.
pub(crate) fn parse_since(text: &str) -> Result<Timestamp, CliError> {
    parse_time(text, clock::now()).ok_or_else(|| {
        CliError::for_input(format!("`{text}` is not a time"))
            .with_hint("such as 90s, 10m, 12h, 7d, 2w, 23:15, 2026-11-14 or 2026-11-14T23:15")
    })
}

/// Parses a time: a duration before now, a time of the last day, or a date.
fn parse_time(text: &str, now: Timestamp) -> Option<Timestamp> {
    let text = text.trim();
    let zone = clock::find_local_zone();
    let local = jiff::Timestamp::from_millisecond(now.0).ok()?.to_zoned(zone.clone());
    let (number, unit) = text.split_at(text.find(|it: char| !it.is_ascii_digit())?);
    if let (Ok(number), Some(each)) = (number.parse::<i64>(), find_millis_per_unit(unit)) {
        return Some(Timestamp(now.0.saturating_sub(number.saturating_mul(each))));
    }
    let zoned = if let Ok(time) = text.parse::<jiff::civil::Time>() {
        let today = local.date().to_datetime(time).to_zoned(zone).ok()?;
        // At 00:10, 23:15 was yesterday.
        if today > local { today.yesterday().ok()? } else { today }
    } else if let Ok(moment) = text.parse::<jiff::Timestamp>() {
        moment.to_zoned(zone)
    } else {
        text.parse::<jiff::civil::DateTime>().ok()?.to_zoned(zone).ok()?
    };
    Some(Timestamp(zoned.timestamp().as_millisecond()))
}

/// Returns the milliseconds of a unit.
fn find_millis_per_unit(unit: &str) -> Option<i64> {
    Some(match unit {
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 7 * 86_400_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_named_in_many_ways() {
        let now = Timestamp(1_794_700_000_000);
        for (words, before) in [
            ("90s", 90_000),
            ("10m", 600_000),
            ("10min", 600_000),
            ("2h", 7_200_000),
            ("3d", 259_200_000),
            ("2w", 1_209_600_000),
        ] {
            assert_eq!(parse_time(words, now), Some(Timestamp(now.0 - before)), "{words}");
        }
        assert_eq!(parse_time("2026-11-14T23:15:00Z", now), Some(Timestamp(1_794_698_100_000)));
        for words in ["23:15", "00:00", "2026-11-14", "2026-11-14T23:15"] {
            assert!(parse_time(words, now).is_some(), "{words}");
        }
        let day = 86_400_000;
        for words in ["00:00", "12:00", "23:59"] {
            let at = parse_time(words, now).expect("a time").0;
            assert!((now.0 - 2 * day..=now.0).contains(&at), "{words}: {at}");
        }
        for words in ["", "soon", "25:99", "10x", "-5m"] {
            assert_eq!(parse_time(words, now), None, "{words}");
        }
    }
}
