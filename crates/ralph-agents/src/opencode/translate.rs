//! `OpenCode`'s stream of events, line by line.
//!
//! There is no result: a turn is over when a step finishes with the reason `stop`. A tool is
//! reported only when it has ended, and before the text that its step wrote first; text counts
//! only from the step that stops. Not here: what an error means, see `turn_status`.

use ralph_core::ports::AgentRequest;
use ralph_model::agent_output::{
    AgentEvent, ResultStatus, Speaker, TodoItem, TodoState, ToolOutcome, Usage, UsageScope,
};
use ralph_model::failure::{Failure, FailureClass};
use ralph_model::units::{Tokens, UsdMicros};
use serde_json::value::RawValue;

use super::wire;
use crate::json_events::{
    EditTexts, JsonEventHead, MOST_ITEMS, MessageAssembler, ToolInputFields, build_notice,
    shorten_output,
};
use crate::json_salvage::read_objects;
use crate::translator::{Evidence, LineActivity, ParsedLine, Translate};
use crate::turn_status::{FailureHints, ReportedFailure, TurnStatus};

/// Translates the stream of one call.
#[derive(Debug)]
pub(crate) struct OpencodeTranslator {
    hints: &'static FailureHints,
    model: Option<String>,
    session: Option<String>,
    turn: TurnStatus,
    assembler: MessageAssembler,
    /// The cut stream that no complete step has followed yet. `OpenCode` repeats such steps
    /// forever, and their text is not progress.
    retrying: Option<ReportedFailure>,
}

impl Translate for OpencodeTranslator {
    fn push_line(&mut self, line: &str) -> ParsedLine {
        read_objects(line, |object| self.push_object(object))
    }

    fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        self.turn.judge(self.retrying.as_ref(), self.hints, evidence)
    }
}

impl OpencodeTranslator {
    /// Returns a translator for one call of `OpenCode`, or of a fork with hints of its own.
    pub(crate) fn new(request: &AgentRequest, hints: &'static FailureHints) -> Self {
        Self {
            hints,
            model: request.agent.model.clone(),
            session: None,
            turn: TurnStatus::Open,
            assembler: MessageAssembler::default(),
            retrying: None,
        }
    }

