//! Cline's stream of events, line by line.
//!
//! Its text comes in deltas, then complete, then twice more at the end; ralph reports it once. Not
//! here: what a failed run means, see `failure`.

use std::collections::BTreeMap;

use ralph_core::ports::AgentRequest;
use ralph_model::agent_output::{
    AgentEvent, ResultStatus, Speaker, TextForm, ToolOutcome, Usage, UsageScope,
};
use ralph_model::failure::Failure;
use ralph_model::text::shorten_to_line;
use ralph_model::units::{Tokens, UsdMicros};
use serde_json::value::RawValue;

use super::failure::ClineFailure;
use super::wire;
use crate::final_answer::FinalAnswer;
use crate::json_events::{EditTexts, GLANCE_CHARS, MOST_OPEN_CALLS, build_notice, shorten_output};
use crate::json_salvage::read_objects;
use crate::translator::{Evidence, LineActivity, ParsedLine, Translate};
use crate::turn_status::{JudgeTurn, TurnStatus};

/// The tool that changes files.
const EDITOR: &str = "editor";

/// Translates the stream of one call.
#[derive(Debug, Default)]
pub(crate) struct ClineTranslator {
    pub(super) turn: TurnStatus<ClineFailure>,
    /// The last error that no progress has followed yet.
    pub(super) error: Option<ClineFailure>,
    answer: FinalAnswer,
    /// Whether the current text may continue.
    text: ContentFlow,
    reasoning: ContentFlow,
    /// The files that open calls change if they succeed.
    open_edits: BTreeMap<String, (String, Option<EditTexts>)>,
}

/// Whether the next delta continues the last one.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ContentFlow {
    #[default]
    Closed,
    Open,
}

impl Translate for ClineTranslator {
    fn push_line(&mut self, line: &str) -> ParsedLine {
        read_objects(line, |object| Some(self.push_object(object)))
    }

    fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        self.judge_turn(evidence)
    }
}

impl ClineTranslator {
    pub(crate) fn new(_request: &AgentRequest) -> Self {
        Self::default()
    }

