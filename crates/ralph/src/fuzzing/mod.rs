//! Targets for fuzzing: every parser of foreign bytes, with what must hold of it.
//!
//! A target is a plain function over bytes that panics where something does not hold. The tests of
//! this crate try every seed and a fixed number of mutations (`tests`); `fuzz/run` gives the same
//! functions to libFuzzer (`libfuzzer`), by building this binary with `--cfg fuzzing`. They live in
//! the binary because it is the one crate that sees all parsers, its own private ones included; the
//! private ones of other crates are reached through a hidden module of the same name there. Not
//! here: what the parsers mean.

mod agents;
mod documents;
#[cfg(fuzzing)]
mod libfuzzer;
#[cfg(test)]
mod mutate;
mod pieces;
mod runs;
mod seeds;
mod settings;
#[cfg(test)]
mod tests;
mod words;

/// A parser under test.
pub(crate) struct Target {
    /// Its name.
    pub(crate) name: &'static str,
    /// Reads bytes, and panics where something does not hold.
    pub(crate) run: fn(&[u8]),
    /// What the bytes usually are.
    pub(crate) form: Form,
    /// Files and directories with seeds, from the root of the repository. `fuzz/seeds/NAME` counts
    /// too, where it is there.
    pub(crate) seeds: &'static [&'static str],
    /// What its language is made of, beside JSON.
    pub(crate) words: &'static [&'static str],
}

impl Target {
    /// Returns what its language is made of.
    fn all_words(&self) -> impl Iterator<Item = &'static str> {
        let json: &[&str] = match self.form {
            Form::Bytes => &[],
            Form::Json | Form::JsonLines => &JSON,
        };
        self.words.iter().chain(json).copied()
    }
}

/// What the bytes of a target usually are; mutations go by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Text or anything else.
    Bytes,
    /// One JSON document.
    Json,
    /// A JSON document a line.
    JsonLines,
}

/// Returns all targets.
pub(crate) fn targets() -> impl Iterator<Item = &'static Target> {
    [settings::TARGETS, documents::TARGETS, words::TARGETS, runs::TARGETS, agents::TARGETS]
        .into_iter()
        .flatten()
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
