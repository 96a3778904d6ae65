//! Targets for fuzzing: every parser of foreign bytes that a crate makes public, with its invariants.
//!
//! A target is a function over bytes that panics if an invariant does not hold. Tests run every seed
//! and a fixed number of mutations (`trial`); `fuzz/run` gives the same functions to libFuzzer.
//! Private parsers have property tests beside them, those of the binary targets in its own tests.

mod agents;
mod documents;
mod mutate;
mod pieces;
mod runs;
mod seeds;
mod trial;
mod words;

pub use runs::in_file;
pub use seeds::read_seeds;
pub use trial::{check_mutations, check_repetitions, check_seeds};

/// A parser under test.
pub struct FuzzTarget {
    pub name: &'static str,
    /// Reads bytes, and panics where something does not hold.
    pub run: fn(&[u8]),
    /// What the bytes usually are.
    pub form: FuzzForm,
    /// Files and directories with seeds, from the root of the repository. `fuzz/seeds/NAME` counts
    /// too, where it is there.
    pub seeds: &'static [&'static str],
    /// What its language is made of, beside JSON.
    pub words: &'static [&'static str],
}

impl FuzzTarget {
    /// Returns what its language is made of.
    pub fn all_words(&self) -> impl Iterator<Item = &'static str> {
        let json: &[&str] = match self.form {
            FuzzForm::Bytes => &[],
            FuzzForm::Json | FuzzForm::JsonLines => &JSON,
        };
        self.words.iter().chain(json).copied()
    }
}

/// What the bytes of a target usually are; mutations go by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FuzzForm {
    /// Text or anything else.
    Bytes,
    /// One JSON document.
    Json,
    /// A JSON document a line.
    JsonLines,
}

/// Returns all targets.
pub fn list_targets() -> impl Iterator<Item = &'static FuzzTarget> {
    [documents::TARGETS, words::TARGETS, runs::TARGETS, agents::TARGETS].into_iter().flatten()
}

/// What JSON is made of.
const JSON: [&str; 12] = [
    "{",
    "}",
    "[",
    "]",
    "\":",
    ",",
    "null",
    "true",
    "1e308",
    "-0.0",
    "\\ud83d",
    "18446744073709551616",
];
