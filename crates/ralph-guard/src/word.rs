//! A word of a command, resolved as far as the text determines it.
//!
//! Unknown parts and glob characters are marked within the text by characters of the Unicode
//! private use area, so that no rule can take them for letters.

use std::fmt;
use std::sync::Arc;

/// The longest text; a here-document that writes a file may be as long.
pub(crate) const LONGEST: usize = 1 << 20;

/// Marks unknown text.
pub(crate) const UNKNOWN: char = '\u{F8F0}';
/// Marks an unquoted `*`.
pub(crate) const STAR: char = '\u{F8F1}';
/// Marks an unquoted `?`.
pub(super) const ONE: char = '\u{F8F2}';
/// Marks an unquoted `[`.
const CLASS: char = '\u{F8F3}';

/// The glob marks.
pub(crate) const GLOBS: [char; 3] = [STAR, ONE, CLASS];

/// A resolved word. Clones share the text: a thousand commands may have the same input.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Word(Arc<str>);

impl Word {
    /// Returns a word of known text.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns a word of unknown text.
    pub fn new_unknown() -> Self {
        Self(UNKNOWN.to_string().into())
    }

    /// Returns a word of text with marks; if it is too long, the word is unknown.
    pub(super) fn from_marked(text: String) -> Self {
        if text.len() > LONGEST { Self::new_unknown() } else { Self(text.into()) }
    }

    /// Returns a word of a part of another word's raw text.
    pub(crate) fn from_raw(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the text with its marks. If it equals a plain text, that text is known.
    pub fn raw(&self) -> &str {
        &self.0
    }

    /// Returns whether all of it is known; globs count as known.
    pub fn is_known(&self) -> bool {
        !self.0.contains(UNKNOWN)
    }

    /// Returns the text, if every character is known.
    pub fn as_known(&self) -> Option<&str> {
        (!self.0.contains([UNKNOWN, STAR, ONE, CLASS])).then_some(&*self.0)
    }

    /// Returns the text as shell code: glob marks become globs, and unknown parts become a variable
    /// without a value.
    pub(crate) fn to_code(&self) -> String {
        self.0
            .chars()
            .map(|it| match it {
                UNKNOWN => "${__unknown}".to_owned(),
                other => unmark_char(other).to_string(),
            })
            .collect()
    }

    /// Returns the text before the first unknown part or glob.
    pub(crate) fn certain_prefix(&self) -> &str {
        self.0.split([UNKNOWN, STAR, ONE, CLASS]).next().unwrap_or_default()
    }

    /// Returns the text with its globs taken literally, as in quotes.
    pub(super) fn to_quoted(&self) -> String {
        self.0.chars().map(unmark_char).collect()
    }
}

/// Returns whether a text has an unknown part or a glob.
pub(crate) fn has_marks(text: &str) -> bool {
    text.contains([UNKNOWN, STAR, ONE, CLASS])
}

/// Returns whether a text with marks may stand for a name.
pub(crate) fn may_match(pattern: &str, name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    // Which beginnings of the name the pattern matches so far.
    let mut matched = vec![false; name.len() + 1];
    matched[0] = true;
    let mut rest = pattern.chars();
    while let Some(it) = rest.next() {
        if it == CLASS {
            rest.by_ref().find(|end| *end == ']');
        }
        matched = (0..=name.len())
            .map(|at| match it {
                UNKNOWN | STAR => matched[..=at].contains(&true),
                ONE | CLASS => at > 0 && matched[at - 1],
                other => at > 0 && matched[at - 1] && name[at - 1] == other,
            })
            .collect();
    }
    matched[name.len()]
}

/// Returns the text with its glob characters marked.
pub(super) fn mark_globs(text: &str) -> String {
    text.chars()
        .map(|it| match it {
            '*' => STAR,
            '?' => ONE,
            '[' => CLASS,
            other => other,
        })
        .collect()
}

/// Removes characters that could be taken for marks.
pub(super) fn strip_marks(text: &str) -> String {
    text.replace([UNKNOWN, STAR, ONE, CLASS], "\u{FFFD}")
}

/// Replaces every occurrence of a part, unless the result gets too long: an input of a hundred
/// bytes can ask for gigabytes.
pub(super) fn replace_bounded(text: &str, part: &str, with: &str) -> Option<String> {
    let longest = text.matches(part).count().saturating_mul(with.len()).saturating_add(text.len());
    (longest <= LONGEST).then(|| text.replace(part, with))
}

fn unmark_char(character: char) -> char {
    match character {
        STAR => '*',
        ONE => '?',
        CLASS => '[',
        other => other,
    }
}

impl fmt::Display for Word {
    /// Shows the word to people; `‹?›` is an unknown part.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|it| match it {
            UNKNOWN => formatter.write_str("‹?›"),
            other => write!(formatter, "{}", unmark_char(other)),
        })
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.to_string())
    }
}
