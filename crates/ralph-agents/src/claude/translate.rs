//! Claude Code's stream of events, line by line.
//!
//! Known progress lines show nothing. A system line of an unknown kind is shown if it has text; a
//! line of an unknown type, or one that is not JSON, is `Unparsed`. Not here: what a failed result
//! means, see `failure`.

use std::collections::BTreeMap;

use ralph_model::agent_output::{
    AgentEvent, RateLimitStatus, ResultStatus, Speaker, TextForm, ToolOutcome, Usage, UsageScope,
};
use ralph_model::failure::Failure;
use ralph_model::ids::RunId;
use ralph_model::text::shorten_to_line;
use ralph_model::units::{Timestamp, Tokens, UsdMicros};
use serde::de::IgnoredAny;

use super::failure::{ApiRetry, ClaudeFailure};
use super::hooks::HookWatch;
use super::interleaved::split_pieces;
use super::todo::{TodoChange, TodoList};
use super::wire;
use crate::json_events::{GLANCE_CHARS, MOST_OPEN_CALLS, shorten_output};
use crate::json_salvage::{LinePiece, read_pieces};
use crate::lenient_json;
use crate::translator::{Evidence, LineActivity, ParsedLine, Translate, shorten_text};
use crate::turn_status::{JudgeTurn, TurnStatus};

/// More servers than this are not listed.
const MOST_SERVERS: usize = 10;

/// The tool that carries a structured answer. The CLI uses it to request one; it is not work of
/// the agent: text before it is still the final answer.
const STRUCTURED_OUTPUT: &str = "StructuredOutput";

/// Translates the stream of one call.
#[derive(Debug, Default)]
pub(crate) struct ClaudeTranslator {
    pub(super) turn: TurnStatus<Box<ClaudeFailure>>,
    /// Whether the agent has written text since its last tool call.
    pub(super) has_text: bool,
    /// The retry that no progress has followed yet.
    pub(super) retrying: Option<ApiRetry>,
    /// The message whose text may continue.
    open_text: Option<String>,
    open_calls: BTreeMap<String, ClaudeOpenCall>,
    todo: TodoList,
    limit: Option<(RateLimitStatus, Option<Timestamp>)>,
    /// The error code of the last synthetic message; the result does not repeat it.
    error: Option<String>,
    hooks: HookWatch,
    /// MCP servers that did not start.
    servers_down: Vec<String>,
}

#[derive(Debug)]
struct ClaudeOpenCall {
    name: String,
    path: Option<String>,
    /// The texts that it removes and adds.
    edits: Vec<(String, String)>,
    change: Option<TodoChange>,
}

impl Translate for ClaudeTranslator {
    fn missing_hooks(&self) -> Option<&str> {
        self.hooks.missing_reason()
    }

    fn servers_down(&self) -> &[String] {
        &self.servers_down
    }

    fn push_line(&mut self, line: &str) -> ParsedLine {
        let all = match self.push_whole_line(line.trim()) {
            Some(parsed) => parsed,
            None => read_pieces(split_pieces(&lenient_json::repair_surrogates(line)), |piece| {
                match piece {
                    LinePiece::Object(text) => {
                        self.push_object(&text).unwrap_or_else(|| ParsedLine::from_unparsed(&text))
                    }
                    LinePiece::Garbage(text) => ParsedLine::from_unparsed(text),
                }
            }),
        };
        if all.activity != LineActivity::Idle {
            self.retrying = None;
        }
        all
    }

    fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        self.judge_turn(evidence)
    }
}

impl ClaudeTranslator {
    /// Returns a translator for a call in this run.
    pub(crate) fn for_run(run: &RunId) -> Self {
        Self { hooks: HookWatch::for_run(&run.0), ..Self::default() }
    }

    /// Reads a line in one pass, if it is one complete object of the usual types.
    fn push_whole_line(&mut self, line: &str) -> Option<ParsedLine> {
        self.push_known(lenient_json::read_leading_kind(line)?, line)
    }

