//! Globs over paths of the project: `protect`, `when.paths` of gates, and other lists of paths.
//!
//! Not here: walking directories, and negation; a list of patterns matches if one of them does.

use std::fmt;
use std::sync::OnceLock;

use globset::{Glob, GlobBuilder, GlobSet};
use serde::{Deserialize, Serialize};

/// A glob over paths that are relative to the project directory and separated by `/`.
///
/// `*` and `?` stay within a name, `**` as a whole name matches any number of directories,
/// `[a-z]` and `[!a]` match one character, `{a,b}` one of several texts, and `\` takes the next
/// character literally. A pattern without `/` matches in any directory; one with `/` begins at the
/// project directory; one that ends in `/` matches everything below.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern {
    text: String,
    glob: Glob,
    /// Built at the first match: most processes that read patterns match none.
    matcher: OnceLock<GlobSet>,
}

/// A pattern that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} in the glob `{pattern}`")]
pub struct GlobError {
    /// The pattern as it was written.
    pub pattern: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Names are at most 255 bytes, and a pattern written by hand is shorter than this. The bound keeps
/// the compiled pattern small.
const MAX_LENGTH: usize = 1024;

/// Returns whether a path is within a scope. An empty scope contains every path.
pub fn is_in_scope(scope: &[Pattern], path: &str) -> bool {
    scope.is_empty() || scope.iter().any(|pattern| pattern.matches(path))
}

impl Pattern {
    /// Returns the pattern that matches one path and nothing else, whatever its spelling:
    /// `./a//b` is `a/b`. None if the path is empty.
    pub fn for_path(path: &str) -> Option<Self> {
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
        let fail = |reason: &str| GlobError { pattern: text.to_owned(), reason: reason.to_owned() };
        if text.len() > MAX_LENGTH {
            return Err(fail("too many characters"));
        }
        if text.starts_with('!') {
            return Err(fail(
                "`!` excludes nothing here (write `\\!` for a name that begins with it)",
            ));
        }
        let anchored = text.strip_prefix("./").or_else(|| text.strip_prefix('/'));
        let relative = anchored.unwrap_or(text);
        let name = relative.strip_suffix('/').unwrap_or(relative);
        if name.is_empty() {
            return Err(fail("nothing to match"));
        }
        let is_anywhere = anchored.is_none() && !name.contains('/') && name != "**";
        let directories = if is_anywhere { "**/" } else { "" };
        let contents = if relative.ends_with('/') { "/**" } else { "" };
        let glob = GlobBuilder::new(&format!("{directories}{name}{contents}"))
            .literal_separator(true)
            .backslash_escape(true)
            .empty_alternates(true)
            .build()
            .map_err(|error| fail(&error.kind().to_string()))?;
        // The parser of globset takes nested braces that its matcher refuses.
        if name.matches('{').count() > 16 {
            build_matcher(&glob).map_err(|error| fail(&error.kind().to_string()))?;
        }
        Ok(Self { text: text.to_owned(), glob, matcher: OnceLock::new() })
    }

    /// Returns the pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether a path matches.
    pub fn matches(&self, path: &str) -> bool {
        let path = path.strip_prefix("./").unwrap_or(path);
        let matcher = self
            .matcher
            .get_or_init(|| build_matcher(&self.glob).unwrap_or_else(|_| GlobSet::empty()));
        !path.is_empty() && matcher.is_match(path)
    }
}

fn build_matcher(glob: &Glob) -> Result<GlobSet, globset::Error> {
    GlobSet::builder().add(glob.clone()).build()
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
