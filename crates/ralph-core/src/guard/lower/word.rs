//! A word of a command, resolved as far as the text tells.
//!
//! Parts that are not known, and characters that stand for other names, are marked within the
//! text by characters of a private area, so that no rule can take them for letters.

use std::fmt;
use std::sync::Arc;

use super::parse::LONGEST;

/// Stands for text that is not known.
pub(crate) const UNKNOWN: char = '\u{F8F0}';
/// Stands for `*` that is not quoted.
pub(crate) const STAR: char = '\u{F8F1}';
/// Stands for `?` that is not quoted.
pub(super) const ONE: char = '\u{F8F2}';
/// Stands for `[` that is not quoted.
const CLASS: char = '\u{F8F3}';

/// What stands for other names.
pub(crate) const GLOBS: [char; 3] = [STAR, ONE, CLASS];

/// A resolved word. Copies share the text: one input may be that of a thousand commands.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Word(Arc<str>);

impl Word {
    /// Returns a word of text that is known.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns a word of which nothing is known.
    pub fn unknown() -> Self {
        Self(UNKNOWN.to_string().into())
    }

    /// Returns a word of text with marks in it; longer than any text, it counts as not known.
    pub(super) fn marked(text: String) -> Self {
        if text.len() > LONGEST { Self::unknown() } else { Self(text.into()) }
    }

    /// Returns a word of a part of another one's raw text.
    pub(in crate::guard) fn of_raw(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the text with its marks. What compares equal to plain text is known to be it.
    pub fn raw(&self) -> &str {
        &self.0
    }

    /// Returns whether all of it is known, names that `*` stands for included.
    pub fn is_known(&self) -> bool {
        !self.0.contains(UNKNOWN)
    }

    /// Returns the text, if every character of it is known.
    pub fn known(&self) -> Option<&str> {
        (!self.0.contains([UNKNOWN, STAR, ONE, CLASS])).then_some(&*self.0)
    }

    /// Returns the text as a shell would read it again: marks become what they stand for, and
    /// what is not known becomes a variable that has no value.
    pub(super) fn to_code(&self) -> String {
        self.0
            .chars()
            .map(|it| match it {
                UNKNOWN => "${__unknown}".to_owned(),
                other => plain(other).to_string(),
            })
            .collect()
    }

    /// Returns the text in front of the first part that is not known or stands for other names.
    pub(in crate::guard) fn certain(&self) -> &str {
        self.0.split([UNKNOWN, STAR, ONE, CLASS]).next().unwrap_or_default()
    }

    /// Returns the text with its globs taken literally, as quotes would.
    pub(super) fn quoted(&self) -> String {
        self.0.chars().map(plain).collect()
    }
}

/// Returns whether a text has a mark of either kind.
pub(crate) fn is_open(text: &str) -> bool {
    text.contains([UNKNOWN, STAR, ONE, CLASS])
}

/// Returns text in which the characters that stand for other names are marked.
pub(super) fn marked(text: &str) -> String {
    text.chars()
        .map(|it| match it {
            '*' => STAR,
            '?' => ONE,
            '[' => CLASS,
            other => other,
        })
        .collect()
}

/// Returns text without characters that could be taken for marks.
pub(super) fn unmarked(text: &str) -> String {
    text.replace([UNKNOWN, STAR, ONE, CLASS], "\u{FFFD}")
}

/// Returns text with every occurrence of a part replaced, unless that gets longer than any text:
/// an input of a hundred bytes can ask for gigabytes.
pub(super) fn replaced(text: &str, part: &str, with: &str) -> Option<String> {
    let longest = text.matches(part).count().saturating_mul(with.len()).saturating_add(text.len());
    (longest <= LONGEST).then(|| text.replace(part, with))
}

fn plain(character: char) -> char {
    match character {
        STAR => '*',
        ONE => '?',
        CLASS => '[',
        other => other,
    }
}

impl fmt::Display for Word {
    /// Shows the word to people: `‹?›` is what is not known.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|it| match it {
            UNKNOWN => formatter.write_str("‹?›"),
            other => write!(formatter, "{}", plain(other)),
        })
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.to_string())
    }
}
