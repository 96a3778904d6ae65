//! Shared code for agents that print one JSON event per line: fields of an unexpected type, and
//! messages that come in deltas.
//!
//! Not here: any agent's events.

use ralph_model::agent_output::{AgentEvent, Speaker, TextForm};
use ralph_model::text::{excerpt_text, shorten_to_line};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::lenient_json::{Text, read_lenient};
use super::translator::shorten_text;

/// How much of a tool's output an event keeps. All of it is in the stored stream.
const OUTPUT_CHARS: usize = 10_000;

/// How much of a tool's input, and of messages between the CLI and the model, one line shows.
pub(super) const GLANCE_CHARS: usize = 200;

/// More open tool calls than this mean a broken stream, not parallel work.
pub(super) const MOST_OPEN_CALLS: usize = 1_000;

/// More items of a to-do list or plan than this are dropped.
pub(super) const MOST_ITEMS: usize = 500;

/// How much of an open message is kept to compare it with its complete text. A longer one is shown
/// twice.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// The field that every event has.
#[derive(Debug, Deserialize)]
pub(super) struct JsonEventHead<'a> {
    #[serde(borrow, rename = "type", default, deserialize_with = "read_lenient")]
    kind: Option<Text<'a>>,
}

impl JsonEventHead<'_> {
    /// Returns the type of an event, or an empty text.
    pub(super) fn parse_kind(object: &str) -> String {
        serde_json::from_str(object)
            .ok()
            .and_then(|head: JsonEventHead<'_>| head.kind)
            .unwrap_or_default()
            .0
            .into_owned()
    }
}

/// The fields of a tool's input that are worth showing.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ToolInputFields<'a> {
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

impl<'a> ToolInputFields<'a> {
    /// Reads the input of a tool.
    pub(super) fn from_raw(raw: Option<&'a RawValue>) -> Self {
        raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }

    /// Returns one line about the input.
    pub(super) fn summarize_input(&self, raw: Option<&RawValue>) -> String {
        let candidates =
            [&self.command, &self.pattern, &self.query, &self.path, &self.url, &self.description];
        let raw = raw.map_or("", RawValue::get);
        let text = candidates.into_iter().flatten().next().map_or(raw, |text| text.0.as_ref());
        shorten_to_line(if text == "{}" { "" } else { text }, GLANCE_CHARS)
    }

    /// Returns the path of the file that the input names.
    pub(super) fn path(&self) -> Option<String> {
        self.path.as_ref().map(|path| path.0.to_string())
    }
}

/// The texts of an edit in a tool's input, under the names that agents give them.
#[derive(Debug, Default, Deserialize)]
struct EditFields<'a> {
    #[serde(
        borrow,
        default,
        alias = "oldString",
        alias = "old_text",
        alias = "old_str",
        deserialize_with = "read_lenient"
    )]
    old_string: Option<Text<'a>>,
    #[serde(
        borrow,
        default,
        alias = "newString",
        alias = "new_text",
        alias = "new_str",
        deserialize_with = "read_lenient"
    )]
    new_string: Option<Text<'a>>,
    /// A whole new file.
    #[serde(borrow, default, alias = "file_text", deserialize_with = "read_lenient")]
    content: Option<Text<'a>>,
}

/// What an edit removes and adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EditTexts {
    removed: String,
    added: String,
}

impl EditTexts {
    /// Reads the input of a tool; `None` if it changes no text.
    pub(super) fn from_raw(raw: &str) -> Option<Self> {
        let fields: EditFields<'_> = serde_json::from_str(raw).ok()?;
        let text = |text: &Option<Text<'_>>| text.as_ref().map(|text| text.0.to_string());
        let added = text(&fields.new_string).or_else(|| text(&fields.content));
        Self::new(&text(&fields.old_string).unwrap_or_default(), &added.unwrap_or_default())
    }

    /// Returns the lines that differ, cut to what is shown; `None` if none do.
    pub(super) fn new(removed: &str, added: &str) -> Option<Self> {
        let (old, new): (Vec<&str>, Vec<&str>) =
            (removed.lines().collect(), added.lines().collect());
        let is_same = |pair: &(&&str, &&str)| pair.0 == pair.1;
        let start = old.iter().zip(&new).take_while(is_same).count();
        let (old, new) = (&old[start..], &new[start..]);
        let end = old.iter().rev().zip(new.iter().rev()).take_while(is_same).count();
        let join = |lines: &[&str]| shorten_text(&lines[..lines.len() - end].join("\n"));
        let texts = Self { removed: join(old), added: join(new) };
        (texts.removed != texts.added).then_some(texts)
    }

    /// Returns the event for a file.
    pub(super) fn into_event(self, path: String) -> AgentEvent {
        AgentEvent::FileEdited { path, removed: self.removed, added: self.added }
    }
}

/// Returns a tool's output, cut to a length fit for an event.
pub(super) fn shorten_output(text: &str) -> String {
    excerpt_text(text, OUTPUT_CHARS)
}

/// Returns a notice, cut to a length fit for display.
pub(super) fn build_notice(text: &str) -> AgentEvent {
    AgentEvent::Notice { text: shorten_text(text) }
}

/// Assembles the agent's messages: the text of the open message, and whether there is text that a
/// later event may withdraw.
#[derive(Debug, Default)]
pub(super) struct MessageAssembler {
    /// Text of the open message so far.
    open_text: String,
    is_retractable: bool,
}

impl MessageAssembler {
    /// Adds a delta to the open message.
    pub(super) fn push_delta(&mut self, text: &str) -> Option<AgentEvent> {
        if text.is_empty() {
            return None;
        }
        let form = if self.open_text.is_empty() { TextForm::Message } else { TextForm::Delta };
        if self.open_text.len() < MAX_MESSAGE_BYTES {
            self.open_text.push_str(text);
        }
        self.is_retractable = true;
        Some(build_text_event(text, form))
    }

    /// Ends the open message with its complete text. Deltas that were already shown are not
    /// repeated.
    pub(super) fn push_message(&mut self, text: &str) -> Option<AgentEvent> {
        let streamed = std::mem::take(&mut self.open_text);
        if streamed == text || (text.is_empty() && !self.is_retractable) {
            return None;
        }
        self.is_retractable = !text.is_empty();
        Some(build_text_event(text, TextForm::Message))
    }

    /// Ends the open message; its text remains valid.
    pub(super) fn close_message(&mut self) {
        self.open_text.clear();
    }

    /// Records a tool call of the agent, which by itself makes all earlier text void.
    pub(super) fn discard_text(&mut self) {
        self.open_text.clear();
        self.is_retractable = false;
    }

    /// Withdraws the current text: it belongs to an attempt that was cut off, to a step before the
    /// last, or to an answer that was refused.
    pub(super) fn withdraw_text(&mut self) -> Option<AgentEvent> {
        self.open_text.clear();
        std::mem::take(&mut self.is_retractable).then(|| build_text_event("", TextForm::Message))
    }
}

fn build_text_event(text: &str, form: TextForm) -> AgentEvent {
    AgentEvent::Text { text: text.to_owned(), speaker: Speaker::Agent, form }
}
