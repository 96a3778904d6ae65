//! Cline's stream of events, line by line.
//!
//! Its text comes in deltas, then complete, then twice more at the end; ralph reports it once. Not
//! here: what a failed run means, see `failure`.

use std::collections::BTreeMap;

use ralph_core::ports::Request;
use ralph_core::reading::{
    AgentEvent, ResultStatus, Speaker, TextForm, ToolOutcome, Usage, UsageScope,
};
use ralph_core::text::excerpt_of;
use ralph_core::text::glance;
use ralph_core::units::{Tokens, UsdMicros};
use serde_json::value::RawValue;

use super::failure::Trouble;
use super::wire;
use crate::json_events::notice;
use crate::last_words::LastWords;
use crate::pieces::read_objects;
use crate::translator::{Heard, Weight};

/// How much of a tool's output an event keeps. All of it is in the stored stream.
const OUTPUT_CHARS: usize = 10_000;

/// How much of a tool's input one line shows.
const GLANCE_CHARS: usize = 200;

/// More open tool calls than this mean a broken stream, not parallel work.
const MOST_OPEN_CALLS: usize = 1_000;

/// The tool that changes files.
const EDITOR: &str = "editor";

/// Translates the stream of one call.
#[derive(Debug, Default)]
pub(crate) struct ClineTranslator {
    pub(super) turn: Turn,
    /// The last error that no progress has followed yet.
    pub(super) error: Option<Trouble>,
    words: LastWords,
    /// Whether the current text may continue.
    text: Flow,
    reasoning: Flow,
    /// The files that open calls change if they succeed.
    open_edits: BTreeMap<String, String>,
}

/// Status of a run.
#[derive(Debug, Default)]
pub(super) enum Turn {
    /// No result has come since the run began.
    #[default]
    Open,
    Succeeded,
    Failed(Trouble),
}

/// Whether the next delta continues the last one.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Flow {
    #[default]
    Closed,
    Open,
}

impl ClineTranslator {
    pub(crate) fn new(_request: &Request) -> Self {
        Self::default()
    }

    pub(crate) fn line(&mut self, line: &str) -> Heard {
        read_objects(line, |object| Some(self.object(object)))
    }

    #[expect(clippy::unused_self, reason = "every translator may hold something back")]
    pub(crate) fn finish(&mut self) -> Heard {
        Heard::nothing(Weight::Noise)
    }

    fn object(&mut self, text: &str) -> Heard {
        let Ok(line) = serde_json::from_str::<wire::Line<'_>>(text) else {
            return Heard::unparsed(text);
        };
        match line.kind.as_deref().unwrap_or_default() {
            "agent_event" => {
                let event = line.event.map(RawValue::get).unwrap_or_default();
                match serde_json::from_str(event) {
                    Ok(event) => self.event(&event, speaker_of(&line), text),
                    Err(_) => Heard::unparsed(text),
                }
            }
            "hook_event" => Heard::of(match (line.hook.as_deref(), speaker_of(&line)) {
                (Some("agent_start"), Speaker::Agent) => {
                    vec![AgentEvent::Session { id: line.task, model: None, version: None }]
                }
                (Some(_) | None, _) => Vec::new(),
            }),
            "run_result" => self.result(line),
            "run_aborted" => {
                let message = line.message.unwrap_or_else(|| "aborted".to_owned());
                self.turn = Turn::Failed(Trouble::aborted(&message));
                result(ResultStatus::Failed(message), None, Vec::new())
            }
            "error" => {
                let message = line.message.unwrap_or_default();
                let events = vec![notice(&message)];
                self.error = Some(Trouble::new(message, None));
                Heard::of(events)
            }
            _ => Heard::unparsed(text),
        }
    }

    fn event(&mut self, event: &wire::Event<'_>, speaker: Speaker, line: &str) -> Heard {
        let kind = event.kind.as_deref().unwrap_or_default();
        match (kind, event.content.as_deref().unwrap_or_default()) {
            ("content_start", "text") => self.piece(event, speaker),
            ("content_end", "text") => self.whole(event, speaker),
            ("content_start", "reasoning") => {
                self.reasoning = Flow::Open;
                reasoning(event)
            }
            ("content_end", "reasoning") => {
                match std::mem::replace(&mut self.reasoning, Flow::Closed) {
                    Flow::Open => Heard::nothing(Weight::Useful),
                    Flow::Closed => reasoning(event),
                }
            }
            ("content_start", "tool") => self.tool_started(event, speaker),
            ("content_update", _) => {
                let chunk = event.update.as_ref().and_then(|update| update.chunk.as_deref());
                Heard::nothing(match chunk {
                    None | Some("") => Weight::Noise,
                    Some(_) => Weight::Useful,
                })
            }
            ("content_end", "tool") => self.tool_ended(event),
            ("usage", _) => match speaker {
                Speaker::Agent => Heard::of(vec![total(running_usage(event))]),
                Speaker::Subagent => Heard::nothing(Weight::Useful),
            },
            ("notice", _) => Heard::of(event.message.as_deref().map(notice).into_iter().collect()),
            ("error", _) => {
                let message = event.error.as_ref().and_then(|error| error.message.clone());
                let message = message.or_else(|| event.message.clone()).unwrap_or_default();
                let events = vec![notice(&message)];
                self.error = Some(Trouble::new(message, event.error_class.clone()));
                if speaker == Speaker::Agent {
                    // The text of a failed attempt is not part of the next answer.
                    self.text = Flow::Closed;
                    self.words.pass();
                }
                Heard::of(events)
            }
            ("iteration_start", _) => {
                self.turn = Turn::Open;
                self.text = Flow::Closed;
                Heard::nothing(Weight::Useful)
            }
            ("iteration_end" | "done", _) => Heard::nothing(Weight::Useful),
            _ => Heard::unparsed(line),
        }
    }

    /// Reads a text delta: the event is called a start for every delta.
    fn piece(&mut self, event: &wire::Event<'_>, speaker: Speaker) -> Heard {
        let text = event.text.clone().unwrap_or_default();
        if speaker == Speaker::Subagent {
            // Deltas of several agents may alternate: use their complete text.
            return Heard::nothing(Weight::Useful);
        }
        self.error = None;
        let form = match std::mem::replace(&mut self.text, Flow::Open) {
            Flow::Open => TextForm::Delta,
            Flow::Closed => TextForm::Message,
        };
        Heard::of(vec![self.words.tell(text, form)])
    }

    /// Reads the complete text, which counts if deltas were lost.
    fn whole(&mut self, event: &wire::Event<'_>, speaker: Speaker) -> Heard {
        let text = event.text.clone().unwrap_or_default();
        if speaker == Speaker::Subagent {
            let form = TextForm::Message;
            return Heard::of(vec![AgentEvent::Text { text, speaker, form }]);
        }
        self.error = None;
        let flow = std::mem::replace(&mut self.text, Flow::Closed);
        if flow == Flow::Open && self.words.are(&text) {
            return Heard::nothing(Weight::Useful);
        }
        Heard::of(vec![self.words.tell(text, TextForm::Message)])
    }

    fn tool_started(&mut self, event: &wire::Event<'_>, speaker: Speaker) -> Heard {
        if speaker == Speaker::Agent {
            self.text = Flow::Closed;
            self.words.pass();
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
            self.open_edits.insert(id.clone(), path);
        }
        let summary = summary(input, raw);
        Heard::of(vec![AgentEvent::ToolStarted { id, name, summary, speaker }])
    }

    fn tool_ended(&mut self, event: &wire::Event<'_>) -> Heard {
        let id = event.call.clone().unwrap_or_default();
        let returned = event.returned();
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
        let output = excerpt_of(&texts.join("\n"), OUTPUT_CHARS);
        let edit = self.open_edits.remove(&id).filter(|_| outcome == ToolOutcome::Ok);
        let mut events = vec![AgentEvent::ToolEnded { id, outcome, output }];
        events.extend(edit.map(|path| AgentEvent::FileChanged { path }));
        Heard::of(events)
    }

    fn result(&mut self, line: wire::Line<'_>) -> Heard {
        let mut events = Vec::new();
        if let Some(id) = line.model.and_then(|model| model.id) {
            events.push(AgentEvent::Session { id: None, model: Some(id), version: None });
        }
        events.extend(line.aggregate.or(line.usage).map(|usage| total(run_usage(&usage))));
        self.text = Flow::Closed;
        if line.finish.as_deref() == Some("completed") {
            self.turn = Turn::Succeeded;
            let text = self.words.answer(line.text, &mut events);
            return result(ResultStatus::Success, text, events);
        }
        let reported = Trouble::finished(line.finish.as_deref(), line.text, self.error.take());
        let message = reported.words.clone();
        self.turn = Turn::Failed(reported);
        result(ResultStatus::Failed(message), None, events)
    }
}

