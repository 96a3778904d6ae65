//! `OpenCode`'s stream of events, line by line.
//!
//! There is no result: a turn is over when a step finishes with the reason `stop`. A tool is
//! reported only when it has ended, and before the text that its step wrote first; text counts
//! only from the step that stops. Not here: what an error means, see `turn_status`.

use ralph_core::failure::{Failure, FailureClass};
use ralph_core::ports::Request;
use ralph_core::reading::{
    AgentEvent, ResultStatus, Speaker, TodoItem, TodoState, ToolOutcome, Usage, UsageScope,
};
use ralph_core::units::{Tokens, UsdMicros};
use serde_json::value::RawValue;

use super::call::HINTS;
use super::wire;
use crate::json_events::{Head, Input, Speech, notice, output};
use crate::pieces::read_objects;
use crate::translator::{Evidence, Heard, Weight};
use crate::turn::{Trouble, Turn};

/// More to-do items than this are dropped.
const MOST_ITEMS: usize = 500;

/// Translates the stream of one call.
#[derive(Debug)]
pub(crate) struct OpencodeTranslator {
    model: Option<String>,
    session: Option<String>,
    turn: Turn,
    speech: Speech,
    /// The cut stream that no complete step has followed yet. `OpenCode` repeats such steps
    /// forever, and their text is not progress.
    retrying: Option<Trouble>,
}

impl OpencodeTranslator {
    pub(crate) fn new(request: &Request) -> Self {
        Self {
            model: request.agent.model.clone(),
            session: None,
            turn: Turn::Open,
            speech: Speech::default(),
            retrying: None,
        }
    }

    pub(crate) fn line(&mut self, line: &str) -> Heard {
        read_objects(line, |object| self.object(object))
    }

    #[expect(clippy::unused_self, reason = "all translators have the same four functions")]
    pub(crate) fn finish(&mut self) -> Heard {
        Heard::nothing(Weight::Noise)
    }