    fn push_object(&mut self, text: &str) -> ParsedLine {
        let Ok(line) = serde_json::from_str::<wire::Line<'_>>(text) else {
            return ParsedLine::from_unparsed(text);
        };
        match line.kind.as_deref().unwrap_or_default() {
            "agent_event" => {
                let event = line.event.map(RawValue::get).unwrap_or_default();
                match serde_json::from_str(event) {
                    Ok(event) => self.push_event(&event, find_speaker(&line), text),
                    Err(_) => ParsedLine::from_unparsed(text),
                }
            }
            "hook_event" => {
                ParsedLine::from_events(match (line.hook.as_deref(), find_speaker(&line)) {
                    (Some("agent_start"), Speaker::Agent) => {
                        vec![AgentEvent::Session { id: line.task, model: None, version: None }]
                    }
                    (Some(_) | None, _) => Vec::new(),
                })
            }
            "run_result" => self.push_result(line),
            "run_aborted" => {
                let message = line.message.unwrap_or_else(|| "aborted".to_owned());
                self.turn = TurnStatus::Failed(ClineFailure::from_abort(&message));
                build_result(ResultStatus::Failed(message), None, Vec::new())
            }
            "error" => {
                let message = line.message.unwrap_or_default();
                let events = vec![build_notice(&message)];
                self.error = Some(ClineFailure::new(message, None));
                ParsedLine::from_events(events)
            }
            _ => ParsedLine::from_unparsed(text),
        }
    }

    fn push_event(&mut self, event: &wire::Event<'_>, speaker: Speaker, line: &str) -> ParsedLine {
        let kind = event.kind.as_deref().unwrap_or_default();
        match (kind, event.content.as_deref().unwrap_or_default()) {
            ("content_start", "text") => self.push_delta(event, speaker),
            ("content_end", "text") => self.push_whole_text(event, speaker),
            ("content_start", "reasoning") => {
                self.reasoning = ContentFlow::Open;
                build_reasoning(event)
            }
            ("content_end", "reasoning") => {
                match std::mem::replace(&mut self.reasoning, ContentFlow::Closed) {
                    ContentFlow::Open => ParsedLine::from_activity(LineActivity::Progress),
                    ContentFlow::Closed => build_reasoning(event),
                }
            }
            ("content_start", "tool") => self.start_tool(event, speaker),
            ("content_update", _) => {
                let chunk = event.update.as_ref().and_then(|update| update.chunk.as_deref());
                ParsedLine::from_activity(match chunk {
                    None | Some("") => LineActivity::Idle,
                    Some(_) => LineActivity::Progress,
                })
            }
            ("content_end", "tool") => self.end_tool(event),
            ("usage", _) => match speaker {
                Speaker::Agent => {
                    ParsedLine::from_events(vec![build_total_usage(read_running_usage(event))])
                }
                Speaker::Subagent => ParsedLine::from_activity(LineActivity::Progress),
            },
            ("notice", _) => ParsedLine::from_events(
                event.message.as_deref().map(build_notice).into_iter().collect(),
            ),
            ("error", _) => {
                let message = event.error.as_ref().and_then(|error| error.message.clone());
                let message = message.or_else(|| event.message.clone()).unwrap_or_default();
                let events = vec![build_notice(&message)];
                self.error = Some(ClineFailure::new(message, event.error_class.clone()));
                if speaker == Speaker::Agent {
                    // The text of a failed attempt is not part of the next answer.
                    self.text = ContentFlow::Closed;
                    self.answer.supersede_text();
                }
                ParsedLine::from_events(events)
            }
            ("iteration_start", _) => {
                self.turn = TurnStatus::Open;
                self.text = ContentFlow::Closed;
                ParsedLine::from_activity(LineActivity::Progress)
            }
            ("iteration_end" | "done", _) => ParsedLine::from_activity(LineActivity::Progress),
            _ => ParsedLine::from_unparsed(line),
        }
    }

    /// Reads a text delta: the event is called a start for every delta.
    fn push_delta(&mut self, event: &wire::Event<'_>, speaker: Speaker) -> ParsedLine {
        let text = event.text.clone().unwrap_or_default();
        if speaker == Speaker::Subagent {
            // Deltas of several agents may alternate: use their complete text.
            return ParsedLine::from_activity(LineActivity::Progress);
        }
        self.error = None;
        let form = match std::mem::replace(&mut self.text, ContentFlow::Open) {
            ContentFlow::Open => TextForm::Delta,
            ContentFlow::Closed => TextForm::Message,
        };
        ParsedLine::from_events(vec![self.answer.record_text(text, form)])
    }

    /// Reads the complete text, which counts if deltas were lost.
    fn push_whole_text(&mut self, event: &wire::Event<'_>, speaker: Speaker) -> ParsedLine {
        let text = event.text.clone().unwrap_or_default();
        if speaker == Speaker::Subagent {
            let form = TextForm::Message;
            return ParsedLine::from_events(vec![AgentEvent::Text { text, speaker, form }]);
        }
        self.error = None;
        let flow = std::mem::replace(&mut self.text, ContentFlow::Closed);
        if flow == ContentFlow::Open && self.answer.is_current_text(&text) {
            return ParsedLine::from_activity(LineActivity::Progress);
        }
        ParsedLine::from_events(vec![self.answer.record_text(text, TextForm::Message)])
    }

    fn start_tool(&mut self, event: &wire::Event<'_>, speaker: Speaker) -> ParsedLine {
        if speaker == Speaker::Agent {
            self.text = ContentFlow::Closed;
            self.answer.supersede_text();
        }
        self.error = None;
        let id = event.call.clone().unwrap_or_default();
        let name = event.tool.clone().unwrap_or_default();
        let raw = event.input.map_or("{}", RawValue::get);
        let input: wire::Input = serde_json::from_str(raw).unwrap_or_default();
        if name == EDITOR
            && let Some(path) = input.path.clone()
        {
            if self.open_edits.len() >= MOST_OPEN_CALLS {
                self.open_edits.clear();
            }
            self.open_edits.insert(id.clone(), (path, EditTexts::from_raw(raw)));
        }
        let summary = summarize_input(input, raw);
        ParsedLine::from_events(vec![AgentEvent::ToolStarted { id, name, summary, speaker }])
    }

    fn end_tool(&mut self, event: &wire::Event<'_>) -> ParsedLine {
        let id = event.call.clone().unwrap_or_default();
        let returned = event.parse_returned();
        let has_failed = event.error.is_some()
            || returned.iter().any(|part| part.success == Some(false) || part.error.is_some());
        let outcome = if has_failed { ToolOutcome::Error } else { ToolOutcome::Ok };
        let texts: Vec<String> = returned
            .into_iter()
            .flat_map(|part| [part.result, part.error])
            .flatten()
            .chain(event.error.as_ref().and_then(|error| error.message.clone()))
            .filter(|text| !text.is_empty())
            .collect();
        let output = shorten_output(&texts.join("\n"));
        let edit = self.open_edits.remove(&id).filter(|_| outcome == ToolOutcome::Ok);
        let mut events = vec![AgentEvent::ToolEnded { id, outcome, output }];
        if let Some((path, edit)) = edit {
            let edited = edit.map(|edit| edit.into_event(path.clone()));
            events.push(AgentEvent::FileChanged { path });
            events.extend(edited);
        }
        ParsedLine::from_events(events)
    }

    fn push_result(&mut self, line: wire::Line<'_>) -> ParsedLine {
        let mut events = Vec::new();
        if let Some(id) = line.model.and_then(|model| model.id) {
            events.push(AgentEvent::Session { id: None, model: Some(id), version: None });
        }
        events.extend(
            line.aggregate.or(line.usage).map(|usage| build_total_usage(convert_usage(&usage))),
        );
        self.text = ContentFlow::Closed;
        if line.finish.as_deref() == Some("completed") {
            self.turn = TurnStatus::Succeeded;
            let text = self.answer.take_result_text(line.text, &mut events);
            return build_result(ResultStatus::Success, text, events);
        }
        let reported =
            ClineFailure::from_finish(line.finish.as_deref(), line.text, self.error.take());
        let message = reported.message.clone();
        self.turn = TurnStatus::Failed(reported);
        build_result(ResultStatus::Failed(message), None, events)
    }
}

