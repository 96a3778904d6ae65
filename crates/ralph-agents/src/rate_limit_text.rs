//! Usage limits in plain text: whether a text reports one, and when the limit resets.
//!
//! Agents give the reset as a number if they can; this is for the others. Not here: deciding where
//! to look. Callers pass only the final output of a failed call.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp as Moment, ToSpan};
use ralph_model::units::Timestamp;

/// Patterns of a limit, in lower case with plain apostrophes.
const LIMIT_PATTERNS: [&str; 14] = [
    "usage limit",
    "rate limit",
    "rate_limit",
    "limit reached",
    "session limit",
    "weekly limit",
    "hour limit",
    "hit your limit",
    "out of extra usage",
    "out of usage",
    "too many requests",
    "quota exceeded",
    "exhausted your",
    "resource_exhausted",
];

/// Returns whether a text reports a usage or rate limit.
pub fn is_rate_limit_text(text: &str) -> bool {
    let text = normalize_text(text);
    let has_hit = ["you've hit your", "you've reached your", "you hit your"]
        .iter()
        .any(|opening| text.contains(opening) && text.contains("limit"));
    has_hit || LIMIT_PATTERNS.iter().any(|pattern| text.contains(pattern))
}

/// Prefixes of a reset time, and the form of the time after them.
const RESET_PREFIXES: [(&str, ResetForm); 12] = [
    ("try again in ", ResetForm::Span),
    ("retry in ", ResetForm::Span),
    ("retry after ", ResetForm::Span),
    ("resets in ", ResetForm::Span),
    ("reset in ", ResetForm::Span),
    ("reset after ", ResetForm::Span),
    ("try again at ", ResetForm::Moment),
    ("resets at ", ResetForm::Moment),
    ("reset at ", ResetForm::Moment),
    ("resets on ", ResetForm::Moment),
    ("reset on ", ResetForm::Moment),
    ("resets ", ResetForm::Moment),
];

#[derive(Clone, Copy)]
enum ResetForm {
    Span,
    Moment,
}

/// Returns when a limit resets, if the text contains it.
///
/// A time of day belongs to the zone in brackets after it, else to `zone`; one that is already
/// past means tomorrow. A date without a year is the nearest one.
pub fn parse_reset_time(text: &str, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    if let Some(epoch) = parse_epoch(text) {
        return Some(epoch);
    }
    let now = Moment::from_millisecond(now.0).ok()?;
    let text = normalize_text(text);
    RESET_PREFIXES.iter().find_map(|&(lead, form)| {
        text.match_indices(lead).find_map(|(at, _)| {
            let rest = &text[at + lead.len()..];
            match form {
                ResetForm::Span => parse_span(rest).and_then(|span| now.checked_add(span).ok()),
                ResetForm::Moment => parse_moment(rest, now, zone),
            }
            .map(|instant| Timestamp(instant.as_millisecond()))
        })
    })
}

/// Converts to lower case, and replaces the variants of space and apostrophe by plain ones.
fn normalize_text(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            '\u{2019}' | '\u{2018}' => '\'',
            '\u{a0}' | '\u{202f}' | '\n' | '\t' => ' ',
            other => other.to_ascii_lowercase(),
        })
        .collect()
}

/// Reads `|1794710902`, the format of old versions: seconds, or milliseconds with 13 digits.
fn parse_epoch(text: &str) -> Option<Timestamp> {
    text.match_indices('|').find_map(|(at, _)| {
        let digits: String =
            text[at + 1..].trim_start().chars().take_while(char::is_ascii_digit).collect();
        let number = digits.parse().ok()?;
        match digits.len() {
            10 => Some(Timestamp::from_seconds(number)),
            13 => Some(Timestamp(number)),
            _ => None,
        }
    })
}

/// Reads `1.5s`, `20 seconds`, `1h 30m`, `2 hours and 5 minutes`.
fn parse_span(text: &str) -> Option<SignedDuration> {
    let mut reader = ResetTextReader(text);
    let mut total = None;
    loop {
        if total.is_some() {
            reader.skip_word("and");
        }
        let mut next = ResetTextReader(reader.0);
        let Some(factor) = next
            .take_decimal()
            .zip(next.take_letters())
            .and_then(|(number, unit)| Some(number * parse_unit_seconds(unit)?))
        else {
            break;
        };
        total = Some(total.unwrap_or(0.0) + factor);
        reader = next;
    }
    SignedDuration::try_from_secs_f64(total?).ok()
}

fn parse_unit_seconds(unit: &str) -> Option<f64> {
    match unit {
        "ms" => Some(0.001),
        "s" | "sec" | "secs" | "second" | "seconds" => Some(1.0),
        "m" | "min" | "mins" | "minute" | "minutes" => Some(60.0),
        "h" | "hr" | "hrs" | "hour" | "hours" => Some(3_600.0),
        "d" | "day" | "days" => Some(86_400.0),
        _ => None,
    }
}

