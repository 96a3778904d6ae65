//! Qwen Code's stream of events, line by line.
//!
//! An answer that a hook refused is joined to the next one in one text: nothing in the stream
//! separates them. Not here: what a failed result means, see Gemini CLI's `failure`.

use ralph_core::failure::{Failure, FailureClass};
use ralph_core::ports::Request;
use ralph_core::reading::{AgentEvent, Speaker, TextForm, ToolOutcome, Usage, UsageScope};
use ralph_core::units::Tokens;
use serde_json::value::RawValue;

use super::call::INSTALL_HINT;
use super::wire;
use crate::claude::wire::{Block, Content, Head, Said};
use crate::fields::mended;
use crate::gemini::{Answer, Course, Manners, Trouble};
use crate::pieces::read_objects;
use crate::translator::{Evidence, Heard, Weight};

const QWEN: Manners = Manners {
    install_hint: INSTALL_HINT,
    login_hint: "run `qwen` once and log in, or check the key of your provider",
    class_of_exit,
};

fn class_of_exit(code: i32) -> Option<FailureClass> {
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
    course: Course,
}

impl QwenTranslator {
    /// Returns a translator for one call.
    pub(crate) fn new(_request: &Request) -> Self {
        Self { course: Course::default() }
    }

    /// Reads a line of stdout.
    pub(crate) fn line(&mut self, line: &str) -> Heard {
        read_objects(&mended(line), |text| self.object(text))
    }

    /// Returns no events: nothing is held back.
    #[expect(clippy::unused_self, reason = "all translators are called alike")]
    pub(crate) fn finish(&mut self) -> Heard {
        Heard::nothing(Weight::Noise)
    }

    /// Judges the call.
    pub(crate) fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        QWEN.judge(&self.course, evidence)
    }

    fn object(&mut self, text: &str) -> Option<Heard> {
        let Head { kind, subtype } = serde_json::from_str(text).ok()?;
        match (kind?.0.as_ref(), subtype.unwrap_or_default().0.as_ref()) {
            ("system", "init") => {
                let init: wire::Init = serde_json::from_str(text).ok()?;
                self.course.begin();
                Some(Heard::of(vec![AgentEvent::Session {
                    id: init.session_id,
                    model: init.model,
                    version: init.qwen_code_version,
                }]))
            }
            ("stream_event", _) => {
                let line: wire::StreamEvent<'_> = serde_json::from_str(text).ok()?;
                // The other events are deltas of an answer that also comes complete.
                let is_noise = line.event.kind.0 == "goal_state";
                Some(Heard::nothing(if is_noise { Weight::Noise } else { Weight::Useful }))
            }
            ("assistant", _) => {
                let mut parsed = self.assistant(serde_json::from_str(text).ok()?);
                let spent: wire::Spent = serde_json::from_str(text).unwrap_or_default();
                let figures = spent.message.and_then(|message| message.usage);
                let usage = figures.as_ref().map(usage).filter(|it| it.tokens() != Tokens(0));
                parsed.events.extend(
                    usage.map(|usage| AgentEvent::Usage { usage, scope: UsageScope::Step }),
                );
                Some(parsed)
            }
            ("user", _) => Some(self.user(serde_json::from_str(text).ok()?)),
            ("result", _) => Some(self.result(serde_json::from_str(text).ok()?)),
            _ => None,
        }
    }

    fn assistant(&mut self, mut line: Said<'_>) -> Heard {
        let speaker = speaker_of(&line);
        let Content { blocks, lost } = std::mem::take(&mut line.message.content);
        let message = line.message.id.as_deref().unwrap_or_default();
        let mut events: Vec<AgentEvent> =
            blocks.into_iter().filter_map(|block| self.block(block, speaker, message)).collect();
        if lost > 0 {
            events.push(AgentEvent::Unparsed { line: format!("{lost} blocks of a message") });
        }
        Heard { events, weight: Weight::Useful }
    }

    fn block(&mut self, block: Block<'_>, speaker: Speaker, message: &str) -> Option<AgentEvent> {
        match block.kind.0.as_ref() {
            "text" => {
                let text = block.text.unwrap_or_default().0.into_owned();
                match speaker {
                    Speaker::Agent => Some(self.course.say(text, message)),
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
                Some(self.course.start(id, name, input, speaker))
            }
            kind => Some(AgentEvent::Unparsed { line: format!("a block `{kind}`") }),
        }
    }

    /// Reads tool results; other `user` lines are not from the agent.
    fn user(&mut self, mut line: Said<'_>) -> Heard {
        let mut events = Vec::new();
        for block in std::mem::take(&mut line.message.content.blocks) {
            if block.kind.0 == "tool_result" {
                let is_error = block.is_error == Some(true);
                let outcome = if is_error { ToolOutcome::Error } else { ToolOutcome::Ok };
                let id = block.tool_use_id.clone().unwrap_or_default();
                events.extend(self.course.end(id, outcome, &block.output()));
            }
        }
        Heard::of(events)
    }

    fn result(&mut self, line: wire::ResultLine) -> Heard {
        let subtype = line.subtype.unwrap_or_default();
        let outcome = if subtype == "success" && line.is_error != Some(true) {
            Ok(match line.structured_result {
                Some(structured) => Answer::Structured(structured),
                None => Answer::Text(line.result),
            })
        } else {
            let message = line.error.and_then(|error| error.message).or(line.result);
            let message = message.filter(|message| !message.trim().is_empty());
            let message = message.unwrap_or_else(|| format!("the turn ended with `{subtype}`"));
            Err(Trouble::new(subtype, message))
        };
        self.course.close(line.usage.as_ref().map(usage), outcome)
    }
}

fn speaker_of(line: &Said<'_>) -> Speaker {
    match line.parent_tool_use_id {
        Some(_) => Speaker::Subagent,
        None => Speaker::Agent,
    }
}

fn usage(figures: &wire::Figures) -> Usage {
    Usage {
        input: Tokens(figures.input_tokens.saturating_sub(figures.cache_read_input_tokens)),
        output: Tokens(figures.output_tokens),
        cache_read: Tokens(figures.cache_read_input_tokens),
        cache_write: Tokens(0),
        cost: None,
    }
}
