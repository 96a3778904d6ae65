//! Text for people and prompts: bounded excerpts of output, words quoted for a shell, plurals.

use serde::{Deserialize, Serialize};

/// Marks where something was cut.
pub const TRUNCATED: &str = "... [truncated]";

/// The bytes held for each character of the end: more bytes mean less frequent cutting.
const SPARE_BYTES: usize = 8;

/// Which part of a gate's output is kept in the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Truncate {
    /// The beginning.
    #[default]
    Head,
    /// The end.
    Tail,
    /// The first lines, the first error and, most of all, the end, where test runners put the
    /// failure.
    Both,
}

/// Keeps a bounded number of characters of a streamed text.
///
/// The text between the beginning and the end is never inspected, so a long chunk costs no more
/// than what is kept of it.
#[derive(Debug, Clone)]
pub struct Excerpt {
    head_limit: usize,
    tail_limit: usize,
    head: String,
    head_chars: usize,
    /// The end of the text and some text before it, so that cutting is rare.
    tail: String,
    /// Whether something between the two was dropped already.
    is_dropped: bool,
}

impl Excerpt {
    /// Returns an empty excerpt that keeps `limit` characters of the chosen part.
    pub fn new(limit: usize, part: Truncate) -> Self {
        match part {
            Truncate::Head => Self::with_ends(limit, 0),
            Truncate::Tail => Self::with_ends(0, limit),
            Truncate::Both => Self::with_ends(limit / 5, limit - limit / 5),
        }
    }

    /// Returns an empty excerpt that keeps the given numbers of characters of both ends.
    pub fn with_ends(head_limit: usize, tail_limit: usize) -> Self {
        Self {
            head_limit,
            tail_limit,
            head: String::new(),
            head_chars: 0,
            tail: String::new(),
            is_dropped: false,
        }
    }

    /// Returns an empty excerpt that keeps as much of the beginning as of the end.
    pub fn with_equal_ends(limit: usize) -> Self {
        Self::with_ends(limit - limit / 2, limit / 2)
    }

    /// Processes the next chunk.
    pub fn feed_text(&mut self, piece: &str) {
        let (start, taken) = take_first_chars(piece, self.head_limit - self.head_chars);
        self.head.push_str(start);
        self.head_chars += taken;
        let rest = &piece[start.len()..];
        // A character has at most four bytes, so something can be dropped whenever this is full.
        let room = self.tail_limit * SPARE_BYTES;
        if self.tail.len() + rest.len() <= room {
            self.tail.push_str(rest);
            return;
        }
        let end = take_last_chars(rest, self.tail_limit);
        if end.len() < rest.len() {
            self.tail.clear();
            self.is_dropped = true;
        }
        self.tail.push_str(end);
        if self.tail.len() > room {
            self.tail.drain(..self.tail.len() - self.take_tail().len());
            self.is_dropped = true;
        }
    }

    /// Returns the part of the end that is kept.
    fn take_tail(&self) -> &str {
        take_last_chars(&self.tail, self.tail_limit)
    }

    /// Returns whether something was cut.
    pub fn is_cut(&self) -> bool {
        self.is_dropped || self.take_tail().len() < self.tail.len()
    }

    /// Returns the beginning and the end, if something between them was cut.
    pub fn cut_ends(&self) -> Option<(&str, &str)> {
        self.is_cut().then(|| (self.head.as_str(), self.take_tail()))
    }

    /// Returns the kept text, with the mark only if something is missing.
    pub fn to_text(&self) -> String {
        let tail = self.take_tail();
        match (self.is_cut(), self.tail_limit, self.head_limit) {
            (false, _, _) => format!("{}{tail}", self.head),
            (true, 0, _) => format!("{}{TRUNCATED}", self.head),
            (true, _, 0) => format!("{TRUNCATED}\n{tail}"),
            (true, _, _) => format!("{}\n{TRUNCATED}\n{tail}", self.head),
        }
    }
}

/// Splits a streamed text into lines, and passes each on without its line end.
///
/// A line longer than the limit is passed on in parts, cut after a space if it has one, so memory
/// stays bounded.
#[derive(Debug, Clone)]
pub struct BoundedLines {
    limit: usize,
    /// The beginning of an unfinished line; shorter than the limit.
    held: String,
}

impl BoundedLines {
    /// Returns a splitter for lines of at most `limit` bytes, which is at least 16.
    pub fn new(limit: usize) -> Self {
        Self { limit: limit.max(16), held: String::new() }
    }

