//! The label of an attempt at a job on another machine.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Which start of a job this is, such as `a2`. A service with retries of its own adds its number,
/// as in `a2.1`. Names of refs contain it, so that a late push cannot replace another result.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AttemptLabel(String);

/// A text is no label of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the label of an attempt, such as `a1`: letters, digits, dots and dashes")]
pub struct BadLabel(pub String);

impl AttemptLabel {
    /// Returns the label of the first attempt.
    pub fn new_first() -> Self {
        Self("a1".to_owned())
    }

    /// Returns the label of the attempt after this one.
    #[must_use]
    pub fn next(&self) -> Self {
        let number = self.0.strip_prefix('a').and_then(|it| it.split('.').next()?.parse().ok());
        Self(format!("a{}", number.unwrap_or(1_u32).saturating_add(1)))
    }

    /// Returns whether this is an attempt, or a try within it by a service with own retries.
    pub fn is_try_of(&self, attempt: &Self) -> bool {
        let rest = self.0.strip_prefix(&attempt.0);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Returns what people need of it, without the mark that makes it unique: `a2.1` of `a2.1-4f3e2d`.
    pub fn shorten(&self) -> &str {
        self.0.split('-').next().unwrap_or_default()
    }

    /// Returns whether the job had no attempt before this one.
    pub fn is_first(&self) -> bool {
        matches!(self.shorten(), "a1" | "a1.1")
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for AttemptLabel {
    type Error = BadLabel;

    fn try_from(text: String) -> Result<Self, BadLabel> {
        let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '.' || it == '-';
        let is_label = text.len() <= 40
            && text.starts_with(|it: char| it.is_ascii_alphanumeric())
            && text.chars().all(is_plain)
            && !text.contains("..")
            && !text.ends_with(['.', '-'])
            && text.rsplit('.').next() != Some("lock");
        if is_label { Ok(Self(text)) } else { Err(BadLabel(text)) }
    }
}

impl std::str::FromStr for AttemptLabel {
    type Err = BadLabel;

    fn from_str(text: &str) -> Result<Self, BadLabel> {
        text.to_owned().try_into()
    }
}

impl From<AttemptLabel> for String {
    fn from(label: AttemptLabel) -> Self {
        label.0
    }
}

impl fmt::Display for AttemptLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(text: &str) -> AttemptLabel {
        text.parse().expect("a label")
    }

    #[test]
    fn labels_are_parts_of_refs_and_count_attempts() {
        assert_eq!(AttemptLabel::new_first().next(), label("a2"));
        assert_eq!(label("a9.3").next(), label("a10"));
        assert!(label("a1.2").is_try_of(&label("a1")));
        assert!(label("a1").is_try_of(&label("a1")));
        assert!(!label("a12").is_try_of(&label("a1")));
        assert_eq!(label("a1.2-4f3e2d").shorten(), "a1.2");
        for (text, is_first) in
            [("a1", true), ("a1.1-4f3e2d", true), ("a1.2-4f3e2d", false), ("a2", false)]
        {
            assert_eq!(label(text).is_first(), is_first, "{text}");
        }
        for bad in ["", "a 1", "a/1", "a..1", "-a", "a1.lock", "a1.", "$(x)", "ä"] {
            assert!(bad.parse::<AttemptLabel>().is_err(), "{bad}");
        }
    }
}
