//! Secrets that are recognized by their shape alone: keys of well-known services, tokens, private
//! keys.
//!
//! Few and precise: a false mask costs more than a missed one that a known value would have caught
//! anyway. Not here: known values.

/// A kind of secret: its prefix, and what follows.
#[derive(Debug)]
pub(super) struct Shape {
    /// A description for users.
    pub(super) name: &'static str,
    /// The prefix.
    pub(super) start: &'static str,
    class: Class,
    length: Length,
    left: Left,
}

/// How many character classes there are.
pub(super) const CLASSES: usize = 5;

/// The characters of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Alphanumeric,
    Upper,
    /// Also `-` and `_`.
    Url,
    /// Also a dot between parts.
    Token,
    /// Base64 over several lines, which may be escaped.
    Lines,
}

/// How much follows the prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    AtLeast(usize),
    Exactly(usize),
    /// Two more parts after dots, the first of them JSON as well.
    Jwt,
}

/// What may precede a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Anything,
    /// No letter or digit, because the prefix occurs inside words.
    Boundary,
}

/// What follows a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// Other text, or nothing.
    Ended,
    /// Possibly more of it.
    MoreMayCome,
}

/// Whether the text after the prefix contains a dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parts {
    /// It contains none.
    One,
    /// It contains one or more.
    Several,
}

/// The decision about a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weighed {
    /// It is a secret, up to here.
    Secret,
    /// It is not a secret.
    Harmless,
    /// The next bytes decide.
    Open,
}

/// The minimum number of distinct characters; a placeholder such as `xxxxxxxx` has fewer.
const DISTINCT: usize = 8;

/// A longer candidate that is still undecided is not a secret. The largest tokens have some 16 KiB.
pub(super) const LONGEST_OPEN: usize = 32 * 1024;

impl Shape {
    const fn new(name: &'static str, start: &'static str, class: Class, length: Length) -> Self {
        Self { name, start, class, length, left: Left::Anything }
    }

    const fn bounded(self) -> Self {
        Self { left: Left::Boundary, ..self }
    }

    /// Returns the index of its character class, below [`CLASSES`].
    pub(super) fn class(&self) -> usize {
        match self.class {
            Class::Alphanumeric => 0,
            Class::Upper => 1,
            Class::Url => 2,
            Class::Token => 3,
            Class::Lines => 4,
        }
    }

    /// Returns whether a byte may be part of it.
    pub(super) fn takes(&self, byte: u8) -> bool {
        match self.class {
            Class::Alphanumeric => byte.is_ascii_alphanumeric(),
            Class::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Class::Url => byte.is_ascii_alphanumeric() || b"-_".contains(&byte),
            Class::Token => byte.is_ascii_alphanumeric() || b"-_.".contains(&byte),
            Class::Lines => byte.is_ascii_alphanumeric() || b"+/=\\\r\n".contains(&byte),
        }
    }

    /// Decides about the bytes after the prefix that are available.
    pub(super) fn weigh(
        &self,
        before: [u8; 2],
        tail: &[u8],
        after: After,
        parts: Parts,
    ) -> Weighed {
        if self.left == Left::Boundary && !is_boundary(before) {
            return Weighed::Harmless;
        }
        let is_cut = after == After::MoreMayCome;
        // Later bytes must not change the decision about the beginning: the whole may arrive in
        // pieces, and a long run may contain thousands of candidates.
        let beginning = &tail[..tail.len().min(LONGEST_OPEN)];
        let is_long = match self.length {
            Length::AtLeast(least) => tail.len() >= least,
            Length::Exactly(length) => {
                tail.len() == length && !is_cut && !tail.ends_with(b"EXAMPLE")
            }
            Length::Jwt => parts == Parts::Several && is_jwt(beginning),
        };
        if is_cut && tail.len() < LONGEST_OPEN {
            // Its end is not known yet, and with it where the next candidate begins.
            Weighed::Open
        } else if is_long && is_random(beginning) {
            Weighed::Secret
        } else {
            Weighed::Harmless
        }
    }
}

/// How many characters are checked for randomness.
const SHOWN: usize = 256;

fn is_random(tail: &[u8]) -> bool {
    let mut seen = [false; 256];
    for byte in tail.iter().take(SHOWN) {
        seen[usize::from(*byte)] = true;
    }
    seen.iter().filter(|seen| **seen).count() >= DISTINCT
}

