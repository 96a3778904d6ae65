//! The state of a call to Gemini CLI or Qwen Code: the open message, the running tools, the status
//! of the turn.
//!
//! Not here: the lines themselves, and what the end means.

use ralph_model::agent_output::{
    AgentEvent, ResultStatus, Speaker, TextForm, ToolOutcome, Usage, UsageScope,
};
use ralph_model::units::Tokens;

use super::failure::GeminiFailure;
use super::tools::OpenToolCalls;
use crate::translator::{LineActivity, ParsedLine};
use crate::turn_status::TurnStatus;

/// State of a call.
#[derive(Debug, Default)]
pub(crate) struct GeminiCallState {
    pub(super) turn: TurnStatus<Box<GeminiFailure>>,
    /// Whether the agent has written text since its last tool call.
    pub(super) has_text: bool,
    /// The last error that the stream reported outside a result.
    pub(super) error: Option<String>,
    /// The message that may continue.
    open_message: Option<String>,
    calls: OpenToolCalls,
}

impl GeminiCallState {
    /// Begins a turn.
    pub(crate) fn begin_turn(&mut self) {
        self.turn = TurnStatus::Open;
        self.open_message = None;
    }

    /// Adds text of the agent. Text with the same message id belongs together.
    pub(crate) fn push_text(&mut self, text: String, message: &str) -> AgentEvent {
        self.turn = TurnStatus::Open;
        self.has_text |= !text.trim().is_empty();
        let form = match &self.open_message {
            Some(open) if open == message => TextForm::Delta,
            Some(_) | None => TextForm::Message,
        };
        self.open_message = Some(message.to_owned());
        AgentEvent::Text { text, speaker: Speaker::Agent, form }
    }

    /// Closes the open message: following text starts a new one.
    pub(crate) fn close_message(&mut self) {
        self.open_message = None;
    }

    /// Withdraws the last text, if there is any: it is not the answer.
    pub(crate) fn retract_text(&mut self) -> Option<AgentEvent> {
        self.open_message = None;
        self.has_text.then(|| AgentEvent::Text {
            text: String::new(),
            speaker: Speaker::Agent,
            form: TextForm::Message,
        })
    }

    /// Opens a tool call.
    pub(crate) fn start_tool(
        &mut self,
        id: String,
        name: String,
        input: &str,
        speaker: Speaker,
    ) -> AgentEvent {
        self.turn = TurnStatus::Open;
        match speaker {
            Speaker::Agent => {
                self.open_message = None;
                self.has_text = false;
            }
            Speaker::Subagent => {}
        }
        self.calls.start_call(id, name, input, speaker)
    }

    /// Ends a tool call.
    pub(crate) fn end_tool(
        &mut self,
        id: String,
        outcome: ToolOutcome,
        output: &str,
    ) -> Vec<AgentEvent> {
        self.turn = TurnStatus::Open;
        self.open_message = None;
        self.calls.end_call(id, outcome, output)
    }

    /// Ends the turn. Text of a failed turn is not an answer, whatever follows.
    pub(crate) fn close_turn(
        &mut self,
        usage: Option<Usage>,
        outcome: Result<TurnAnswer, GeminiFailure>,
    ) -> ParsedLine {
        // A turn that failed early reports zero usage, which must not replace that of its steps.
        let mut events: Vec<AgentEvent> = usage
            .filter(|usage| usage.tokens() != Tokens(0))
            .map(|usage| AgentEvent::Usage { usage, scope: UsageScope::Total })
            .into_iter()
            .collect();
        let (status, text, structured) = match outcome {
            // Its text repeats the structured answer, and would be searched for a tag.
            Ok(TurnAnswer::Structured(structured)) => {
                self.turn = TurnStatus::Succeeded;
                (ResultStatus::Success, None, Some(structured))
            }
            Ok(TurnAnswer::Text(text)) => {
                // An empty answer means that a hook refused it.
                if text.as_ref().is_some_and(|text| text.trim().is_empty()) {
                    events.extend(self.retract_text());
                }
                self.turn = TurnStatus::Succeeded;
                (ResultStatus::Success, text, None)
            }
            Err(reported) => {
                events.extend(self.retract_text());
                let status = ResultStatus::Failed(reported.message());
                self.turn = TurnStatus::Failed(Box::new(reported));
                (status, None, None)
            }
        };
        self.open_message = None;
        events.push(AgentEvent::Result { status, text, structured });
        ParsedLine { events, activity: LineActivity::Final }
    }

    /// Returns whether the model must answer next: no message is open, no tool runs.
    pub(super) fn is_awaiting_model(&self) -> bool {
        self.open_message.is_none() && self.calls.is_empty()
    }
}

/// The answer of a turn that succeeded.
#[derive(Debug)]
pub(crate) enum TurnAnswer {
    /// The final text, if the result repeats it.
    Text(Option<String>),
    /// The structured answer.
    Structured(serde_json::Value),
}
