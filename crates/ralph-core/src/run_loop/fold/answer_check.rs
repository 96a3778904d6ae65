//! Checks whether an answer has the requested form.
//!
//! Not here: what follows if it has not, and the follow-up prompt.

use ralph_model::agent_call_state::AgentCallState;
use ralph_model::agent_output::Reply;
use ralph_model::gate::GateKind;
use ralph_model::ids::{AskNumber, Role};
use ralph_model::run::{Iteration, RunState};

use crate::checking::instruction_changes::build_criterion;
use crate::checking::review::{self, VerdictDemands};
use crate::landing::scm;
use crate::memory::{self, handoff_reading};
use crate::run_loop::fold::agent_reply::{AnswerForm, WrongFormResult};

/// How often ralph asks again after an answer in the wrong form. Agents that can answer
/// in the right form do so the first time they learn what was missing.
const MAX_FOLLOW_UPS: usize = 2;

/// Checks the reply to a call of the open iteration.
pub(super) fn check_answer_form(
    state: &RunState,
    current: &Iteration,
    ask: AskNumber,
    reply: &Reply,
) -> AnswerForm {
    let is_kept_by_agent = state.recipe.is_list_owned_by_agent();
    let mut most_follow_ups = MAX_FOLLOW_UPS;
    let is_for = |call: &AgentCallState| call.pending == Some(ask);
    let review = current.checking().and_then(|checking| checking.review.as_ref());
    let (checked, finally) = if let Some(review) = review.filter(|it| is_for(&it.call)) {
        let criteria = find_gate_criteria(state, current, &review.gate);
        let criteria = with_instructions(criteria, &review.call);
        let token = review.call.token.as_deref();
        let demands = VerdictDemands { criteria: &criteria, needs_evidence: false, token };
        (review::check_answer(reply, demands), WrongFormResult::Failed)
    } else if current.landing().is_some_and(|landing| is_for(&landing.checked.message)) {
        let is_there = scm::parse_commit_message(&reply.text).is_some();
        let fault_text = || "it holds no commit message".to_owned();
        (is_there.then_some(()).ok_or_else(fault_text), WrongFormResult::Replaced)
    } else {
        let call_token = current.work().and_then(|call| call.token.as_deref());
        match current.role {
            // An agent that owns the list answers in the list.
            Role::Review if !is_kept_by_agent => {
                let criteria = state.task_criteria(current);
                let criteria = current
                    .work()
                    .map_or_else(|| criteria.to_vec(), |call| with_instructions(criteria, call));
                // With criteria, the answer says which of them lack evidence.
                let needs_evidence = criteria.is_empty();
                let demands =
                    VerdictDemands { criteria: &criteria, needs_evidence, token: call_token };
                (review::check_answer(reply, demands), WrongFormResult::Failed)
            }
            Role::Implement | Role::Fix if !is_kept_by_agent => {
                let checked = match handoff_reading::find_handoff(reply, call_token) {
                    Ok(_) => Ok(()),
                    // Runs of earlier versions gave no token, and asked again only for a handoff
                    // that was begun.
                    Err(fault) if call_token.is_none() && !fault.is_begun() => Ok(()),
                    Err(fault) => {
                        // An agent that answers in prose twice will not stop doing so.
                        most_follow_ups = if fault.is_begun() { MAX_FOLLOW_UPS } else { 1 };
                        Err(fault.to_string())
                    }
                };
                (checked, WrongFormResult::Derived)
            }
            Role::Compact if call_token.is_some() => {
                most_follow_ups = 1;
                (memory::read::check_memory_form(reply, call_token), WrongFormResult::Derived)
            }
            Role::Prompt
            | Role::Plan
            | Role::Build
            | Role::Implement
            | Role::Fix
            | Role::Review
            | Role::Compact
            | Role::Message
            | Role::Merge => (Ok(()), WrongFormResult::Derived),
        }
    };
    match checked {
        Ok(()) => AnswerForm::Right,
        Err(fault) => AnswerForm::Wrong { fault, finally, most_follow_ups },
    }
}

/// Returns criteria with one more for each changed file with instructions for agents.
fn with_instructions(criteria: &[String], call: &AgentCallState) -> Vec<String> {
    let files = call.instructions.iter().map(|file| build_criterion(file));
    criteria.iter().cloned().chain(files).collect()
}

/// Returns the criteria that a review gate judges by. A quality gate has none.
fn find_gate_criteria<'a>(state: &'a RunState, current: &Iteration, name: &str) -> &'a [String] {
    let gate = state.recipe.find_gate(name);
    match gate.map(|gate| gate.kind) {
        Some(GateKind::Spec | GateKind::Test | GateKind::Lint | GateKind::Custom) => {
            state.task_criteria(current)
        }
        Some(GateKind::Quality) | None => &[],
    }
}