    fn push_object(&mut self, text: &str) -> Option<ParsedLine> {
        let head: wire::Head<'_> = serde_json::from_str(text).ok()?;
        self.push_known(&head.kind?.0, text)
    }

    /// Reads a text as a line of this type. Returns `None` if the type is unknown or the text does
    /// not match it.
    fn push_known(&mut self, kind: &str, text: &str) -> Option<ParsedLine> {
        let parsed = match kind {
            "system" => self.push_system(&serde_json::from_str(text).ok()?),
            "assistant" => self.push_assistant(serde_json::from_str(text).ok()?),
            "user" => self.push_user(&serde_json::from_str(text).ok()?),
            "result" => self.push_result(serde_json::from_str(text).ok()?),
            "rate_limit_event" => {
                let event: wire::RateLimitEvent = serde_json::from_str(text).ok()?;
                ParsedLine::from_events(self.push_rate_limit(&event.rate_limit_info))
            }
            // Deltas of an answer that also comes complete: progress, but nothing to show.
            "stream_event" => {
                serde_json::from_str::<IgnoredAny>(text).ok()?;
                ParsedLine::from_activity(LineActivity::Progress)
            }
            "control_request"
            | "control_response"
            | "control_cancel_request"
            | "keep_alive"
            | "tool_progress"
            | "tool_use_summary"
            | "auth_status"
            | "prompt_suggestion" => {
                serde_json::from_str::<IgnoredAny>(text).ok()?;
                ParsedLine::from_activity(LineActivity::Idle)
            }
            _ => return None,
        };
        Some(parsed)
    }

    fn push_system(&mut self, line: &wire::System) -> ParsedLine {
        match line.subtype.as_deref().unwrap_or_default() {
            "init" => {
                self.turn = TurnStatus::Open;
                self.hooks.record_session(line);
                self.servers_down = list_servers_down(line);
                ParsedLine::from_events(build_session_events(line))
            }
            "api_retry" => {
                let retrying = ApiRetry::from_line(line);
                let events = vec![build_notice(retrying.to_string())];
                self.retrying = Some(retrying);
                ParsedLine::from_events(events)
            }
            "model_fallback" => ParsedLine::from_events(vec![
                AgentEvent::Session { id: None, model: line.fallback_model.clone(), version: None },
                build_notice(
                    read_message(line).unwrap_or_else(|| "switched to the fallback model".into()),
                ),
            ]),
            "compact_boundary" => ParsedLine {
                events: vec![build_notice("the context was compacted")],
                activity: LineActivity::Progress,
            },
            // The model thinks, or a subagent or a long command makes progress.
            "thinking_tokens" | "task_started" | "task_progress" | "task_updated"
            | "task_notification" => ParsedLine::from_activity(LineActivity::Progress),
            "hook_response" => {
                self.hooks.record_response(line);
                ParsedLine::from_activity(LineActivity::Idle)
            }
            // The agent gets the reason why it may not stop, and that message is shown.
            "notification" if line.key.as_deref() == Some("stop-hook-error") => {
                ParsedLine::from_activity(LineActivity::Idle)
            }
            "status"
            | "hook_started"
            | "hook_progress"
            | "command_lifecycle"
            | "background_tasks_changed" => ParsedLine::from_activity(LineActivity::Idle),
            _ => {
                ParsedLine::from_events(read_message(line).map(build_notice).into_iter().collect())
            }
        }
    }

