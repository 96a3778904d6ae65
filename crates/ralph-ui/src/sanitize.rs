//! Sanitizes text of agents, gates and files, and measures it.
//!
//! Agent output may move the cursor, set the window title, write to the clipboard or reverse the
//! text direction so that a line reads as something else. None of that reaches a screen or a log:
//! complete escape sequences are removed, control characters except newline and tab, and
//! characters that are invisible or change the direction of text.
//!
//! Not here: full grapheme cluster segmentation. A cut keeps combining characters, joiners and
//! variation selectors with the character before them, which covers the visible breakage.

use std::borrow::Cow;

/// Returns the text without escape sequences, control and invisible characters. Newlines and tabs
/// stay.
///
/// A sequence that is split between two pieces of text is disarmed too; the rest of it may then
/// appear as plain characters.
pub fn sanitize_text(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_safe_char) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    // Remaining length after a line that is known to have no string terminator. Without it, every
    // string introducer would scan to the end of the line: quadratic time.
    let mut left_of_line = usize::MAX;
    while let Some(character) = rest.chars().next() {
        let after = &rest[character.len_utf8()..];
        rest = match character {
            '\u{1b}' => skip_escape(after),
            '\u{9b}' => skip_csi(after),
            '\u{9d}' | '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => {
                let is_endless = left_of_line <= after.len();
                match (!is_endless).then(|| skip_string(after)) {
                    Some(Some(behind)) => behind,
                    Some(None) => {
                        left_of_line = after.find('\n').map_or(0, |end| after.len() - end);
                        after
                    }
                    None => after,
                }
            }
            '\r' | '\u{2028}' | '\u{2029}' | '\u{85}' => {
                // A lone carriage return is the next frame of a progress bar: a new line.
                if character != '\r' || !after.starts_with('\n') {
                    safe.push('\n');
                }
                after
            }
            character => {
                if is_safe_char(character) {
                    safe.push(character);
                }
                after
            }
        };
    }
    Cow::Owned(safe)
}

/// Returns a text as one sanitized line of at most `limit` characters, followed by `more` if it
/// was cut.
pub fn sanitize_line(text: &str, limit: usize, more: &str) -> String {
    // A bound before the work: the text may be megabytes.
    let start = cut_chars(text, limit.saturating_mul(4).saturating_add(1_000));
    let mut line = String::new();
    for word in sanitize_text(start).split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let kept = cut_chars(&line, limit);
    if kept.len() < line.len() || start.len() < text.len() { format!("{kept}{more}") } else { line }
}

/// Returns at most the first `limit` characters, without splitting a combined character.
pub fn cut_chars(text: &str, limit: usize) -> &str {
    // Ten marks on one letter are more than any language has.
    const LONGEST_CLUSTER: usize = 10;
    let Some((full, _)) = text.char_indices().nth(limit) else {
        return text;
    };
    let mut end = full;
    for _ in 0..LONGEST_CLUSTER {
        let joins = text[end..].chars().next().is_some_and(is_combining)
            || text[..end].ends_with('\u{200d}');
        if !joins {
            return &text[..end];
        }
        let Some((before, _)) = text[..end].char_indices().next_back() else {
            break;
        };
        end = before;
    }
    &text[..full]
}

/// Returns how many columns a text takes on most terminals.
pub(crate) fn count_columns(text: &str) -> usize {
    text.chars().map(measure_char).sum()
}

/// Returns the beginning of a line that fits into this many columns.
pub(crate) fn cut_to_columns(text: &str, limit: usize) -> &str {
    let mut used = 0;
    for (count, character) in text.chars().enumerate() {
        used += measure_char(character);
        if used > limit {
            return cut_chars(text, count);
        }
    }
    text
}

/// Returns the text after an escape sequence whose ESC was just read.
fn skip_escape(text: &str) -> &str {
    let mut characters = text.chars();
    match characters.next() {
        Some('[') => skip_csi(characters.as_str()),
        Some(']' | 'P' | 'X' | '^' | '_') => {
            let content = characters.as_str();
            skip_string(content).unwrap_or(content)
        }
        // Intermediates and a final character, such as ESC ( B.
        Some(' '..='/') => {
            let rest = characters.as_str().trim_start_matches(|it| matches!(it, ' '..='/'));
            skip_char(rest, |it| matches!(it, '0'..='~'))
        }
        Some('0'..='~') => characters.as_str(),
        Some(_) | None => text,
    }
}

