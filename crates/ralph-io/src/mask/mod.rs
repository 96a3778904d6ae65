//! Masks secrets in everything that ralph stores, shows, or sends to an agent again.
//!
//! A [`Masker`] is created once per run, from the values that are known to be secret; secrets with
//! a recognizable shape need no list. It is applied where bytes come in (agents, gates), where
//! prompts go out, and where events are recorded, so that everything derived from those is clean.
//! Not here: which variables and shapes are secrets
//! (`ralph_core::checking::secret`), and scanning commits (`git`).

mod encodings;
mod stream;
mod visible;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind, Span};
use ralph_core::checking::secret::shapes::{
    CLASSES, FollowingText, LONGEST_OPEN, SHAPES, SecretShape, ShapeDecision, TokenParts,
};
use ralph_core::checking::secret::{MASK, known_secrets};
use ralph_model::event::Event;
pub use stream::{MaskStream, MaskWriter};
use visible::VisibleBytes;

/// Finds and masks the secrets of a run.
#[derive(Debug, Clone)]
pub struct Masker(Arc<MaskPatterns>);

/// Recognizes shapes and no values. Its patterns are always the same and take long to prepare.
static SHAPES_ONLY: LazyLock<Masker> = LazyLock::new(|| Masker::from_values(&BTreeSet::new()));

/// The patterns to search for.
#[derive(Debug)]
struct MaskPatterns {
    /// Searchers for the prefixes of the shapes, then for every form of every known secret, in
    /// groups.
    finders: Vec<AhoCorasick>,
    /// How many patterns a group has.
    group: usize,
    /// The patterns, sorted, to find text that may be the beginning of one.
    sorted: Vec<Vec<u8>>,
    longest: usize,
    /// Whether any pattern begins with a byte.
    starts: [bool; 256],
}

/// A secret that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundSecret {
    pub start: usize,
    pub end: usize,
    pub kind: SecretKind,
}

/// How a secret was recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretKind {
    /// By its value.
    Value,
    /// By its shape, with a description for users.
    Shape(&'static str),
}

/// The secrets in a text, or in a piece of one.
#[derive(Debug, Default)]
struct TextSecrets {
    /// In their order; none overlaps another one.
    secrets: Vec<FoundSecret>,
    /// From here on the next bytes decide.
    hold: usize,
    /// The shape of the last secret if more of it may follow.
    continued: Option<&'static SecretShape>,
    /// The last two visible bytes before `hold`.
    visible: [u8; 2],
}

/// The result of a search.
#[derive(Debug, Clone, Copy)]
enum SearchResult {
    /// A secret; with the shape if more of it may follow.
    Hit(FoundSecret, Option<&'static SecretShape>),
    /// A candidate that the next bytes decide.
    Open {
        start: usize,
    },
    Nothing,
}

impl Default for Masker {
    /// Returns a masker that recognizes shapes only.
    fn default() -> Self {
        Self::new([])
    }
}

impl Masker {
    /// Returns a masker that recognizes these values as well.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let secrets: BTreeSet<String> = secrets.into_iter().collect();
        if secrets.is_empty() { SHAPES_ONLY.clone() } else { Self::from_values(&secrets) }
    }

    fn from_values(secrets: &BTreeSet<String>) -> Self {
        let values: BTreeSet<Vec<u8>> =
            secrets.iter().flat_map(|secret| encodings::build_forms(secret)).collect();
        let starts = SHAPES.iter().map(|shape| shape.start.as_bytes().to_vec());
        let patterns: Vec<Vec<u8>> = starts.chain(values).collect();
        Self(Arc::new(MaskPatterns::new(patterns)))
    }

