//! Checks whether an answer has the requested form.
//!
//! Not here: what follows if it has not, and the follow-up prompt.

use ralph_model::agent_call_state::AgentCallState;
use ralph_model::agent_output::Reply;
use ralph_model::gate::GateKind;
use ralph_model::ids::{AskNumber, Role};
use ralph_model::run::{Iteration, RunState};

use crate::answers::structured_output::{self, AnswerFault};
use crate::checking::review::{self, VerdictDemands};
use crate::landing::scm;
use crate::memory::handoff_reading;
use crate::run_loop::fold::agent_reply::{AnswerForm, WrongFormResult};

/// Fails for a handoff that was started and cannot be read, so that it is requested
/// again. If it is missing, ralph derives one from git and the agent's final answer,
/// which costs no call.
fn check_handoff(reply: &Reply) -> Result<(), String> {
    if reply.structured.is_some() {
        return Ok(());
    }
    match structured_output::find_answer(&reply.text, &handoff_reading::build_handoff_schema()) {
        Err(fault @ (AnswerFault::Malformed | AnswerFault::CutOff)) => Err(fault.to_string()),
        Ok(_)
        | Err(AnswerFault::Missing | AnswerFault::Contradictory | AnswerFault::WithoutToken) => {
            Ok(())
        }
    }
}

/// Checks the reply to a call of the open iteration.
pub(super) fn check_answer_form(
    state: &RunState,
    current: &Iteration,
    ask: AskNumber,
    reply: &Reply,
) -> AnswerForm {
    let is_kept_by_agent = state.recipe.is_list_owned_by_agent();
    let is_for = |call: &AgentCallState| call.pending == Some(ask);
    let review = current.checking().and_then(|checking| checking.review.as_ref());
    let (checked, finally) = if let Some(review) = review.filter(|it| is_for(&it.call)) {
        let criteria = find_gate_criteria(state, current, &review.gate);
        let demands = VerdictDemands { criteria, token: review.call.token.as_deref() };
        (review::check_answer(reply, demands), WrongFormResult::Failed)
    } else if current.landing().is_some_and(|landing| is_for(&landing.checked.message)) {
        let is_there = scm::parse_commit_message(&reply.text).is_some();
        let fault_text = || "it holds no commit message".to_owned();
        (is_there.then_some(()).ok_or_else(fault_text), WrongFormResult::Accepted)
    } else {
        match current.role {
            // An agent that owns the list answers in the list.
            Role::Review if !is_kept_by_agent => {
                let token = current.work().and_then(|call| call.token.as_deref());
                let demands = VerdictDemands { criteria: state.task_criteria(current), token };
                (review::check_answer(reply, demands), WrongFormResult::Failed)
            }
            Role::Implement | Role::Fix if !is_kept_by_agent => {
                (check_handoff(reply), WrongFormResult::Accepted)
            }
            Role::Prompt
            | Role::Plan
            | Role::Build
            | Role::Implement
            | Role::Fix
            | Role::Review
            // The run continues without a memory; that is not worth another call.
            | Role::Compact
            | Role::Message => (Ok(()), WrongFormResult::Accepted),
        }
    };
    match checked {
        Ok(()) => AnswerForm::Right,
        Err(fault) => AnswerForm::Wrong { fault, finally },
    }
}

/// Returns the criteria that a review gate judges by. A quality gate has none.
fn find_gate_criteria<'a>(state: &'a RunState, current: &Iteration, name: &str) -> &'a [String] {
    let gate = state.recipe.gates.iter().find(|gate| gate.name == name);
    match gate.map(|gate| gate.kind) {
        Some(GateKind::Spec | GateKind::Test | GateKind::Lint | GateKind::Custom) => {
            state.task_criteria(current)
        }
        Some(GateKind::Quality) | None => &[],
    }
}
