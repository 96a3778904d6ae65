//! Keeps the part of a gate's output that prompts, reports and screens show. The log file has the
//! whole output.

use ralph_model::text::{BoundedLines, Excerpt, TRUNCATED, Truncate};

use crate::checking::stuck::is_error_line;

/// Longer lines are read in parts; no tool prints the reason after that many bytes.
const LONGEST_LINE: usize = 2048;

/// The longest part that is kept of the line that reports the first error.
const LONGEST_ERROR: usize = 300;

/// Keeps a bounded part of a streamed output.
///
/// [`Truncate::Tail`] cuts at the character, and so does [`Truncate::Head`]. [`Truncate::Both`]
/// keeps whole lines of both ends. The last two also keep the first error, if it would be cut.
#[derive(Debug, Clone)]
pub struct OutputExcerpt {
    part: Truncate,
    ends: Excerpt,
    lines: BoundedLines,
    first_error: FirstError,
}

impl OutputExcerpt {
    /// Returns an empty excerpt that keeps `limit` characters of the chosen part.
    pub fn new(limit: usize, part: Truncate) -> Self {
        Self {
            part,
            ends: Excerpt::new(limit, part),
            lines: BoundedLines::new(LONGEST_LINE),
            first_error: FirstError { text: String::new(), room: limit / 10, is_complete: false },
        }
    }

    /// Processes the next chunk of plain text, cut anywhere.
    pub fn feed_text(&mut self, piece: &str) {
        self.ends.feed_text(piece);
        if self.part != Truncate::Tail && !self.first_error.is_complete {
            let first_error = &mut self.first_error;
            self.lines.feed_text(piece, |line| first_error.take_line(line));
        }
    }

    /// Returns the kept text, with a mark where something is missing.
    pub fn to_text(&self) -> String {
        let mut first_error = self.first_error.clone();
        self.lines.clone().finish_line(|line| first_error.take_line(line));
        let error = first_error.text.trim_end();
        match (self.part, self.ends.cut_ends()) {
            (Truncate::Both, Some((head, tail))) => {
                join_ends(drop_last_part(head), error, drop_first_part(tail))
            }
            (Truncate::Head, Some((head, _))) if !error.is_empty() && !head.contains(error) => {
                format!("{}{TRUNCATED}\n{error}\n{TRUNCATED}", make_room(head, error))
            }
            (Truncate::Head | Truncate::Tail | Truncate::Both, _) => self.ends.to_text(),
        }
    }
}

/// The first line that reports an error, and the lines after it, which often say why.
#[derive(Debug, Clone)]
struct FirstError {
    text: String,
    /// How many characters of further lines are kept.
    room: usize,
    is_complete: bool,
}

impl FirstError {
    fn take_line(&mut self, line: &str) {
        if self.is_complete {
            return;
        }
        let line = line.trim_end();
        if self.text.is_empty() {
            if is_error_line(line) {
                self.text = line.trim().chars().take(LONGEST_ERROR).collect();
                self.room = self.room.saturating_sub(self.text.chars().count());
            }
            return;
        }
        let length = line.chars().count() + 1;
        self.is_complete = length > self.room;
        if !self.is_complete {
            self.room -= length;
            self.text.push('\n');
            self.text.push_str(line);
        }
    }
}

fn join_ends(head: &str, error: &str, tail: &str) -> String {
    if error.is_empty() || head.contains(error) || tail.contains(error) {
        return format!("{head}\n{TRUNCATED}\n{tail}");
    }
    format!("{}{TRUNCATED}\n{error}\n{TRUNCATED}\n{tail}", make_room(head, error))
}

/// Returns the beginning without its last lines, which the error replaces.
fn make_room(head: &str, error: &str) -> String {
    let room = head.chars().count().saturating_sub(error.chars().count());
    let end = head.char_indices().nth(room).map_or(head.len(), |(at, _)| at);
    let head = if end == head.len() { head } else { drop_last_part(&head[..end]) };
    let break_after_head = if head.is_empty() { "" } else { "\n" };
    format!("{head}{break_after_head}")
}

/// Removes a last line that was cut, unless that is most of the text.
fn drop_last_part(head: &str) -> &str {
    match head.rfind('\n') {
        Some(at) if at >= head.len() / 2 => head[..at].trim_end_matches('\r'),
        Some(_) | None => head,
    }
}

