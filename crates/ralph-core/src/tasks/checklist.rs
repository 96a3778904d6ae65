//! The check boxes of a Markdown text: what an agent's own plan says is open and done.
//!
//! In doubt an item is shown rather than hidden: a fence or a comment without an end hides nothing,
//! and neither does indentation. Not here: whether the plan is to be believed.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use ralph_model::plan::Counts;
use ralph_model::text;

/// A plan that an agent can work by has fewer; beyond it, items are counted but not kept.
const MOST_ITEMS: usize = 10_000;

/// An item is a line; of a longer one the beginning is shown.
const LONGEST_TEXT: usize = 500;

/// How often text that Markdown takes for code or a comment without an end is read again as text.
const MOST_REREADS: usize = 16;

/// The check boxes of a text, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checklist {
    /// The first 10 000 items.
    pub items: Vec<Item>,
    counts: Counts,
}

/// One check box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its words on one line, bounded, without a comment at their end; never empty.
    pub text: String,
    /// Whether it is done.
    pub mark: Mark,
}

/// What is in a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Nothing.
    Open,
    /// An `x`.
    Done,
    /// A question mark: only a person can do the item.
    Person,
}

impl Checklist {
    /// Reads the check boxes of a Markdown text.
    ///
    /// An item is a box at the beginning of a list item, with text behind it. Text that is struck
    /// through is not to be done, and is no item.
    pub fn read(text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        // Old line ends, which the parser takes for blanks.
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let mut checklist = Self::default();
        let mut unread = vec![text];
        for _ in 0..MOST_REREADS {
            let Some(text) = unread.pop() else { break };
            unread.extend(checklist.read_markdown(&text));
        }
        checklist
    }

    /// Adds the items of a text. Returns the parts of it that Markdown hides in doubt.
    #[expect(clippy::wildcard_enum_match_arm, reason = "a view picks a few events out of many")]
    fn read_markdown(&mut self, text: &str) -> Vec<String> {
        let mut hidden = Vec::new();
        let mut block = None;
        // Markdown knows no third kind of box. Both have the same length, so a range in one
        // text is the same range in the other.
        let known = text.replace("[?]", "[ ]");
        for (event, range) in Parser::new_ext(&known, Options::ENABLE_TASKLISTS).into_offset_iter()
        {
            match event {
                Event::TaskListMarker(is_done) => {
                    let mark = match is_done {
                        true => Mark::Done,
                        false if text[range.clone()].contains('?') => Mark::Person,
                        false => Mark::Open,
                    };
                    self.add(mark, read_rest_of_line(text, range));
                }
                Event::Start(Tag::CodeBlock(kind)) => {
                    block = is_in_doubt(&kind, &text[range]).then(String::new);
                }
                Event::Start(Tag::HtmlBlock) if !text[range.clone()].contains("-->") => {
                    block = Some(String::new());
                }
                Event::Text(_) | Event::Html(_) => {
                    if let Some(block) = &mut block {
                        block.push_str(&text[range]);
                    }
                }
                Event::End(TagEnd::CodeBlock) => hidden.extend(block.take()),
                Event::End(TagEnd::HtmlBlock) => {
                    hidden.extend(block.take().map(|html| html.replacen("<!--", "", 1)));
                }
                _ => {}
            }
        }
        hidden
    }

    /// Returns how many boxes there are, including those that were not kept.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the items that are not done.
    pub fn open(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| item.mark == Mark::Open)
    }

    /// Returns the items that only a person can do.
    pub fn person(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| item.mark == Mark::Person)
    }

    fn add(&mut self, mark: Mark, line: &str) {
        let words = without_last_comment(line.trim());
        if words.is_empty() || is_struck(words) {
            return;
        }
        let count = match mark {
            Mark::Open => &mut self.counts.open,
            Mark::Done => &mut self.counts.done,
            Mark::Person => &mut self.counts.person,
        };
        *count = count.saturating_add(1);
        if self.items.len() < MOST_ITEMS {
            self.items.push(Item { text: text::join_to_line(words, LONGEST_TEXT), mark });
        }
    }
}

/// Returns whether a code block may be meant as text: an indented one, or a fence without an end.
fn is_in_doubt(kind: &CodeBlockKind<'_>, block: &str) -> bool {
    let fence = |line: &str| {
        let line = line.trim_start_matches(|it: char| it == '>' || it.is_whitespace());
        let mark = line.chars().next().unwrap_or_default();
        (mark, line.len() - line.trim_start_matches(mark).len())
    };
    let mut lines = block.trim_end().lines();
    let (mark, length) = fence(lines.next().unwrap_or_default());
    let is_end = |line| matches!(fence(line), (last, long) if last == mark && long >= length);
    matches!(kind, CodeBlockKind::Indented) || !lines.next_back().is_some_and(is_end)
}

/// Returns the text between a marker and the end of its line.
fn read_rest_of_line(text: &str, marker: Range<usize>) -> &str {
    text[marker.end..].lines().next().unwrap_or_default()
}

/// Returns words without a comment at their end, where tools keep their own notes.
fn without_last_comment(words: &str) -> &str {
    match words.strip_suffix("-->").and_then(|rest| rest.rfind("<!--")) {
        Some(at) => words[..at].trim_end(),
        None => words,
    }
}

/// Returns whether words are struck through, up to a remark that says why. Words that follow
/// it, as in `~~one~~ two things`, are what is to be done instead.
fn is_struck(words: &str) -> bool {
    let struck = words.strip_prefix("~~").and_then(|rest| rest.split_once("~~"));
    let is_remark = |text: &str| text.starts_with(['(', '-', '–', '—', ':', ';', ',', '.']);
    struck.is_some_and(|(_, after)| after.is_empty() || is_remark(after.trim_start()))
}

#[cfg(test)]
mod tests;
