//! Lines of Claude Code with another line written into their middle.
//!
//! Not here: concatenated or broken lines, which any agent may write (`json_salvage`), and what
//! the objects mean.

use crate::json_salvage::{self, LinePiece, parse_leading_object};

/// The only line that has been seen inside another: its writer does not synchronize with the
/// others.
const INTERLEAVED_EVENT: &str = r#"{"type":"rate_limit_event""#;

/// Returns the pieces of a line in order, with an interleaved event taken out of a broken one.
/// Nothing is lost.
///
/// No other object inside a broken one counts as a line of its own.
pub(super) fn split_pieces(line: &str) -> Vec<LinePiece<'_>> {
    let split = |piece| match piece {
        LinePiece::Garbage(text) if text.starts_with('{') => split_broken(text),
        LinePiece::Garbage(_) | LinePiece::Object(_) => vec![piece],
    };
    json_salvage::split_pieces(line).into_iter().flat_map(split).collect()
}

fn split_broken(text: &str) -> Vec<LinePiece<'_>> {
    let interleaved = text
        .find(INTERLEAVED_EVENT)
        .filter(|at| *at > 0)
        .and_then(|at| parse_leading_object(&text[at..]).map(|object| (at, object)));
    let Some((at, object)) = interleaved else {
        return vec![LinePiece::Garbage(text)];
    };
    let after = &text[at + object.len()..];
    let joined = format!("{}{after}", &text[..at]);
    let mut found = vec![LinePiece::Object(object.into())];
    if parse_leading_object(&joined).is_some_and(|whole| whole.len() == joined.len()) {
        found.push(LinePiece::Object(joined.into()));
    } else {
        found.push(LinePiece::Garbage(&text[..at]));
        if !after.trim().is_empty() {
            found.push(LinePiece::Garbage(after));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expect: &[LinePiece<'_>]) {
        assert_eq!(split_pieces(line), expect, "{line}");
    }

    #[test]
    fn interleaved_limit_event_is_extracted() {
        let object = |text: &'static str| LinePiece::Object(text.into());
        check(
            r#"{"a":"hel{"type":"rate_limit_event","x":1}lo"}"#,
            &[object(r#"{"type":"rate_limit_event","x":1}"#), object(r#"{"a":"hello"}"#)],
        );
        check(
            r#"{"a":"hel{"type":"rate_limit_event","x":1}lo"#,
            &[
                object(r#"{"type":"rate_limit_event","x":1}"#),
                LinePiece::Garbage(r#"{"a":"hel"#),
                LinePiece::Garbage("lo"),
            ],
        );
    }
}
