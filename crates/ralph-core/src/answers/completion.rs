//! The completion signal: `<response>TEXT</response>` or `<promise>TEXT</promise>`.
//!
//! The scanner works on streamed text and keeps only a few hundred bytes, so a tag is
//! found wherever it is and however the text is split. Not here: which text counts. Only
//! the agent's own final answer is ever fed to it.

/// Longer content of a tag is no completion text. It bounds what a scanner keeps.
const MAX_CONTENT_BYTES: usize = 1_000;

/// The two tags, opened and closed; both are read in any case.
const TAGS: [(&str, &str); 2] = [("<response>", "</response>"), ("<promise>", "</promise>")];

/// Returns whether a text names one of the tags, in any case.
pub fn has_completion_tag(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    TAGS.iter().any(|(open, _)| text.contains(open.trim_end_matches('>')))
}

/// Returns the trimmed content of the first completion tag in a text.
pub fn find_signal(text: &str) -> Option<String> {
    let mut scanner = TagScanner::new();
    scanner.feed(text);
    scanner.found().map(str::to_owned)
}

/// Returns the trimmed content of every completion tag in a text.
pub fn find_signals(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('<').filter_map(|(at, _)| match parse_tag(&text[at..]) {
        TagAt::Whole(content) => Some(content.trim()),
        TagAt::Unfinished | TagAt::None => None,
    })
}

/// Returns whether a signal means that the work is complete.
pub fn is_match(signal: &str, completion_response: &str) -> bool {
    signal.trim().to_lowercase() == completion_response.trim().to_lowercase()
}

/// Finds the first complete completion tag in a text that arrives in pieces.
///
/// An opening tag without its end does not count, and neither does one whose content is
/// longer than any completion text; the search continues behind it.
#[derive(Debug, Clone, Default)]
pub struct TagScanner {
    /// Text that may still become part of a tag: at most an opening tag, its content, a
    /// closing tag.
    pending: String,
    found: Option<String>,
}

impl TagScanner {
    /// Returns a scanner that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the trimmed content of the first tag, once it is complete.
    pub fn found(&self) -> Option<&str> {
        self.found.as_deref()
    }

    /// Scans the next piece.
    pub fn feed(&mut self, piece: &str) {
        if self.found.is_some() {
            return;
        }
        // Usually nothing is pending, and the piece need not be copied to be searched.
        if self.pending.is_empty() {
            return self.search_tag(piece);
        }
        let mut text = std::mem::take(&mut self.pending);
        text.push_str(piece);
        self.search_tag(&text);
    }

    fn search_tag(&mut self, text: &str) {
        match find_first_tag(text) {
            TagSearch::Whole(content) => self.found = Some(content.trim().to_owned()),
            TagSearch::Unfinished(at) => text[at..].clone_into(&mut self.pending),
            TagSearch::Nothing => {}
        }
    }
}

/// The result of a search for a tag.
enum TagSearch<'a> {
    /// The content of the first whole tag.
    Whole(&'a str),
    /// An incomplete tag begins here.
    Unfinished(usize),
    Nothing,
}

/// Searches a text for the first tag.
fn find_first_tag(text: &str) -> TagSearch<'_> {
    let mut from = 0;
    while let Some(at) = text[from..].find('<').map(|at| from + at) {
        match parse_tag(&text[at..]) {
            TagAt::Whole(content) => return TagSearch::Whole(content),
            TagAt::Unfinished => return TagSearch::Unfinished(at),
            TagAt::None => from = at + 1,
        }
    }
    TagSearch::Nothing
}

enum TagAt<'a> {
    Whole(&'a str),
    Unfinished,
    None,
}

