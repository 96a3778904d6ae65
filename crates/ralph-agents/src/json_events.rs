//! What agents that print one JSON event per line have in common: fields of an
//! unexpected type, and words that come in pieces.
//!
//! Not here: any agent's events.

use ralph_core::reading::{AgentEvent, Speaker, TextForm};
use ralph_core::text::excerpt_of;
use ralph_core::text::glance;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::call::has_flag;
use super::fields::{Text, lenient};
use super::translator::bounded;

/// How much of a tool's output an event carries. The whole is in the stored stream.
const OUTPUT_CHARS: usize = 10_000;

/// How much of a tool's input, and of words between the CLI and the model, is worth a line.
pub(super) const GLANCE_CHARS: usize = 200;

/// How much of an open message is kept to compare it with its whole. A longer one is told twice.
const MOST_SAID_BYTES: usize = 1 << 20;

/// What every event has.
#[derive(Debug, Deserialize)]
pub(super) struct Head<'a> {
    #[serde(borrow, rename = "type", default, deserialize_with = "lenient")]
    kind: Option<Text<'a>>,
}

impl Head<'_> {
    /// Returns the type of an event; empty if it has none.
    pub(super) fn kind_of(object: &str) -> String {
        serde_json::from_str(object)
            .ok()
            .and_then(|head: Head<'_>| head.kind)
            .unwrap_or_default()
            .0
            .into_owned()
    }
}

/// What of a tool's input tells people most.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Input<'a> {
    #[serde(borrow, default, deserialize_with = "lenient")]
    command: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    pattern: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    query: Option<Text<'a>>,
    #[serde(borrow, default, alias = "filePath", deserialize_with = "lenient")]
    path: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    url: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    description: Option<Text<'a>>,
}

impl<'a> Input<'a> {
    /// Reads the input of a tool.
    pub(super) fn of(raw: Option<&'a RawValue>) -> Self {
        raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }

    /// Returns one line about the input.
    pub(super) fn summary(&self, raw: Option<&RawValue>) -> String {
        let telling =
            [&self.command, &self.pattern, &self.query, &self.path, &self.url, &self.description];
        let raw = raw.map_or("", RawValue::get);
        let text = telling.into_iter().flatten().next().map_or(raw, |text| text.0.as_ref());
        glance(if text == "{}" { "" } else { text }, GLANCE_CHARS)
    }

    /// Returns the path of the file that the input names.
    pub(super) fn path(&self) -> Option<String> {
        self.path.as_ref().map(|path| path.0.to_string())
    }
}

/// Returns a tool's output, short enough for an event.
pub(super) fn output(text: &str) -> String {
    excerpt_of(text, OUTPUT_CHARS)
}

/// Returns a notice, short enough to show.
pub(super) fn notice(text: &str) -> AgentEvent {
    AgentEvent::Notice { text: bounded(text) }
}

/// The agent's words: which message is being said, and whether any words stand that a later
/// event may take back.
#[derive(Debug, Default)]
pub(super) struct Speech {
    /// What has been said of the open message.
    said: String,
    stands: bool,
}

impl Speech {
    /// Takes in a piece of the open message.
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

    /// Takes in the whole of the open message, which is over. Its pieces are not repeated.
    pub(super) fn whole(&mut self, text: &str) -> Option<AgentEvent> {
        let said = std::mem::take(&mut self.said);
        if said == text || (text.is_empty() && !self.stands) {
            return None;
        }
        self.stands = !text.is_empty();
        Some(words(text, TextForm::Message))
    }

    /// Ends the open message; its words stand.
    pub(super) fn close(&mut self) {
        self.said.clear();
    }

    /// Notes a tool call of the agent, which makes all words before it void by itself.
    pub(super) fn void(&mut self) {
        self.said.clear();
        self.stands = false;
    }

    /// Takes back the words that stand: they belong to a cut attempt, to a step before the last,
    /// or to an answer that was refused.
    pub(super) fn withdraw(&mut self) -> Option<AgentEvent> {
        self.said.clear();
        std::mem::take(&mut self.stands).then(|| words("", TextForm::Message))
    }
}

fn words(text: &str, form: TextForm) -> AgentEvent {
    AgentEvent::Text { text: text.to_owned(), speaker: Speaker::Agent, form }
}

/// Collects our flags, but for those that the user gives as well: the user's stand last and win.
pub(super) struct Flags<'a> {
    args: Vec<String>,
    user: &'a [String],
}

impl<'a> Flags<'a> {
    /// Returns no flags yet.
    pub(super) fn new(user: &'a [String]) -> Self {
        Self { args: Vec::new(), user }
    }

    /// Adds the first of some names for one flag, unless the user gives any of them.
    pub(super) fn add(&mut self, names: &[&str], value: Option<&str>) {
        if has_flag(self.user, names) {
            return;
        }
        self.args.extend(names.first().map(|&name| name.to_owned()));
        self.args.extend(value.map(str::to_owned));
    }

    /// Returns ours with the user's behind them.
    pub(super) fn with_users(mut self) -> Vec<String> {
        self.args.extend_from_slice(self.user);
        self.args
    }
}
