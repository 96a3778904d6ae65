//! What an agent gives to the tests that all agents share: its recorded streams, its lines, and rows
//! of its own.
//!
//! Not here: the suites. Each is in its agent's folder, and `conformance` lists them.

use std::path::{Path, PathBuf};

use ralph_core::ports::AgentRequest;
use ralph_model::agent::AgentKind;
use ralph_model::agent_output::Reply;
use ralph_model::child::Ending;
use ralph_model::failure::{Failure, FailureClass};

use super::recorded::{NOW, exit, list_streams, mutilated, show};
use super::table::{TAG, read_ending};
use crate::ParsedLine;
use crate::test_support::{build_request, read_stream};

/// One agent in the tests. Its rows come on top of those that all agents have.
#[derive(Debug)]
pub(crate) struct AgentSuite {
    pub(crate) kind: AgentKind,
    /// The version that was recorded.
    pub(crate) version: &'static str,
    /// Its lines under words that the tables use.
    ///
    /// `begin` opens a turn, `text` is a whole message and `piece` a part of one, `end` is the
    /// success of a turn and `fail` its failure. `whole` is a message that replaces the one before,
    /// `alone` a success that is enough without other lines, `complaint` a failure whose text is
    /// only shown. `-` stands for no line, `= ` for other words. The rest of the words are the
    /// agent's own. A shared row with a word that an agent lacks is not for that agent.
    pub(crate) lines: &'static str,
    /// The streams whose process did not exit with 0, each with its ending, such as `drop=s9`.
    pub(crate) endings: &'static str,
    /// A stream, and whether it completes.
    pub(crate) answers: &'static str,
    /// An ending, its class, and what was on stdout and on stderr.
    pub(crate) failures: &'static str,
    /// An ending, and a stream that reports the error `%`.
    pub(crate) ways: &'static str,
    /// A class, and an error that is reported in each of these ways.
    pub(crate) errors: &'static str,
    /// An ending, a part of the message or hint, and what was on stdout and on stderr.
    pub(crate) messages: &'static str,
    /// A line that it never prints, and whether it counts as progress or is only skipped.
    pub(crate) odd_lines: &'static str,
    /// The options of a request, and the user's flags.
    pub(crate) calls: &'static str,
}

impl AgentSuite {
    /// Returns a suite without rows of its own.
    pub(crate) const fn new(kind: AgentKind, version: &'static str, lines: &'static str) -> Self {
        Self {
            kind,
            version,
            lines,
            endings: "",
            answers: "",
            failures: "",
            ways: "",
            errors: "",
            messages: "",
            odd_lines: "",
            calls: "",
        }
    }

    /// Returns whether it prints JSON.
    pub(crate) fn has_json_lines(&self) -> bool {
        self.lines.contains("{\"")
    }

    pub(crate) fn directory(&self) -> PathBuf {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        data.join(self.kind.name()).join(self.version)
    }

    pub(crate) fn file(&self, name: &str) -> String {
        let path = self.directory().join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(crate) fn stream(&self, name: &str) -> String {
        self.file(&format!("{name}.ndjson"))
    }

    /// Returns a reading of every stream, for people to check.
    pub(crate) fn readings(&self) -> String {
        let names = list_streams(&self.directory());
        let mut shown = String::new();
        let endings = self.endings.split_whitespace();
        let endings: Vec<_> = endings.filter_map(|ending| ending.split_once('=')).collect();
        for name in &names {
            let ending = endings.iter().find(|(it, _)| it == name);
            let ending = ending.map_or(exit(0), |(_, ending)| read_ending(ending));
            let (all, reply) = self.read(&self.stream(name), "", ending);
            shown.push_str(&show(name, &all, &reply));
        }
        assert!(endings.iter().all(|(name, _)| names.iter().any(|it| it == name)));
        shown
    }

    /// Returns a request whose prompt holds a completion signal, which must not count.
    pub(crate) fn request(&self) -> AgentRequest {
        build_request(self.kind, &[], "Do it. Then print <promise>COMPLETE</promise>.")
    }

    /// Reads a whole stream as the port does.
    pub(crate) fn read(
        &self,
        stream: &str,
        stderr: &str,
        ending: Ending,
    ) -> (Vec<ParsedLine>, Reply) {
        read_stream(&self.request(), stream, stderr, ending, NOW)
    }

    /// Checks the class of a failure, and returns the failure.
    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "expected values are written in place")]
    pub(crate) fn check(
        &self,
        stream: &str,
        stderr: &str,
        ending: Ending,
        expect: Option<FailureClass>,
    ) -> Option<Failure> {
        let found = self.read(stream, stderr, ending).1.failure;
        assert_eq!(found.as_ref().map(|it| it.class.clone()), expect, "{stream}\n{found:?}");
        found
    }

    /// Checks that an answer of this many bytes in one line completes.
    #[track_caller]
    pub(crate) fn check_long_line(&self, bytes: usize) {
        let stream = format!("begin; text {}{TAG}; end {TAG}", "x".repeat(bytes));
        let found = self.read(&self.write_stream(&stream), "", exit(0)).1.signal;
        assert_eq!(found.as_deref(), Some("COMPLETE"), "{:?}", self.kind);
    }

    /// Returns the lines of one of the streams, cut, joined and with other values in them.
    pub(crate) fn mutilated(&self, stream: usize, cut: usize, other: &str) -> String {
        let names = list_streams(&self.directory());
        mutilated(&self.stream(&names[stream % names.len()]), cut, other)
    }

    /// Returns its line under a word, which may be `-` or other words.
    fn find_line(&self, word: &str) -> Option<&'static str> {
        let lines = self.lines.lines().map(str::trim_start);
        let mut found = lines.filter_map(|line| line.split_once(' ').filter(|(it, _)| *it == word));
        found.next().map(|(_, line)| line.trim())
    }

    /// Returns whether it has every word of a stream.
    pub(crate) fn has_words(&self, words: &str) -> bool {
        let mut items = words.split("; ").map(str::trim).filter(|item| !item.is_empty());
        items.all(|item| {
            let word = item.split(' ').next().unwrap_or_default();
            item.starts_with('{') || self.find_line(word).is_some()
        })
    }

    /// Returns the lines of a stream in words.
    pub(crate) fn write_stream(&self, words: &str) -> String {
        let items = words.split("; ").map(str::trim).filter(|item| !item.is_empty());
        join_lines(items.enumerate().map(|(at, item)| self.write_item(at, item)))
    }

    /// Returns the lines of a word: JSON as it is, the lines of a recorded stream after `@`, or the
    /// agent's line with `%` filled in (`%1` is the first word, `%2` the rest, `#` a number).
    fn write_item(&self, at: usize, item: &str) -> String {
        if item.starts_with('{') {
            return item.to_owned();
        }
        if let Some(name) = item.strip_prefix('@') {
            return self.stream(name);
        }
        let (word, text) = item.split_once(' ').unwrap_or((item, ""));
        let text = text.replace("TAG", TAG);
        let (first, rest) = text.split_once(' ').unwrap_or((&text, ""));
        let Some(line) = self.find_line(word) else { panic!("{:?} has no `{word}`", self.kind) };
        let line = line.replace("%1", first).replace("%2", rest).replace('%', &text);
        match line.strip_prefix("= ") {
            Some(words) => join_lines(words.split("; ").map(|item| self.write_item(at, item))),
            None if line == "-" => String::new(),
            None => line.replace('#', &at.to_string()),
        }
    }
}

fn join_lines(lines: impl Iterator<Item = String>) -> String {
    lines.filter(|lines| !lines.is_empty()).collect::<Vec<String>>().join("\n")
}
