//! Shared code for agents that print one JSON event per line: fields of an unexpected type, and
//! messages that come in deltas.
//!
//! Not here: any agent's events.

use ralph_core::reading::{AgentEvent, Speaker, TextForm};
use ralph_core::text::excerpt_of;
use ralph_core::text::glance;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::call::has_flag;
use super::fields::{Text, read_lenient};
use super::translator::bounded;

/// How much of a tool's output an event keeps. All of it is in the stored stream.
const OUTPUT_CHARS: usize = 10_000;

/// How much of a tool's input, and of messages between the CLI and the model, one line shows.
pub(super) const GLANCE_CHARS: usize = 200;

/// How much of an open message is kept to compare it with its complete text. A longer one is shown
/// twice.
const MOST_SAID_BYTES: usize = 1 << 20;

/// The field that every event has.
#[derive(Debug, Deserialize)]
pub(super) struct Head<'a> {
    #[serde(borrow, rename = "type", default, deserialize_with = "read_lenient")]
    kind: Option<Text<'a>>,
}

impl Head<'_> {
    /// Returns the type of an event, or an empty text.
    pub(super) fn kind_of(object: &str) -> String {
        serde_json::from_str(object)
            .ok()
            .and_then(|head: Head<'_>| head.kind)
            .unwrap_or_default()
            .0
            .into_owned()
    }
}

/// The fields of a tool's input that are worth showing.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Input<'a> {
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    command: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pattern: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    query: Option<Text<'a>>,
    #[serde(borrow, default, alias = "filePath", deserialize_with = "read_lenient")]
    path: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    url: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    description: Option<Text<'a>>,
}

impl<'a> Input<'a> {
    /// Reads the input of a tool.
    pub(super) fn of(raw: Option<&'a RawValue>) -> Self {
        raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }

    /// Returns one line about the input.
    pub(super) fn summary(&self, raw: Option<&RawValue>) -> String {
        let candidates =
            [&self.command, &self.pattern, &self.query, &self.path, &self.url, &self.description];
        let raw = raw.map_or("", RawValue::get);
        let text = candidates.into_iter().flatten().next().map_or(raw, |text| text.0.as_ref());
        glance(if text == "{}" { "" } else { text }, GLANCE_CHARS)
    }

    /// Returns the path of the file that the input names.
    pub(super) fn path(&self) -> Option<String> {
        self.path.as_ref().map(|path| path.0.to_string())
    }
}

/// Returns a tool's output, cut to a length fit for an event.
pub(super) fn output(text: &str) -> String {
    excerpt_of(text, OUTPUT_CHARS)
}

/// Returns a notice, cut to a length fit for display.
pub(super) fn notice(text: &str) -> AgentEvent {
    AgentEvent::Notice { text: bounded(text) }
}

/// Assembles the agent's messages: the text of the open message, and whether there is text that a
/// later event may withdraw.
#[derive(Debug, Default)]
pub(super) struct Speech {
    /// Text of the open message so far.
    said: String,
    stands: bool,
}

impl Speech {
    /// Adds a delta to the open message.
    pub(super) fn piece(&mut self, text: &str) -> Option<AgentEvent> {
        if text.is_empty() {
            return None;
        }
        let form = if self.said.is_empty() { TextForm::Message } else { TextForm::Delta };
        if self.said.len() < MOST_SAID_BYTES {
            self.said.push_str(text);
        }
        self.stands = true;
        Some(words(text, form))
    }

    /// Ends the open message with its complete text. Deltas that were already shown are not
    /// repeated.
    pub(super) fn whole(&mut self, text: &str) -> Option<AgentEvent> {
        let streamed = std::mem::take(&mut self.said);
        if streamed == text || (text.is_empty() && !self.stands) {
            return None;
        }
        self.stands = !text.is_empty();
        Some(words(text, TextForm::Message))
    }

    /// Ends the open message; its text remains valid.
    pub(super) fn close(&mut self) {
        self.said.clear();
    }

    /// Records a tool call of the agent, which by itself makes all earlier text void.
    pub(super) fn void(&mut self) {
        self.said.clear();
        self.stands = false;
    }

    /// Withdraws the current text: it belongs to an attempt that was cut off, to a step before the
    /// last, or to an answer that was refused.
    pub(super) fn withdraw(&mut self) -> Option<AgentEvent> {
        self.said.clear();
        std::mem::take(&mut self.stands).then(|| words("", TextForm::Message))
    }
}

fn words(text: &str, form: TextForm) -> AgentEvent {
    AgentEvent::Text { text: text.to_owned(), speaker: Speaker::Agent, form }
}

/// Collects ralph's flags, except those that the user also gives: the user's flags come last and
/// win.
pub(super) struct Flags<'a> {
    args: Vec<String>,
    user: &'a [String],
}

impl<'a> Flags<'a> {
    /// Returns a builder without flags.
    pub(super) fn new(user: &'a [String]) -> Self {
        Self { args: Vec::new(), user }
    }

    /// Adds a flag under the first of its names, unless the user gives any of them.
    pub(super) fn add(&mut self, names: &[&str], value: Option<&str>) {
        if has_flag(self.user, names) {
            return;
        }
        self.args.extend(names.first().map(|&name| name.to_owned()));
        self.args.extend(value.map(str::to_owned));
    }

    /// Returns ralph's flags followed by the user's.
    pub(super) fn with_users(mut self) -> Vec<String> {
        self.args.extend_from_slice(self.user);
        self.args
    }
}
