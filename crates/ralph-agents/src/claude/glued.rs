//! Lines of Claude Code with another line written into their middle.
//!
//! Not here: concatenated or broken lines, which any agent may write (`json_salvage`), and what
//! the objects mean.

use crate::pieces::{self, Piece, object_at};

/// The only line that has been seen inside another: its writer does not synchronize with the
/// others.
const INTRUDER: &str = r#"{"type":"rate_limit_event""#;

/// Returns the pieces of a line in order, with an interleaved event taken out of a broken one.
/// Nothing is lost.
///
/// No other object inside a broken one counts as a line of its own.
pub(super) fn pieces(line: &str) -> Vec<Piece<'_>> {
    let split = |piece| match piece {
        Piece::Garbage(text) if text.starts_with('{') => broken(text),
        Piece::Garbage(_) | Piece::Object(_) => vec![piece],
    };
    pieces::pieces(line).into_iter().flat_map(split).collect()
}

fn broken(text: &str) -> Vec<Piece<'_>> {
    let interleaved = text
        .find(INTRUDER)
        .filter(|at| *at > 0)
        .and_then(|at| object_at(&text[at..]).map(|object| (at, object)));
    let Some((at, object)) = interleaved else {
        return vec![Piece::Garbage(text)];
    };
    let after = &text[at + object.len()..];
    let joined = format!("{}{after}", &text[..at]);
    let mut found = vec![Piece::Object(object.into())];
    if object_at(&joined).is_some_and(|whole| whole.len() == joined.len()) {
        found.push(Piece::Object(joined.into()));
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
    fn interleaved_limit_event_is_extracted() {
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
