//! Keeps the part of a gate's output that prompts, reports and screens show. The log file has the
//! whole output.

use ralph_model::text::{BoundedLines, Excerpt, TRUNCATED, Truncate};

use crate::checking::stuck::is_error_line;

/// Longer lines are read in parts; no tool prints the reason after that many bytes.
const LONGEST_LINE: usize = 2048;

/// The longest part that is kept of the first error between the two ends.
const LONGEST_ERROR: usize = 300;

/// Keeps a bounded part of a streamed output.
///
/// [`Truncate::Head`] and [`Truncate::Tail`] cut at the character. [`Truncate::Both`] keeps whole
/// lines of both ends and, if it would be cut, the first line that reports an error.
#[derive(Debug, Clone)]
pub struct OutputExcerpt {
    part: Truncate,
    ends: Excerpt,
    lines: BoundedLines,
    first_error: Option<String>,
}

impl OutputExcerpt {
    /// Returns an empty excerpt that keeps `limit` characters of the chosen part.
    pub fn new(limit: usize, part: Truncate) -> Self {
        Self {
            part,
            ends: Excerpt::new(limit, part),
            lines: BoundedLines::new(LONGEST_LINE),
            first_error: None,
        }
    }

    /// Processes the next chunk of plain text, cut anywhere.
    pub fn feed_text(&mut self, piece: &str) {
        self.ends.feed_text(piece);
        if self.part == Truncate::Both && self.first_error.is_none() {
            let first_error = &mut self.first_error;
            self.lines.feed_text(piece, |line| keep_error(first_error, line));
        }
    }

    /// Returns the kept text, with a mark where something is missing.
    pub fn to_text(&self) -> String {
        match (self.part, self.ends.cut_ends()) {
            (Truncate::Both, Some((head, tail))) => self.join_ends(head, tail),
            (Truncate::Head | Truncate::Tail | Truncate::Both, _) => self.ends.to_text(),
        }
    }

    fn join_ends(&self, head: &str, tail: &str) -> String {
        let (head, tail) = (drop_last_part(head), drop_first_part(tail));
        let mut first_error = self.first_error.clone();
        self.lines.clone().finish_line(|line| keep_error(&mut first_error, line));
        let is_shown = |error: &String| head.contains(error) || tail.contains(error);
        match first_error.filter(|error| !is_shown(error)) {
            None => format!("{head}\n{TRUNCATED}\n{tail}"),
            Some(error) => {
                // The error replaces the last lines of the head.
                let room = head.chars().count().saturating_sub(error.chars().count());
                let end = head.char_indices().nth(room).map_or(head.len(), |(at, _)| at);
                let head = if end == head.len() { head } else { drop_last_part(&head[..end]) };
                let break_after_head = if head.is_empty() { "" } else { "\n" };
                format!("{head}{break_after_head}{TRUNCATED}\n{error}\n{TRUNCATED}\n{tail}")
            }
        }
    }
}

fn keep_error(first: &mut Option<String>, line: &str) {
    if first.is_none() && is_error_line(line) {
        *first = Some(line.trim().chars().take(LONGEST_ERROR).collect());
    }
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
