//! The course of a call to Gemini CLI or Qwen Code: what is being said, which tools run, how the
//! turn stands.
//!
//! Not here: the lines themselves, and what the end means.

use ralph_core::reading::{
    AgentEvent, ResultStatus, Speaker, TextForm, ToolOutcome, Usage, UsageScope,
};
use ralph_core::units::Tokens;

use super::failure::Trouble;
use super::tools::ToolCalls;
use crate::translator::{Heard, Weight};

/// How a call stands.
#[derive(Debug, Default)]
pub(crate) struct Course {
    /// How the last turn stands.
    pub(super) turn: Turn,
    /// Whether the agent has said something since its last tool call.
    pub(super) has_words: bool,
    /// The last error that the stream told of by itself, outside a result.
    pub(super) error: Option<String>,
    /// The message that may go on.
    speaking: Option<String>,
    calls: ToolCalls,
}

/// How a turn stands.
#[derive(Debug, Default)]
pub(super) enum Turn {
    /// No result has come since it began.
    #[default]
    Open,
    /// It ended well, by its own account.
    Succeeded,
    /// It did not.
    Failed(Box<Trouble>),
}

impl Course {
    /// Begins a turn.
    pub(crate) fn begin(&mut self) {
        self.turn = Turn::Open;
        self.speaking = None;
    }

    /// Takes in words of the agent. Those with the same message belong together.
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

    /// Closes the message that is being said: what follows stands alone.
    pub(crate) fn pause(&mut self) {
        self.speaking = None;
    }

    /// Takes back what was said last, if anything was: it is not the answer.
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

    /// Ends the turn. Words of one that failed are no answer, whatever follows.
    pub(crate) fn close(
        &mut self,
        usage: Option<Usage>,
        outcome: Result<Answer, Trouble>,
    ) -> Heard {
        // A turn that failed early reports nothing, which must not replace what its steps did.
        let mut events: Vec<AgentEvent> = usage
            .filter(|usage| usage.tokens() != Tokens(0))
            .map(|usage| AgentEvent::Usage { usage, scope: UsageScope::Total })
            .into_iter()
            .collect();
        let (status, text, structured) = match outcome {
            // Its text is the same once more, and would be searched for a tag.
            Ok(Answer::Structured(structured)) => {
                self.turn = Turn::Succeeded;
                (ResultStatus::Success, None, Some(structured))
            }
            Ok(Answer::Text(text)) => {
                // An answer that is empty by the agent's own account was refused by a hook.
                if text.as_ref().is_some_and(|text| text.trim().is_empty()) {
                    events.extend(self.retract());
                }
                self.turn = Turn::Succeeded;
                (ResultStatus::Success, text, None)
            }
            Err(trouble) => {
                events.extend(self.retract());
                let status = ResultStatus::Failed(trouble.words());
                self.turn = Turn::Failed(Box::new(trouble));
                (status, None, None)
            }
        };
        self.speaking = None;
        events.push(AgentEvent::Result { status, text, structured });
        Heard { events, weight: Weight::Final }
    }

    /// Returns whether it is the model's turn to answer: nothing is being said, no tool runs.
    pub(super) fn awaits_model(&self) -> bool {
        self.speaking.is_none() && self.calls.is_empty()
    }
}

/// What a turn that succeeded brought.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The last words, where they are repeated.
    Text(Option<String>),
    /// The answer to a schema.
    Structured(serde_json::Value),
}
