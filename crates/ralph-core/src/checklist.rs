//! The check boxes of a Markdown text: what an agent's own plan says is open and done.
//!
//! Where Markdown leaves a doubt, an item is shown rather than hidden: a fence or a comment that
//! nobody closed hides nothing, and neither does indentation. Not here: other marks than those
//! of GitHub's task lists, and whether the plan is to be believed.

use serde::{Deserialize, Serialize};

use crate::text;

/// A plan that an agent can work by has fewer; beyond it, items are counted but not kept.
const MOST_ITEMS: usize = 10_000;

/// An item is a line; what is longer is shown by its beginning.
const LONGEST_TEXT: usize = 500;

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
}

/// How far a text is, in check boxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Boxes without a mark.
    pub open: u32,
    /// Boxes with one.
    pub done: u32,
}

impl Checklist {
    /// Reads the check boxes of a Markdown text, in time that grows with its length.
    ///
    /// An item is a box at the beginning of a list item, with words behind it. Words that are
    /// struck through are not to be done, and no item.
    pub fn read(text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let closers = [Closers::of(text, '`'), Closers::of(text, '~')];
        let last_comment_end = text.rfind("-->");
        let mut checklist = Self::default();
        let mut within = Within::Text;
        for (at, line) in lines(text) {
            within = match within {
                Within::Fence(fence) if closing(line).is_some_and(|it| it.closes(fence)) => {
                    Within::Text
                }
                Within::Fence(fence) => Within::Fence(fence),
                Within::Comment if line.contains("-->") => Within::Text,
                Within::Comment => Within::Comment,
                Within::Text => {
                    let (place, content) = behind_markers(line);
                    let ends_later = |after: usize| last_comment_end >= Some(at + after);
                    match opening(content) {
                        Some(fence) if closers.iter().any(|it| it.close(fence, at)) => {
                            Within::Fence(fence)
                        }
                        None if content.starts_with("<!--") => {
                            // `<!-->` is a whole comment.
                            let is_whole = content[2..].contains("-->");
                            let goes_on = !is_whole && ends_later(line.len());
                            if goes_on { Within::Comment } else { Within::Text }
                        }
                        Some(_) | None => {
                            checklist.take(place, content);
                            Within::Text
                        }
                    }
                }
            };
        }
        checklist
    }

    /// Returns how many boxes there are, those that were not kept included.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the items that are not done.
    pub fn open(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| item.mark == Mark::Open)
    }

    fn take(&mut self, place: Place, content: &str) {
        let (Place::ListItem, Some((mark, words))) = (place, boxed(content)) else { return };
        let count = match mark {
            Mark::Open => &mut self.counts.open,
            Mark::Done => &mut self.counts.done,
        };
        *count = count.saturating_add(1);
        if self.items.len() < MOST_ITEMS {
            self.items.push(Item { text: text::join_to_line(words, LONGEST_TEXT), mark });
        }
    }
}

impl Counts {
    /// Returns how many boxes there are.
    pub fn total(self) -> u32 {
        self.open.saturating_add(self.done)
    }
}

/// What a line stands in.
#[derive(Debug, Clone, Copy)]
enum Within {
    Text,
    Fence(Fence),
    Comment,
}

/// What the content of a line belongs to.
#[derive(Debug, Clone, Copy)]
enum Place {
    Paragraph,
    ListItem,
}

/// A run of the characters that fence code.
#[derive(Debug, Clone, Copy)]
struct Fence {
    mark: char,
    length: usize,
}

impl Fence {
    fn closes(self, opened: Self) -> bool {
        self.mark == opened.mark && self.length >= opened.length
    }
}

/// For each length, where the last line is that closes a fence of this length: without it,
/// every fence that is never closed would be a search to the end of the text.
#[derive(Debug)]
struct Closers {
    mark: char,
    /// Length and place, the last line of the text first: lengths grow, places fall.
    last: Vec<(usize, usize)>,
}

