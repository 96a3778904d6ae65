//! Lines that hold more or less than one object: glued together, broken, or with another line
//! written into their middle.
//!
//! Not here: what the objects mean.

use serde_json::value::RawValue;

/// A part of a line.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::agents) enum Piece<'a> {
    /// A whole JSON object.
    Object(std::borrow::Cow<'a, str>),
    /// Anything else.
    Garbage(&'a str),
}

/// The one line that has been seen inside another: its writer does not wait for its turn.
const INTRUDER: &str = r#"{"type":"rate_limit_event""#;

/// Returns the parts of a line in order. Nothing is lost.
///
/// An object that stands inside a broken one is not taken for a line of its own, because it may
/// be words of the model or the content of a file; only [`INTRUDER`] is.
pub(in crate::agents) fn pieces(line: &str) -> Vec<Piece<'_>> {
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
            found.extend(broken(rest));
            break;
        };
        found.push(Piece::Object(object.into()));
        rest = rest[object.len()..].trim_start();
    }
    found
}

/// Returns the whole object that a text begins with.
fn object_at(text: &str) -> Option<&str> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    values.next()?.ok().map(RawValue::get)
}

fn broken(text: &str) -> Vec<Piece<'_>> {
    let intruder = text
        .find(INTRUDER)
        .filter(|at| *at > 0)
        .and_then(|at| object_at(&text[at..]).map(|object| (at, object)));
    let Some((at, object)) = intruder else {
        return vec![Piece::Garbage(text)];
    };
    let after = &text[at + object.len()..];
    let mended = format!("{}{after}", &text[..at]);
    let mut found = vec![Piece::Object(object.into())];
    if object_at(&mended).is_some_and(|whole| whole.len() == mended.len()) {
        found.push(Piece::Object(mended.into()));
    } else {
        found.push(Piece::Garbage(&text[..at]));
        if !after.trim().is_empty() {
            found.push(Piece::Garbage(after));
        }
    }
    found
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

    #[test]
    fn a_limit_written_into_another_line_is_cut_out() {
        let object = |text: &'static str| Piece::Object(text.into());
        check(
            r#"{"a":"hel{"type":"rate_limit_event","x":1}lo"}"#,
            &[object(r#"{"type":"rate_limit_event","x":1}"#), object(r#"{"a":"hello"}"#)],
        );
        check(
            r#"{"a":"hel{"type":"rate_limit_event","x":1}lo"#,
            &[
                object(r#"{"type":"rate_limit_event","x":1}"#),
                Piece::Garbage(r#"{"a":"hel"#),
                Piece::Garbage("lo"),
            ],
        );
    }
}
