//! Whether an answer is in the form that was asked for.
//!
//! Not here: what follows where it is not, which is `asking`'s, and how the agent is told.

use super::{Iteration, RunState};
use crate::answer::{self, AnswerFault};
use crate::asking::{AnswerForm, WrongForm};
use crate::gate::GateKind;
use crate::handoff;
use crate::ids::{AskNumber, Role};
use crate::reading::Reply;
use crate::review::{self, VerdictDemands};
use crate::scm;

impl RunState {
    /// Checks the reply to a call of the open iteration.
    pub(super) fn check_form(
        &self,
        current: &Iteration,
        ask: AskNumber,
        reply: &Reply,
    ) -> AnswerForm {
        let is_kept_by_agent = self.recipe.is_kept_by_agent();
        let is_for = |pending: Option<AskNumber>| pending == Some(ask);
        let (checked, finally) = if is_for(current.gate.pending) {
            let token = current.gate.token.as_deref();
            let criteria = self.gate_criteria(current);
            let demands = VerdictDemands { criteria, token };
            (review::check_answer(reply, demands), WrongForm::Failed)
        } else if is_for(current.message.pending) {
            let is_there = scm::commit_message(&reply.text).is_some();
            let said = || "it holds no commit message".to_owned();
            (is_there.then_some(()).ok_or_else(said), WrongForm::Taken)
        } else {
            match current.role {
                // An agent that keeps the list answers in it.
                Role::Review if !is_kept_by_agent => {
                    let token = current.work.token.as_deref();
                    let demands = VerdictDemands { criteria: self.criteria(current), token };
                    (review::check_answer(reply, demands), WrongForm::Failed)
                }
                Role::Implement | Role::Fix if !is_kept_by_agent => {
                    (check_handoff(reply), WrongForm::Taken)
                }
                Role::Prompt
                | Role::Plan
                | Role::Build
                | Role::Implement
                | Role::Fix
                | Role::Review
                // Without a memory the run goes on as it was; that is not worth a call.
                | Role::Compact
                | Role::Message => (Ok(()), WrongForm::Taken),
            }
        };
        match checked {
            Ok(()) => AnswerForm::Right,
            Err(fault) => AnswerForm::Wrong { fault, finally },
        }
    }

    /// Returns the criteria of the open task.
    pub(crate) fn criteria(&self, current: &Iteration) -> &[String] {
        let task = current.task.as_ref().and_then(|id| self.board.as_ref()?.list.task(id));
        task.map_or(&[][..], |task| task.acceptance_criteria.as_slice())
    }

    /// Returns the criteria that the gate an agent is asked for judges by. How good work is has
    /// none.
    fn gate_criteria(&self, current: &Iteration) -> &[String] {
        let name = current.gate_asked.as_deref();
        let gate = self.recipe.gates.iter().find(|gate| Some(gate.name.as_str()) == name);
        match gate.map(|gate| gate.kind) {
            Some(GateKind::Spec | GateKind::Test | GateKind::Lint | GateKind::Custom) => {
                self.criteria(current)
            }
            Some(GateKind::Quality) | None => &[],
        }
    }
}

/// A handoff that was begun and cannot be read is asked for again. Where there is none, ralph
/// derives one from git and the agent's words, which costs no call.
fn check_handoff(reply: &Reply) -> Result<(), String> {
    if reply.structured.is_some() {
        return Ok(());
    }
    match answer::find(&reply.text, &handoff::read::schema()) {
        Err(fault @ (AnswerFault::Malformed | AnswerFault::CutOff)) => Err(fault.to_string()),
        Ok(_)
        | Err(AnswerFault::Missing | AnswerFault::Contradictory | AnswerFault::WithoutToken) => {
            Ok(())
        }
    }
}
