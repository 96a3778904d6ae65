//! Quantities written as text: durations (`"1h30m"`) and sizes (`"8G"`).
//!
//! Not here: whether a quantity is valid for its setting; see `check`.

use std::borrow::Cow;
use std::fmt;

use ralph_model::units::Millis;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// The `format` keyword that marks a duration in the schema.
pub(crate) const SPAN_FORMAT: &str = "ralph-duration";
/// The `format` keyword that marks a size in the schema.
pub(crate) const SIZE_FORMAT: &str = "ralph-size";

/// One year: longer durations are typing mistakes, and `Millis::times` is exact below it.
const LONGEST_MILLIS: u64 = 366 * 24 * 60 * 60 * 1000;

const SPAN_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// A duration in settings: `"12m"`, `"1h30m"`, or a number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DurationSetting(pub(crate) Millis);

impl DurationSetting {
    /// Returns a span of whole seconds.
    pub(crate) const fn from_secs(seconds: u64) -> Self {
        Self(Millis::from_secs(seconds))
    }

    /// Returns a span of whole minutes.
    pub(crate) const fn from_mins(minutes: u64) -> Self {
        Self(Millis::from_mins(minutes))
    }

    /// Reads `90s`, `12m`, `1h30m`, `1h 30m`, `2d`, `500ms`, and `90` as seconds.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("`{text}` is not a duration; write for example \"90s\", \"12m\" or \"1h30m\"")
        };
        let text = text.trim();
        if !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit()) {
            let seconds: u64 = text.parse().map_err(|_| wrong())?;
            return Self::from_bounded_millis(seconds.saturating_mul(1_000), text);
        }
        let mut total = 0_u64;
        let mut below = SPAN_UNITS.len() + 1;
        for (amount, unit) in split_amounts(text).ok_or_else(wrong)? {
            let index = SPAN_UNITS.iter().position(|(name, _)| *name == unit).ok_or_else(wrong)?;
            let rank = SPAN_UNITS.len() - index;
            if rank >= below {
                return Err(wrong());
            }
            below = rank;
            total = total.saturating_add(amount.saturating_mul(SPAN_UNITS[index].1));
        }
        Self::from_bounded_millis(total, text)
    }

    fn from_seconds(seconds: f64) -> Result<Self, String> {
        if !(seconds >= 0.0 && seconds.is_finite()) {
            return Err(format!("`{seconds}` is not a duration; it must not be negative"));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked to be finite and not negative; a saturating cast is bounded next"
        )]
        let millis = (seconds * 1000.0).round() as u64;
        Self::from_bounded_millis(millis, &seconds.to_string())
    }

    fn from_bounded_millis(millis: u64, shown: &str) -> Result<Self, String> {
        if millis > LONGEST_MILLIS {
            return Err(format!("`{shown}` is too long; the longest duration is 366d"));
        }
        Ok(Self(Millis(millis)))
    }
}

impl fmt::Display for DurationSetting {
    /// Writes the text that `parse` reads back to the same span.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.0;
        if rest == 0 {
            return f.write_str("0s");
        }
        // Skips days: `36h` reads better than `1d12h` next to `6h`.
        for (unit, millis) in &SPAN_UNITS[1..] {
            if rest >= *millis {
                write!(f, "{}{unit}", rest / millis)?;
                rest %= millis;
            }
        }
        Ok(())
    }
}

/// A number of bytes in settings: `"8G"`, `"64M"`, or a plain number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SizeSetting(pub(crate) u64);

impl SizeSetting {
    /// Returns a size of whole mebibytes.
    pub(crate) const fn from_mib(mebibytes: u64) -> Self {
        Self(mebibytes << 20)
    }

    /// Reads `64M`, `8G`, `2GiB`, `512k`, `100B`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a size; write for example \"64M\" or \"8G\"");
        let parts = split_amounts(text).ok_or_else(wrong)?;
        let [(amount, unit)] = parts.as_slice() else {
            return Err(wrong());
        };
        let shift = match unit.to_ascii_lowercase().as_str() {
            "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(wrong()),
        };
        amount.checked_mul(1 << shift).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for SizeSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("T", 40), ("G", 30), ("M", 20), ("K", 10)];
        match units.iter().find(|(_, shift)| self.0 > 0 && self.0.is_multiple_of(1 << shift)) {
            Some((unit, shift)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}B", self.0),
        }
    }
}

