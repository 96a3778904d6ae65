//! Globs over paths of the project: `when.paths` of gates, and other lists of paths.
//!
//! Not here: walking directories, and negation; a list of patterns matches where one of them does.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A glob over paths that are relative to the project directory and separated by `/`.
///
/// `*` and `?` stay within a name, `**` as a whole name stands for any number of directories,
/// `[a-z]` and `[!a]` for one character, `{a,b}` for one of several texts, `\` takes the next
/// character as it is. A pattern without `/` matches in any directory; one with `/` begins at the
/// project directory; one that ends in `/` matches everything below.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern {
    text: String,
    program: Vec<Step>,
}

/// A pattern that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} at character {at} of the glob `{pattern}`")]
pub struct GlobError {
    /// The pattern.
    pub pattern: String,
    /// The place of the mistake, counted in characters from 1.
    pub at: usize,
    /// What is wrong.
    pub what: GlobMistake,
}

/// What is wrong with a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GlobMistake {
    /// There is nothing in it.
    #[error("nothing to match")]
    Empty,
    /// A `[` without its `]`.
    #[error("`[` without `]`")]
    OpenClass,
    /// A range whose end is before its begin.
    #[error("a range from a later to an earlier character")]
    BackwardRange,
    /// A `{` without its `}`.
    #[error("`{{` without `}}`")]
    OpenChoice,
    /// A `}` without its `{`.
    #[error("`}}` without `{{`")]
    StrayBrace,
    /// Braces within braces within braces, and so on.
    #[error("braces nested too deep")]
    TooDeep,
    /// A `\` with nothing behind it.
    #[error("`\\` with nothing behind it")]
    LoneBackslash,
    /// A `!` in front, which elsewhere takes paths out again.
    #[error("`!` takes nothing out here (write `\\!` for a name that begins with it)")]
    Negation,
    /// More characters than a pattern of paths needs.
    #[error("too long a pattern")]
    TooLong,
}

/// Names are at most 255 bytes, and nobody writes a longer pattern by hand; the bound keeps a
/// match at some thousand steps for each character of a path.
const LONGEST: usize = 1024;

/// The parser calls itself for each brace.
const DEEPEST: usize = 16;

/// A step of the machine that matches. All ways through it are followed at once, so that a match
/// takes at most the length of the path times the length of the program.
#[derive(Debug, Clone)]
enum Step {
    /// Takes this character.
    Char(char),
    /// Takes any character but `/`.
    InName,
    /// Takes any character.
    Any,
    /// Takes a character of these ranges, or one outside of them; never `/`.
    Class { ranges: Vec<(char, char)>, within: Within },
    /// Goes on at both places.
    Fork(usize, usize),
    /// Goes on elsewhere.
    Jump(usize),
    /// The end of the pattern.
    Match,
}

/// On which side of a class a character must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    Inside,
    Outside,
}

/// Returns whether a path is within a scope. An empty one bounds nothing.
pub fn is_in_scope(scope: &[Pattern], path: &str) -> bool {
    scope.is_empty() || scope.iter().any(|pattern| pattern.matches(path))
}

impl Pattern {
    /// Returns the pattern that matches one path and nothing else, however somebody spelled it:
    /// `./a//b` is `a/b`. None if the path is empty.
    pub fn exactly(path: &str) -> Option<Self> {
        let mut pattern = String::new();
        for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
            pattern.push('/');
            for character in part.chars() {
                if "\\*?[]{},!".contains(character) {
                    pattern.push('\\');
                }
                pattern.push(character);
            }
        }
        Self::new(&pattern).ok()
    }

    /// Reads a pattern.
    pub fn new(text: &str) -> Result<Self, GlobError> {
        let mut parser = Parser { chars: text.chars().collect(), at: 0, program: Vec::new() };
        let parsed = parser.whole();
        match parsed {
            Ok(()) => Ok(Self { text: text.to_owned(), program: parser.program }),
            Err((at, what)) => Err(GlobError { pattern: text.to_owned(), at: at + 1, what }),
        }
    }

    /// Returns the pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether a path matches.
    pub fn matches(&self, path: &str) -> bool {
        let mut now = Threads::new(self.program.len());
        let mut next = Threads::new(self.program.len());
        now.add(&self.program, 0);
        for character in path.strip_prefix("./").unwrap_or(path).chars() {
            for &at in &now.list {
                if self.program[at].takes(character) {
                    next.add(&self.program, at + 1);
                }
            }
            std::mem::swap(&mut now, &mut next);
            next.clear();
            if now.list.is_empty() {
                return false;
            }
        }
        now.list.iter().any(|&at| matches!(self.program[at], Step::Match))
    }
}

