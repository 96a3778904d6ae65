//! The state of agent calls after a reply.

use ralph_model::agent_call_state::{
    AgentCallEnd, AgentCallState, AgentSession, OpenSession, PromptSize, WrongAnswer,
};
use ralph_model::agent_output::Reply;
use ralph_model::failure::{AFTER_RESET, FIRST_LIMIT_PAUSE, Failure, FailureClass, FailureRule};
use ralph_model::recipe::Recipe;
use ralph_model::units::{Millis, Timestamp};

/// Whether an answer has the requested form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AnswerForm {
    Right,
    Wrong {
        /// What is wrong with it, for the follow-up prompt.
        fault: String,
        /// How it counts when follow-ups have not helped.
        finally: WrongFormResult,
        /// How often ralph asks again.
        most_follow_ups: usize,
    },
}

/// How an answer in the wrong form counts when follow-ups have not helped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WrongFormResult {
    Failed,
    /// As an answer: ralph writes what is missing itself, even if the agent said nothing.
    Replaced,
    /// As an answer: ralph derives what is missing from what the agent said first.
    Derived,
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
    let is_wait = matches!(failure.class.rule(), FailureRule::Wait { .. });
    if let (true, false, Some(wrong)) = (call.is_resumed, is_wait, &mut call.wrong) {
        // The session may be gone. The next call quotes the answer instead.
        wrong.session = AgentSession::Lost;
        return;
    }
    match (failure.class.rule(), call.size) {
        (FailureRule::Retry, _) => {
            call.failures += 1;
            let seed = u64::try_from(at.0).unwrap_or(0);
            call.not_before =
                Some(at.saturating_add(recipe.retries.retry_pause(call.failures, seed)));
            if call.failures > recipe.retries.max {
                end_failed_call(call, reply, failure, &form);
            }
        }
        (FailureRule::RetrySmaller, PromptSize::Full) => call.size = PromptSize::Smallest,
        (FailureRule::RetrySmaller, PromptSize::Smallest) | (FailureRule::FailedAttempt, _) => {
            let failed = AgentCallEnd::FailedAttempt(failure.clone());
            call.end = Some(keep_first_answer(call, reply, failure, &form).unwrap_or(failed));
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

/// Returns the end of a call whose follow-up failed, where the first answer is enough: a crash or a
/// time limit of a question about its form does not undo the work.
fn keep_first_answer(
    call: &AgentCallState,
    reply: &Reply,
    failure: &Failure,
    form: &AnswerForm,
) -> Option<AgentCallEnd> {
    let wrong = call.wrong.as_ref().filter(|wrong| !wrong.texts.is_empty())?;
    match form {
        AnswerForm::Wrong {
            finally: finally @ (WrongFormResult::Replaced | WrongFormResult::Derived),
            ..
        } => Some(build_end(*finally, wrong, reply, failure.clone())),
        AnswerForm::Wrong { finally: WrongFormResult::Failed, .. } | AnswerForm::Right => None,
    }
}

/// Ends a call that failed as often as it may. An agent that says nothing, or nothing that can be
/// read, has answered in the wrong form; other failures end the run.
fn end_failed_call(call: &mut AgentCallState, reply: &Reply, failure: &Failure, form: &AnswerForm) {
    if let Some(end) = keep_first_answer(call, reply, failure, form) {
        call.end = Some(end);
        return;
    }
    let hopeless = AgentCallEnd::Hopeless(failure.clone());
    let is_answer = matches!(failure.class, FailureClass::Empty | FailureClass::Malformed);
    let finally = match form {
        AnswerForm::Wrong { finally, .. } if is_answer => *finally,
        AnswerForm::Wrong { .. } | AnswerForm::Right => {
            call.end = Some(hopeless);
            return;
        }
    };
    // Nothing can be derived from an agent that has said nothing at all.
    if finally == WrongFormResult::Derived && call.wrong.is_none() {
        call.end = Some(hopeless);
        return;
    }
    let wrong = call.wrong.get_or_insert_default();
    wrong.fault.clone_from(&failure.message);
    call.end = Some(build_end(finally, wrong, reply, failure.clone()));
}

/// Applies an answer. One in the wrong form is requested again at once, a few times.
fn apply_answer(call: &mut AgentCallState, reply: &Reply, form: AnswerForm) {
    let (fault, finally, most_follow_ups) = match form {
        AnswerForm::Right => {
            call.end = Some(AgentCallEnd::Answered(Box::new(reply.clone())));
            return;
        }
        AnswerForm::Wrong { fault, finally, most_follow_ups } => (fault, finally, most_follow_ups),
    };
    let failure = Failure::new(FailureClass::Malformed, fault.clone());
    call.last_failure = Some(failure.clone());
    let wrong = call.wrong.get_or_insert_default();
    wrong.fault = fault;
    wrong.texts.push(quote_answer(reply));
    wrong.session = match (&wrong.session, &reply.session) {
        (AgentSession::Lost, _) => AgentSession::Lost,
        (_, None) => AgentSession::Unknown,
        (before, Some(id)) => AgentSession::Open(OpenSession {
            id: id.clone(),
            usage: match before {
                AgentSession::Open(before) if before.id == *id => before.usage.plus(reply.usage),
                AgentSession::Open(_) | AgentSession::Unknown | AgentSession::Lost => reply.usage,
            },
        }),
    };
    if wrong.texts.len() > most_follow_ups {
        call.end = Some(build_end(finally, wrong, reply, failure));
    }
}

/// Returns the end of a call whose last answer is still in the wrong form.
fn build_end(
    finally: WrongFormResult,
    wrong: &WrongAnswer,
    reply: &Reply,
    failure: Failure,
) -> AgentCallEnd {
    match finally {
        WrongFormResult::Failed => AgentCallEnd::FailedAttempt(failure),
        WrongFormResult::Replaced | WrongFormResult::Derived => {
            let text = wrong.texts.first().unwrap_or(&reply.text).clone();
            let answer = Reply { text, failure: None, ..reply.clone() };
            AgentCallEnd::Answered(Box::new(answer))
        }
    }
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