/// Removes a first line that was cut, unless that is most of the text.
fn drop_first_part(tail: &str) -> &str {
    match tail.find('\n') {
        Some(at) if at <= tail.len() / 2 => &tail[at + 1..],
        Some(_) | None => tail,
    }
}

/// Returns an output bounded to `limit` characters, with both ends and the first error.
pub fn excerpt_output(output: &str, limit: usize) -> String {
    let mut excerpt = OutputExcerpt::new(limit, Truncate::Both);
    excerpt.feed_text(output);
    excerpt.to_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(count: usize) -> String {
        let lines: Vec<String> = (1..=count).map(|number| format!("line {number:03}\n")).collect();
        lines.concat()
    }

    #[test]
    fn whole_lines_of_both_ends_are_kept() {
        expect_test::expect![[r"
            line 001
            line 002
            ... [truncated]
            line 092
            line 093
            line 094
            line 095
            line 096
            line 097
            line 098
            line 099
        "]]
        .assert_eq(&excerpt_output(&numbered(99), 100));
        assert_eq!(excerpt_output(&numbered(11), 100), numbered(11));
    }

    #[test]
    fn the_first_error_in_the_gap_is_kept() {
        let output = format!("{}ValueError: bad\n{}", numbered(40), numbered(40));
        expect_test::expect![[r"
            ... [truncated]
            ValueError: bad
            ... [truncated]
            line 037
            line 038
            line 039
            line 040
        "]]
        .assert_eq(&excerpt_output(&output, 50));
        let again = excerpt_output(&output, 100);
        assert!(again.contains("ValueError: bad"), "{again}");
        assert!(again.chars().count() <= 100 + 2 * (TRUNCATED.len() + 2), "{again}");
    }

    #[test]
    fn an_error_that_is_shown_already_is_not_repeated() {
        let output = format!("Error: early\n{}Error: late\n", numbered(99));
        let kept = excerpt_output(&output, 100);
        assert_eq!(kept.matches("Error: early").count(), 1, "{kept}");
        assert_eq!(kept.matches(TRUNCATED).count(), 1, "{kept}");
        assert!(kept.ends_with("Error: late\n"), "{kept}");
    }

    #[test]
    fn lines_without_an_end_are_cut_at_characters() {
        let kept = excerpt_output(&"ä".repeat(1000), 10);
        assert_eq!(kept, format!("ää\n{TRUNCATED}\n{}", "ä".repeat(8)));
    }

    #[test]
    fn other_parts_are_cut_at_the_character() {
        for (part, expect) in [
            (Truncate::Head, "line 001\nl... [truncated]"),
            (Truncate::Tail, "... [truncated]\n\nline 099\n"),
        ] {
            let mut excerpt = OutputExcerpt::new(10, part);
            excerpt.feed_text(&numbered(99));
            assert_eq!(excerpt.to_text(), expect);
        }
    }

    #[test]
    fn the_lines_after_the_first_error_are_kept() {
        let failure = "not ok 61 - adds\n  ---\n  error: 'sum is wrong'\n  expected: 3\n";
        let output =
            format!("> a@1.0.0 test\n> node --test\n{}{failure}{}", numbered(99), numbered(99));
        for part in [Truncate::Both, Truncate::Head] {
            let mut excerpt = OutputExcerpt::new(800, part);
            excerpt.feed_text(&output);
            let kept = excerpt.to_text();
            assert!(kept.contains(&format!("{TRUNCATED}\n{failure}")), "{kept}");
            assert!(kept.chars().count() <= 800 + 2 * (TRUNCATED.len() + 2), "{kept}");
        }
    }

    proptest::proptest! {
        #[test]
        fn pieces_do_not_matter(
            pieces in proptest::collection::vec("(line\n|Error: x\n|[aä\n]{0,9}){0,4}", 0..12),
            limit in 0usize..60,
        ) {
            let mut excerpt = OutputExcerpt::new(limit, Truncate::Both);
            for piece in &pieces {
                excerpt.feed_text(piece);
            }
            proptest::prop_assert_eq!(excerpt.to_text(), excerpt_output(&pieces.concat(), limit));
        }
    }
}
