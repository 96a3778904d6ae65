//! A line editor for notes and searches.
//!
//! Not here: drawing it, and using the text.

use crate::safe;
use crate::tui::keys::Key;

/// Limits the length of a note.
const LONGEST: usize = 2_000;

/// A line that the user is typing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Editor {
    text: String,
    /// Byte position of the next character.
    cursor: usize,
}

impl Editor {
    /// Returns the typed text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text before and after the cursor.
    pub(crate) fn parts(&self) -> (&str, &str) {
        self.text.split_at(self.cursor)
    }

    /// Applies an editing key; ignores others.
    pub(crate) fn press(&mut self, key: &Key) {
        match key {
            Key::Char(it) => self.insert(it.encode_utf8(&mut [0; 4])),
            Key::Paste(text) => self.insert(&text.split_whitespace().collect::<Vec<_>>().join(" ")),
            Key::Backspace => self.remove(self.before()..self.cursor),
            Key::Delete => self.remove(self.cursor..self.behind()),
            Key::WordBack => self.remove(self.word_before()..self.cursor),
            Key::Clear => self.remove(0..self.cursor),
            Key::Left => self.cursor = self.before(),
            Key::Right => self.cursor = self.behind(),
            Key::Home => self.cursor = 0,
            Key::End => self.cursor = self.text.len(),
            Key::Enter
            | Key::Escape
            | Key::Tab
            | Key::Up
            | Key::Down
            | Key::PageUp
            | Key::PageDown
            | Key::Redraw => {}
        }
    }

    fn insert(&mut self, text: &str) {
        let text = safe::harmless(text).replace(['\n', '\t'], " ");
        let room = LONGEST.saturating_sub(self.text.chars().count());
        let text = safe::cut(&text, room);
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
    }

    fn remove(&mut self, range: std::ops::Range<usize>) {
        self.cursor = range.start;
        self.text.replace_range(range, "");
    }

    /// Returns where the (possibly combined) character before the cursor begins.
    fn before(&self) -> usize {
        let count = self.text[..self.cursor].chars().count();
        safe::cut(&self.text[..self.cursor], count.saturating_sub(1)).len()
    }

    /// Returns where the (possibly combined) character after the cursor ends.
    fn behind(&self) -> usize {
        let rest = &self.text[self.cursor..];
        let mut ends = (1..=rest.chars().count()).map(|count| safe::cut(rest, count).len());
        ends.find(|end| *end > 0).map_or(self.cursor, |end| self.cursor + end)
    }

    fn word_before(&self) -> usize {
        let text = self.text[..self.cursor].trim_end();
        text.rfind(' ').map_or(0, |at| at + 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn typed(keys: &[Key]) -> Editor {
        let mut editor = Editor::default();
        for key in keys {
            editor.press(key);
        }
        editor
    }

    #[track_caller]
    fn check(start: &str, keys: &[Key], expect: (&str, &str)) {
        let mut editor = typed(&[Key::Paste(start.to_owned())]);
        for key in keys {
            editor.press(key);
        }
        assert_eq!(editor.parts(), expect, "{start:?} {keys:?}");
    }

    #[test]
    fn a_line_is_edited_where_the_cursor_is() {
        check("abc", &[Key::Left, Key::Char('x')], ("abx", "c"));
        check("abc", &[Key::Home, Key::Delete, Key::End, Key::Backspace], ("b", ""));
        check("one two three", &[Key::WordBack], ("one two ", ""));
        check("one two", &[Key::Left, Key::Clear], ("", "o"));
        check("日本語", &[Key::Left, Key::Backspace], ("日", "語"));
        check("xe\u{301}y", &[Key::Left, Key::Backspace, Key::Backspace], ("", "y"));
        check("a👨\u{200d}👩b", &[Key::Home, Key::Right, Key::Delete], ("a", "b"));
        check("", &[Key::Backspace, Key::Delete, Key::Left, Key::Right], ("", ""));
    }

    #[test]
    fn pasted_text_becomes_one_sanitized_line() {
        check("a\nb\t\u{1b}[2Jc\r\n", &[], ("a b c", ""));
        let long = typed(&[Key::Paste("x".repeat(9_000)), Key::Char('y')]);
        assert_eq!(long.text().len(), LONGEST);
    }

    fn key() -> impl Strategy<Value = Key> {
        prop_oneof![
            any::<char>().prop_map(Key::Char),
            prop::sample::select(vec![
                Key::Char('\u{301}'),
                Key::Char('\u{200d}'),
                Key::Char('👩'),
                Key::Char(' '),
                Key::Backspace,
                Key::Delete,
                Key::WordBack,
                Key::Clear,
                Key::Left,
                Key::Right,
                Key::Home,
                Key::End,
            ]),
            any::<String>().prop_map(Key::Paste),
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
