//! The state of agent calls after a reply.

use ralph_model::agent_call_state::{AgentCallEnd, AgentCallState, PromptSize, WrongAnswer};
use ralph_model::agent_output::Reply;
use ralph_model::failure::{AFTER_RESET, FIRST_LIMIT_PAUSE, Failure, FailureClass, FailureRule};
use ralph_model::recipe::Recipe;
use ralph_model::units::{Millis, Timestamp};

/// How often ralph asks again after an answer in the wrong form. Agents that can answer
/// in the right form do so the first time they learn what was missing.
const MAX_FOLLOW_UPS: usize = 2;

/// Whether an answer has the requested form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AnswerForm {
    Right,
    Wrong {
        /// What is wrong with it, for the follow-up prompt.
        fault: String,
        /// How it counts when follow-ups have not helped.
        finally: WrongFormResult,
    },
}

/// How an answer in the wrong form counts when follow-ups have not helped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WrongFormResult {
    Failed,
    /// An answer: ralph uses what it contains.
    Accepted,
}

/// Applies the reply of a call.
pub(crate) fn apply_reply(
    call: &mut AgentCallState,
    reply: &Reply,
    form: AnswerForm,
    at: Timestamp,
    recipe: &Recipe,
) {
    call.pending = None;
    let Some(failure) = &reply.failure else {
        apply_answer(call, reply, form);
        return;
    };
    call.last_failure = Some(failure.clone());
    match (failure.class.rule(), call.size) {
        (FailureRule::Retry, _) => {
            call.failures += 1;
            let seed = u64::try_from(at.0).unwrap_or(0);
            call.not_before =
                Some(at.saturating_add(recipe.retries.retry_pause(call.failures, seed)));
            if call.failures > recipe.retries.max {
                call.end = Some(AgentCallEnd::Hopeless(failure.clone()));
            }
        }
        (FailureRule::RetrySmaller, PromptSize::Full) => call.size = PromptSize::Smallest,
        (FailureRule::RetrySmaller, PromptSize::Smallest) | (FailureRule::FailedAttempt, _) => {
            call.end = Some(AgentCallEnd::FailedAttempt(failure.clone()));
        }
        (FailureRule::RetryWithoutSchema, _) if !call.is_schema_refused => {
            call.is_schema_refused = true;
        }
        (FailureRule::RetryWithoutSchema, _) => {
            call.end = Some(AgentCallEnd::Hopeless(failure.clone()));
        }
        (FailureRule::Wait { until }, _) => {
            let pause = Millis(FIRST_LIMIT_PAUSE.0 << call.refusals.min(6));
            // A reset that lies in the past, call after call, must not become a tight loop
            // of refused calls.
            let least = at.saturating_add(Millis(AFTER_RESET.0 << call.refusals.min(8)));
            call.refusals += 1;
            let until = until
                .map_or(at.saturating_add(pause), |reset| reset.saturating_add(AFTER_RESET))
                .max(least);
            call.waited = call.waited.saturating_add(until.elapsed_since(at));
            call.not_before = Some(until);
        }
        (FailureRule::Stop, _) => call.end = Some(AgentCallEnd::Hopeless(failure.clone())),
        (FailureRule::RetryAfterResume, _) => {}
    }
}

/// Applies an answer. One in the wrong form is requested again at once, a few times.
fn apply_answer(call: &mut AgentCallState, reply: &Reply, form: AnswerForm) {
    let answered = || Some(AgentCallEnd::Answered(Box::new(reply.clone())));
    let (fault, finally) = match form {
        AnswerForm::Right => {
            call.end = answered();
            return;
        }
        AnswerForm::Wrong { fault, finally } => (fault, finally),
    };
    let failure = Failure::new(FailureClass::Malformed, fault.clone());
    call.last_failure = Some(failure.clone());
    let mut texts = call.wrong.take().map(|wrong| wrong.texts).unwrap_or_default();
    texts.push(quote_answer(reply));
    let is_over = texts.len() > MAX_FOLLOW_UPS;
    call.wrong = Some(WrongAnswer { texts, fault });
    call.end = match finally {
        _ if !is_over => None,
        WrongFormResult::Failed => Some(AgentCallEnd::FailedAttempt(failure)),
        WrongFormResult::Accepted => answered(),
    };
}

/// Returns an answer as quoted in the follow-up prompt.
fn quote_answer(reply: &Reply) -> String {
    match &reply.structured {
        Some(value) if !reply.text.contains('{') => {
            format!("{}\n{value}", reply.text.trim()).trim().to_owned()
        }
        Some(_) | None => reply.text.trim().to_owned(),
    }
}
