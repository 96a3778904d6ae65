//! Masks secrets in everything that ralph writes down, shows, or tells an agent again.
//!
//! A [`Masker`] is made once a run, from the values that are known to be secret; what is known by
//! its shape needs no list. It stands where bytes come in (agents, gates), where prompts go out,
//! and where events are recorded, so that everything made of those is clean. Not here: which
//! variables hold secrets (`ralph_core::secret`), and looking through commits (`git`).

mod encodings;
mod shapes;
mod stream;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind, Span};
use ralph_core::event::Event;
use ralph_core::secret::{MASK, known};

use shapes::{After, SHAPES, Shape, Weighed};
pub use stream::{MaskStream, MaskWriter};

/// Knows the secrets of a run.
#[derive(Debug, Clone)]
pub struct Masker(Arc<Patterns>);

/// What is looked for.
#[derive(Debug)]
struct Patterns {
    /// The starts of the shapes, then every form of every known secret, in groups.
    finders: Vec<AhoCorasick>,
    /// How many patterns a group has.
    group: usize,
    /// The patterns, sorted: for what may be the beginning of one.
    sorted: Vec<Vec<u8>>,
    longest: usize,
    /// Whether anything begins with a byte.
    starts: [bool; 256],
}

/// A secret that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Where it begins.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// What it is.
    pub kind: Kind,
}

/// What a secret is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Its value.
    Value,
    /// Its shape; the words say what it is.
    Shape(&'static str),
}

/// What a search comes to.
#[derive(Debug, Clone, Copy)]
enum Search {
    /// A secret; the shape goes on where more comes.
    Hit(Found, Option<&'static Shape>),
    /// Something that what comes next decides.
    Open { start: usize },
    /// Nothing more.
    Nothing,
}

impl Default for Masker {
    /// Returns one that knows shapes only.
    fn default() -> Self {
        Self::new([])
    }
}

impl Masker {
    /// Returns one that knows these values, too.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let secrets: BTreeSet<String> = secrets.into_iter().collect();
        let values: BTreeSet<Vec<u8>> =
            secrets.iter().flat_map(|secret| encodings::forms(secret)).collect();
        let starts = SHAPES.iter().map(|shape| shape.start.as_bytes().to_vec());
        let patterns: Vec<Vec<u8>> = starts.chain(values).collect();
        Self(Arc::new(Patterns::new(patterns)))
    }