    /// Processes the next chunk.
    pub fn feed_text(&mut self, piece: &str, mut each: impl FnMut(&str)) {
        let mut rest = piece;
        while let Some((line, after)) = rest.split_once('\n') {
            rest = after;
            if self.held.is_empty() && line.len() < self.limit {
                each(strip_return(line));
            } else {
                self.hold_part(line, &mut each);
                each(strip_return(&self.held));
                self.held.clear();
            }
        }
        self.hold_part(rest, &mut each);
    }

    /// Passes on a last line without a line end.
    pub fn finish_line(&mut self, mut each: impl FnMut(&str)) {
        if !self.held.is_empty() {
            each(strip_return(&std::mem::take(&mut self.held)));
        }
    }

    fn hold_part(&mut self, mut part: &str, each: &mut impl FnMut(&str)) {
        while self.held.len() + part.len() >= self.limit {
            let mut room = self.limit - self.held.len();
            while !part.is_char_boundary(room) {
                room -= 1;
            }
            let (fits, after) = part.split_at(room);
            self.held.push_str(fits);
            part = after;
            let cut = self.held.rfind(' ').map_or(self.held.len(), |at| at + 1);
            each(&self.held[..cut]);
            self.held.drain(..cut);
        }
        self.held.push_str(part);
    }
}

fn strip_return(line: &str) -> &str {
    line.strip_suffix('\r').unwrap_or(line)
}

/// Returns a text bounded to `limit` characters, with its beginning and its end.
pub fn excerpt_text(text: &str, limit: usize) -> String {
    let mut excerpt = Excerpt::with_equal_ends(limit);
    excerpt.feed_text(text);
    excerpt.to_text()
}

/// Returns command line words quoted for a shell, for people to copy.
pub fn quote_for_shell(words: &[String]) -> String {
    words.iter().map(|word| quote_word(word)).collect::<Vec<_>>().join(" ")
}

