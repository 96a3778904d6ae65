//! Any command: prompt in, text out. Its stdout is the answer, its exit code decides success.
//!
//! Not here: guessing at formats. A command with its own events needs its own adapter.

use ralph_core::completion::EchoFilter;
use ralph_core::failure::{Failure, FailureClass};
use ralph_core::ports::Request;
use ralph_core::reading::{AgentEvent, Speaker, TextForm};

use super::call::{self, Call, CallContext, IdleWatch};
use super::ending;
use super::limit_words;
use super::translator::{Evidence, Heard, Weight};

/// Returns how to call any command.
pub(super) fn call(request: &Request, context: &CallContext) -> Result<Call, Failure> {
    let delivery = call::deliver(request, context)?;
    Ok(Call {
        program: request.agent.command.clone(),
        args: delivery.flags,
        stdin: delivery.stdin,
        env_remove: request.agent.env_deny.clone(),
        env: call::environment(request, &[]),
        idle: IdleWatch::Off,
    })
}

/// Reads plain text, and removes an exact echo of the prompt.
#[derive(Debug)]
pub(super) struct TextTranslator {
    command: String,
    echo: EchoFilter,
}

impl TextTranslator {
    pub(super) fn new(request: &Request) -> Self {
        Self { command: request.agent.command.clone(), echo: EchoFilter::new(&request.prompt) }
    }

    pub(super) fn line(&mut self, line: &str) -> Heard {
        let mut text = String::with_capacity(line.len() + 1);
        text.push_str(line);
        text.push('\n');
        if self.echo.passes(text.as_bytes()) {
            return Self::said(text);
        }
        let passed = self.echo.feed(text.as_bytes());
        Self::said(String::from_utf8_lossy(&passed).into_owned())
    }

    pub(super) fn finish(&mut self) -> Heard {
        let held = std::mem::replace(&mut self.echo, EchoFilter::new("")).finish();
        Self::said(String::from_utf8_lossy(&held).into_owned())
    }

    fn said(text: String) -> Heard {
        if text.is_empty() {
            return Heard::nothing(Weight::Noise);
        }
        Heard::of(vec![AgentEvent::Text { text, speaker: Speaker::Agent, form: TextForm::Delta }])
    }

    pub(super) fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        judge(&self.command, "it printed nothing", evidence)
    }
}

/// Judges a call by its exit code and by whether it printed anything; `silence` is the message if
/// it did not.
pub(super) fn judge(command: &str, silence: &str, evidence: &Evidence<'_>) -> Option<Failure> {
    let hint = format!("install `{command}`, or set `agent.command`");
    if let Some(failure) = ending::imposed(&evidence.end.ending, &hint) {
        return Some(failure);
    }
    if !evidence.end.ending.is_success() {
        let message = ending::last_words(evidence.stderr_tail, evidence.stdout_tail);
        let crashed = || ending::crashed(&evidence.end.ending, &message);
        return Some(limit_of(evidence).unwrap_or_else(crashed));
    }
    evidence.reading.is_silent().then(|| {
        let message = ending::last_words(evidence.stderr_tail, "");
        let message = if message.is_empty() { silence.to_owned() } else { message };
        Failure::new(FailureClass::Empty, message)
    })
}

/// Looks for a limit in the final output of a failed call. Only there: an agent that works on rate
/// limits mentions them all the time.
pub(super) fn limit_of(evidence: &Evidence<'_>) -> Option<Failure> {
    [evidence.stderr_tail, evidence.stdout_tail].into_iter().find_map(|tail| {
        let message = ending::last_lines(tail);
        limit_words::is_limit(&message).then(|| {
            let resets_at = limit_words::reset_time(&message, evidence.now, evidence.zone);
            Failure::new(FailureClass::RateLimited { resets_at }, message)
        })
    })
}

#[cfg(test)]
mod tests;
