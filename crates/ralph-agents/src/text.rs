//! Any command: prompt in, text out. Its stdout is the answer, its exit code decides success.
//!
//! Not here: guessing at formats. A command with its own events needs its own adapter.

use ralph_core::answers::completion::EchoFilter;
use ralph_core::ports::AgentRequest;
use ralph_model::agent::AgentKind;
use ralph_model::agent_output::{AgentEvent, Speaker, TextForm};
use ralph_model::capability::{Capabilities, TextMode};
use ralph_model::failure::{Failure, FailureClass};

use super::adapter::AgentAdapter;
use super::call::{self, AgentCall, CallContext, IdleWatch};
use super::translator::{Evidence, LineActivity, ParsedLine, Translate, describe_long_line};
use super::{exit_failure, rate_limit_text};

/// Everything about plain text that ralph looks up.
pub(crate) static ADAPTER: AgentAdapter = AgentAdapter {
    // Historical default: cline was the first agent read as plain text.
    default_program: Some("cline"),
    takes_model: false,
    capabilities: |_| Capabilities { text_mode: TextMode::Plain, ..Capabilities::default() },
    ..AgentAdapter::new(AgentKind::Text, build_call, |request, _| {
        Box::new(TextTranslator::new(request))
    })
};

/// Returns how to call any command.
pub(super) fn build_call(
    request: &AgentRequest,
    context: &CallContext,
) -> Result<AgentCall, Failure> {
    let delivery = call::deliver_prompt(request, context)?;
    let idle = IdleWatch::Off;
    Ok(AgentCall { idle, ..AgentCall::new(request, delivery.flags, delivery.stdin) })
}

/// Reads plain text, and removes an exact echo of the prompt.
#[derive(Debug)]
pub(super) struct TextTranslator {
    command: String,
    echo: EchoFilter,
    /// Whether something was removed as a part of the prompt.
    has_echoed: bool,
}

impl Translate for TextTranslator {
    fn push_line(&mut self, line: &str) -> ParsedLine {
        let mut text = String::with_capacity(line.len() + 1);
        text.push_str(line);
        text.push('\n');
        if self.echo.can_pass(text.as_bytes()) {
            return Self::parse_text(text);
        }
        let passed = self.echo.feed(text.as_bytes());
        self.has_echoed |= passed.is_empty();
        Self::parse_text(String::from_utf8_lossy(&passed).into_owned())
    }

    /// The line is an answer, but an unusable one: its start may be a quotation.
    fn push_long_line(&mut self, _start: &str, bytes: u64) -> ParsedLine {
        Self::parse_text(describe_long_line(bytes) + "\n")
    }

    fn finish(&mut self) -> ParsedLine {
        let held = std::mem::replace(&mut self.echo, EchoFilter::new("")).finish();
        Self::parse_text(String::from_utf8_lossy(&held).into_owned())
    }

    fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        let silence =
            if self.has_echoed { "it printed only its prompt" } else { "it printed nothing" };
        judge_exit(&self.command, silence, evidence)
    }
}

impl TextTranslator {
    pub(super) fn new(request: &AgentRequest) -> Self {
        let echo = EchoFilter::new(&request.prompt);
        Self { command: request.agent.command.clone(), echo, has_echoed: false }
    }

    fn parse_text(text: String) -> ParsedLine {
        if text.is_empty() {
            return ParsedLine::from_activity(LineActivity::Idle);
        }
        ParsedLine::from_events(vec![AgentEvent::Text {
            text,
            speaker: Speaker::Agent,
            form: TextForm::Delta,
        }])
    }
}

/// Judges a call by its exit code and by whether it printed anything; `silence` is the message if
/// it did not.
pub(super) fn judge_exit(command: &str, silence: &str, evidence: &Evidence<'_>) -> Option<Failure> {
    let hint = format!("install `{command}`, or set `agent.command`");
    if let Some(failure) = exit_failure::judge_imposed_ending(&evidence.end.ending, &hint) {
        return Some(failure);
    }
    if !evidence.end.ending.is_success() {
        let message = exit_failure::read_final_output(evidence.stderr_tail, evidence.stdout_tail);
        let crashed = || exit_failure::build_crash_failure(&evidence.end.ending, &message);
        return Some(find_limit_failure(evidence).unwrap_or_else(crashed));
    }
    evidence.reading.is_silent().then(|| {
        let message = exit_failure::read_final_output(evidence.stderr_tail, "");
        let message = if message.is_empty() { silence.to_owned() } else { message };
        Failure::new(FailureClass::Empty, message)
    })
}

/// Looks for a limit in the final output of a failed call. Only there: an agent that works on rate
/// limits mentions them all the time.
pub(super) fn find_limit_failure(evidence: &Evidence<'_>) -> Option<Failure> {
    [evidence.stderr_tail, evidence.stdout_tail].into_iter().find_map(|tail| {
        let message = exit_failure::take_last_lines(tail);
        rate_limit_text::is_rate_limit_text(&message).then(|| {
            let resets_at =
                rate_limit_text::parse_reset_time(&message, evidence.now, evidence.zone);
            Failure::new(FailureClass::RateLimited { resets_at }, message)
        })
    })
}

#[cfg(test)]
mod tests;