/// Returns a word quoted for a shell if needed.
pub fn quote_word(word: &str) -> String {
    let is_plain = |it: char| it.is_alphanumeric() || "-_./=:,@%+{}".contains(it);
    // `{prompt}` stands for itself; `{a,b}` and `{1..3}` are several words to a shell.
    let is_expanded = word.contains('{') && (word.contains(',') || word.contains(".."));
    if !word.is_empty() && word.chars().all(is_plain) && !is_expanded {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Returns the ending of a noun after a count.
pub fn choose_plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Removes HTML comments from a Markdown text, and empty lines at its ends. An unclosed comment
/// extends to the end of the text.
pub fn strip_comments(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("<!--") {
        kept.push_str(before);
        rest = comment.split_once("-->").map_or("", |(_, after)| after);
        // A line that consists of comments is removed completely.
        let is_alone = kept.rsplit('\n').next().is_none_or(|line| line.trim().is_empty());
        let end = rest.trim_start_matches([' ', '\t', '\r']).strip_prefix('\n');
        if is_alone && let Some(after) = end {
            kept.truncate(kept.trim_end_matches([' ', '\t']).len());
            rest = after;
        }
    }
    kept.push_str(rest);
    kept.trim_end().trim_start_matches(['\n', '\r']).to_owned()
}

/// Joins a text into one line of at most `limit` characters, with single spaces.
pub fn join_to_line(text: &str, limit: usize) -> String {
    shorten_to_line(&text.split_whitespace().collect::<Vec<_>>().join(" "), limit)
}

/// Returns the first `count` characters of a text, and their actual number.
fn take_first_chars(text: &str, count: usize) -> (&str, usize) {
    if text.len() <= count {
        return (text, text.chars().count());
    }
    let mut characters = text.chars();
    match count.checked_sub(1).map(|before| characters.nth(before)) {
        None => ("", 0),
        Some(Some(_)) => (&text[..text.len() - characters.as_str().len()], count),
        Some(None) => (text, text.chars().count()),
    }
}

/// Returns the last `count` characters of a text.
fn take_last_chars(text: &str, count: usize) -> &str {
    if text.len() <= count {
        return text;
    }
    // Every byte that is not a continuation byte begins a character.
    let begins = |byte: u8| byte & 0xc0 != 0x80;
    let mut left = count;
    let mut start = text.len();
    while left > 0 && start > 0 {
        start -= 1;
        left -= usize::from(begins(text.as_bytes()[start]));
    }
    &text[start..]
}

/// Returns the first `limit` characters of a text on one line, as a preview.
pub fn shorten_to_line(text: &str, limit: usize) -> String {
    let line: String = text
        .chars()
        .take(limit)
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    let is_longer = text.len() > limit && text.chars().nth(limit).is_some();
    if is_longer { format!("{line}…") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_a_shell_needs_them() {
        for (word, expect) in [
            ("--model", "--model"),
            ("{prompt}", "{prompt}"),
            ("", "''"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
            ("a{b,c}", "'a{b,c}'"),
            ("{1..3}", "'{1..3}'"),
        ] {
            assert_eq!(quote_word(word), expect);
        }
    }

    #[track_caller]
    fn check(text: &str, limit: usize, part: Truncate, expect: &str) {
        let mut whole = Excerpt::new(limit, part);
        whole.feed_text(text);
        assert_eq!(whole.to_text(), expect);
        let mut pieces = Excerpt::new(limit, part);
        for character in text.chars() {
            pieces.feed_text(character.encode_utf8(&mut [0; 4]));
        }
        assert_eq!(pieces.to_text(), expect, "in pieces");
    }

    #[test]
    fn truncation_counts_characters_and_is_marked() {
        check("äöüß", 4, Truncate::Head, "äöüß");
        check("äöüßé", 4, Truncate::Head, "äöüß... [truncated]");
        check("äöüßé", 2, Truncate::Tail, "... [truncated]\nßé");
        check("123456789", 5, Truncate::Both, "1\n... [truncated]\n6789");
        check("1234", 4, Truncate::Both, "1234");
        check("", 4, Truncate::Tail, "");
        check("abc", 0, Truncate::Head, "... [truncated]");
    }

    proptest::proptest! {
        #[test]
        fn an_excerpt_equals_cutting_the_whole(
            pieces in proptest::collection::vec("[aä€]{0,9}", 0..12),
            limit in 0usize..12,
        ) {
            let whole: Vec<char> = pieces.concat().chars().collect();
            for part in [Truncate::Head, Truncate::Tail, Truncate::Both] {
                let mut excerpt = Excerpt::new(limit, part);
                for piece in &pieces {
                    excerpt.feed_text(piece);
                }
                let kept: String = excerpt.to_text().replace(TRUNCATED, "").replace('\n', "");
                let (head, tail) = match part {
                    Truncate::Head => (limit, 0),
                    Truncate::Tail => (0, limit),
                    Truncate::Both => (limit / 5, limit - limit / 5),
                };
                let expect: String = if whole.len() <= limit {
                    whole.iter().collect()
                } else {
                    whole[..head].iter().chain(&whole[whole.len() - tail..]).collect()
                };
                proptest::prop_assert_eq!(kept, expect);
                proptest::prop_assert_eq!(excerpt.is_cut(), whole.len() > limit);
            }
        }
    }

    fn lines(pieces: &[&str], limit: usize) -> Vec<String> {
        let mut cut = BoundedLines::new(limit);
        let mut found = Vec::new();
        for piece in pieces {
            cut.feed_text(piece, |line| found.push(line.to_owned()));
        }
        cut.finish_line(|line| found.push(line.to_owned()));
        found
    }

    #[test]
    fn lines_are_cut_at_their_ends_and_long_ones_at_spaces() {
        assert_eq!(lines(&["one\r\ntwo\n\nend"], 64), ["one", "two", "", "end"]);
        assert_eq!(lines(&["12345678 abcdefghijk\n"], 16), ["12345678 ", "abcdefghijk"]);
        assert_eq!(lines(&["ääääääääää\n"], 16), ["ääääääää", "ää"]);
    }

    proptest::proptest! {
        #[test]
        fn lines_do_not_depend_on_the_pieces(pieces in proptest::collection::vec("[aä \r\n]{0,30}", 0..12)) {
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let whole = pieces.concat();
            proptest::prop_assert_eq!(lines(&pieces, 16), lines(&[&whole], 16));
            proptest::prop_assert!(lines(&[&whole], 16).iter().all(|line| line.len() <= 16));
        }
    }

    #[test]
    fn comments_are_removed() {
        for (text, expect) in [
            ("", ""),
            ("a\nb\n", "a\nb"),
            ("<!-- a\nb -->\n\nc <!-- d --> e\n", "c  e"),
            ("a\n  <!-- b --> \nc", "a\nc"),
            ("a\n<!-- b --> c", "a\n c"),
            ("a <!-- b", "a"),
            ("a -->", "a -->"),
        ] {
            assert_eq!(strip_comments(text), expect, "{text:?}");
        }
    }

    #[test]
    fn one_line_is_one_line() {
        assert_eq!(join_to_line(" a\n\n b\tc ", 80), "a b c");
        assert_eq!(join_to_line("a b c", 3), "a b…");
    }

    #[test]
    fn a_glance_is_one_line() {
        assert_eq!(shorten_to_line("one\ntwo\u{1b}[31m", 6), "one tw…");
        assert_eq!(shorten_to_line("short", 6), "short");
    }
}