/// Reads `3pm`, `2:14am (UTC)`, `Nov 17, 7:47am (UTC)`, `Nov 18th, 2026 4:40 PM`, or an RFC 3339
/// timestamp.
fn parse_moment(text: &str, now: Moment, zone: &TimeZone) -> Option<Moment> {
    let first = text.split([' ', ',']).next().unwrap_or_default();
    if let Ok(instant) = first.trim_end_matches('.').to_ascii_uppercase().parse::<Moment>() {
        return Some(instant);
    }
    let mut reader = ResetTextReader(text);
    let date = reader.take_date();
    reader.skip_word("at");
    let time = reader.take_time()?;
    let named = reader.read_bracketed().and_then(|name| TimeZone::get(name).ok());
    let zone = named.as_ref().unwrap_or(zone);
    match date {
        None => find_next_time(time, now, zone),
        Some((month, day, Some(year))) => {
            resolve_instant(Date::new(year, month, day).ok()?, time, zone)
        }
        Some((month, day, None)) => {
            let year = now.to_zoned(zone.clone()).year();
            (year - 1..=year + 1)
                .filter_map(|year| resolve_instant(Date::new(year, month, day).ok()?, time, zone))
                .min_by_key(|instant| instant.duration_since(now).abs())
        }
    }
}

/// A reset time has no seconds: the current minute does not count as past.
const THIS_MINUTE: SignedDuration = SignedDuration::from_secs(60);

/// Returns when the clock next shows a time; in the night with a repeated hour, either one counts.
fn find_next_time(time: Time, now: Moment, zone: &TimeZone) -> Option<Moment> {
    let today = now.to_zoned(zone.clone()).date();
    [today, today.checked_add(1.day()).ok()?]
        .into_iter()
        .flat_map(|day| {
            let ambiguous = zone.to_ambiguous_zoned(day.to_datetime(time));
            [ambiguous.clone().compatible().ok(), ambiguous.later().ok()]
        })
        .flatten()
        .map(|zoned| zoned.timestamp())
        .filter(|instant| now.duration_since(*instant) < THIS_MINUTE)
        .min()
}

fn resolve_instant(date: Date, time: Time, zone: &TimeZone) -> Option<Moment> {
    Some(zone.to_ambiguous_zoned(date.to_datetime(time)).compatible().ok()?.timestamp())
}

/// Reads a text word by word.
#[derive(Clone, Copy)]
struct ResetTextReader<'a>(&'a str);

impl<'a> ResetTextReader<'a> {
    fn take_matching(&mut self, is_part: impl Fn(char) -> bool) -> Option<&'a str> {
        let text = self.0.trim_start();
        let end = text.find(|character| !is_part(character)).unwrap_or(text.len());
        if end == 0 {
            return None;
        }
        self.0 = &text[end..];
        Some(&text[..end])
    }

    fn take_letters(&mut self) -> Option<&'a str> {
        self.take_matching(|character| character.is_ascii_alphabetic())
    }

    fn take_number<N: std::str::FromStr>(&mut self) -> Option<N> {
        self.take_matching(|character| character.is_ascii_digit())?.parse().ok()
    }

    fn take_decimal(&mut self) -> Option<f64> {
        self.take_matching(|character| character.is_ascii_digit() || character == '.')?.parse().ok()
    }

    fn skip_word(&mut self, word: &str) {
        let mut next = *self;
        if next.take_letters() == Some(word) {
            *self = next;
        }
    }

    fn skip_sign(&mut self, sign: char) -> bool {
        match self.0.trim_start().strip_prefix(sign) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// Reads `nov 17,` or `nov 18th, 2026`; consumes nothing if the text is not a date.
    fn take_date(&mut self) -> Option<(i8, i8, Option<i16>)> {
        let mut next = *self;
        let name = next.take_letters()?;
        let month = MONTHS.iter().position(|month| name.starts_with(month))?;
        let day: i8 = next.take_number()?;
        if next.0.starts_with(|character: char| character.is_ascii_alphabetic()) {
            next.take_letters();
        }
        next.skip_sign(',');
        let mut year = None;
        let mut ahead = next;
        if let Some(digits) = ahead.take_matching(|character| character.is_ascii_digit())
            && digits.len() == 4
        {
            year = digits.parse().ok();
            ahead.skip_sign(',');
            next = ahead;
        }
        *self = next;
        Some((i8::try_from(month).ok()? + 1, day, year))
    }

    /// Reads `3pm`, `2:14 am`, `17:20`. A bare number is not a time.
    fn take_time(&mut self) -> Option<Time> {
        let hour: i8 = self.take_number()?;
        let minute = if self.skip_sign(':') { Some(self.take_number::<i8>()?) } else { None };
        if minute.is_some() && self.0.starts_with(':') {
            self.skip_sign(':');
            self.take_number::<i8>()?;
        }
        let mut next = *self;
        let half = next.take_letters().filter(|letters| matches!(*letters, "am" | "pm"));
        if half.is_some() {
            *self = next;
        }
        let hour = match half {
            Some("am") if (1..=12).contains(&hour) => hour % 12,
            Some(_) if (1..=12).contains(&hour) => hour % 12 + 12,
            None if minute.is_some() => hour,
            Some(_) | None => return None,
        };
        Time::new(hour, minute.unwrap_or(0), 0, 0).ok()
    }

    fn read_bracketed(&mut self) -> Option<&'a str> {
        let rest = self.0.trim_start().strip_prefix('(')?;
        Some(rest[..rest.find(')')?].trim())
    }
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

#[cfg(test)]
mod tests;