    /// Returns one that knows the secrets of environments, and others beside them.
    pub fn of_environment<'a>(
        variables: impl IntoIterator<Item = (&'a OsString, &'a OsString)>,
        others: impl IntoIterator<Item = String>,
    ) -> Self {
        let text: Vec<(String, String)> = variables
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_str()?.into(), value.to_str()?.into())))
            .collect();
        let pairs = text.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut secrets = known::of_variables(pairs);
        secrets.extend(others.into_iter().filter(|value| known::is_worth_hiding(value)));
        // A path is no secret, whatever the variable is called.
        secrets.retain(|value| !(value.starts_with('/') && Path::new(value).exists()));
        Self::new(secrets)
    }

    /// Returns a text without its secrets.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(clean) => match String::from_utf8(clean) {
                Ok(clean) => Cow::Owned(clean),
                Err(error) => Cow::Owned(String::from_utf8_lossy(error.as_bytes()).into_owned()),
            },
        }
    }

    /// Returns bytes without their secrets.
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        self.bytes_after([0; 2], bytes)
    }

    fn bytes_after<'a>(&self, context: [u8; 2], bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut clean = Vec::new();
        let mut done = 0;
        while let Search::Hit(found, _) = self.search(context, bytes, done, After::Ended) {
            clean.extend_from_slice(&bytes[done..found.start]);
            clean.extend_from_slice(MASK.as_bytes());
            done = found.end;
        }
        if done == 0 {
            return Cow::Borrowed(bytes);
        }
        clean.extend_from_slice(&bytes[done..]);
        Cow::Owned(clean)
    }

    /// Returns an event without the secrets in its texts.
    ///
    /// The policies of a run are left as they are: they are what it goes by.
    pub fn event(&self, event: Event) -> Event {
        if matches!(event, Event::RunStarted { .. } | Event::RunResumed { .. }) {
            return event;
        }
        let Ok(text) = serde_json::to_vec(&event) else { return event };
        match self.bytes(&text) {
            Cow::Borrowed(_) => event,
            // Only texts hold what is long and random, and a masked text is one as well.
            Cow::Owned(clean) => serde_json::from_slice(&clean).unwrap_or(event),
        }
    }

    /// Masks what comes in pieces.
    pub fn stream(&self) -> MaskStream {
        MaskStream::new(self.clone())
    }

    /// Returns the first secret from a place on.
    pub fn find(&self, bytes: &[u8], from: usize) -> Option<Found> {
        match self.search([0; 2], bytes, from, After::Ended) {
            Search::Hit(found, _) => Some(found),
            Search::Open { .. } | Search::Nothing => None,
        }
    }

    /// Looks for the next secret, with everything that overlaps or touches it. The context is what
    /// stands before the bytes.
    fn search(&self, context: [u8; 2], bytes: &[u8], from: usize, end: After) -> Search {
        let first = self.search_one(context, bytes, from, end);
        let Search::Hit(mut found, mut going_on) = first else { return first };
        let mut next = found.start + 1;
        while let Search::Hit(other, goes_on) = self.search_one(context, bytes, next, end)
            && other.start <= found.end
        {
            if other.end > found.end {
                (found.end, going_on) = (other.end, goes_on);
            }
            next = other.start + 1;
        }
        Search::Hit(found, going_on)
    }

    fn search_one(&self, context: [u8; 2], bytes: &[u8], from: usize, end: After) -> Search {
        let mut at = from;
        while let Some((Span { start, end: body }, pattern)) = self.0.first(bytes, at) {
            let Some(shape) = SHAPES.get(pattern) else {
                let found = Found { start, end: body, kind: Kind::Value };
                return Search::Hit(found, None);
            };
            let tail = &bytes[body..];
            let length = tail.iter().take_while(|byte| shape.takes(**byte)).count();
            let after = if length == tail.len() { end } else { After::Ended };
            match shape.weigh(last_two(context, &bytes[..start]), &tail[..length], after) {
                Weighed::Secret => {
                    let found = Found { start, end: body + length, kind: Kind::Shape(shape.name) };
                    let goes_on = (after == After::MoreMayCome).then_some(shape);
                    return Search::Hit(found, goes_on);
                }
                Weighed::Open => return Search::Open { start },
                Weighed::Harmless => at = start + 1,
            }
        }
        Search::Nothing
    }

    /// Returns where something begins that may become a secret with what comes next. No secret
    /// spans lines but for a private key, whose start does not.
    fn beginning(&self, bytes: &[u8]) -> usize {
        let Patterns { sorted, longest, starts, .. } = &*self.0;
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

impl Patterns {
    fn new(patterns: Vec<Vec<u8>>) -> Self {
        // Few patterns are looked for many bytes at a time, several times as fast as byte by byte.
        // So a few groups cost less than one; many do not.
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

    /// Returns the first pattern from a place on, the longest of those, and its number.
    fn first(&self, bytes: &[u8], from: usize) -> Option<(Span, usize)> {
        let from = from.min(bytes.len());
        let mut first: Option<(Span, usize)> = None;
        for (place, finder) in self.finders.iter().enumerate() {
            // What begins later than what is found already does not matter.
            let end =
                first.map_or(bytes.len(), |(span, _)| bytes.len().min(span.start + self.longest));
            let Some(found) = finder.find(Input::new(bytes).range(from..end)) else { continue };
            let number = place * self.group + found.pattern().as_usize();
            let key = |span: Span| (span.start, usize::MAX - span.end);
            if first.is_none_or(|(span, _)| key(found.span()) < key(span)) {
                first = Some((found.span(), number));
            }
        }
        first
    }
}

/// Returns the last two bytes of what stands before some place.
fn last_two(context: [u8; 2], bytes: &[u8]) -> [u8; 2] {
    match bytes {
        [.., first, second] => [*first, *second],
        [only] => [context[1], *only],
        [] => context,
    }
}

/// A group of about this many is still looked for many bytes at a time.
const GROUP: usize = 48;

/// With more groups than this, one is faster.
const MOST_GROUPS: usize = 5;

/// With this many bytes of patterns the table takes about 5 MB; with more, a slower one is used.
const LARGEST_TABLE: usize = 20_000;

#[cfg(test)]
mod tests;
