//! Bounded pieces of text: what is kept of output that may be endless.
//!
//! Not here: where the whole output is kept. The log file has it.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// The mark where something was left out.
pub const TRUNCATED: &str = "... [truncated]";

/// Which part of a long text is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Truncate {
    /// The beginning.
    #[default]
    Head,
    /// The end, where test runners put the failure.
    Tail,
    /// Half of each.
    Both,
}

/// Keeps a bounded number of characters of a text that comes in pieces.
#[derive(Debug, Clone)]
pub struct Excerpt {
    head_limit: usize,
    tail_limit: usize,
    head: String,
    head_chars: usize,
    tail: VecDeque<char>,
    total: u64,
}

impl Excerpt {
    /// Returns an empty excerpt that keeps `limit` characters of the chosen part.
    pub fn new(limit: usize, part: Truncate) -> Self {
        let (head_limit, tail_limit) = match part {
            Truncate::Head => (limit, 0),
            Truncate::Tail => (0, limit),
            Truncate::Both => (limit - limit / 2, limit / 2),
        };
        Self {
            head_limit,
            tail_limit,
            head: String::new(),
            head_chars: 0,
            tail: VecDeque::new(),
            total: 0,
        }
    }

    /// Returns an empty excerpt that keeps the beginning and the end.
    pub fn both(limit: usize) -> Self {
        Self::new(limit, Truncate::Both)
    }

    /// Takes in the next piece.
    pub fn feed(&mut self, piece: &str) {
        let mut characters = piece.chars();
        while self.head_chars < self.head_limit {
            let Some(character) = characters.next() else {
                break;
            };
            self.head.push(character);
            self.head_chars += 1;
            self.total += 1;
        }
        let rest = characters.as_str();
        if rest.is_empty() {
            return;
        }
        let count = rest.chars().count();
        self.total += count as u64;
        for character in rest.chars().skip(count.saturating_sub(self.tail_limit)) {
            if self.tail.len() == self.tail_limit {
                self.tail.pop_front();
            }
            self.tail.push_back(character);
        }
    }

    /// Returns whether something was left out.
    pub fn is_cut(&self) -> bool {
        self.total > (self.head_chars + self.tail.len()) as u64
    }

    /// Returns what was kept, with the mark only where something is missing.
    pub fn text(&self) -> String {
        let tail: String = self.tail.iter().collect();
        match (self.is_cut(), self.tail_limit, self.head_limit) {
            (false, _, _) => format!("{}{tail}", self.head),
            (true, 0, _) => format!("{}{TRUNCATED}", self.head),
            (true, _, 0) => format!("{TRUNCATED}\n{tail}"),
            (true, _, _) => format!("{}\n{TRUNCATED}\n{tail}", self.head),
        }
    }
}

/// Returns the first `limit` characters of a text on one line, for a glance.
pub fn glance(text: &str, limit: usize) -> String {
    let line: String = text
        .chars()
        .take(limit)
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    if text.chars().nth(limit).is_some() { format!("{line}…") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, limit: usize, part: Truncate, expect: &str) {
        let mut whole = Excerpt::new(limit, part);
        whole.feed(text);
        assert_eq!(whole.text(), expect);
        let mut pieces = Excerpt::new(limit, part);
        for character in text.chars() {
            pieces.feed(character.encode_utf8(&mut [0; 4]));
        }
        assert_eq!(pieces.text(), expect, "in pieces");
    }

    #[test]
    fn truncation_counts_characters_and_says_so() {
        check("äöüß", 4, Truncate::Head, "äöüß");
        check("äöüßé", 4, Truncate::Head, "äöüß... [truncated]");
        check("äöüßé", 2, Truncate::Tail, "... [truncated]\nßé");
        check("123456789", 4, Truncate::Both, "12\n... [truncated]\n89");
        check("1234", 4, Truncate::Both, "1234");
        check("", 4, Truncate::Tail, "");
        check("abc", 0, Truncate::Head, "... [truncated]");
    }

    #[test]
    fn a_glance_is_one_line() {
        assert_eq!(glance("one\ntwo\u{1b}[31m", 6), "one tw…");
        assert_eq!(glance("short", 6), "short");
    }
}