    /// Returns a masker for the secrets in environment variables, and for other values.
    pub fn from_environment<'a>(
        variables: impl IntoIterator<Item = (&'a OsString, &'a OsString)>,
        others: impl IntoIterator<Item = String>,
    ) -> Self {
        let text: Vec<(String, String)> = variables
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_str()?.into(), value.to_str()?.into())))
            .collect();
        let pairs = text.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut secrets = known_secrets::collect_from_variables(pairs);
        secrets.extend(others.into_iter().filter(|value| known_secrets::is_worth_hiding(value)));
        // A path is not a secret, whatever the variable is called.
        secrets.retain(|value| !(value.starts_with('/') && Path::new(value).exists()));
        Self::new(secrets)
    }

    /// Masks the secrets in a text.
    pub fn mask_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.mask_bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(clean) => match String::from_utf8(clean) {
                Ok(clean) => Cow::Owned(clean),
                Err(error) => Cow::Owned(String::from_utf8_lossy(error.as_bytes()).into_owned()),
            },
        }
    }

    /// Masks the secrets in bytes.
    pub fn mask_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        self.mask_bytes_after([[0; 2]; 2], bytes)
    }

    fn mask_bytes_after<'a>(&self, contexts: [[u8; 2]; 2], bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let found = self.find_all(contexts, bytes, FollowingText::Ended);
        match replace_spans(bytes, &found.secrets) {
            Some(clean) => Cow::Owned(clean),
            None => Cow::Borrowed(bytes),
        }
    }

    /// Masks the secrets in the texts of an event.
    ///
    /// Start and resume events stay unmasked: the run depends on the policies in them.
    pub fn mask_event(&self, event: Event) -> Event {
        if matches!(event, Event::RunStarted { .. } | Event::RunResumed { .. }) {
            return event;
        }
        let Ok(text) = serde_json::to_vec(&event) else { return event };
        match self.mask_bytes(&text) {
            Cow::Borrowed(_) => event,
            // Only texts contain long random values, and a masked text is still a text.
            Cow::Owned(clean) => serde_json::from_slice(&clean).unwrap_or(event),
        }
    }

    /// Returns a masker for data that arrives in pieces.
    pub fn new_stream(&self) -> MaskStream {
        MaskStream::new(self.clone())
    }

    /// Finds all secrets.
    pub fn find_secrets(&self, bytes: &[u8]) -> Vec<FoundSecret> {
        self.find_all([[0; 2]; 2], bytes, FollowingText::Ended).secrets
    }

    /// Finds all secrets in a text as it is, and as people see it: an escape sequence can hide a
    /// secret from the one search or from the other. `contexts` are the two bytes before the text
    /// for both.
    fn find_all(&self, contexts: [[u8; 2]; 2], bytes: &[u8], end: FollowingText) -> TextSecrets {
        let visible = VisibleBytes::from_text(bytes, end);
        let known = visible.locate_start(visible.bytes.len());
        let mut found = self.find_in(contexts[0], &bytes[..known], end);
        if !visible.is_all() {
            let seen = self.find_in(contexts[1], &visible.bytes, end);
            found.hold = found.hold.min(visible.locate_start(seen.hold));
            found.continued = seen.continued.or(found.continued);
            found.secrets.extend(seen.secrets.iter().map(|it| FoundSecret {
                start: visible.locate_start(it.start),
                end: visible.locate_end(it.end),
                kind: it.kind,
            }));
            merge_spans(&mut found.secrets);
        }
        // A secret that the rest may change is searched again together with it.
        for secret in found.secrets.iter().rev() {
            if secret.end > found.hold && secret.start < found.hold {
                found.hold = secret.start;
            }
        }
        found.secrets.retain(|secret| secret.end <= found.hold);
        if found.hold < bytes.len() {
            found.continued = None;
        }
        found.visible =
            keep_last_two(contexts[1], &visible.bytes[..visible.count_before(found.hold)]);
        found
    }

    /// Finds all secrets in some bytes.
    fn find_in(&self, context: [u8; 2], bytes: &[u8], end: FollowingText) -> TextSecrets {
        let beginning = match end {
            FollowingText::MoreMayCome => self.find_possible_start(bytes),
            FollowingText::Ended => bytes.len(),
        };
        let mut found = TextSecrets { hold: beginning, ..TextSecrets::default() };
        let (mut done, mut scan) = (0, self.start_scan(context, bytes, end));
        loop {
            match scan.find_merged(done) {
                SearchResult::Hit(secret, None) if secret.end > beginning => {
                    // It may be part of a longer pattern.
                    found.hold = beginning.min(secret.start);
                    return found;
                }
                SearchResult::Hit(secret, continued) => {
                    done = secret.end;
                    found.hold = found.hold.max(done);
                    found.continued = continued;
                    found.secrets.push(secret);
                }
                SearchResult::Open { start } => {
                    found.hold = found.hold.min(start);
                    return found;
                }
                SearchResult::Nothing => return found,
            }
        }
    }

    /// Starts a scan of some bytes. `context` is the two bytes before them.
    fn start_scan<'a>(
        &'a self,
        context: [u8; 2],
        bytes: &'a [u8],
        end: FollowingText,
    ) -> MaskScan<'a> {
        let (next, runs, dot) = ([None; MOST_GROUPS], [(1, 0); CLASSES], (1, 0));
        MaskScan { patterns: &self.0, context, bytes, end, next, runs, dot }
    }

    /// Returns the offset of text at the end that may become a secret with the next bytes. No
    /// secret spans lines except for a private key, whose prefix does not.
    fn find_possible_start(&self, bytes: &[u8]) -> usize {
        let MaskPatterns { sorted, longest, starts, .. } = &*self.0;
        let line = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
        let first = line.max((bytes.len() + 1).saturating_sub(*longest));
        (first..bytes.len())
            .find(|place| {
                let rest = &bytes[*place..];
                if !starts[usize::from(rest[0])] {
                    return false;
                }
                let next = sorted.partition_point(|pattern| pattern.as_slice() <= rest);
                sorted.get(next).is_some_and(|pattern| pattern.starts_with(rest))
            })
            .unwrap_or(bytes.len())
    }
}

