//! Lines that hold more or less than one object: glued together, broken, or with words around
//! them.
//!
//! Not here: what the objects mean.

use serde_json::value::RawValue;

/// A part of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A whole JSON object.
    Object(&'a str),
    /// Anything else.
    Garbage(&'a str),
}

/// Returns the parts of a line in order. Nothing is lost.
///
/// An object that stands inside a broken one is not taken for a line of its own: it may be words
/// of the model or the content of a file.
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
        found.push(Piece::Object(object));
        rest = rest[object.len()..].trim_start();
    }
    found
}

/// Returns the whole object that a text begins with.
fn object_at(text: &str) -> Option<&str> {
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
        use Piece::{Garbage, Object};
        check("", &[]);
        check(" \t", &[]);
        check(r#"{"a":1}{"b":2}"#, &[Object(r#"{"a":1}"#), Object(r#"{"b":2}"#)]);
        check(r#"warn: {"a":1}"#, &[Garbage("warn:"), Object(r#"{"a":1}"#)]);
        check(r#"{"a":1}tail"#, &[Object(r#"{"a":1}"#), Garbage("tail")]);
        check(r#"{"a":{"type":"x"}"#, &[Garbage(r#"{"a":{"type":"x"}"#)]);
    }
}