    fn push_assistant(&mut self, mut line: wire::MessageLine<'_>) -> ParsedLine {
        let is_synthetic =
            line.message.model.as_ref().is_some_and(|model| model.0 == "<synthetic>")
                || line.is_api_error_message == Some(true);
        if is_synthetic {
            return ParsedLine::from_events(self.push_synthetic(line));
        }
        self.turn = TurnStatus::Open;
        let speaker = line.speaker();
        let wire::Content { blocks, lost } = std::mem::take(&mut line.message.content);
        let mut events = Vec::new();
        for block in blocks {
            self.push_block(block, speaker, &line, &mut events);
        }
        if lost > 0 {
            events.push(AgentEvent::Unparsed { line: format!("{lost} blocks of a message") });
        }
        // Blocks that show nothing, such as redacted thinking, are still progress.
        ParsedLine { events, activity: LineActivity::Progress }
    }

    fn push_block(
        &mut self,
        block: wire::Block<'_>,
        speaker: Speaker,
        line: &wire::MessageLine<'_>,
        events: &mut Vec<AgentEvent>,
    ) {
        match block.kind.0.as_ref() {
            "text" => {
                let text = block.text.unwrap_or_default().0.into_owned();
                if !text.is_empty() {
                    events.push(self.push_text(text, speaker, line.message.id.as_deref()));
                }
            }
            "thinking" => {
                let text = block.thinking.unwrap_or_default().0.into_owned();
                if !text.is_empty() {
                    events.push(AgentEvent::Reasoning { text });
                }
            }
            "redacted_thinking" => {}
            "tool_use" | "server_tool_use" | "mcp_tool_use" => {
                events.extend(self.start_tool(&block, speaker));
            }
            kind if kind.ends_with("tool_result") => {
                events.extend(self.end_tool(&block, line));
            }
            kind => events.push(AgentEvent::Unparsed { line: format!("a block `{kind}`") }),
        }
    }

    fn push_text(&mut self, text: String, speaker: Speaker, message: Option<&str>) -> AgentEvent {
        let form = match speaker {
            Speaker::Subagent => TextForm::Message,
            Speaker::Agent => {
                self.has_text |= !text.trim().is_empty();
                let is_continued = message.is_some() && self.open_text.as_deref() == message;
                self.open_text = message.map(str::to_owned);
                if is_continued { TextForm::Delta } else { TextForm::Message }
            }
        };
        AgentEvent::Text { text, speaker, form }
    }

    fn start_tool(&mut self, block: &wire::Block<'_>, speaker: Speaker) -> Option<AgentEvent> {
        let id = block.id.clone().unwrap_or_default();
        let name = block.name.clone().unwrap_or_default();
        let raw = block.input.map_or("{}", serde_json::value::RawValue::get);
        let input: wire::Input<'_> = serde_json::from_str(raw).unwrap_or_default();
        let path = match name.as_str() {
            "Edit" | "Write" | "MultiEdit" => input.file_path.as_ref(),
            "NotebookEdit" => input.notebook_path.as_ref(),
            _ => None,
        };
        if self.open_calls.len() >= MOST_OPEN_CALLS {
            self.open_calls.clear();
        }
        let change = match speaker {
            Speaker::Agent => TodoChange::from_tool_call(&name, &input),
            Speaker::Subagent => None,
        };
        let path = path.map(|path| path.0.to_string());
        let edits = if path.is_some() { input.list_edits() } else { Vec::new() };
        let call = ClaudeOpenCall { name: name.clone(), path, edits, change };
        self.open_calls.insert(id.clone(), call);
        if name == STRUCTURED_OUTPUT {
            return None;
        }
        if speaker == Speaker::Agent {
            self.open_text = None;
            self.has_text = false;
        }
        Some(AgentEvent::ToolStarted { id, name, summary: summarize_input(&input, raw), speaker })
    }

