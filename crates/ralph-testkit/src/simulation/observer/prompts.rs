//! Checks prompts: never over the budget, and never without the protected parts.

use ralph_core::ports::AgentRequest;
use ralph_model::context::{SectionCost, SectionName};
use ralph_model::event::Purpose;
use ralph_model::ids::Role;
use ralph_model::recipe::HistoryOwner;
use ralph_model::run::RunState;

use super::{Invariant, Observer};
use crate::simulation::agent_action::format_instruction;
use crate::simulation::plan::CommitMode;
use crate::simulation::recipe::INSTRUCTIONS;
use crate::simulation::world::SimulatedWorld;

/// The recorded costs of the prompt that is sent.
#[derive(Debug, Clone, Default)]
pub(super) struct PromptCosts {
    pub(super) budget: Vec<SectionCost>,
}

/// Tokens left of a section that was cut: a line that notes it.
const CUT: u64 = 60;

impl Observer {
    /// Checks a prompt that is sent.
    pub fn check_prompt(&mut self, request: &AgentRequest, world: &SimulatedWorld) {
        let Some(state) = &self.state else { return };
        let current = state.current.as_ref();
        let is_follow_up = current
            .and_then(|it| it.call_state(&request.purpose))
            .is_some_and(|it| it.wrong.is_some());
        let found = match (&request.purpose, request.role) {
            // A follow-up only asks for the form of the answer.
            (Purpose::Work, Role::Implement | Role::Fix) if is_follow_up => {
                if request.prompt.starts_with("Your last answer could not be used") {
                    Ok(())
                } else {
                    Err("a follow-up without a reason".to_owned())
                }
            }
            (Purpose::Work, Role::Implement | Role::Fix) => {
                check_budget(&self.prompts.budget, world.plan.context)
                    .and_then(|()| check_work_prompt(state, request))
            }
            (Purpose::Work, Role::Review) | (Purpose::Gate(_), _) => {
                check_review_prompt(state, request)
                    .and_then(|()| check_instructions(state, request, world))
                    .and_then(|()| {
                        if is_follow_up { Ok(()) } else { self.check_fallen_tests(request, world) }
                    })
            }
            (Purpose::Work | Purpose::Message, _) => Ok(()),
        };
        if let Err(message) = found {
            self.report_violation(Invariant::Prompts, message);
        }
    }
}

/// Checks that a reviewer does not find instructions by the author of the work, unless it may commit.
fn check_instructions(
    state: &RunState,
    request: &AgentRequest,
    world: &SimulatedWorld,
) -> Result<(), String> {
    let may_commit =
        request.purpose == Purpose::Work && state.recipe.ownership().history != HistoryOwner::Ralph;
    let found = world.repository.work.get(INSTRUCTIONS);
    if world.plan.commit == CommitMode::NoGit
        || may_commit
        || !found.is_some_and(|it| it.has_text(&format_instruction(request)))
    {
        return Ok(());
    }
    Err("a reviewer finds instructions by the author of the work".to_owned())
}

/// Checks that a prompt is not over budget, unless its protected parts alone are.
fn check_budget(costs: &[SectionCost], budget: u64) -> Result<(), String> {
    let of = |name: SectionName| {
        costs.iter().filter(|it| it.name == name).map(|it| it.tokens.0).sum::<u64>()
    };
    let counted = [
        SectionName::Task,
        SectionName::Output,
        SectionName::Project,
        SectionName::Skills,
        SectionName::Previous,
        SectionName::Memory,
        SectionName::Earlier,
    ];
    let sum: u64 = counted.into_iter().map(of).sum();
    let may_go = of(SectionName::Skills) + of(SectionName::Earlier);
    if sum > budget && may_go > 2 * CUT {
        return Err(format!("a prompt of {sum} tokens, where {budget} are allowed"));
    }
    Ok(())
}

/// Checks that a work prompt contains everything required.
fn check_work_prompt(state: &RunState, request: &AgentRequest) -> Result<(), String> {
    let prompt = &request.prompt;
    let missing = |what: &str| Err(format!("a prompt without {what}"));
    let replaced = state
        .feedback
        .iter()
        .any(|feedback| feedback.action == ralph_model::gate::FailAction::Replace);
    for feedback in &state.feedback {
        let start: String = feedback.text.chars().take(80).collect();
        if !prompt.contains(&start) {
            return missing("the feedback of the previous iteration");
        }
    }
    let mut notes = state.current.iter().flat_map(|current| &current.notes);
    if notes.any(|note| !prompt.contains(&note.text)) {
        return missing("a note from a user");
    }
    let task = request.task.as_ref().and_then(|id| state.tasks.as_ref()?.list.find_task(id));
    let (Some(task), false) = (task, replaced) else { return Ok(()) };
    if !prompt.contains(&format!("ID: {}", task.id)) || !prompt.contains(&task.description) {
        return missing("its task");
    }
    if task.acceptance_criteria.iter().any(|criterion| !prompt.contains(criterion)) {
        return missing("a criterion");
    }
    if !prompt.contains(task.review.feedback.trim()) {
        return missing("what the review found");
    }
    let mut constraints = state.memory.iter().flat_map(|memory| &memory.active_constraints);
    if constraints.any(|it| !prompt.contains(&it.constraint)) {
        return missing("a constraint");
    }
    Ok(())
}

/// Checks that a review prompt contains everything required.
fn check_review_prompt(state: &RunState, request: &AgentRequest) -> Result<(), String> {
    let task = request.task.as_ref().and_then(|id| state.tasks.as_ref()?.list.find_task(id));
    let Some(task) = task else { return Ok(()) };
    let is_complete = task.acceptance_criteria.iter().all(|it| request.prompt.contains(it));
    if is_complete { Ok(()) } else { Err("a review prompt without the criteria".to_owned()) }
}