/// Splits `1h30m` into its amounts and units; `None` if it is anything else.
fn split_amounts(text: &str) -> Option<Vec<(u64, &str)>> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        if unit.is_empty() {
            return None;
        }
        parts.push((number.parse().ok()?, unit));
        rest = after.trim_start();
    }
    (!parts.is_empty()).then_some(parts)
}

impl Serialize for DurationSetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DurationSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SpanVisitor;
        impl Visitor<'_> for SpanVisitor {
            type Value = DurationSetting;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as \"12m\", or a number of seconds")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<DurationSetting, E> {
                DurationSetting::parse(text).map_err(E::custom)
            }
            #[expect(clippy::cast_precision_loss, reason = "bounded to a year right after")]
            fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<DurationSetting, E> {
                DurationSetting::from_seconds(seconds as f64).map_err(E::custom)
            }
            fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<DurationSetting, E> {
                DurationSetting::from_seconds(seconds).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(SpanVisitor)
    }
}

impl JsonSchema for DurationSetting {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                {
                    "type": "string",
                    "format": SPAN_FORMAT,
                    "pattern": r"^\s*([0-9]+\s*|([0-9]+d\s*)?([0-9]+h\s*)?([0-9]+m\s*)?([0-9]+s\s*)?([0-9]+ms\s*)?)$",
                },
                { "type": "number", "minimum": 0, "maximum": LONGEST_MILLIS / 1000 },
            ]
        })
    }
}

impl Serialize for SizeSetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SizeSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SizeVisitor;
        impl Visitor<'_> for SizeVisitor {
            type Value = SizeSetting;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"8G\", or a number of bytes")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<SizeSetting, E> {
                SizeSetting::parse(text).map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<SizeSetting, E> {
                Ok(SizeSetting(bytes))
            }
        }
        deserializer.deserialize_any(SizeVisitor)
    }
}

impl JsonSchema for SizeSetting {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                {
                    "type": "string",
                    "format": SIZE_FORMAT,
                    "pattern": r"^\s*[0-9]+([bB]|[kKmMgGtT]([iI]?[bB])?)\s*$",
                },
                { "type": "integer", "minimum": 0 },
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let cases = [
            ("90s", Some(90_000)),
            ("12m", Some(720_000)),
            ("1h30m", Some(5_400_000)),
            (" 1h 30m ", Some(5_400_000)),
            ("2d", Some(172_800_000)),
            ("500ms", Some(500)),
            ("0s", Some(0)),
            ("", None),
            ("90", Some(90_000)),
            ("1.5", None),
            ("99999999999999999999", None),
            ("1.5h", None),
            ("30m1h", None),
            ("1m1m", None),
            ("-5m", None),
            ("12 parsecs", None),
            ("99999999999999999999s", None),
            ("400d", None),
        ];
        for (text, millis) in cases {
            assert_eq!(DurationSetting::parse(text).ok().map(|span| span.0.0), millis, "{text}");
        }
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let cases = [
            ("64M", Some(64 << 20)),
            ("8g", Some(8 << 30)),
            ("2GiB", Some(2 << 30)),
            ("100B", Some(100)),
            ("1k1k", None),
            ("8", None),
            ("8X", None),
            ("99999999999T", None),
        ];
        for (text, bytes) in cases {
            assert_eq!(SizeSetting::parse(text).ok().map(|size| size.0), bytes, "{text}");
        }
    }

    proptest! {
        #[test]
        fn quantities_survive_being_written_and_read(millis in 0..LONGEST_MILLIS, bytes: u64) {
            let span = DurationSetting(Millis(millis));
            prop_assert_eq!(DurationSetting::parse(&span.to_string()), Ok(span));
            prop_assert_eq!(SizeSetting::parse(&SizeSetting(bytes).to_string()), Ok(SizeSetting(bytes)));
        }

        #[test]
        fn no_text_makes_a_quantity_panic(text in ".*") {
            let _ = (DurationSetting::parse(&text), SizeSetting::parse(&text));
        }
    }
}
