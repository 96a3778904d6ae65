//! Qwen Code's stream of events, line by line.
//!
//! An answer that a hook refused is joined to the next one in one text: nothing in the stream
//! separates them. Not here: what a failed result means, see Gemini CLI's `failure`.

use ralph_core::ports::AgentRequest;
use ralph_model::agent_output::{AgentEvent, Speaker, TextForm, ToolOutcome, Usage, UsageScope};
use ralph_model::failure::{Failure, FailureClass};
use ralph_model::units::Tokens;
use serde_json::value::RawValue;

use super::call::INSTALL_HINT;
use super::wire;
use crate::claude::wire::{Block, Content, Head, MessageLine};
use crate::gemini::{ExitRules, GeminiCallState, GeminiFailure, TurnAnswer};
use crate::json_salvage::read_objects;
use crate::lenient_json::repair_surrogates;
use crate::translator::{Evidence, LineActivity, ParsedLine, Translate};

const QWEN: ExitRules = ExitRules {
    install_hint: INSTALL_HINT,
    login_hint: "run `qwen` once and log in, or check the key of your provider",
    class_of_exit: classify_exit,
};

fn classify_exit(code: i32) -> Option<FailureClass> {
    match code {
        41 => Some(FailureClass::NotLoggedIn),
        42 | 44 | 52 => Some(FailureClass::BadCall),
        // Its own limits: turns, time, tool calls.
        53 | 55..=59 => Some(FailureClass::TurnLimit),
        _ => None,
    }
}

/// Translates the stream of one call.
#[derive(Debug)]
pub(crate) struct QwenTranslator {
    state: GeminiCallState,
}

impl Translate for QwenTranslator {
    fn push_line(&mut self, line: &str) -> ParsedLine {
        read_objects(&repair_surrogates(line), |text| self.push_object(text))
    }

    fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        QWEN.judge(&self.state, evidence)
    }
}

impl QwenTranslator {
    /// Returns a translator for one call.
    pub(crate) fn new(_request: &AgentRequest) -> Self {
        Self { state: GeminiCallState::default() }
    }

    fn push_object(&mut self, text: &str) -> Option<ParsedLine> {
        let Head { kind, subtype } = serde_json::from_str(text).ok()?;
        match (kind?.0.as_ref(), subtype.unwrap_or_default().0.as_ref()) {
            ("system", "init") => {
                let init: wire::Init = serde_json::from_str(text).ok()?;
                self.state.begin_turn();
                Some(ParsedLine::from_events(vec![AgentEvent::Session {
                    id: init.session_id,
                    model: init.model,
                    version: init.qwen_code_version,
                }]))
            }
            ("stream_event", _) => {
                let line: wire::StreamEvent<'_> = serde_json::from_str(text).ok()?;
                // The other events are deltas of an answer that also comes complete.
                let is_noise = line.event.kind.0 == "goal_state";
                Some(ParsedLine::from_activity(if is_noise {
                    LineActivity::Idle
                } else {
                    LineActivity::Progress
                }))
            }
            ("assistant", _) => {
                let mut parsed = self.push_assistant(serde_json::from_str(text).ok()?);
                let spent: wire::Spent = serde_json::from_str(text).unwrap_or_default();
                let figures = spent.message.and_then(|message| message.usage);
                let usage = figures.as_ref().map(build_usage).filter(|it| it.tokens() != Tokens(0));
                parsed.events.extend(
                    usage.map(|usage| AgentEvent::Usage { usage, scope: UsageScope::Step }),
                );
                Some(parsed)
            }
            ("user", _) => Some(self.push_user(serde_json::from_str(text).ok()?)),
            ("result", _) => Some(self.push_result(serde_json::from_str(text).ok()?)),
            _ => None,
        }
    }

    fn push_assistant(&mut self, mut line: MessageLine<'_>) -> ParsedLine {
        let speaker = line.speaker();
        let Content { blocks, lost } = std::mem::take(&mut line.message.content);
        let message = line.message.id.as_deref().unwrap_or_default();
        let mut events: Vec<AgentEvent> = blocks
            .into_iter()
            .filter_map(|block| self.push_block(block, speaker, message))
            .collect();
        if lost > 0 {
            events.push(AgentEvent::Unparsed { line: format!("{lost} blocks of a message") });
        }
        ParsedLine { events, activity: LineActivity::Progress }
    }

    fn push_block(
        &mut self,
        block: Block<'_>,
        speaker: Speaker,
        message: &str,
    ) -> Option<AgentEvent> {
        match block.kind.0.as_ref() {
            "text" => {
                let text = block.text.unwrap_or_default().0.into_owned();
                match speaker {
                    Speaker::Agent => Some(self.state.push_text(text, message)),
                    Speaker::Subagent => {
                        Some(AgentEvent::Text { text, speaker, form: TextForm::Message })
                    }
                }
            }
            "thinking" => {
                let text = block.thinking.unwrap_or_default().0.into_owned();
                (!text.is_empty()).then_some(AgentEvent::Reasoning { text })
            }
            "tool_use" => {
                let id = block.id.unwrap_or_default();
                let name = block.name.unwrap_or_default();
                let input = block.input.map_or("{}", RawValue::get);
                Some(self.state.start_tool(id, name, input, speaker))
            }
            kind => Some(AgentEvent::Unparsed { line: format!("a block `{kind}`") }),
        }
    }

    /// Reads tool results; other `user` lines are not from the agent.
    fn push_user(&mut self, mut line: MessageLine<'_>) -> ParsedLine {
        let mut events = Vec::new();
        for block in std::mem::take(&mut line.message.content.blocks) {
            if block.kind.0 == "tool_result" {
                let is_error = block.is_error == Some(true);
                let outcome = if is_error { ToolOutcome::Error } else { ToolOutcome::Ok };
                let id = block.tool_use_id.clone().unwrap_or_default();
                events.extend(self.state.end_tool(id, outcome, &block.output()));
            }
        }
        ParsedLine::from_events(events)
    }

    fn push_result(&mut self, line: wire::ResultLine) -> ParsedLine {
        let subtype = line.subtype.unwrap_or_default();
        let outcome = if subtype == "success" && line.is_error != Some(true) {
            Ok(match line.structured_result {
                Some(structured) => TurnAnswer::Structured(structured),
                None => TurnAnswer::Text(line.result),
            })
        } else {
            let message = line.error.and_then(|error| error.message).or(line.result);
            let message = message.filter(|message| !message.trim().is_empty());
            let message = message.unwrap_or_else(|| format!("the turn ended with `{subtype}`"));
            Err(GeminiFailure::new(subtype, message))
        };
        let usage = line.usage.as_ref().map(build_usage);
        let usage = usage.map(|usage| Usage { turns: line.num_turns, ..usage });
        self.state.close_turn(usage, outcome)
    }
}

fn build_usage(figures: &wire::Figures) -> Usage {
    Usage {
        input: Tokens(figures.input_tokens.saturating_sub(figures.cache_read_input_tokens)),
        output: Tokens(figures.output_tokens),
        cache_read: Tokens(figures.cache_read_input_tokens),
        cache_write: Tokens(0),
        ..Usage::default()
    }
}
