//! Escapes foreign text for a page: sanitized, limited in length, without HTML.

use std::fmt::Write as _;

use ralph_core::units::Timestamp;

use crate::sanitize;
use crate::time::WallClock;

/// More than any title or error line needs.
const LONGEST_LINE: usize = 400;

/// Returns a text escaped for HTML and SVG.
pub(crate) fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            character => escaped.push(character),
        }
    }
    escaped
}

/// Returns a text as one escaped line.
pub(super) fn escape_line(text: &str) -> String {
    escape_html(&sanitize::sanitize_line(text, LONGEST_LINE, "…"))
}

/// Returns at most so many characters of a text with its line breaks, and a note on what is
/// missing.
pub(super) fn escape_block(text: &str, most: usize) -> String {
    let kept = sanitize::cut_chars(text, most);
    let mut shown = escape_html(&sanitize::sanitize_text(kept));
    let missing = text.len() - kept.len();
    if missing > 0 {
        let _ = write!(shown, "\n… {missing} more bytes are not shown here");
    }
    shown
}

/// Returns a name as code.
pub(super) fn render_code(text: &str) -> String {
    format!("<code>{}</code>", escape_line(text))
}

/// Returns a time as an HTML element for people and programs.
pub(super) fn render_time(clock: &WallClock, at: Timestamp) -> String {
    format!("<time datetime=\"{}\">{}</time>", at.to_utc(), clock.format_full(at))
}

/// Returns an element id for a foreign name: letters, digits and dashes only.
pub(super) fn make_anchor(kind: &str, name: impl std::fmt::Display) -> String {
    let name: String = name
        .to_string()
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
        .take(60)
        .collect();
    format!("{kind}-{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_escaped() {
        for (text, expect) in [
            ("plain", "plain"),
            (
                "</script><img src=x onerror=alert(1)>",
                "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;",
            ),
            ("\" onfocus='x'", "&quot; onfocus=&#39;x&#39;"),
            ("a\u{202e}b\u{1b}[2Jc\0", "abc"),
            ("one\ntwo", "one two"),
            ("&lt;", "&amp;lt;"),
        ] {
            assert_eq!(escape_line(text), expect);
        }
        assert_eq!(make_anchor("task", "T1\"><b>"), "task-T1---b-");
    }

    #[test]
    fn long_texts_are_cut_with_a_note() {
        assert_eq!(escape_block("a\nb", 10), "a\nb");
        assert_eq!(escape_block("abcdef", 2), "ab\n… 4 more bytes are not shown here");
    }
}