impl MaskPatterns {
    fn new(patterns: Vec<Vec<u8>>) -> Self {
        // Searching few patterns is vectorized and several times as fast as byte by byte. So a few
        // groups cost less than one; many do not.
        let group = if patterns.len() > GROUP * MOST_GROUPS { patterns.len() } else { GROUP };
        let build = |patterns: &[Vec<u8>]| {
            let mut builder = AhoCorasick::builder();
            builder.match_kind(MatchKind::LeftmostLongest);
            let size: usize = patterns.iter().map(Vec::len).sum();
            let kind = (size <= LARGEST_TABLE).then_some(AhoCorasickKind::DFA);
            let finder = builder.kind(kind).build(patterns);
            finder.expect("patterns of bounded number and length can be looked for")
        };
        let finders = patterns.chunks(group).map(build).collect();
        let mut starts = [false; 256];
        for pattern in &patterns {
            starts[usize::from(pattern[0])] = true;
        }
        let longest = patterns.iter().map(Vec::len).max().unwrap_or_default();
        let mut sorted = patterns;
        sorted.sort();
        Self { finders, group, sorted, longest, starts }
    }
}

/// The next match of a group, and the number of its pattern.
type NextMatch = Option<(Span, usize)>;

/// One scan of some bytes.
///
/// Caches what it has found ahead. Otherwise a text full of candidates would take quadratic time:
/// each candidate would be followed to the end of its run, and each group of patterns searched up
/// to the end of the text again and again.
struct MaskScan<'a> {
    patterns: &'a MaskPatterns,
    context: [u8; 2],
    bytes: &'a [u8],
    end: FollowingText,
    /// For each group: the offset of the last search, and what was found.
    next: [Option<(usize, NextMatch)>; MOST_GROUPS],
    /// For each character class: the run that was measured last.
    runs: [(usize, usize); CLASSES],
    /// The offset of the last search for a dot, and the result, or the end of the text.
    dot: (usize, usize),
}