fn result(status: ResultStatus, text: Option<String>, mut events: Vec<AgentEvent>) -> Heard {
    events.push(AgentEvent::Result { status, text, structured: None });
    Heard { events, weight: Weight::Final }
}

fn reasoning(event: &wire::Event<'_>) -> Heard {
    let text = event.reasoning.clone().filter(|text| !text.is_empty());
    let events = text.map(|text| AgentEvent::Reasoning { text }).into_iter().collect();
    // Redacted thinking is still progress.
    Heard { events, weight: Weight::Useful }
}

fn speaker_of(line: &wire::Line<'_>) -> Speaker {
    match line.parent {
        Some(_) => Speaker::Subagent,
        None => Speaker::Agent,
    }
}

/// Returns one line about a tool's input.
fn summary(input: wire::Input, raw: &str) -> String {
    let files = input.files.map(|files| files.into_iter().filter_map(|file| file.path).collect());
    let candidates = [input.commands, files, input.path.map(|path| vec![path])];
    let text = candidates.into_iter().flatten().find(|texts| !texts.is_empty());
    let text = text.map_or_else(|| raw.to_owned(), |texts| texts.join("; "));
    glance(if text == "{}" { "" } else { &text }, GLANCE_CHARS)
}

fn total(usage: Usage) -> AgentEvent {
    AgentEvent::Usage { usage, scope: UsageScope::Total }
}

fn running_usage(event: &wire::Event<'_>) -> Usage {
    run_usage(&wire::RunUsage {
        input_tokens: event.total_input.unwrap_or_default(),
        output_tokens: event.total_output.unwrap_or_default(),
        cache_read_tokens: event.total_cache_read.unwrap_or_default(),
        cache_write_tokens: event.total_cache_write.unwrap_or_default(),
        total_cost: event.total_cost.unwrap_or_default(),
    })
}

/// Its input count includes cached tokens; a cost of zero means that it is unknown.
fn run_usage(usage: &wire::RunUsage) -> Usage {
    let cached = usage.cache_read_tokens.saturating_add(usage.cache_write_tokens);
    Usage {
        input: Tokens(usage.input_tokens.saturating_sub(cached)),
        output: Tokens(usage.output_tokens),
        cache_read: Tokens(usage.cache_read_tokens),
        cache_write: Tokens(usage.cache_write_tokens),
        cost: (usage.total_cost > 0.0).then(|| UsdMicros::from_dollars(usage.total_cost)),
    }
}