/// Returns the text after a control sequence: parameters, intermediates, one final character.
fn skip_csi(text: &str) -> &str {
    let rest = text.trim_start_matches(|it| matches!(it, '0'..='?'));
    let rest = rest.trim_start_matches(|it| matches!(it, ' '..='/'));
    skip_char(rest, |it| matches!(it, '@'..='~'))
}

/// Returns the text after a string sequence (OSC, DCS and similar). If it does not end on its
/// line, only its introducer is removed: an agent must not be able to hide the rest of its text.
fn skip_string(text: &str) -> Option<&str> {
    let rest = &text[text.find(['\n', '\u{7}', '\u{9c}', '\u{1b}'])?..];
    if rest.starts_with('\n') {
        return None;
    }
    Some(match rest.strip_prefix("\u{1b}\\") {
        Some(rest) => rest,
        // Another escape aborts the string and begins a sequence of its own.
        None if rest.starts_with('\u{1b}') => rest,
        None => skip_char(rest, |_| true),
    })
}

fn skip_char(text: &str, skips: impl Fn(char) -> bool) -> &str {
    match text.chars().next() {
        Some(first) if skips(first) => &text[first.len_utf8()..],
        Some(_) | None => text,
    }
}

#[inline]
fn is_safe_char(character: char) -> bool {
    matches!(character, ' '..='~' | '\n' | '\t') || is_safe_non_ascii(character)
}

/// Joiners and emoji selectors stay: scripts and emoji need them, and they do not reorder text.
fn is_safe_non_ascii(character: char) -> bool {
    match character {
        character if character.is_control() => false,
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => false,
        _ => true,
    }
}

/// Returns whether a character is drawn as part of the one before it.
fn is_combining(character: char) -> bool {
    matches!(character,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{591}'..='\u{5bd}' | '\u{5bf}'
        | '\u{5c1}'..='\u{5c7}' | '\u{610}'..='\u{61a}' | '\u{64b}'..='\u{65f}' | '\u{670}'
        | '\u{6d6}'..='\u{6dc}' | '\u{93a}'..='\u{93c}' | '\u{93e}'..='\u{94f}'
        | '\u{e31}' | '\u{e34}'..='\u{e3a}' | '\u{e47}'..='\u{e4e}'
        | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{200c}' | '\u{200d}'
        | '\u{20d0}'..='\u{20ff}' | '\u{302a}'..='\u{302f}' | '\u{3099}' | '\u{309a}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}' | '\u{1f3fb}'..='\u{1f3ff}')
}