/// Checks for a tag at the start of a text that begins with `<`.
fn parse_tag(text: &str) -> TagAt<'_> {
    let mut is_possible = false;
    for (open, close) in TAGS {
        let start = &text.as_bytes()[..text.len().min(open.len())];
        if !start.eq_ignore_ascii_case(&open.as_bytes()[..start.len()]) {
            continue;
        }
        if start.len() < open.len() {
            is_possible = true;
            continue;
        }
        let rest = &text[open.len()..];
        return match find_ignoring_case(rest, close) {
            Some(end) if end <= MAX_CONTENT_BYTES => TagAt::Whole(&rest[..end]),
            None if rest.len() <= MAX_CONTENT_BYTES + close.len() => TagAt::Unfinished,
            Some(_) | None => TagAt::None,
        };
    }
    if is_possible { TagAt::Unfinished } else { TagAt::None }
}

fn find_ignoring_case(text: &str, lower: &str) -> Option<usize> {
    let window = &text.as_bytes()[..text.len().min(MAX_CONTENT_BYTES + 2 * lower.len())];
    // Every tag begins with this; a flood of tags that open and never close must not be slow.
    memchr::memchr_iter(b'<', window).find(|at| {
        let slice = window.get(*at..*at + lower.len());
        slice.is_some_and(|slice| slice.eq_ignore_ascii_case(lower.as_bytes()))
    })
}

/// Removes exact echoes of a prompt from a text that arrives in pieces.
///
/// An agent without a format of its own may repeat the prompt, and a prompt usually names
/// the completion tag. Memory use is that of the prompt, however much is printed.
#[derive(Debug, Clone)]
pub struct EchoFilter {
    prompt: Vec<u8>,
    /// For each length of a matched beginning, the longest shorter one that also matches.
    fallback: Vec<usize>,
    matched: usize,
}

impl EchoFilter {
    /// Returns a filter for this prompt. A prompt without a completion tag needs none:
    /// its echo is harmless, and a short one might be part of a real answer.
    pub fn new(prompt: &str) -> Self {
        let prompt = if find_signal(prompt).is_some() {
            prompt.trim().as_bytes().to_vec()
        } else {
            Vec::new()
        };
        let mut fallback = vec![0; prompt.len() + 1];
        let mut length = 0;
        for at in 1..prompt.len() {
            while length > 0 && prompt[at] != prompt[length] {
                length = fallback[length];
            }
            if prompt[at] == prompt[length] {
                length += 1;
            }
            fallback[at + 1] = length;
        }
        Self { prompt, fallback, matched: 0 }
    }

    /// Returns whether a piece can be passed on unchanged: no echo is under way, and none
    /// begins in it. The next piece may be fed without this one.
    pub fn can_pass(&self, piece: &[u8]) -> bool {
        self.matched == 0 && (self.prompt.is_empty() || self.find_echo_start(piece).is_none())
    }

    /// Returns where an echo may begin: two bytes of the prompt, or one at the end.
    fn find_echo_start(&self, piece: &[u8]) -> Option<usize> {
        let first = self.prompt.first()?;
        let second = self.prompt.get(1);
        let mut from = 0;
        while let Some(at) = piece[from..].iter().position(|byte| byte == first) {
            let next = piece.get(from + at + 1);
            if next.is_none() || next == second {
                return Some(from + at);
            }
            from += at + 1;
        }
        None
    }

    /// Filters the next piece and returns what is certainly no echo.
    pub fn feed(&mut self, piece: &[u8]) -> Vec<u8> {
        if self.prompt.is_empty() {
            return piece.to_vec();
        }
        let mut passed = Vec::with_capacity(piece.len());
        let mut rest = piece;
        loop {
            if self.matched == 0 {
                let Some(at) = self.find_echo_start(rest) else {
                    passed.extend_from_slice(rest);
                    return passed;
                };
                passed.extend_from_slice(&rest[..at]);
                rest = &rest[at..];
            }
            let Some((&byte, after)) = rest.split_first() else {
                return passed;
            };
            rest = after;
            while self.matched > 0 && byte != self.prompt[self.matched] {
                let shorter = self.fallback[self.matched];
                passed.extend_from_slice(&self.prompt[..self.matched - shorter]);
                self.matched = shorter;
            }
            if byte == self.prompt[self.matched] {
                self.matched += 1;
                if self.matched == self.prompt.len() {
                    self.matched = 0;
                }
            } else {
                passed.push(byte);
            }
        }
    }

