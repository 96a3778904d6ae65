//! The scripted agent that is built into ralph. Its output is the common events themselves.
//!
//! Not here: the agent. It is a process of its own, see [`crate::sim`].

use ralph_core::ports::AgentRequest;
use ralph_model::agent::AgentKind;
use ralph_model::agent_output::{AgentEvent, RateLimitStatus, ResultStatus};
use ralph_model::capability::{Capabilities, PromptEcho, Support, UsageReport};
use ralph_model::child::Ending;
use ralph_model::failure::{Failure, FailureClass};

use super::adapter::AgentAdapter;
use super::call::{self, AgentCall, CallContext};
use super::exit_failure;
use super::translator::{Evidence, LineActivity, ParsedLine, Translate, shorten_text};

/// The hidden command of ralph that plays a scenario.
const COMMAND: &str = "__sim";

/// Everything about the scripted agent that ralph looks up.
pub(crate) static ADAPTER: AgentAdapter = AgentAdapter {
    // A scenario reports what its script contains, and gets everything in its prompt.
    capabilities: |_| Capabilities {
        usage: UsageReport::Cost,
        echo: PromptEcho::None,
        reset_times: Support::Yes,
        ..Capabilities::default()
    },
    ..AgentAdapter::new(AgentKind::Sim, build_call, |_, _| Box::new(SimTranslator))
};

/// Returns how to play a scenario.
pub(super) fn build_call(
    request: &AgentRequest,
    context: &CallContext,
) -> Result<AgentCall, Failure> {
    let delivery = call::deliver_prompt(request, context)?;
    let mut args = vec![COMMAND.to_owned(), request.agent.command.clone()];
    args.extend(delivery.flags);
    let program = context.self_exe.to_string_lossy().into_owned();
    Ok(AgentCall { program, ..AgentCall::new(request, args, delivery.stdin) })
}

/// Reads one event per line.
#[derive(Debug)]
pub(super) struct SimTranslator;

impl Translate for SimTranslator {
    fn push_line(&mut self, line: &str) -> ParsedLine {
        if line.trim().is_empty() {
            return ParsedLine::from_activity(LineActivity::Idle);
        }
        let event = serde_json::from_str::<AgentEvent>(line)
            .unwrap_or_else(|_| AgentEvent::Unparsed { line: shorten_text(line) });
        ParsedLine::from_events(vec![event])
    }

    fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        if let Some(failure) =
            exit_failure::judge_imposed_ending(&evidence.end.ending, "reinstall ralph")
        {
            return Some(failure);
        }
        let ending = &evidence.end.ending;
        let has_failed_end = !ending.is_success() && !matches!(ending, Ending::Lingered { .. });
        match evidence.reading.result() {
            Some(ResultStatus::Failed(message)) => Some(parse_failure(message, evidence)),
            Some(ResultStatus::Success) | None if has_failed_end => {
                Some(exit_failure::build_crash_failure(
                    ending,
                    &exit_failure::take_last_lines(evidence.stderr_tail),
                ))
            }
            Some(ResultStatus::Success) if evidence.reading.is_silent() => {
                Some(Failure::new(FailureClass::Empty, "it said nothing"))
            }
            Some(ResultStatus::Success) => None,
            None => Some(Failure::new(FailureClass::Malformed, "it gave no result")),
        }
    }
}

/// Every class that a script can request, by its name for people.
const CLASSES: [FailureClass; 8] = [
    FailureClass::Malformed,
    FailureClass::Empty,
    FailureClass::TurnLimit,
    FailureClass::RateLimited { resets_at: None },
    FailureClass::Overloaded,
    FailureClass::NotLoggedIn,
    FailureClass::BadCall,
    FailureClass::ContextExceeded,
];

/// Reads `class: message`, the format of the scripted agent's failures.
fn parse_failure(message: &str, evidence: &Evidence<'_>) -> Failure {
    let named = message.split_once(": ").and_then(|(name, message)| {
        CLASSES.iter().find(|class| class.name() == name).map(|class| (class.clone(), message))
    });
    let (class, message) = named.unwrap_or((FailureClass::Crashed, message));
    match (class, evidence.reading.rate_limit()) {
        (FailureClass::RateLimited { .. }, Some((RateLimitStatus::Rejected, resets_at))) => {
            Failure::new(FailureClass::RateLimited { resets_at }, message)
        }
        (class, _) => Failure::new(class, message),
    }
}