impl Step {
    fn takes(&self, character: char) -> bool {
        match self {
            Self::Char(own) => *own == character,
            Self::InName => character != '/',
            Self::Any => true,
            Self::Class { ranges, within } => {
                let is_inside =
                    ranges.iter().any(|(first, last)| (*first..=*last).contains(&character));
                character != '/' && is_inside == (*within == Within::Inside)
            }
            Self::Fork(..) | Self::Jump(_) | Self::Match => false,
        }
    }
}

/// The places of the program that are reached.
struct Threads {
    list: Vec<usize>,
    seen: Vec<bool>,
}

impl Threads {
    fn new(length: usize) -> Self {
        Self { list: Vec::with_capacity(length), seen: vec![false; length] }
    }

    fn clear(&mut self) {
        self.list.clear();
        self.seen.fill(false);
    }

    /// Adds a place and all that follow from it without a character.
    fn add(&mut self, program: &[Step], start: usize) {
        let mut open = vec![start];
        while let Some(at) = open.pop() {
            if std::mem::replace(&mut self.seen[at], true) {
                continue;
            }
            match &program[at] {
                Step::Fork(one, other) => open.extend([*one, *other]),
                Step::Jump(to) => open.push(*to),
                Step::Char(_) | Step::InName | Step::Any | Step::Class { .. } | Step::Match => {
                    self.list.push(at);
                }
            }
        }
    }
}

type Mistake = (usize, GlobMistake);

struct Parser {
    chars: Vec<char>,
    at: usize,
    program: Vec<Step>,
}