    /// Returns what was held back: the beginning of an incomplete echo.
    pub fn finish(self) -> Vec<u8> {
        self.prompt[..self.matched].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::answers::completion::{EchoFilter, TagScanner, find_signal, is_match};

    #[track_caller]
    fn check(text: &str, expect: Option<&str>) {
        assert_eq!(find_signal(text).as_deref(), expect, "whole: {text:?}");
        let mut scanner = TagScanner::new();
        for character in text.chars() {
            scanner.feed(character.encode_utf8(&mut [0; 4]));
        }
        assert_eq!(scanner.found(), expect, "character by character: {text:?}");
    }

    #[test]
    fn the_first_whole_tag_decides() {
        check("", None);
        check("all done", None);
        check("<response>DONE</response>", Some("DONE"));
        check("<RESPONSE> done \n</Response>", Some("done"));
        check("x <promise>COMPLETE</promise> y", Some("COMPLETE"));
        check("<response>NOT DONE</response><response>DONE</response>", Some("NOT DONE"));
        check("<response>DONE", None);
        check("<response>DONE</promise>", None);
        check("<<response>DONE</response>", Some("DONE"));
        check("<responses>DONE</responses>", None);
        check("<response>a<response>b</response>", Some("a<response>b"));
        check("ünï <response>dönë</response>", Some("dönë"));
        check("<résponse>DONE</résponse>", None);
        check("<response></response>", Some(""));
    }

    #[test]
    fn overlong_content_is_no_signal() {
        let long = "x".repeat(5_000);
        check(&format!("<response>{long}</response> <promise>DONE</promise>"), Some("DONE"));
    }

    #[test]
    fn only_the_exact_response_matches() {
        assert!(is_match(" done ", "DONE"));
        assert!(!is_match("NOT DONE", "DONE"));
        assert!(!is_match("DONE.", "DONE"));
        assert!(!is_match("", "DONE"));
    }

    #[track_caller]
    fn check_echo(prompt: &str, output: &str, expect: &str) {
        let mut filter = EchoFilter::new(prompt);
        let mut passed = filter.feed(output.as_bytes());
        passed.extend(filter.finish());
        assert_eq!(String::from_utf8_lossy(&passed), expect);
    }

    #[test]
    fn an_exact_echo_is_removed() {
        let prompt = "Say <response>DONE</response> at the end.";
        check_echo(prompt, &format!("> {prompt}\nworking"), "> \nworking");
        check_echo(prompt, "Say <response>DONE</response>", "Say <response>DONE</response>");
        check_echo(prompt, &format!("Say Say {prompt}{prompt}!"), "Say Say !");
        check_echo("no tag", "no tag in no tag", "no tag in no tag");
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(text in "[<>/a-c ]{0,40}(<response>|</response>|<promise>|</promise>|DONE|<){0,8}", cut in 0usize..80) {
            let whole = find_signal(&text);
            let cut = text.char_indices().map(|(at, _)| at).nth(cut).unwrap_or(text.len());
            let mut scanner = TagScanner::new();
            scanner.feed(&text[..cut]);
            scanner.feed(&text[cut..]);
            prop_assert_eq!(scanner.found().map(str::to_owned), whole);
        }

        #[test]
        fn an_echo_filter_equals_replacing(prompt in "[ab]{0,4}<response>a</response>[ab]{0,3}", output in "([ab]|<response>a</response>){0,12}") {
            let mut filter = EchoFilter::new(&prompt);
            let mut passed = Vec::new();
            for byte in output.as_bytes() {
                passed.extend(filter.feed(&[*byte]));
            }
            passed.extend(filter.finish());
            prop_assert_eq!(String::from_utf8(passed).expect("ASCII"), output.replace(prompt.trim(), ""));
        }
    }
}
