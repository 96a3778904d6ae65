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

use shapes::{After, CLASSES, LONGEST_OPEN, Parts, SHAPES, Shape, Weighed};
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
        let mut look = self.look(context, bytes, After::Ended);
        while let Search::Hit(found, _) = look.search(done) {
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
        match self.look([0; 2], bytes, After::Ended).search(from) {
            Search::Hit(found, _) => Some(found),
            Search::Open { .. } | Search::Nothing => None,
        }
    }

    /// Looks through some bytes. The context is what stands before them.
    fn look<'a>(&'a self, context: [u8; 2], bytes: &'a [u8], end: After) -> Look<'a> {
        let (next, runs, dot) = ([None; MOST_GROUPS], [(1, 0); CLASSES], (1, 0));
        Look { patterns: &self.0, context, bytes, end, next, runs, dot }
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
}

/// The next match of a group, and the number of its pattern.
type Next = Option<(Span, usize)>;

/// One look through some bytes.
///
/// It remembers what it has seen of what lies ahead. Without that, a text that is full of
/// candidates takes the square of its length: each of them would be followed to the end of its run,
/// and each group of patterns would be looked for up to the end of the text again and again.
struct Look<'a> {
    patterns: &'a Patterns,
    context: [u8; 2],
    bytes: &'a [u8],
    end: After,
    /// For each group: from where it was last looked for, and what was found.
    next: [Option<(usize, Next)>; MOST_GROUPS],
    /// For each class of characters: the run of them that was measured last.
    runs: [(usize, usize); CLASSES],
    /// From where a dot was last looked for, and where it is; or else the end.
    dot: (usize, usize),
}

impl Look<'_> {
    /// Looks for the next secret, with everything that overlaps or touches it.
    fn search(&mut self, from: usize) -> Search {
        let first = self.search_one(from);
        let Search::Hit(mut found, mut going_on) = first else { return first };
        let mut next = found.start + 1;
        loop {
            match self.search_one(next) {
                Search::Hit(other, goes_on) if other.start <= found.end => {
                    if other.end > found.end {
                        (found.end, going_on) = (other.end, goes_on);
                    }
                    next = other.start + 1;
                }
                // What it has in common with the one before would be lost. A row of secrets that
                // is longer than any is not waited for.
                Search::Open { start }
                    if start <= found.end && found.end - found.start < LONGEST_OPEN =>
                {
                    return Search::Open { start: found.start };
                }
                Search::Hit(..) | Search::Open { .. } | Search::Nothing => {
                    return Search::Hit(found, going_on);
                }
            }
        }
    }

    fn search_one(&mut self, from: usize) -> Search {
        let mut at = from;
        while let Some((Span { start, end: body }, pattern)) = self.first(at) {
            let Some(shape) = SHAPES.get(pattern) else {
                let found = Found { start, end: body, kind: Kind::Value };
                return Search::Hit(found, None);
            };
            let run_end = self.run_end(shape, body);
            let after = if run_end == self.bytes.len() { self.end } else { After::Ended };
            let before = last_two(self.context, &self.bytes[..start]);
            let parts = if self.dot(body) < run_end { Parts::Several } else { Parts::One };
            match shape.weigh(before, &self.bytes[body..run_end], after, parts) {
                Weighed::Secret => {
                    let found = Found { start, end: run_end, kind: Kind::Shape(shape.name) };
                    let goes_on = (after == After::MoreMayCome).then_some(shape);
                    return Search::Hit(found, goes_on);
                }
                Weighed::Open => return Search::Open { start },
                Weighed::Harmless => at = start + 1,
            }
        }
        Search::Nothing
    }

    /// Returns where the characters end that a shape may have from a place on.
    fn run_end(&mut self, shape: &Shape, from: usize) -> usize {
        let (start, end) = &mut self.runs[shape.class()];
        if !(*start <= from && from <= *end) {
            let rest = &self.bytes[from..];
            let length = rest.iter().position(|byte| !shape.takes(*byte));
            (*start, *end) = (from, from + length.unwrap_or(rest.len()));
        }
        *end
    }

    /// Returns where the next dot is from a place on; the end where there is none.
    fn dot(&mut self, from: usize) -> usize {
        let (looked, dot) = self.dot;
        if !(looked <= from && from <= dot) {
            let rest = &self.bytes[from..];
            let found = rest.iter().position(|byte| *byte == b'.');
            self.dot = (from, from + found.unwrap_or(rest.len()));
        }
        self.dot.1
    }

    /// Returns the first pattern from a place on, the longest of those, and its number.
    fn first(&mut self, from: usize) -> Option<(Span, usize)> {
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