    fn push_object(&mut self, object: &str) -> Option<ParsedLine> {
        let kind = JsonEventHead::parse_kind(object);
        let line: wire::Line<'_> = serde_json::from_str(object).ok()?;
        let part = line.part.unwrap_or_default();
        let mut parsed = match kind.as_str() {
            "step_start" => {
                self.turn = TurnStatus::Open;
                let withdrawn = self.assembler.withdraw_text();
                self.mark_progress(withdrawn.into_iter().collect())
            }
            "text" => {
                let text = part.text?.0;
                let event = self.assembler.push_delta(&text);
                self.mark_progress(event.into_iter().collect())
            }
            "reasoning" => {
                self.mark_progress(vec![AgentEvent::Reasoning { text: part.text?.0.into_owned() }])
            }
            "tool_use" => self.push_tool(&part)?,
            "step_finish" => self.push_step_finish(&part),
            "error" => self.push_error(line.error.unwrap_or_default()),
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
    fn mark_progress(&self, events: Vec<AgentEvent>) -> ParsedLine {
        let weight = match self.retrying {
            Some(_) => LineActivity::Idle,
            None => LineActivity::Progress,
        };
        ParsedLine { events, activity: weight }
    }

    fn push_tool(&mut self, part: &wire::Part<'_>) -> Option<ParsedLine> {
        let state = part.state.as_ref()?;
        self.turn = TurnStatus::Open;
        self.retrying = None;
        self.assembler.discard_text();
        let id = part.call.clone().unwrap_or_default();
        let name = part.tool.clone().unwrap_or_default();
        let input = ToolInputFields::from_raw(state.input);
        let summary = match name.as_str() {
            "todowrite" => String::new(),
            _ => input.summarize_input(state.input),
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
                output: shorten_output(returned.map_or("", |text| text.0.as_ref())),
            },
        ];
        match (outcome, name.as_str()) {
            (ToolOutcome::Ok, "write" | "edit") => {
                let texts = state.input.and_then(|raw| EditTexts::from_raw(raw.get()));
                let edited = texts.zip(input.path()).map(|(texts, path)| texts.into_event(path));
                events.extend(input.path().map(|path| AgentEvent::FileChanged { path }));
                events.extend(edited);
            }
            (ToolOutcome::Ok, "todowrite") => {
                events.extend(parse_todo(state.input).map(|items| AgentEvent::Todo { items }));
            }
            (ToolOutcome::Ok | ToolOutcome::Error, _) => {}
        }
        Some(ParsedLine::from_events(events))
    }

    fn push_step_finish(&mut self, part: &wire::Part<'_>) -> ParsedLine {
        let mut events: Vec<AgentEvent> = build_usage(part)
            .map(|usage| AgentEvent::Usage { usage, scope: UsageScope::Step })
            .into_iter()
            .collect();
        self.assembler.close_message();
        let reason = part.reason.as_deref().unwrap_or_default();
        let reported = match reason {
            "stop" => {
                self.retrying = None;
                self.turn = TurnStatus::Succeeded;
                let status = ResultStatus::Success;
                events.push(AgentEvent::Result { status, text: None, structured: None });
                return ParsedLine { events, activity: LineActivity::Final };
            }
            "tool-calls" => {
                self.retrying = None;
                self.turn = TurnStatus::Open;
                events.extend(self.assembler.withdraw_text());
                return ParsedLine { events, activity: LineActivity::Progress };
            }
            "length" => ReportedFailure::from_class(
                FailureClass::TurnLimit,
                "the answer was cut at the output limit",
            ),
            "unknown" => {
                let reported =
                    ReportedFailure::from_class(FailureClass::Overloaded, "the answer was cut off");
                self.retrying = Some(reported.clone());
                // It retries at once; the following events decide how the turn ends.
                self.turn = TurnStatus::Failed(reported.clone());
                events.extend(self.assembler.withdraw_text());
                events.push(build_notice(&reported.message));
                return ParsedLine { events, activity: LineActivity::Idle };
            }
            _ => ReportedFailure::from_class(
                FailureClass::Crashed,
                format!("the step ended with `{reason}`"),
            ),
        };
        self.retrying = None;
        let status = ResultStatus::Failed(reported.message.clone());
        events.push(AgentEvent::Result { status, text: None, structured: None });
        self.turn = TurnStatus::Failed(reported);
        ParsedLine { events, activity: LineActivity::Final }
    }

    /// Reads an error. It is not always the end: a full context is compacted first, which takes
    /// time, so no grace period may begin.
    fn push_error(&mut self, error: wire::ErrorOf) -> ParsedLine {
        let data = error.data.unwrap_or_default();
        let name = error.name.unwrap_or_else(|| "error".to_owned());
        let message =
            data.message.filter(|message| !message.is_empty()).unwrap_or_else(|| name.clone());
        let mut events: Vec<AgentEvent> = self.assembler.withdraw_text().into_iter().collect();
        events.push(build_notice(&message));
        let details = format!("{name} {}", data.body.unwrap_or_default());
        self.turn = TurnStatus::Failed(ReportedFailure {
            message,
            details,
            status: data.status,
            class: None,
        });
        ParsedLine { events, activity: LineActivity::Idle }
    }
}

/// Reads the list without canceled entries.
fn parse_todo(input: Option<&RawValue>) -> Option<Vec<TodoItem>> {
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

fn build_usage(part: &wire::Part<'_>) -> Option<Usage> {
    let tokens = part.tokens.as_ref()?;
    let cache = tokens.cache.as_ref();
    let usage = Usage {
        input: Tokens(tokens.input.unwrap_or(0)),
        output: Tokens(tokens.output.unwrap_or(0))
            .saturating_add(Tokens(tokens.reasoning.unwrap_or(0))),
        cache_read: Tokens(cache.and_then(|cache| cache.read).unwrap_or(0)),
        cache_write: Tokens(cache.and_then(|cache| cache.write).unwrap_or(0)),
        cost: part.cost.map(UsdMicros::from_dollars),
        turns: None,
    };
    (usage.tokens() != Tokens(0)).then_some(usage)
}
