//! The version of a program, for comparisons.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Three numbers that are compared in order. A suffix such as `-nightly` is ignored: a pre-release
/// has the features of its release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Version {
    major: u64,
    minor: u64,
    patch: u64,
}

impl Version {
    /// Returns a version.
    pub const fn new(major: u64, minor: u64, patch: u64) -> Self {
        Self { major, minor, patch }
    }

    /// Returns whether two versions differ at most in the last number.
    pub fn is_same_minor(self, other: Self) -> bool {
        (self.major, self.minor) == (other.major, other.minor)
    }

    /// Finds the first version in a text such as `codex-cli 0.166.0` or `2.1.325 (Claude Code)`.
    pub fn find_in(text: &str) -> Option<Self> {
        // A letter before a number is a `v` or belongs to another word.
        let is_break = |it: char| it.is_whitespace() || "/@(),:;\"'".contains(it);
        text.split(is_break).find_map(Self::from_word)
    }

    fn from_word(word: &str) -> Option<Self> {
        let word = word.strip_prefix(['v', 'V']).unwrap_or(word);
        let end = word
            .find(|it: char| !it.is_ascii_digit() && it != '.')
            .filter(|end| word[*end..].starts_with(['-', '+']))
            .or_else(|| {
                word.chars().all(|it| it.is_ascii_digit() || it == '.').then_some(word.len())
            });
        // A sentence may end after it.
        let numbers = word[..end?].trim_end_matches('.');
        let mut parts = numbers.split('.').map(|part| part.parse::<u64>().ok());
        let (major, minor) = (parts.next()??, parts.next()??);
        let patch = match parts.next() {
            Some(part) => part?,
            None => 0,
        };
        Some(Self { major, minor, patch })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.to_string()
    }
}

impl TryFrom<String> for Version {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::find_in(&text).ok_or_else(|| format!("`{text}` is no version"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_what_programs_print() {
        for (text, expect) in [
            ("2.1.325 (Claude Code)\n", Some(Version::new(2, 1, 325))),
            ("codex-cli 0.166.0\n", Some(Version::new(0, 166, 0))),
            ("0.61.0", Some(Version::new(0, 61, 0))),
            ("v1.18.33", Some(Version::new(1, 18, 33))),
            ("cline/3.0.65 linux-x64 node-v22.1.0", Some(Version::new(3, 0, 65))),
            ("GitHub Copilot CLI 1.0.102.\nCommit: 0ab1.2", Some(Version::new(1, 0, 102))),
            (
                "0.0.1790142911-g1a2b3c (released 2026-11-14)",
                Some(Version::new(0, 0, 1_790_142_911)),
            ),
            ("0.41.0-nightly.20260423.gaa05b4583", Some(Version::new(0, 41, 0))),
            ("2026.4.24 macos-arm64 (2026-04-27)", Some(Version::new(2026, 4, 24))),
            ("(node:12) Warning: x\n0.24.4\n", Some(Version::new(0, 24, 4))),
            ("version 3.2", Some(Version::new(3, 2, 0))),
            ("git version 2.43.0", Some(Version::new(2, 43, 0))),
            ("error: unknown option '--version'", None),
            ("see 1.x and a1.2.3 and 1..2 and 99999999999999999999.1", None),
            ("7", None),
            ("", None),
        ] {
            assert_eq!(Version::find_in(text), expect, "{text:?}");
        }
    }

    #[test]
    fn versions_are_compared_by_number() {
        assert!(Version::new(0, 9, 9) < Version::new(0, 10, 0));
        assert!(Version::new(2, 0, 28) > Version::new(2, 0, 3));
    }

    #[test]
    fn a_version_is_written_as_text() {
        let version = Version::new(2, 1, 325);
        assert_eq!(serde_json::to_string(&version).expect("text"), "\"2.1.325\"");
        assert_eq!(serde_json::from_str::<Version>("\"2.1.325\"").expect("a version"), version);
        assert!(serde_json::from_str::<Version>("\"new\"").is_err());
    }
}