    fn end_tool(
        &mut self,
        block: &wire::Block<'_>,
        line: &wire::MessageLine<'_>,
    ) -> Vec<AgentEvent> {
        let id = block.tool_use_id.clone().unwrap_or_default();
        let outcome =
            if block.is_error == Some(true) { ToolOutcome::Error } else { ToolOutcome::Ok };
        let output = shorten_output(&block.output());
        let call = self.open_calls.remove(&id);
        match (call.as_ref().map(|call| call.name.as_str()), outcome) {
            (Some(STRUCTURED_OUTPUT), ToolOutcome::Error) => return vec![build_notice(output)],
            (Some(STRUCTURED_OUTPUT), ToolOutcome::Ok) => return Vec::new(),
            (Some(_) | None, _) => {}
        }
        let mut events = vec![AgentEvent::ToolEnded { id, outcome, output }];
        if outcome == ToolOutcome::Error {
            return events;
        }
        let details = line.tool_use_result.as_ref();
        let (path, edits, change) =
            call.map_or((None, Vec::new(), None), |call| (call.path, call.edits, call.change));
        let edited = path.clone().unwrap_or_default();
        let changed = details.and_then(|it| it.bash_edit.as_ref()).map(|it| &it.changed_files);
        let paths = path.into_iter().chain(changed.into_iter().flatten().cloned());
        events.extend(paths.map(|path| AgentEvent::FileChanged { path }));
        events.extend(edits.into_iter().map(|(removed, added)| AgentEvent::FileEdited {
            path: edited.clone(),
            removed,
            added,
        }));
        let items = change.and_then(|change| self.todo.apply_change(change, details));
        events.extend(items.map(|items| AgentEvent::Todo { items }));
        events
    }

    /// Reads tool results, and the CLI's own messages to the model.
    fn push_user(&mut self, line: &wire::MessageLine<'_>) -> ParsedLine {
        let mut events = Vec::new();
        for block in &line.message.content.blocks {
            if block.kind.0.ends_with("tool_result") {
                self.turn = TurnStatus::Open;
                events.extend(self.end_tool(block, line));
            } else if let (Some(text), Speaker::Agent) = (&block.text, line.speaker()) {
                events.push(build_notice(shorten_to_line(&text.0, GLANCE_CHARS)));
            }
        }
        ParsedLine::from_events(events)
    }

    /// Reads an API error that the CLI presents as a message.
    fn push_synthetic(&mut self, line: wire::MessageLine<'_>) -> Vec<AgentEvent> {
        self.error = line.error;
        let limit = line.api_error_params.as_ref().and_then(|it| it.rate_limit_info.as_ref());
        let mut events = limit.map_or_else(Vec::new, |limit| self.push_rate_limit(limit));
        let texts = line.message.content.blocks.into_iter().filter_map(|block| block.text);
        events.extend(texts.map(|text| build_notice(text.0)));
        events
    }

    /// Reports a limit once: the error message repeats the event.
    fn push_rate_limit(&mut self, info: &wire::RateLimitInfo) -> Vec<AgentEvent> {
        let status = match info.status.as_deref() {
            Some("rejected") => RateLimitStatus::Rejected,
            Some("allowed_warning") => RateLimitStatus::Warning,
            Some(_) | None => RateLimitStatus::Allowed,
        };
        let resets_at = info.resets_at.map(Timestamp::from_seconds);
        if self.limit.replace((status, resets_at)) == Some((status, resets_at)) {
            return Vec::new();
        }
        vec![AgentEvent::RateLimit { status, resets_at }]
    }

    fn push_result(&mut self, line: wire::ResultLine) -> ParsedLine {
        let mut events =
            vec![AgentEvent::Usage { usage: build_usage(&line), scope: UsageScope::Total }];
        let reported = ClaudeFailure::from_result(&line, self.error.take());
        let (status, text) = match &reported {
            Some(reported) => (ResultStatus::Failed(reported.message.clone()), None),
            None => (ResultStatus::Success, line.result),
        };
        // A structured answer is repeated as text, which would be searched for a tag.
        let text = text.filter(|_| line.structured_output.is_none());
        if text.as_ref().is_some_and(|text| text.trim().is_empty()) {
            // An empty result means that a hook refused the answer: withdraw the text.
            events.push(AgentEvent::Text {
                text: String::new(),
                speaker: Speaker::Agent,
                form: TextForm::Message,
            });
        }
        events.push(AgentEvent::Result { status, text, structured: line.structured_output });
        self.open_text = None;
        self.turn = match reported {
            Some(reported) => TurnStatus::Failed(Box::new(reported)),
            None => TurnStatus::Succeeded,
        };
        ParsedLine { events, activity: LineActivity::Final }
    }
}