fn measure_char(character: char) -> usize {
    match character {
        character if is_combining(character) => 0,
        '\t' => 8,
        '\u{1100}'..='\u{115f}'
        | '\u{23e9}'..='\u{23ec}'
        | '\u{23f0}'
        | '\u{23f3}'
        | '\u{2705}'
        | '\u{274c}'
        | '\u{2e80}'..='\u{303e}'
        | '\u{3041}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff01}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        assert_eq!(sanitize_text(text), expect, "{text:?}");
    }

    /// Each takes quadratic time if every string is followed to the end of the line.
    #[test]
    fn a_flood_of_strings_without_end_is_read_in_time() {
        for word in ["\u{9d}", "\u{90}x", "\u{9d}\x07", "\x1b]\x07", "\x1b]"] {
            let flood = word.repeat((1 << 18) / word.len());
            assert!(sanitize_text(&flood).chars().all(|it| it == 'x'), "{word:?}");
        }
    }

    #[test]
    fn whole_sequences_are_removed_and_text_stays() {
        check("plain\ttext\nünï 👍🏽 👨‍👩‍👧 ❤️", "plain\ttext\nünï 👍🏽 👨‍👩‍👧 ❤️");
        check("\x1b[31mred\x1b[0m", "red");
        check("\x1b[38;5;1mred\x1b[?25l\x1b[1 q", "red");
        check("\x1b[31", "");
        check("\u{9b}2Jx", "x");
        check("\x1b]0;title\x07x", "x");
        check("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link");
        check("\x1b]52;c;aGk=\u{9c}x", "x");
        check("\x1bP1$r0m\x1b\\x", "x");
        check("\u{90}dcs\u{9c}x", "x");
        check("\x1b_apc\x1b\\\x1b^pm\x1b\\\x1bXsos\x1b\\x", "x");
        check("\x1b(Bx\x1b7y\x1bcz", "xyz");
        // A string that has no end on its line hides nothing, and the next line may have one.
        check("\u{9d}a\u{90}b\nc\u{9d}hidden\x07d\u{9d}", "ab\ncd");
        check("\u{9d}\x1b[1m\u{9d}hidden\x07x", "x");
        check("\x1b", "");
        check("\x1b\x1b[1m\x1b", "");
        check("\x1bü", "ü");
    }

    #[test]
    fn an_unfinished_sequence_hides_nothing() {
        check("\x1b]0;no end, and more\nnext line", "0;no end, and more\nnext line");
        check("\x1bPno end", "no end");
        check("\x1b]0;aborted\x1b[31mred", "red");
    }

    #[test]
    fn control_characters_are_removed_and_lines_stay() {
        check("a\r\nb", "a\nb");
        check("10%\r20%\r\n", "10%\n20%\n");
        check("a\u{8}\u{7}\u{0}\u{7f}b", "ab");
        check("a\u{85}b\u{2028}c\u{2029}d", "a\nb\nc\nd");
    }

    #[test]
    fn text_cannot_be_reversed_or_hidden() {
        check("if \u{202e}toor\u{202c} \u{2066}x\u{2069}", "if toor x");
        check("a\u{200b}d\u{2060}m\u{feff}in\u{ad}", "admin");
        check("hi\u{e0068}\u{e0069}\u{e01ef}", "hi");
    }

    #[test]
    fn a_cut_keeps_combined_characters_whole() {
        for (text, limit, expect) in [
            ("abc", 3, "abc"),
            ("abc", 2, "ab"),
            ("abc", 0, ""),
            ("äöü", 2, "äö"),
            ("xe\u{301}y", 2, "x"),
            ("xe\u{301}y", 3, "xe\u{301}"),
            ("a👨\u{200d}👩b", 2, "a"),
            ("a👨\u{200d}👩b", 3, "a"),
            ("a👨\u{200d}👩b", 4, "a👨\u{200d}👩"),
            ("👍🏽", 1, ""),
        ] {
            assert_eq!(cut_chars(text, limit), expect, "{text:?} at {limit}");
        }
        // A thousand accents cannot hide the rest of a text.
        assert_eq!(cut_chars(&"\u{301}".repeat(1_000), 50).chars().count(), 50);
    }

    #[test]
    fn one_line_is_one_line() {
        assert_eq!(sanitize_line(" a\n\tb\x1b[1m  c\r", 80, "…"), "a b c");
        assert_eq!(sanitize_line("abcdef", 3, "…"), "abc…");
        assert_eq!(sanitize_line(&"x".repeat(5_000_000), 3, "..."), "xxx...");
    }

    #[test]
    fn columns_are_those_of_a_terminal() {
        for (text, expect) in [("abc", 3), ("日本", 4), ("e\u{301}", 1), ("✅ ok", 5), ("✔", 1)]
        {
            assert_eq!(count_columns(text), expect, "{text}");
        }
        assert_eq!(cut_to_columns("日本語", 5), "日本");
        assert_eq!(cut_to_columns("abc", 3), "abc");
    }

    /// Mostly introducers and terminators of sequences, so that they occur in every order.
    fn hostile() -> impl Strategy<Value = String> {
        let pieces = prop_oneof![
            prop::sample::select(vec![
                "\x1b", "\x1b[", "\x1b]", "\x1bP", "\x1b\\", "\x07", "\u{9b}", "\u{9c}", "\u{9d}",
                "\n", "\r", "31m", ";", "x", "e\u{301}", "\u{200d}", "\u{202e}",
            ])
            .prop_map(str::to_owned),
            any::<char>().prop_map(String::from),
        ];
        prop::collection::vec(pieces, 0..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn nothing_that_acts_gets_through(text in hostile(), limit in 0usize..30) {
            let safe = sanitize_text(&text);
            prop_assert!(safe.chars().all(|it| it == '\n' || it == '\t' || !it.is_control()), "{safe:?}");
            prop_assert_eq!(sanitize_text(&safe), safe.clone(), "harmless text is left alone");
            let line = sanitize_line(&text, limit, "");
            prop_assert!(!line.contains(['\n', '\t', '\x1b']));
            prop_assert!(line.chars().count() <= limit);
            prop_assert!(cut_chars(&text, limit).chars().count() <= limit);
        }

        #[test]
        fn ordinary_text_is_left_alone(text in "[a-zA-Z0-9 äöü日本\n\t.,;<>(){}\\[\\]]{0,60}") {
            prop_assert_eq!(sanitize_text(&text), &text[..]);
        }
    }
}