fn build_result(
    status: ResultStatus,
    text: Option<String>,
    mut events: Vec<AgentEvent>,
) -> ParsedLine {
    events.push(AgentEvent::Result { status, text, structured: None });
    ParsedLine { events, activity: LineActivity::Final }
}

fn build_reasoning(event: &wire::Event<'_>) -> ParsedLine {
    let text = event.reasoning.clone().filter(|text| !text.is_empty());
    let events = text.map(|text| AgentEvent::Reasoning { text }).into_iter().collect();
    // Redacted thinking is still progress.
    ParsedLine { events, activity: LineActivity::Progress }
}

fn find_speaker(line: &wire::Line<'_>) -> Speaker {
    match line.parent {
        Some(_) => Speaker::Subagent,
        None => Speaker::Agent,
    }
}

/// Returns one line about a tool's input.
fn summarize_input(input: wire::Input, raw: &str) -> String {
    let files = input.files.map(|files| files.into_iter().filter_map(|file| file.path).collect());
    let candidates = [input.commands, files, input.path.map(|path| vec![path])];
    let text = candidates.into_iter().flatten().find(|texts| !texts.is_empty());
    let text = text.map_or_else(|| raw.to_owned(), |texts| texts.join("; "));
    shorten_to_line(if text == "{}" { "" } else { &text }, GLANCE_CHARS)
}

fn build_total_usage(usage: Usage) -> AgentEvent {
    AgentEvent::Usage { usage, scope: UsageScope::Total }
}

fn read_running_usage(event: &wire::Event<'_>) -> Usage {
    convert_usage(&wire::RunUsage {
        input_tokens: event.total_input.unwrap_or_default(),
        output_tokens: event.total_output.unwrap_or_default(),
        cache_read_tokens: event.total_cache_read.unwrap_or_default(),
        cache_write_tokens: event.total_cache_write.unwrap_or_default(),
        total_cost: event.total_cost.unwrap_or_default(),
    })
}

/// Its input count includes cached tokens; a cost of zero means that it is unknown.
fn convert_usage(usage: &wire::RunUsage) -> Usage {
    let cached = usage.cache_read_tokens.saturating_add(usage.cache_write_tokens);
    Usage {
        input: Tokens(usage.input_tokens.saturating_sub(cached)),
        output: Tokens(usage.output_tokens),
        cache_read: Tokens(usage.cache_read_tokens),
        cache_write: Tokens(usage.cache_write_tokens),
        cost: (usage.total_cost > 0.0).then(|| UsdMicros::from_dollars(usage.total_cost)),
        turns: None,
    }
}