fn build_notice(text: impl AsRef<str>) -> AgentEvent {
    AgentEvent::Notice { text: shorten_text(text.as_ref()) }
}

fn read_message(line: &wire::System) -> Option<String> {
    [&line.content, &line.text, &line.message]
        .into_iter()
        .flatten()
        .find(|text| !text.trim().is_empty())
        .map(|text| match &line.tool_name {
            Some(tool) => format!("{tool}: {}", shorten_to_line(text, GLANCE_CHARS)),
            None => text.clone(),
        })
}

/// Returns the MCP servers that did not start. One that is `pending` may still start.
fn list_servers_down(line: &wire::System) -> Vec<String> {
    let servers = line.mcp_servers.iter().flatten();
    let down = servers.filter_map(|server| match server.status.as_deref()? {
        status @ ("failed" | "needs-auth") => {
            Some(format!("`{}` ({status})", server.name.as_deref().unwrap_or("?")))
        }
        _ => None,
    });
    down.take(MOST_SERVERS).collect()
}

/// Returns the session, and notices about servers and plugins that failed: they do not fail the
/// run.
fn build_session_events(line: &wire::System) -> Vec<AgentEvent> {
    let mut events = vec![AgentEvent::Session {
        id: line.session_id.clone(),
        model: line.model.clone(),
        version: line.claude_code_version.clone(),
    }];
    for server in line.mcp_servers.iter().flatten() {
        if let Some(status @ ("failed" | "pending" | "needs-auth")) = server.status.as_deref() {
            let name = server.name.as_deref().unwrap_or("?");
            events.push(build_notice(format!("MCP server `{name}`: {status}")));
        }
    }
    for error in line.plugin_errors.iter().flatten() {
        let name = error.plugin.as_deref().unwrap_or("?");
        let message = error.message.as_deref().unwrap_or("not loaded");
        events.push(build_notice(format!("plugin `{name}`: {message}")));
    }
    events
}

/// Returns one line about a tool's input.
fn summarize_input(input: &wire::Input<'_>, raw: &str) -> String {
    let candidates = [
        &input.command,
        &input.file_path,
        &input.notebook_path,
        &input.pattern,
        &input.query,
        &input.url,
        &input.skill,
        &input.subject,
        &input.description,
    ];
    let text = candidates.into_iter().flatten().next().map_or(raw, |text| text.0.as_ref());
    shorten_to_line(if text == "{}" { "" } else { text }, GLANCE_CHARS)
}

/// Adds up the usage of all models, which includes subagents; the turn's own usage does not.
fn build_usage(line: &wire::ResultLine) -> Usage {
    let cost = line.total_cost_usd.map(UsdMicros::from_dollars);
    let models = line.model_usage.iter().flatten().map(|(_, model)| Usage {
        input: Tokens(model.input_tokens),
        output: Tokens(model.output_tokens),
        cache_read: Tokens(model.cache_read_input_tokens),
        cache_write: Tokens(model.cache_creation_input_tokens),
        ..Usage::default()
    });
    let turn = line.usage.as_ref().map_or_else(Usage::default, |turn| Usage {
        input: Tokens(turn.input_tokens),
        output: Tokens(turn.output_tokens),
        cache_read: Tokens(turn.cache_read_input_tokens),
        cache_write: Tokens(turn.cache_creation_input_tokens),
        ..Usage::default()
    });
    Usage { cost, turns: line.num_turns, ..models.reduce(Usage::plus).unwrap_or(turn) }
}