    pub(crate) fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        self.turn.judge(self.retrying.as_ref(), &HINTS, evidence)
    }

    fn object(&mut self, object: &str) -> Option<Heard> {
        let kind = Head::kind_of(object);
        let line: wire::Line<'_> = serde_json::from_str(object).ok()?;
        let part = line.part.unwrap_or_default();
        let mut parsed = match kind.as_str() {
            "step_start" => {
                self.turn = Turn::Open;
                let withdrawn = self.speech.withdraw();
                self.progress(withdrawn.into_iter().collect())
            }
            "text" => {
                let text = part.text?.0;
                let event = self.speech.piece(&text);
                self.progress(event.into_iter().collect())
            }
            "reasoning" => {
                self.progress(vec![AgentEvent::Reasoning { text: part.text?.0.into_owned() }])
            }
            "tool_use" => self.tool(&part)?,
            "step_finish" => self.step_finish(&part),
            "error" => self.error(line.error.unwrap_or_default()),
            _ => return None,
        };
        if line.session.is_some() && line.session != self.session {
            self.session.clone_from(&line.session);
            let model = self.model.clone();
            parsed.events.insert(0, AgentEvent::Session { id: line.session, model, version: None });
        }
        Some(parsed)
    }

    /// Returns events as progress, but not while cut streams are repeated.
    fn progress(&self, events: Vec<AgentEvent>) -> Heard {
        let weight = match self.retrying {
            Some(_) => Weight::Noise,
            None => Weight::Useful,
        };
        Heard { events, weight }
    }

    fn tool(&mut self, part: &wire::Part<'_>) -> Option<Heard> {
        let state = part.state.as_ref()?;
        self.turn = Turn::Open;
        self.retrying = None;
        self.speech.void();
        let id = part.call.clone().unwrap_or_default();
        let name = part.tool.clone().unwrap_or_default();
        let input = Input::of(state.input);
        let summary = match name.as_str() {
            "todowrite" => String::new(),
            _ => input.summary(state.input),
        };
        let exit = state.metadata.as_ref().and_then(|metadata| metadata.exit);
        let is_ok = state.status.as_deref() == Some("completed") && exit.unwrap_or(0) == 0;
        let outcome = if is_ok { ToolOutcome::Ok } else { ToolOutcome::Error };
        let returned = state.error.as_ref().or(state.output.as_ref());
        let mut events = vec![
            AgentEvent::ToolStarted {
                id: id.clone(),
                name: name.clone(),
                summary,
                speaker: Speaker::Agent,
            },
            AgentEvent::ToolEnded {
                id,
                outcome,
                output: output(returned.map_or("", |text| text.0.as_ref())),
            },
        ];
        match (outcome, name.as_str()) {
            (ToolOutcome::Ok, "write" | "edit") => {
                events.extend(input.path().map(|path| AgentEvent::FileChanged { path }));
            }
            (ToolOutcome::Ok, "todowrite") => {
                events.extend(todo(state.input).map(|items| AgentEvent::Todo { items }));
            }
            (ToolOutcome::Ok | ToolOutcome::Error, _) => {}
        }
        Some(Heard::of(events))
    }

    fn step_finish(&mut self, part: &wire::Part<'_>) -> Heard {
        let mut events: Vec<AgentEvent> = usage(part)
            .map(|usage| AgentEvent::Usage { usage, scope: UsageScope::Step })
            .into_iter()
            .collect();
        self.speech.close();
        let reason = part.reason.as_deref().unwrap_or_default();
        let reported = match reason {
            "stop" => {
                self.retrying = None;
                self.turn = Turn::Succeeded;
                let status = ResultStatus::Success;
                events.push(AgentEvent::Result { status, text: None, structured: None });
                return Heard { events, weight: Weight::Final };
            }
            "tool-calls" => {
                self.retrying = None;
                self.turn = Turn::Open;
                events.extend(self.speech.withdraw());
                return Heard { events, weight: Weight::Useful };
            }
            "length" => {
                Trouble::of(FailureClass::TurnLimit, "the answer was cut at the output limit")
            }
            "unknown" => {
                let reported = Trouble::of(FailureClass::Overloaded, "the answer was cut off");
                self.retrying = Some(reported.clone());
                // It retries at once; the following events decide how the turn ends.
                self.turn = Turn::Failed(reported.clone());
                events.extend(self.speech.withdraw());
                events.push(notice(&reported.words));
                return Heard { events, weight: Weight::Noise };
            }
            _ => Trouble::of(FailureClass::Crashed, format!("the step ended with `{reason}`")),
        };
        self.retrying = None;
        let status = ResultStatus::Failed(reported.words.clone());
        events.push(AgentEvent::Result { status, text: None, structured: None });
        self.turn = Turn::Failed(reported);
        Heard { events, weight: Weight::Final }
    }

    /// Reads an error. It is not always the end: a full context is compacted first, which takes
    /// time, so no grace period may begin.
    fn error(&mut self, error: wire::ErrorOf) -> Heard {
        let data = error.data.unwrap_or_default();
        let name = error.name.unwrap_or_else(|| "error".to_owned());
        let message =
            data.message.filter(|message| !message.is_empty()).unwrap_or_else(|| name.clone());
        let mut events: Vec<AgentEvent> = self.speech.withdraw().into_iter().collect();
        events.push(notice(&message));
        let details = format!("{name} {}", data.body.unwrap_or_default());
        self.turn =
            Turn::Failed(Trouble { words: message, details, status: data.status, class: None });
        Heard { events, weight: Weight::Noise }
    }
}

/// Reads the list without canceled entries.
fn todo(input: Option<&RawValue>) -> Option<Vec<TodoItem>> {
    let list: wire::TodoWrite = serde_json::from_str(input?.get()).ok()?;
    let items = list.todos?.into_iter().take(MOST_ITEMS).filter_map(|item| {
        let state = match item.status.as_deref() {
            Some("cancelled") => return None,
            Some("completed") => TodoState::Done,
            Some("in_progress") => TodoState::Active,
            Some(_) | None => TodoState::Pending,
        };
        Some(TodoItem { text: item.content?, state })
    });
    Some(items.collect())
}

fn usage(part: &wire::Part<'_>) -> Option<Usage> {
    let tokens = part.tokens.as_ref()?;
    let cache = tokens.cache.as_ref();
    let usage = Usage {
        input: Tokens(tokens.input.unwrap_or(0)),
        output: Tokens(tokens.output.unwrap_or(0)).plus(Tokens(tokens.reasoning.unwrap_or(0))),
        cache_read: Tokens(cache.and_then(|cache| cache.read).unwrap_or(0)),
        cache_write: Tokens(cache.and_then(|cache| cache.write).unwrap_or(0)),
        cost: part.cost.map(UsdMicros::from_dollars),
    };
    (usage.tokens() != Tokens(0)).then_some(usage)
}
