//! The state of a call to Gemini CLI or Qwen Code: the open message, the running tools, the status
//! of the turn.
//!
//! Not here: the lines themselves, and what the end means.

use ralph_core::reading::{
    AgentEvent, ResultStatus, Speaker, TextForm, ToolOutcome, Usage, UsageScope,
};
use ralph_core::units::Tokens;

use super::failure::Trouble;
use super::tools::ToolCalls;
use crate::translator::{Heard, Weight};

/// State of a call.
#[derive(Debug, Default)]
pub(crate) struct Course {
    pub(super) turn: Turn,
    /// Whether the agent has written text since its last tool call.
    pub(super) has_words: bool,
    /// The last error that the stream reported outside a result.
    pub(super) error: Option<String>,
    /// The message that may continue.
    speaking: Option<String>,
    calls: ToolCalls,
}

/// Status of a turn.
#[derive(Debug, Default)]
pub(super) enum Turn {
    /// No result has come since the turn began.
    #[default]
    Open,
    Succeeded,
    Failed(Box<Trouble>),
}

impl Course {
    /// Begins a turn.
    pub(crate) fn begin(&mut self) {
        self.turn = Turn::Open;
        self.speaking = None;
    }

    /// Adds text of the agent. Text with the same message id belongs together.
    pub(crate) fn say(&mut self, text: String, message: &str) -> AgentEvent {
        self.turn = Turn::Open;
        self.has_words |= !text.trim().is_empty();
        let form = match &self.speaking {
            Some(open) if open == message => TextForm::Delta,
            Some(_) | None => TextForm::Message,
        };
        self.speaking = Some(message.to_owned());
        AgentEvent::Text { text, speaker: Speaker::Agent, form }
    }

    /// Closes the open message: following text starts a new one.
    pub(crate) fn pause(&mut self) {
        self.speaking = None;
    }

    /// Withdraws the last text, if there is any: it is not the answer.
    pub(crate) fn retract(&mut self) -> Option<AgentEvent> {
        self.speaking = None;
        self.has_words.then(|| AgentEvent::Text {
            text: String::new(),
            speaker: Speaker::Agent,
            form: TextForm::Message,
        })
    }

    /// Opens a tool call.
    pub(crate) fn start(
        &mut self,
        id: String,
        name: String,
        input: &str,
        speaker: Speaker,
    ) -> AgentEvent {
        self.turn = Turn::Open;
        match speaker {
            Speaker::Agent => {
                self.speaking = None;
                self.has_words = false;
            }
            Speaker::Subagent => {}
        }
        self.calls.started(id, name, input, speaker)
    }

    /// Ends a tool call.
    pub(crate) fn end(
        &mut self,
        id: String,
        outcome: ToolOutcome,
        output: &str,
    ) -> Vec<AgentEvent> {
        self.turn = Turn::Open;
        self.speaking = None;
        self.calls.ended(id, outcome, output)
    }

    /// Ends the turn. Text of a failed turn is not an answer, whatever follows.
    pub(crate) fn close(
        &mut self,
        usage: Option<Usage>,
        outcome: Result<Answer, Trouble>,
    ) -> Heard {
        // A turn that failed early reports zero usage, which must not replace that of its steps.
        let mut events: Vec<AgentEvent> = usage
            .filter(|usage| usage.tokens() != Tokens(0))
            .map(|usage| AgentEvent::Usage { usage, scope: UsageScope::Total })
            .into_iter()
            .collect();
        let (status, text, structured) = match outcome {
            // Its text repeats the structured answer, and would be searched for a tag.
            Ok(Answer::Structured(structured)) => {
                self.turn = Turn::Succeeded;
                (ResultStatus::Success, None, Some(structured))
            }
            Ok(Answer::Text(text)) => {
                // An empty answer means that a hook refused it.
                if text.as_ref().is_some_and(|text| text.trim().is_empty()) {
                    events.extend(self.retract());
                }
                self.turn = Turn::Succeeded;
                (ResultStatus::Success, text, None)
            }
            Err(reported) => {
                events.extend(self.retract());
                let status = ResultStatus::Failed(reported.words());
                self.turn = Turn::Failed(Box::new(reported));
                (status, None, None)
            }
        };
        self.speaking = None;
        events.push(AgentEvent::Result { status, text, structured });
        Heard { events, weight: Weight::Final }
    }

    /// Returns whether the model must answer next: no message is open, no tool runs.
    pub(super) fn awaits_model(&self) -> bool {
        self.speaking.is_none() && self.calls.is_empty()
    }
}

/// The answer of a turn that succeeded.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The final text, if the result repeats it.
    Text(Option<String>),
    /// The structured answer.
    Structured(serde_json::Value),
}