fn is_jwt(tail: &[u8]) -> bool {
    let mut parts = tail.split(|byte| *byte == b'.');
    let (header, claims, signature) = (parts.next(), parts.next(), parts.next());
    header.is_some_and(|it| it.len() >= 10)
        && claims.is_some_and(|it| it.starts_with(b"eyJ") && it.len() >= 10)
        && signature.is_some_and(|it| it.len() >= 16)
}

/// Returns whether a word may begin here. The letter of an escaped newline or the end of a color
/// sequence is not part of a word.
fn is_boundary(before: [u8; 2]) -> bool {
    match before {
        [b'\\', b'n' | b't' | b'r'] => true,
        [digit, b'm'] => digit.is_ascii_digit() || digit == b'[',
        [_, last] => !last.is_ascii_alphanumeric(),
    }
}

/// All shapes.
pub(super) const SHAPES: [Shape; 34] = {
    use Class::{Alphanumeric, Lines, Token, Upper, Url};
    use Length::{AtLeast, Exactly, Jwt};
    const KEY: &str = "a private key";
    const GITHUB: &str = "a GitHub token";
    const SLACK: &str = "a Slack token";
    const AWS: &str = "an AWS access key";
    const OPENAI: &str = "an OpenAI key";
    [
        Shape::new("an Anthropic key", "sk-ant-", Url, AtLeast(24)),
        Shape::new(OPENAI, "sk-proj-", Url, AtLeast(24)),
        Shape::new(OPENAI, "sk-svcacct-", Url, AtLeast(24)),
        Shape::new("an OpenRouter key", "sk-or-v1-", Url, AtLeast(24)),
        Shape::new(OPENAI, "sk-", Alphanumeric, AtLeast(32)).bounded(),
        Shape::new("a Stripe key", "sk_live_", Alphanumeric, AtLeast(16)),
        Shape::new("a Stripe key", "rk_live_", Alphanumeric, AtLeast(16)),
        Shape::new(GITHUB, "ghp_", Alphanumeric, AtLeast(30)),
        Shape::new(GITHUB, "gho_", Alphanumeric, AtLeast(30)),
        Shape::new(GITHUB, "ghu_", Alphanumeric, AtLeast(30)),
        Shape::new(GITHUB, "ghs_", Alphanumeric, AtLeast(30)),
        Shape::new(GITHUB, "ghr_", Alphanumeric, AtLeast(30)),
        Shape::new(GITHUB, "github_pat_", Url, AtLeast(36)),
        Shape::new("a GitLab token", "glpat-", Url, AtLeast(20)),
        Shape::new(AWS, "AKIA", Upper, Exactly(16)),
        Shape::new(AWS, "ASIA", Upper, Exactly(16)),
        Shape::new("a Google key", "AIza", Url, Exactly(35)),
        Shape::new("a Google token", "ya29.", Url, AtLeast(40)),
        Shape::new(SLACK, "xoxb-", Url, AtLeast(20)),
        Shape::new(SLACK, "xoxp-", Url, AtLeast(20)),
        Shape::new(SLACK, "xoxa-", Url, AtLeast(20)),
        Shape::new(SLACK, "xoxs-", Url, AtLeast(20)),
        Shape::new(SLACK, "xapp-", Url, AtLeast(20)),
        Shape::new("an npm token", "npm_", Alphanumeric, Exactly(36)),
        Shape::new("a PyPI token", "pypi-AgEI", Url, AtLeast(50)),
        Shape::new("a Hugging Face token", "hf_", Alphanumeric, AtLeast(30)).bounded(),
        Shape::new("a DigitalOcean token", "dop_v1_", Alphanumeric, Exactly(64)),
        Shape::new("a web token", "eyJ", Token, Jwt),
        Shape::new(KEY, "-----BEGIN PRIVATE KEY-----", Lines, AtLeast(16)),
        Shape::new(KEY, "-----BEGIN RSA PRIVATE KEY-----", Lines, AtLeast(16)),
        Shape::new(KEY, "-----BEGIN EC PRIVATE KEY-----", Lines, AtLeast(16)),
        Shape::new(KEY, "-----BEGIN DSA PRIVATE KEY-----", Lines, AtLeast(16)),
        Shape::new(KEY, "-----BEGIN ENCRYPTED PRIVATE KEY-----", Lines, AtLeast(16)),
        Shape::new(KEY, "-----BEGIN OPENSSH PRIVATE KEY-----", Lines, AtLeast(16)),
    ]
};