impl Parser {
    fn whole(&mut self) -> Result<(), Mistake> {
        if self.chars.len() > LONGEST {
            return Err((LONGEST, GlobMistake::TooLong));
        }
        if self.peek() == Some('!') {
            return Err((0, GlobMistake::Negation));
        }
        if self.chars.starts_with(&['.', '/']) {
            self.at = 2;
        } else if self.peek() == Some('/') {
            self.at = 1;
        }
        let is_anchored = self.at > 0;
        let is_tree = self.chars.len() > self.at && self.chars.ends_with(&['/']);
        if is_tree {
            self.chars.pop();
        }
        let rest = &self.chars[self.at..];
        if rest.is_empty() {
            return Err((0, GlobMistake::Empty));
        }
        if !is_anchored && !rest.contains(&'/') && rest != ['*', '*'] {
            self.any_directories();
        }
        self.sequence(0)?;
        if self.at < self.chars.len() {
            return Err((self.at, GlobMistake::StrayBrace));
        }
        if is_tree {
            self.program.push(Step::Char('/'));
            self.anything();
        }
        self.program.push(Step::Match);
        Ok(())
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    /// Reads up to the end, or to a `,` or `}` of the braces around it.
    fn sequence(&mut self, depth: usize) -> Result<(), Mistake> {
        while let Some(character) = self.peek() {
            match character {
                ',' if depth > 0 => return Ok(()),
                '}' => return Ok(()),
                '*' => self.stars(),
                '?' => self.take(Step::InName),
                '[' => self.class()?,
                '{' => self.choice(depth)?,
                '\\' => {
                    let escaped = self.chars.get(self.at + 1).copied();
                    let escaped = escaped.ok_or((self.at, GlobMistake::LoneBackslash))?;
                    self.at += 1;
                    self.take(Step::Char(escaped));
                }
                literal => self.take(Step::Char(literal)),
            }
        }
        Ok(())
    }

    fn take(&mut self, step: Step) {
        self.program.push(step);
        self.at += 1;
    }

    /// Reads one or more stars. Two that are a whole name cross directories; others do not.
    fn stars(&mut self) {
        let start = self.at;
        while self.peek() == Some('*') {
            self.at += 1;
        }
        let begins = start == 0 || matches!(self.chars[start - 1], '/' | '{' | ',');
        match self.peek() {
            Some('/') if begins && self.at - start == 2 => {
                self.at += 1;
                self.any_directories();
            }
            None | Some('}' | ',') if begins && self.at - start == 2 => self.anything(),
            Some(_) | None => {
                let fork = self.program.len();
                self.program.extend([
                    Step::Fork(fork + 1, fork + 3),
                    Step::InName,
                    Step::Jump(fork),
                ]);
            }
        }
    }

    /// Any number of directories, each with its `/`.
    fn any_directories(&mut self) {
        let fork = self.program.len();
        self.program.extend([
            Step::Fork(fork + 1, fork + 5),
            Step::Any,
            Step::Fork(fork + 1, fork + 3),
            Step::Char('/'),
            Step::Jump(fork + 5),
        ]);
    }

    /// At least one character, whatever it is.
    fn anything(&mut self) {
        let start = self.program.len();
        self.program.extend([Step::Any, Step::Fork(start, start + 2)]);
    }

    fn choice(&mut self, depth: usize) -> Result<(), Mistake> {
        let open = self.at;
        if depth == DEEPEST {
            return Err((open, GlobMistake::TooDeep));
        }
        let mut ends = Vec::new();
        loop {
            self.at += 1;
            let fork = self.program.len();
            self.program.push(Step::Jump(fork + 1));
            self.sequence(depth + 1)?;
            match self.peek() {
                Some(',') => {
                    ends.push(self.program.len());
                    self.program.push(Step::Jump(0));
                    self.program[fork] = Step::Fork(fork + 1, self.program.len());
                }
                Some(_) => break,
                None => return Err((open, GlobMistake::OpenChoice)),
            }
        }
        self.at += 1;
        for end in ends {
            self.program[end] = Step::Jump(self.program.len());
        }
        Ok(())
    }

    fn class(&mut self) -> Result<(), Mistake> {
        let open = self.at;
        self.at += 1;
        let within = match self.peek() {
            Some('!' | '^') => {
                self.at += 1;
                Within::Outside
            }
            Some(_) | None => Within::Inside,
        };
        let first = self.at;
        let mut ranges = Vec::new();
        loop {
            if self.peek() == Some(']') && self.at > first {
                self.at += 1;
                break;
            }
            let from = self.class_char(open)?;
            let is_range = self.peek() == Some('-')
                && self.chars.get(self.at + 1).is_some_and(|&character| character != ']');
            if !is_range {
                ranges.push((from, from));
                continue;
            }
            let dash = self.at;
            self.at += 1;
            let to = self.class_char(open)?;
            if to < from {
                return Err((dash, GlobMistake::BackwardRange));
            }
            ranges.push((from, to));
        }
        self.program.push(Step::Class { ranges, within });
        Ok(())
    }

    /// Returns the next character of a class that opened at `open`.
    fn class_char(&mut self, open: usize) -> Result<char, Mistake> {
        if self.peek() == Some('\\') {
            self.at += 1;
        }
        let character = self.peek().ok_or((open, GlobMistake::OpenClass))?;
        self.at += 1;
        Ok(character)
    }
}

impl TryFrom<String> for Pattern {
    type Error = GlobError;

    fn try_from(text: String) -> Result<Self, GlobError> {
        Self::new(&text)
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.text
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

#[cfg(test)]
mod tests;
