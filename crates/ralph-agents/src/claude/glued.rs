//! Lines of Claude Code with another line written into their middle.
//!
//! Not here: lines that are glued together or broken, as any agent may write them (`pieces`), and
//! what the objects mean.

use crate::pieces::{self, Piece, object_at};

/// The one line that has been seen inside another: its writer does not wait for its turn.
const INTRUDER: &str = r#"{"type":"rate_limit_event""#;

/// Returns the parts of a line in order, an intruder in a broken one taken out. Nothing is lost.
///
/// No other object inside a broken one is taken for a line of its own.
pub(super) fn pieces(line: &str) -> Vec<Piece<'_>> {
    let mend = |piece| match piece {
        Piece::Garbage(text) if text.starts_with('{') => broken(text),
        Piece::Garbage(_) | Piece::Object(_) => vec![piece],
    };
    pieces::pieces(line).into_iter().flat_map(mend).collect()
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
