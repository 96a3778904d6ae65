//! Lines that hold more or less than one object: glued together, broken, or with words around
//! them.
//!
//! Not here: what the objects mean.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::translator::{Heard, Weight};

/// A part of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A whole JSON object.
    Object(Cow<'a, str>),
    /// Anything else.
    Garbage(&'a str),
}

/// Reads the objects of a line one by one; what none of them can be is shown as it is.
///
/// `read` returns none for an object that it does not know.
pub(super) fn read_objects(line: &str, mut read: impl FnMut(&str) -> Option<Heard>) -> Heard {
    read_pieces(pieces(line), |piece| match piece {
        Piece::Object(object) => read(&object).unwrap_or_else(|| Heard::unparsed(&object)),
        Piece::Garbage(text) => Heard::unparsed(text),
    })
}

/// Reads the parts of a line one by one. Of glued lines the last counts: a result with a new turn
/// behind it is not final.
pub(super) fn read_pieces<'a>(
    pieces: Vec<Piece<'a>>,
    mut read: impl FnMut(Piece<'a>) -> Heard,
) -> Heard {
    let mut all = Heard::nothing(Weight::Noise);
    for piece in pieces {
        let heard = read(piece);
        all.events.extend(heard.events);
        if heard.weight != Weight::Noise {
            all.weight = heard.weight;
        }
    }
    all
}

/// Returns the parts of a line in order. Nothing is lost.
///
/// An object that stands inside a broken one is not taken for a line of its own: it may be words
/// of the model or the content of a file. The broken one is garbage, up to the end of the line.
pub(super) fn pieces(line: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let start = rest.find('{').unwrap_or(rest.len());
        if start > 0 {
            found.push(Piece::Garbage(rest[..start].trim_end()));
            rest = &rest[start..];
            continue;
        }
        let Some(object) = object_at(rest) else {
            found.push(Piece::Garbage(rest));
            break;
        };
        found.push(Piece::Object(object.into()));
        rest = rest[object.len()..].trim_start();
    }
    found
}

/// Returns the whole object that a text begins with.
pub(super) fn object_at(text: &str) -> Option<&str> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    values.next()?.ok().map(RawValue::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expect: &[Piece<'_>]) {
        assert_eq!(pieces(line), expect, "{line}");
    }

    #[test]
    fn a_line_is_taken_apart_without_loss() {
        let object = |text: &'static str| Piece::Object(text.into());
        check("", &[]);
        check("  \t", &[]);
        check(r#"{"a":1}"#, &[object(r#"{"a":1}"#)]);
        check(
            r#"{"a":1}{"b":2} {"c":3}"#,
            &[object(r#"{"a":1}"#), object(r#"{"b":2}"#), object(r#"{"c":3}"#)],
        );
        check("plain", &[Piece::Garbage("plain")]);
        check(r#"warn: {"a":1}"#, &[Piece::Garbage("warn:"), object(r#"{"a":1}"#)]);
        check(r#"{"a":1}tail"#, &[object(r#"{"a":1}"#), Piece::Garbage("tail")]);
        check(r#"{"a":{"type":"result"}"#, &[Piece::Garbage(r#"{"a":{"type":"result"}"#)]);
    }
}
