//! Secrets that are recognized by their shape alone: keys of well-known services, tokens, private
//! keys.
//!
//! Few and precise: a false mask costs more than a missed one that a known value would have caught
//! anyway. Not here: known values, and the search in streams (`mask` in `ralph-io`).

/// A kind of secret: its prefix, and what follows.
#[derive(Debug)]
pub struct SecretShape {
    /// A description for users.
    pub name: &'static str,
    /// The prefix.
    pub start: &'static str,
    class: CharacterClass,
    length: SecretLength,
    left: PrecedingText,
}

/// How many character classes there are.
pub const CLASSES: usize = 5;

/// The characters of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CharacterClass {
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
enum SecretLength {
    AtLeast(usize),
    Exactly(usize),
    /// Two more parts after dots, the first of them JSON as well.
    Jwt,
}

/// What may precede a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PrecedingText {
    Anything,
    /// No letter or digit, because the prefix occurs inside words.
    Boundary,
}

/// What follows a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowingText {
    /// Other text, or nothing.
    Ended,
    /// Possibly more of it.
    MoreMayCome,
}

/// Whether the text after the prefix contains a dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenParts {
    /// It contains none.
    One,
    /// It contains one or more.
    Several,
}

/// The decision about a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShapeDecision {
    /// It is a secret, up to here.
    Secret,
    /// It is not a secret.
    Harmless,
    /// The next bytes decide.
    Open,
}

/// The minimum number of distinct characters; a placeholder such as `xxxxxxxx` has fewer.
const MIN_DISTINCT: usize = 8;

/// A longer candidate that is still undecided is not a secret. The largest tokens have some 16 KiB.
pub const LONGEST_OPEN: usize = 32 * 1024;

impl SecretShape {
    const fn new(
        name: &'static str,
        start: &'static str,
        class: CharacterClass,
        length: SecretLength,
    ) -> Self {
        Self { name, start, class, length, left: PrecedingText::Anything }
    }

    const fn with_boundary(self) -> Self {
        Self { left: PrecedingText::Boundary, ..self }
    }

    /// Returns the index of its character class, below [`CLASSES`].
    pub fn class_index(&self) -> usize {
        match self.class {
            CharacterClass::Alphanumeric => 0,
            CharacterClass::Upper => 1,
            CharacterClass::Url => 2,
            CharacterClass::Token => 3,
            CharacterClass::Lines => 4,
        }
    }

    /// Returns whether a byte may be part of it.
    pub fn allows_byte(&self, byte: u8) -> bool {
        match self.class {
            CharacterClass::Alphanumeric => byte.is_ascii_alphanumeric(),
            CharacterClass::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            CharacterClass::Url => byte.is_ascii_alphanumeric() || b"-_".contains(&byte),
            CharacterClass::Token => byte.is_ascii_alphanumeric() || b"-_.".contains(&byte),
            CharacterClass::Lines => byte.is_ascii_alphanumeric() || b"+/=\\\r\n".contains(&byte),
        }
    }

    /// Returns whether a word of a command line or a setting looks like such a secret.
    ///
    /// Less strict than [`Self::decide`]: a hidden word costs little there, a visible key much.
    pub fn fits_word(&self, word: &str) -> bool {
        let Some(tail) = word.strip_prefix(self.start) else { return false };
        // A real key is long; `sk-` alone may be anything.
        word.len() >= SHORTEST_WORD
            && match self.class {
                // `npm_config_cache` and `hf_hub_offline` are names of variables.
                CharacterClass::Alphanumeric if ["npm_", "hf_"].contains(&self.start) => {
                    !tail.contains('_')
                }
                CharacterClass::Alphanumeric | CharacterClass::Url => true,
                // `ASIA` is also a continent.
                CharacterClass::Upper => tail.bytes().take(12).all(|it| self.allows_byte(it)),
                CharacterClass::Token => is_jwt(tail.as_bytes()),
                // A key in several lines is several words.
                CharacterClass::Lines => false,
            }
    }

    /// Decides about the bytes after the prefix that are available.
    pub fn decide(
        &self,
        before: [u8; 2],
        tail: &[u8],
        after: FollowingText,
        parts: TokenParts,
    ) -> ShapeDecision {
        if self.left == PrecedingText::Boundary && !is_boundary(before) {
            return ShapeDecision::Harmless;
        }
        let is_cut = after == FollowingText::MoreMayCome;
        // Later bytes must not change the decision about the beginning: the whole may arrive in
        // pieces, and a long run may contain thousands of candidates.
        let beginning = &tail[..tail.len().min(LONGEST_OPEN)];
        let is_long = match self.length {
            SecretLength::AtLeast(least) => tail.len() >= least,
            SecretLength::Exactly(length) => {
                tail.len() == length && !is_cut && !tail.ends_with(b"EXAMPLE")
            }
            SecretLength::Jwt => parts == TokenParts::Several && is_jwt(beginning),
        };
        if is_cut && tail.len() < LONGEST_OPEN {
            // Its end is not known yet, and with it where the next candidate begins.
            ShapeDecision::Open
        } else if is_long && is_random(beginning) && !is_public_sample(beginning) {
            ShapeDecision::Secret
        } else {
            ShapeDecision::Harmless
        }
    }
}

/// A shorter word is not taken for a key because of its prefix.
const SHORTEST_WORD: usize = 16;

/// How many characters are checked for randomness.
const RANDOMNESS_SAMPLE: usize = 256;

fn is_random(tail: &[u8]) -> bool {
    let mut seen = [false; 256];
    for byte in tail.iter().take(RANDOMNESS_SAMPLE) {
        seen[usize::from(*byte)] = true;
    }
    seen.iter().filter(|seen| **seen).count() >= MIN_DISTINCT
}

