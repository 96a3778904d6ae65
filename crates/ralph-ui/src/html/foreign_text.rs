//! Prepares foreign text for a page: sanitized and limited in length. `maud` escapes it.

use maud::{Markup, html};
use ralph_model::units::Timestamp;

use crate::sanitize;
use crate::time::WallClock;

/// More than any title or error line needs.
const LONGEST_LINE: usize = 400;

/// Returns a text as one line.
pub(super) fn clean_line(text: &str) -> String {
    sanitize::sanitize_line(text, LONGEST_LINE, "…")
}

/// Returns at most so many characters of a text with its line breaks, and a note on what is
/// missing.
pub(super) fn clean_block(text: &str, most: usize) -> String {
    let kept = sanitize::cut_chars(text, most);
    let mut shown = sanitize::sanitize_text(kept).into_owned();
    let missing = text.len() - kept.len();
    if missing > 0 {
        shown.push_str(&format!("\n… {missing} more bytes are not shown here"));
    }
    shown
}

/// Returns a name as code.
pub(super) fn render_code(text: &str) -> Markup {
    html! { code { (clean_line(text)) } }
}

/// Returns a time as an HTML element for people and programs.
pub(super) fn render_time(clock: &WallClock, at: Timestamp) -> Markup {
    html! { time datetime=(at.to_utc()) { (clock.format_full(at)) } }
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
            // Attributes are always in double quotes.
            ("\" onfocus='x'", "&quot; onfocus='x'"),
            ("a\u{202e}b\u{1b}[2Jc\0", "abc"),
            ("one\ntwo", "one two"),
            ("&lt;", "&amp;lt;"),
        ] {
            let html = html! { p title=(clean_line(text)) { (clean_line(text)) } };
            assert_eq!(html.into_string(), format!("<p title=\"{expect}\">{expect}</p>"));
        }
        assert_eq!(make_anchor("task", "T1\"><b>"), "task-T1---b-");
    }

    #[test]
    fn long_texts_are_cut_with_a_note() {
        assert_eq!(clean_block("a\nb", 10), "a\nb");
        assert_eq!(clean_block("abcdef", 2), "ab\n… 4 more bytes are not shown here");
    }
}
