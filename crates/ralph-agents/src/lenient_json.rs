//! Fields of foreign JSON: a field of an unexpected type is absent, and the rest of the line stays
//! readable.
//!
//! [`read_scalar`] and [`read_object`] read in one pass, which matters for long lines;
//! [`read_lenient`] reads any type, at the price of a second pass. Not here: any agent's fields.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{BorrowedStrDeserializer, Error, MapAccessDeserializer, StrDeserializer};
use serde::de::{IgnoredAny, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Text of a field; borrowed unless it contains escapes.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// Reads a field of any type; absent if it has another type than expected.
pub(super) fn read_lenient<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let raw = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).ok())
}

/// Reads a text, a number or a flag; absent if it has another type than expected.
///
/// Half of a surrogate pair is not valid text and makes the line unreadable: see
/// [`repair_surrogates`].
pub(super) fn read_scalar<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_any(Scalar(PhantomData))
}

/// Reads an object; absent if it has another type. All its own fields must be optional and read by
/// the functions here, or one of them can make the line unreadable.
pub(super) fn read_object<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_any(Object(PhantomData))
}

/// Returns the `type` of an object if it is the first field, as agents write it. Does not check
/// that the object is complete.
pub(super) fn read_leading_kind(object: &str) -> Option<&str> {
    let (kind, _) = object.strip_prefix(r#"{"type":""#)?.split_once('"')?;
    (!kind.contains('\\')).then_some(kind)
}

/// Returns a line of JSON with each unpaired escaped surrogate replaced by U+FFFD. Agents cut
/// texts in the middle of such pairs, and serde rejects a string with one half.
pub(super) fn repair_surrogates(line: &str) -> Cow<'_, str> {
    let mut repaired = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = line[at..].find('\\') {
        at += found;
        match parse_surrogate(&line[at..]) {
            None => {
                at += if line[at..].starts_with("\\u") {
                    2
                } else {
                    1 + measure_escape(&line[at + 1..])
                }
            }
            Some(Surrogate::High) if parse_surrogate(&line[at + 6..]) == Some(Surrogate::Low) => {
                at += 12;
            }
            Some(Surrogate::High | Surrogate::Low) => {
                repaired.push_str(&line[copied..at]);
                repaired.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
        }
    }
    if copied == 0 {
        return Cow::Borrowed(line);
    }
    repaired.push_str(&line[copied..]);
    Cow::Owned(repaired)
}

#[derive(Debug, PartialEq, Eq)]
enum Surrogate {
    High,
    Low,
}

/// Reads an escaped half of a surrogate pair.
fn parse_surrogate(text: &str) -> Option<Surrogate> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(Surrogate::High),
        0xdc00..=0xdfff => Some(Surrogate::Low),
        _ => None,
    }
}

/// Returns the length of the character after a backslash.
fn measure_escape(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

struct Scalar<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Scalar<T> {
    type Value = Option<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("anything")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(T::deserialize(BorrowedStrDeserializer::<Error>::new(text)).ok())
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(T::deserialize(StrDeserializer::<Error>::new(text)).ok())
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Self::Value, E> {
        Ok(T::deserialize(IntoDeserializer::<Error>::into_deserializer(flag)).ok())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(T::deserialize(IntoDeserializer::<Error>::into_deserializer(number)).ok())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(T::deserialize(IntoDeserializer::<Error>::into_deserializer(number)).ok())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(T::deserialize(IntoDeserializer::<Error>::into_deserializer(number)).ok())
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Self::Value, A::Error> {
        skip_items(items)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

struct Object<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
    type Value = Option<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(fields)).map(Some)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Self::Value, A::Error> {
        skip_items(items)
    }
}

/// Skips a list where another type was expected.
fn skip_items<'de, A: SeqAccess<'de>, T>(mut items: A) -> Result<Option<T>, A::Error> {
    while items.next_element::<IgnoredAny>()?.is_some() {}
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    struct Inner {
        #[serde(default, deserialize_with = "read_scalar")]
        text: Option<String>,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    struct Outer {
        #[serde(default, deserialize_with = "read_scalar")]
        text: Option<String>,
        #[serde(default, deserialize_with = "read_scalar")]
        number: Option<u16>,
        #[serde(default, deserialize_with = "read_scalar")]
        share: Option<f64>,
        #[serde(default, deserialize_with = "read_scalar")]
        flag: Option<bool>,
        #[serde(default, deserialize_with = "read_object")]
        inner: Option<Inner>,
        #[serde(default, deserialize_with = "read_lenient")]
        list: Option<Vec<u8>>,
    }

    #[track_caller]
    fn check(json: &str, expect: &Outer) {
        assert_eq!(&serde_json::from_str::<Outer>(json).expect("an object"), expect, "{json}");
    }

    #[test]
    fn field_of_unexpected_type_is_absent() {
        let whole = Outer {
            text: Some("a\n".to_owned()),
            number: Some(7),
            share: Some(1.0),
            flag: Some(true),
            inner: Some(Inner { text: Some("b".to_owned()) }),
            list: Some(vec![1]),
        };
        check(
            r#"{"text":"a\n","number":7,"share":1,"flag":true,"inner":{"text":"b","x":[]},"list":[1]}"#,
            &whole,
        );
        for odd in ["null", "-1", "1.5", "70000", "[{\"text\":1}]", "{\"text\":[0]}"] {
            let json = format!(r#"{{"text":{odd},"flag":{odd},"list":{odd},"number":7}}"#);
            check(&json, &Outer { number: Some(7), ..Outer::default() });
            let json = format!(r#"{{"number":{odd},"flag":true}}"#);
            check(&json, &Outer { flag: Some(true), ..Outer::default() });
        }
        for odd in ["null", "-1", "1.5", "true", "\"x\"", "[{\"text\":\"b\"}]"] {
            let json = format!(r#"{{"inner":{odd},"number":7}}"#);
            check(&json, &Outer { number: Some(7), ..Outer::default() });
        }
    }

    #[test]
    fn only_unpaired_surrogates_are_repaired() {
        for (line, expect) in [
            (r#""plain""#, r#""plain""#),
            (r#""\ud83d\ude00 \n \u00fc \\ud83d""#, r#""\ud83d\ude00 \n \u00fc \\ud83d""#),
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\uDE00x\ud83d\n\ud83d\ud83d\ude00""#, r#""\ufffdx\ufffd\n\ufffd\ud83d\ude00""#),
            ("\\", "\\"),
            ("\\ü\\u12", "\\ü\\u12"),
            (r"\ud83dü", r"\ufffdü"),
        ] {
            assert_eq!(repair_surrogates(line), expect);
        }
    }

    #[test]
    fn type_is_read_only_as_first_field() {
        for (line, expect) in [
            (r#"{"type":"user","a":1}"#, Some("user")),
            (r#"{"type":"","a":1}"#, Some("")),
            (r#"{"type":"us\u0065r"}"#, None),
            (r#"{"a":1,"type":"user"}"#, None),
            (r#"{"type":7}"#, None),
        ] {
            assert_eq!(read_leading_kind(line), expect, "{line}");
        }
    }
}
