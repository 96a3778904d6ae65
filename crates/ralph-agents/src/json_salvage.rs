//! Lines that are not exactly one JSON object: several objects, a broken object, or text around
//! objects.
//!
//! Not here: what the objects mean.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::translator::{LineActivity, ParsedLine};

/// A part of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LinePiece<'a> {
    /// A complete JSON object.
    Object(Cow<'a, str>),
    /// Anything else.
    Garbage(&'a str),
}

/// Reads the objects of a line one by one; the rest is shown as unparsed.
///
/// `read` returns `None` for an object of unknown type.
pub(super) fn read_objects(
    line: &str,
    mut read: impl FnMut(&str) -> Option<ParsedLine>,
) -> ParsedLine {
    read_pieces(split_pieces(line), |piece| match piece {
        LinePiece::Object(object) => {
            read(&object).unwrap_or_else(|| ParsedLine::from_unparsed(&object))
        }
        LinePiece::Garbage(text) => ParsedLine::from_unparsed(text),
    })
}

/// Reads the pieces of a line one by one. The last piece with activity decides: a result followed
/// by a new turn is not final.
pub(super) fn read_pieces<'a>(
    pieces: Vec<LinePiece<'a>>,
    mut read: impl FnMut(LinePiece<'a>) -> ParsedLine,
) -> ParsedLine {
    let mut all = ParsedLine::from_activity(LineActivity::Idle);
    for piece in pieces {
        let parsed = read(piece);
        all.events.extend(parsed.events);
        if parsed.activity != LineActivity::Idle {
            all.activity = parsed.activity;
        }
    }
    all
}

/// Returns the pieces of a line in order. Nothing is lost.
///
/// An object inside a broken one does not count as a line of its own: it may be text of the model
/// or the content of a file. The broken object is garbage, up to the end of the line.
pub(super) fn split_pieces(line: &str) -> Vec<LinePiece<'_>> {
    let mut found = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let start = rest.find('{').unwrap_or(rest.len());
        if start > 0 {
            found.push(LinePiece::Garbage(rest[..start].trim_end()));
            rest = &rest[start..];
            continue;
        }
        let Some(object) = parse_leading_object(rest) else {
            found.push(LinePiece::Garbage(rest));
            break;
        };
        found.push(LinePiece::Object(object.into()));
        rest = rest[object.len()..].trim_start();
    }
    found
}

/// Returns the complete object at the start of a text.
pub(super) fn parse_leading_object(text: &str) -> Option<&str> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    values.next()?.ok().map(RawValue::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expect: &[LinePiece<'_>]) {
        assert_eq!(split_pieces(line), expect, "{line}");
    }

    #[test]
    fn line_is_split_without_loss() {
        let object = |text: &'static str| LinePiece::Object(text.into());
        check("", &[]);
        check("  \t", &[]);
        check(r#"{"a":1}"#, &[object(r#"{"a":1}"#)]);
        check(
            r#"{"a":1}{"b":2} {"c":3}"#,
            &[object(r#"{"a":1}"#), object(r#"{"b":2}"#), object(r#"{"c":3}"#)],
        );
        check("plain", &[LinePiece::Garbage("plain")]);
        check(r#"warn: {"a":1}"#, &[LinePiece::Garbage("warn:"), object(r#"{"a":1}"#)]);
        check(r#"{"a":1}tail"#, &[object(r#"{"a":1}"#), LinePiece::Garbage("tail")]);
        check(r#"{"a":{"type":"result"}"#, &[LinePiece::Garbage(r#"{"a":{"type":"result"}"#)]);
    }
}