impl MaskScan<'_> {
    /// Finds the next secret, merged with all secrets that overlap or touch it.
    fn find_merged(&mut self, from: usize) -> SearchResult {
        let first = self.find_single(from);
        let SearchResult::Hit(mut found, mut open_shape) = first else { return first };
        let mut next = found.start + 1;
        loop {
            match self.find_single(next) {
                SearchResult::Hit(other, continued) if other.start <= found.end => {
                    if other.end > found.end {
                        (found.end, open_shape) = (other.end, continued);
                    }
                    next = other.start + 1;
                }
                // Masking now would lose the overlap with the previous secret. But a chain of
                // secrets longer than the maximum is not held back.
                SearchResult::Open { start }
                    if start <= found.end && found.end - found.start < LONGEST_OPEN =>
                {
                    return SearchResult::Open { start: found.start };
                }
                SearchResult::Hit(..) | SearchResult::Open { .. } | SearchResult::Nothing => {
                    return SearchResult::Hit(found, open_shape);
                }
            }
        }
    }

    fn find_single(&mut self, from: usize) -> SearchResult {
        let mut at = from;
        while let Some((Span { start, end: body }, pattern)) = self.find_pattern(at) {
            let Some(shape) = SHAPES.get(pattern) else {
                let found = FoundSecret { start, end: body, kind: SecretKind::Value };
                return SearchResult::Hit(found, None);
            };
            let run_end = self.find_run_end(shape, body);
            let after = if run_end == self.bytes.len() { self.end } else { FollowingText::Ended };
            let before = keep_last_two(self.context, &self.bytes[..start]);
            let parts =
                if self.find_dot(body) < run_end { TokenParts::Several } else { TokenParts::One };
            match shape.decide(before, &self.bytes[body..run_end], after, parts) {
                ShapeDecision::Secret => {
                    let found =
                        FoundSecret { start, end: run_end, kind: SecretKind::Shape(shape.name) };
                    let continued = (after == FollowingText::MoreMayCome).then_some(shape);
                    return SearchResult::Hit(found, continued);
                }
                ShapeDecision::Open => return SearchResult::Open { start },
                ShapeDecision::Harmless => at = start + 1,
            }
        }
        SearchResult::Nothing
    }

    /// Returns the end of the characters that a shape allows, from an offset on.
    fn find_run_end(&mut self, shape: &SecretShape, from: usize) -> usize {
        let (start, end) = &mut self.runs[shape.class_index()];
        if !(*start <= from && from <= *end) {
            let rest = &self.bytes[from..];
            let length = rest.iter().position(|byte| !shape.allows_byte(*byte));
            (*start, *end) = (from, from + length.unwrap_or(rest.len()));
        }
        *end
    }

    /// Returns the offset of the next dot, or the end of the text.
    fn find_dot(&mut self, from: usize) -> usize {
        let (looked, dot) = self.dot;
        if !(looked <= from && from <= dot) {
            let rest = &self.bytes[from..];
            let found = rest.iter().position(|byte| *byte == b'.');
            self.dot = (from, from + found.unwrap_or(rest.len()));
        }
        self.dot.1
    }

    /// Finds the first pattern from an offset on, the longest of those, and its number.
    fn find_pattern(&mut self, from: usize) -> Option<(Span, usize)> {
        let from = from.min(self.bytes.len());
        let mut first: Option<(Span, usize)> = None;
        for (place, finder) in self.patterns.finders.iter().enumerate() {
            let is_ahead =
                |found: Option<(Span, usize)>| found.is_none_or(|(span, _)| span.start >= from);
            let found = match self.next[place] {
                Some((looked, found)) if looked <= from && is_ahead(found) => found,
                Some(_) | None => {
                    let found = finder.find(Input::new(self.bytes).range(from..)).map(|found| {
                        let number = place * self.patterns.group + found.pattern().as_usize();
                        (found.span(), number)
                    });
                    self.next[place] = Some((from, found));
                    found
                }
            };
            let key = |(span, _): (Span, usize)| (span.start, usize::MAX - span.end);
            if let Some(found) = found
                && first.is_none_or(|first| key(found) < key(first))
            {
                first = Some(found);
            }
        }
        first
    }
}

/// Sorts secrets, and joins those that overlap or touch.
fn merge_spans(secrets: &mut Vec<FoundSecret>) {
    secrets.sort_by_key(|secret| (secret.start, secret.end));
    secrets.dedup_by(|later, earlier| {
        let is_joined = later.start <= earlier.end;
        if is_joined {
            earlier.end = earlier.end.max(later.end);
        }
        is_joined
    });
}

/// Returns a text with a mask for each secret in it, or none if there is no secret.
fn replace_spans(bytes: &[u8], secrets: &[FoundSecret]) -> Option<Vec<u8>> {
    let (mut clean, mut done) = (Vec::new(), 0);
    for secret in secrets {
        clean.extend_from_slice(&bytes[done..secret.start]);
        clean.extend_from_slice(MASK.as_bytes());
        done = secret.end;
    }
    clean.extend_from_slice(&bytes[done..]);
    (!secrets.is_empty()).then_some(clean)
}

/// Returns the last two bytes before an offset.
fn keep_last_two(context: [u8; 2], bytes: &[u8]) -> [u8; 2] {
    match bytes {
        [.., first, second] => [*first, *second],
        [only] => [context[1], *only],
        [] => context,
    }
}

/// A group of about this size still uses the vectorized search.
const GROUP: usize = 48;

/// With more groups than this, a single one is faster.
const MOST_GROUPS: usize = 5;

/// With this many bytes of patterns the table takes about 5 MB; with more, a slower search is used.
const LARGEST_TABLE: usize = 20_000;

#[cfg(test)]
mod tests;