fn is_jwt(tail: &[u8]) -> bool {
    let mut parts = tail.split(|byte| *byte == b'.');
    let (header, claims, signature) = (parts.next(), parts.next(), parts.next());
    header.is_some_and(|it| it.len() >= 10)
        && claims.is_some_and(|it| it.starts_with(b"eyJ") && it.len() >= 10)
        && signature.is_some_and(|it| it.len() >= 16)
}

/// Tokens of the documentation of GitHub (after their prefix), Google and Slack.
const DOCUMENTED: [&[u8]; 4] = [
    b"16C7e42F292c6912E7710c838347Ae178B4a",
    b"1B4a2e77838347a7E420ce178F2E7c6912E169246c34E1ccbF66C46812d16D5B1A9Dc86A1498",
    b"SyDaGmWKa4JsXZ-HjGw7ISLn_3namBGewQe",
    b"23984754863-2348975623103",
];

/// The claims of the sample on jwt.io begin like this: `{"sub":"1234567890","name":"John Doe"`.
const SAMPLE_CLAIMS: &[u8] = b"eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lI";

/// The signature of the sample in RFC 7519.
const SAMPLE_SIGNATURE: &[u8] = b"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

/// Returns whether it is a sample that tests and documentation copy, and that opens nothing.
fn is_public_sample(tail: &[u8]) -> bool {
    let mut parts = tail.split(|byte| *byte == b'.').skip(1);
    let (claims, signature) = (parts.next(), parts.next());
    DOCUMENTED.contains(&tail)
        || claims.is_some_and(|claims| claims.starts_with(SAMPLE_CLAIMS))
        || signature == Some(SAMPLE_SIGNATURE)
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
pub const SHAPES: [SecretShape; 34] = {
    use CharacterClass::{Alphanumeric, Lines, Token, Upper, Url};
    use SecretLength::{AtLeast, Exactly, Jwt};
    const KEY: &str = "a private key";
    const GITHUB: &str = "a GitHub token";
    const SLACK: &str = "a Slack token";
    const AWS: &str = "an AWS access key";
    const OPENAI: &str = "an OpenAI key";
    [
        SecretShape::new("an Anthropic key", "sk-ant-", Url, AtLeast(24)),
        SecretShape::new(OPENAI, "sk-proj-", Url, AtLeast(24)),
        SecretShape::new(OPENAI, "sk-svcacct-", Url, AtLeast(24)),
        SecretShape::new("an OpenRouter key", "sk-or-v1-", Url, AtLeast(24)),
        SecretShape::new(OPENAI, "sk-", Alphanumeric, AtLeast(32)).with_boundary(),
        SecretShape::new("a Stripe key", "sk_live_", Alphanumeric, AtLeast(16)),
        SecretShape::new("a Stripe key", "rk_live_", Alphanumeric, AtLeast(16)),
        SecretShape::new(GITHUB, "ghp_", Alphanumeric, AtLeast(30)),
        SecretShape::new(GITHUB, "gho_", Alphanumeric, AtLeast(30)),
        SecretShape::new(GITHUB, "ghu_", Alphanumeric, AtLeast(30)),
        SecretShape::new(GITHUB, "ghs_", Alphanumeric, AtLeast(30)),
        SecretShape::new(GITHUB, "ghr_", Alphanumeric, AtLeast(30)),
        SecretShape::new(GITHUB, "github_pat_", Url, AtLeast(36)),
        SecretShape::new("a GitLab token", "glpat-", Url, AtLeast(20)),
        SecretShape::new(AWS, "AKIA", Upper, Exactly(16)),
        SecretShape::new(AWS, "ASIA", Upper, Exactly(16)),
        SecretShape::new("a Google key", "AIza", Url, Exactly(35)),
        SecretShape::new("a Google token", "ya29.", Url, AtLeast(40)),
        SecretShape::new(SLACK, "xoxb-", Url, AtLeast(20)),
        SecretShape::new(SLACK, "xoxp-", Url, AtLeast(20)),
        SecretShape::new(SLACK, "xoxa-", Url, AtLeast(20)),
        SecretShape::new(SLACK, "xoxs-", Url, AtLeast(20)),
        SecretShape::new(SLACK, "xapp-", Url, AtLeast(20)),
        SecretShape::new("an npm token", "npm_", Alphanumeric, Exactly(36)),
        SecretShape::new("a PyPI token", "pypi-AgEI", Url, AtLeast(50)),
        SecretShape::new("a Hugging Face token", "hf_", Alphanumeric, AtLeast(30)).with_boundary(),
        SecretShape::new("a DigitalOcean token", "dop_v1_", Alphanumeric, Exactly(64)),
        SecretShape::new("a web token", "eyJ", Token, Jwt),
        SecretShape::new(KEY, "-----BEGIN PRIVATE KEY-----", Lines, AtLeast(16)),
        SecretShape::new(KEY, "-----BEGIN RSA PRIVATE KEY-----", Lines, AtLeast(16)),
        SecretShape::new(KEY, "-----BEGIN EC PRIVATE KEY-----", Lines, AtLeast(16)),
        SecretShape::new(KEY, "-----BEGIN DSA PRIVATE KEY-----", Lines, AtLeast(16)),
        SecretShape::new(KEY, "-----BEGIN ENCRYPTED PRIVATE KEY-----", Lines, AtLeast(16)),
        SecretShape::new(KEY, "-----BEGIN OPENSSH PRIVATE KEY-----", Lines, AtLeast(16)),
    ]
};
