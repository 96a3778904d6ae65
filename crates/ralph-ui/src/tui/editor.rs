//! A line editor for notes and searches.
//!
//! Not here: drawing it, and using the text.

use crate::sanitize;
use crate::tui::keys::TerminalKey;

/// Limits the length of a note.
const LONGEST: usize = 2_000;

/// A line that the user is typing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LineEditor {
    text: String,
    /// Byte position of the next character.
    cursor: usize,
}

impl LineEditor {
    /// Returns the typed text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text before and after the cursor.
    pub(crate) fn parts(&self) -> (&str, &str) {
        self.text.split_at(self.cursor)
    }

    /// Applies an editing key; ignores others.
    pub(crate) fn apply_key(&mut self, key: &TerminalKey) {
        match key {
            TerminalKey::Char(it) => self.insert_text(it.encode_utf8(&mut [0; 4])),
            TerminalKey::Paste(text) => {
                self.insert_text(&text.split_whitespace().collect::<Vec<_>>().join(" "));
            }
            TerminalKey::Backspace => self.remove_range(self.previous_boundary()..self.cursor),
            TerminalKey::Delete => self.remove_range(self.cursor..self.next_boundary()),
            TerminalKey::WordBack => self.remove_range(self.previous_word_start()..self.cursor),
            TerminalKey::Clear => self.remove_range(0..self.cursor),
            TerminalKey::Left => self.cursor = self.previous_boundary(),
            TerminalKey::Right => self.cursor = self.next_boundary(),
            TerminalKey::Home => self.cursor = 0,
            TerminalKey::End => self.cursor = self.text.len(),
            _ => {}
        }
    }

    fn insert_text(&mut self, text: &str) {
        let text = sanitize::sanitize_text(text).replace(['\n', '\t'], " ");
        let room = LONGEST.saturating_sub(self.text.chars().count());
        let text = sanitize::cut_chars(&text, room);
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
    }

    fn remove_range(&mut self, range: std::ops::Range<usize>) {
        self.cursor = range.start;
        self.text.replace_range(range, "");
    }

    /// Returns where the (possibly combined) character before the cursor begins.
    fn previous_boundary(&self) -> usize {
        let count = self.text[..self.cursor].chars().count();
        sanitize::cut_chars(&self.text[..self.cursor], count.saturating_sub(1)).len()
    }

    /// Returns where the (possibly combined) character after the cursor ends.
    fn next_boundary(&self) -> usize {
        let rest = &self.text[self.cursor..];
        let mut ends =
            (1..=rest.chars().count()).map(|count| sanitize::cut_chars(rest, count).len());
        ends.find(|end| *end > 0).map_or(self.cursor, |end| self.cursor + end)
    }

    fn previous_word_start(&self) -> usize {
        let text = self.text[..self.cursor].trim_end();
        text.rfind(' ').map_or(0, |at| at + 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn typed(keys: &[TerminalKey]) -> LineEditor {
        let mut editor = LineEditor::default();
        for key in keys {
            editor.apply_key(key);
        }
        editor
    }

    #[track_caller]
    fn check(start: &str, keys: &[TerminalKey], expect: (&str, &str)) {
        let mut editor = typed(&[TerminalKey::Paste(start.to_owned())]);
        for key in keys {
            editor.apply_key(key);
        }
        assert_eq!(editor.parts(), expect, "{start:?} {keys:?}");
    }

    #[test]
    fn a_line_is_edited_where_the_cursor_is() {
        check("abc", &[TerminalKey::Left, TerminalKey::Char('x')], ("abx", "c"));
        check(
            "abc",
            &[TerminalKey::Home, TerminalKey::Delete, TerminalKey::End, TerminalKey::Backspace],
            ("b", ""),
        );
        check("one two three", &[TerminalKey::WordBack], ("one two ", ""));
        check("one two", &[TerminalKey::Left, TerminalKey::Clear], ("", "o"));
        check("日本語", &[TerminalKey::Left, TerminalKey::Backspace], ("日", "語"));
        check(
            "xe\u{301}y",
            &[TerminalKey::Left, TerminalKey::Backspace, TerminalKey::Backspace],
            ("", "y"),
        );
        check(
            "a👨\u{200d}👩b",
            &[TerminalKey::Home, TerminalKey::Right, TerminalKey::Delete],
            ("a", "b"),
        );
        check(
            "",
            &[TerminalKey::Backspace, TerminalKey::Delete, TerminalKey::Left, TerminalKey::Right],
            ("", ""),
        );
    }

    #[test]
    fn pasted_text_becomes_one_sanitized_line() {
        check("a\nb\t\u{1b}[2Jc\r\n", &[], ("a b c", ""));
        let long = typed(&[TerminalKey::Paste("x".repeat(9_000)), TerminalKey::Char('y')]);
        assert_eq!(long.text().len(), LONGEST);
    }

    fn key() -> impl Strategy<Value = TerminalKey> {
        prop_oneof![
            any::<char>().prop_map(TerminalKey::Char),
            prop::sample::select(vec![
                TerminalKey::Char('\u{301}'),
                TerminalKey::Char('\u{200d}'),
                TerminalKey::Char('👩'),
                TerminalKey::Char(' '),
                TerminalKey::Backspace,
                TerminalKey::Delete,
                TerminalKey::WordBack,
                TerminalKey::Clear,
                TerminalKey::Left,
                TerminalKey::Right,
                TerminalKey::Home,
                TerminalKey::End,
            ]),
            any::<String>().prop_map(TerminalKey::Paste),
        ]
    }

    proptest! {
        #[test]
        fn no_keys_break_the_line(keys in prop::collection::vec(key(), 0..60)) {
            let editor = typed(&keys);
            prop_assert!(editor.text().is_char_boundary(editor.cursor));
            prop_assert!(!editor.text().contains(char::is_control));
        }
    }
}