impl Closers {
    fn of(text: &str, mark: char) -> Self {
        let mut last: Vec<(usize, usize)> = Vec::new();
        let mut end = text.len();
        for line in text.rsplit(ENDS) {
            let at = end - line.len();
            let fence = closing(line).filter(|fence| fence.mark == mark);
            if let Some(Fence { length, .. }) = fence
                && last.last().is_none_or(|(longest, _)| length > *longest)
            {
                last.push((length, at));
            }
            end = at.saturating_sub(1);
        }
        Self { mark, last }
    }

    /// Returns whether a fence on the line at a place is closed by a later one.
    fn close(&self, fence: Fence, at: usize) -> bool {
        let first = self.last.partition_point(|(length, _)| *length < fence.length);
        self.mark == fence.mark && self.last.get(first).is_some_and(|(_, place)| *place > at)
    }
}

/// A carriage return and a newline are two ends; the empty line between them says nothing.
const ENDS: [char; 2] = ['\n', '\r'];

/// Returns the lines of a text and where they begin.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut next = 0;
    text.split(ENDS).map(move |line| {
        let at = next;
        next += line.len() + 1;
        (at, line)
    })
}

/// Returns what stands behind indentation, quote marks and list markers.
fn behind_markers(line: &str) -> (Place, &str) {
    let (mut place, mut rest) = (Place::Paragraph, line.trim_start());
    loop {
        (place, rest) = match (rest.strip_prefix('>'), behind_list_marker(rest)) {
            (Some(after), _) => (Place::Paragraph, after.trim_start()),
            (None, Some(after)) => (Place::ListItem, after.trim_start()),
            (None, None) => return (place, rest),
        };
    }
}

/// Returns what follows `- `, `* `, `+ `, `1. ` or `1) `.
fn behind_list_marker(text: &str) -> Option<&str> {
    // Markdown has no longer numbers.
    let digits = text.bytes().take(10).take_while(u8::is_ascii_digit).count();
    let marks: &[char] = match digits {
        0 => &['-', '*', '+'],
        1..=9 => &['.', ')'],
        _ => return None,
    };
    text[digits..].strip_prefix(marks).filter(|rest| rest.starts_with([' ', '\t']))
}

/// Returns the fence that a line's content opens.
fn opening(content: &str) -> Option<Fence> {
    let (fence, info) = fence(content)?;
    // With a backtick behind it, it is code within a line.
    (fence.mark == '~' || !info.contains('`')).then_some(fence)
}

/// Returns the fence that a line closes, if it is as long as the one that was opened.
fn closing(line: &str) -> Option<Fence> {
    let content = line.trim_start_matches(|it: char| it == '>' || it.is_whitespace());
    fence(content).and_then(|(fence, rest)| rest.trim().is_empty().then_some(fence))
}

fn fence(content: &str) -> Option<(Fence, &str)> {
    let mark = content.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let rest = content.trim_start_matches(mark);
    let length = content.len() - rest.len();
    (length >= 3).then_some((Fence { mark, length }, rest))
}

/// Returns the mark of a box and the words behind it.
fn boxed(content: &str) -> Option<(Mark, &str)> {
    let (mark, rest) = [("[ ]", Mark::Open), ("[x]", Mark::Done), ("[X]", Mark::Done)]
        .into_iter()
        .find_map(|(shown, mark)| Some((mark, content.strip_prefix(shown)?)))?;
    let words = without_last_comment(rest.strip_prefix([' ', '\t'])?.trim());
    (!words.is_empty() && !is_struck(words)).then_some((mark, words))
}

/// Returns words without a comment at their end, where tools keep their own notes.
fn without_last_comment(words: &str) -> &str {
    match words.strip_suffix("-->").and_then(|rest| rest.rfind("<!--")) {
        Some(at) => words[..at].trim_end(),
        None => words,
    }
}

/// Returns whether words are struck through, up to a remark that says why. Words that go on
/// behind it, as in `~~one~~ two things`, are what is to be done instead.
fn is_struck(words: &str) -> bool {
    let struck = words.strip_prefix("~~").and_then(|rest| rest.split_once("~~"));
    let is_remark = |text: &str| text.starts_with(['(', '-', '–', '—', ':', ';', ',', '.']);
    struck.is_some_and(|(_, after)| after.is_empty() || is_remark(after.trim_start()))
}

#[cfg(test)]
mod tests;
