//! The request of an agent call, as a pure function of the state of a run and the texts that were
//! read for it.
//!
//! The engine and every preview call [`build_request`], so a preview shows what the run does. This
//! file chooses the agent, the schema and the limits; `needed` chooses what to read, and `wording`
//! writes the prompt. Not here: reading, and calling the agent.

mod needed;
mod wording;

use ralph_model::agent::AgentChoice;
use ralph_model::agent_call_state::{AgentSession, OpenSession, WrongAnswer};
use ralph_model::capability::{FollowUps, SchemaOutput, Support};
use ralph_model::context::SectionCost;
use ralph_model::control::{UserNote, count_note_chars, takes_notes, with_notes};
use ralph_model::event::Purpose;
use ralph_model::gate::{Gate, GateCheck, GateKind};
use ralph_model::ids::{AskNumber, IterationNumber, Role};
use ralph_model::memory::{CompactionTrigger, Documentation};
use ralph_model::run::{PromptSize, RunState};
use ralph_model::stuck::Escalation;
use ralph_model::units::Millis;
use ralph_model::worktree::{Checkpoint, TreeId};

use super::materials::Materials;
use super::prompt::attempt::find_attempt_log;
use super::prompt::role::RolePrompt;
use crate::answers::structured_output::{self, Schema};
use crate::checking::instruction_changes::find_judged_instructions;
use crate::checking::review;
use crate::memory::{self, handoff_reading};
use crate::ports::{AgentRequest, Moment, ProjectText, PromptError};
use crate::tasks::next_work::find_compaction_trigger;
use wording::PromptWriter;

pub use needed::list_materials;
pub(crate) use wording::{SKIPPED, is_verdict_missing};

/// An agent call to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallOrder {
    pub ask: AskNumber,
    pub purpose: Purpose,
    /// Which prompt it gets.
    pub size: PromptSize,
}

/// A request, and what is known about its prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct BuiltRequest {
    pub request: AgentRequest,
    /// The token that an answer in the agent's text must carry, if an answer is requested.
    pub token: Option<String>,
    /// Changed files with instructions for agents that an approval must judge.
    pub instructions: Vec<String>,
    /// Cost of each section of the prompt, if counted.
    pub budget: Vec<SectionCost>,
    /// Texts that cannot be used or contain mistakes.
    pub warnings: Vec<String>,
}

/// Returns the complete request of an agent call. Fails if a text is missing without which it
/// cannot be made.
pub fn build_request(
    state: &RunState,
    order: &CallOrder,
    moment: Moment,
    materials: &Materials,
) -> Result<BuiltRequest, PromptError> {
    let token = make_token(state, order.ask, moment);
    let empty = build_request_without_prompt(state, order, Some(&token), moment);
    // Instructions that every prompt of this agent carries take some of the room.
    let notes = collect_notes(state, &order.purpose);
    let bare = add_instructions(empty.clone(), materials)?;
    let reserved = bare.prompt.chars().count() + count_note_chars(&notes);
    let mut writer = PromptWriter::new(state, order, materials, reserved);
    let (prompt, budget) = writer.write_prompt()?;
    let prompt = with_notes(prompt, &notes);
    let request = add_instructions(AgentRequest { prompt, ..empty }, materials)?;
    let token = request.schema.is_some().then_some(token);
    let instructions = find_judged_instructions(state, &order.purpose);
    Ok(BuiltRequest { request, token, instructions, budget, warnings: writer.warnings })
}

/// Returns the request of a call without its prompt, as it is needed to find the reply to a call
/// that was made before. The token is the one of that call.
pub fn build_request_without_prompt(
    state: &RunState,
    order: &CallOrder,
    token: Option<&str>,
    moment: Moment,
) -> AgentRequest {
    let limits = &state.recipe.limits;
    let purpose = &order.purpose;
    let (soft_limit, hard_limit) = match find_gate(state, purpose) {
        Some(gate) => (gate.soft_limit, gate.hard_limit),
        None => (limits.ask_soft, limits.ask_hard),
    };
    // An agent may not run past the time limit of the run or of its task.
    let left = [limits.budget.time_left(moment.ran), find_task_time_left(state)];
    let hard_limit = left.into_iter().flatten().fold(hard_limit, Ord::min).max(Millis(1));
    let agent = select_agent(state, purpose);
    let cost_left = match agent.capabilities.cost_limit {
        Support::Yes => limits.budget.cost_left(state.total_usage()),
        Support::No => None,
    };
    // An agent that enforces the schema reports the answer separately from its text. It never
    // learns the token, so no object in its text can count; and its schema stays the same in all
    // calls, as the prompt cache of the API needs it.
    let token = match agent.capabilities.schema {
        SchemaOutput::None | SchemaOutput::Unchecked => token,
        SchemaOutput::Enforced => None,
    };
    AgentRequest {
        run: state.run.clone(),
        iteration: IterationNumber(state.iterations),
        ask: order.ask,
        role: find_call_role(state, purpose),
        task: state.current.as_ref().and_then(|current| current.task.clone()),
        agent,
        prompt: String::new(),
        session: find_open_session(state, purpose).cloned(),
        schema: select_schema(state, purpose, token),
        purpose: purpose.clone(),
        soft_limit,
        hard_limit,
        idle_limit: limits.ask_idle,
        cost_left,
    }
}

/// Returns a token that cannot occur in work done before this moment.
fn make_token(state: &RunState, ask: AskNumber, moment: Moment) -> String {
    let Moment { now, ran, .. } = moment;
    let (run, iteration) = (&state.run, state.iterations);
    structured_output::make_token(&format!("{run} {iteration} {} {} {}", ask.0, now.0, ran.0))
}

fn select_schema(state: &RunState, purpose: &Purpose, token: Option<&str>) -> Option<Schema> {
    let schema = match (purpose, find_call_role(state, purpose)) {
        // An agent that owns the list reports in the list and in its notes. With a schema the
        // agent would end before its hooks have run.
        (Purpose::Work, Role::Compact) => memory::build_memory_schema(),
        (Purpose::Work, _) if state.recipe.is_list_owned_by_agent() => return None,
        (Purpose::Gate(_), _) | (Purpose::Work, Role::Review) => review::build_verdict_schema(),
        (Purpose::Work, Role::Implement | Role::Fix) => handoff_reading::build_handoff_schema(),
        (Purpose::Work | Purpose::Message, _) => return None,
    };
    Some(match token {
        Some(token) => schema.with_token(token),
        None => schema,
    })
}

/// Puts the system prompt file in front of the prompt for an agent that has no option for it, and
/// the object to fill in behind it for one that takes no schema.
fn add_instructions(
    mut request: AgentRequest,
    materials: &Materials,
) -> Result<AgentRequest, PromptError> {
    match (&request.agent.system_prompt, request.agent.capabilities.system_prompt) {
        (Some(file), Support::No) => {
            let file = ProjectText::PromptFile(file.clone());
            let instructions = materials.find_text(&file)?.unwrap_or_default();
            request.prompt = format!("{}\n\n{}", instructions.trim_end(), request.prompt);
        }
        (Some(_), Support::Yes) | (None, _) => {}
    }
    Ok(match request.schema.take() {
        Some(schema) => request.with_schema(schema),
        None => request,
    })
}

/// Returns the user's notes for the agent: those that an earlier call of the iteration got, and
/// those that have arrived since.
fn collect_notes(state: &RunState, purpose: &Purpose) -> Vec<UserNote> {
    let Some(current) = state.current.as_ref().filter(|_| *purpose == Purpose::Work) else {
        return Vec::new();
    };
    if find_wrong_answer(state, purpose).is_some() {
        return Vec::new();
    }
    let new = if takes_notes(current.role) { &state.control.notes[..] } else { &[] };
    current.notes.iter().chain(new).cloned().collect()
}

/// Returns the agent of a call.
pub(crate) fn select_agent(state: &RunState, purpose: &Purpose) -> AgentChoice {
    let role = find_call_role(state, purpose);
    let mut agent = match find_gate(state, purpose).map(|gate| &gate.check) {
        Some(GateCheck::Agent(agent)) => (**agent).clone(),
        Some(GateCheck::Command(_)) | None if role == Role::Compact => {
            select_compaction_agent(state)
        }
        Some(GateCheck::Command(_)) | None => select_role_agent(state, role),
    };
    if state.schema_refused_by.contains(&agent.kind) {
        agent.capabilities.schema = SchemaOutput::None;
    }
    agent
}

/// Returns the agent of a role: another one for a task that is stuck, and with the task's own turn
/// limit.
fn select_role_agent(state: &RunState, role: Role) -> AgentChoice {
    let recipe = &state.recipe;
    let attempted = if role.is_attempt() { state.current_task() } else { None };
    let escalation = attempted.map(|task| find_attempt_log(state, task).escalation);
    let agent = match (&recipe.escalate, escalation) {
        (Some(agent), Some(Escalation::StrategyShift | Escalation::ContextExpansion)) => agent,
        (_, _) => recipe.agent_for(role),
    };
    let turns = attempted.and_then(|task| task.max_turns);
    AgentChoice { max_turns: turns.or(agent.max_turns), ..agent.clone() }
}

/// Returns the agent for a compaction. One that looks up documentation gets further MCP servers.
fn select_compaction_agent(state: &RunState) -> AgentChoice {
    let agent = state.recipe.agent_for(Role::Compact).clone();
    let policy = state.recipe.memory.as_ref();
    match (policy.map(|policy| &policy.documentation), find_compaction_trigger(state)) {
        (Some(Documentation::Servers(file)), CompactionTrigger::Documentation) => {
            AgentChoice { mcp_config: Some(file.clone()), ..agent }
        }
        (
            _,
            CompactionTrigger::Documentation
            | CompactionTrigger::Size
            | CompactionTrigger::Periodic,
        ) => agent,
    }
}

/// Returns the template that a call's prompt is made from, if it is one of a role.
fn select_role_prompt(state: &RunState, purpose: &Purpose) -> Option<RolePrompt> {
    match (purpose, find_current_role(state)) {
        (Purpose::Message, _)
        | (
            Purpose::Work,
            Some(Role::Prompt | Role::Plan | Role::Build | Role::Message | Role::Merge) | None,
        ) => None,
        (Purpose::Gate(_), _) => Some(match find_gate(state, purpose).map(|gate| gate.kind) {
            Some(GateKind::Quality) => RolePrompt::Quality,
            Some(GateKind::Test | GateKind::Lint | GateKind::Spec | GateKind::Custom) | None => {
                RolePrompt::Review
            }
        }),
        (Purpose::Work, Some(Role::Review)) => Some(RolePrompt::Review),
        (Purpose::Work, Some(Role::Compact)) => Some(RolePrompt::Compact),
        (Purpose::Work, Some(Role::Implement)) => Some(RolePrompt::Implement),
        (Purpose::Work, Some(Role::Fix)) => Some(RolePrompt::Fix),
    }
}

fn find_gate<'a>(state: &'a RunState, purpose: &Purpose) -> Option<&'a Gate> {
    match purpose {
        Purpose::Gate(name) => state.recipe.find_gate(name),
        Purpose::Work | Purpose::Message => None,
    }
}

/// Returns the role of the agent that is called.
fn find_call_role(state: &RunState, purpose: &Purpose) -> Role {
    match purpose {
        Purpose::Work => find_current_role(state).unwrap_or(Role::Prompt),
        Purpose::Gate(_) => Role::Review,
        Purpose::Message => Role::Message,
    }
}

/// Returns the role of the open iteration.
fn find_current_role(state: &RunState) -> Option<Role> {
    state.current.as_ref().map(|current| current.role)
}

/// Returns the answers in the wrong form that a call asks to correct, if there are any.
fn find_wrong_answer<'a>(state: &'a RunState, purpose: &Purpose) -> Option<&'a WrongAnswer> {
    state.current.as_ref()?.call_state(purpose)?.wrong.as_ref()
}

/// Returns the session that gave an answer in the wrong form, if the agent can continue it.
fn find_open_session<'a>(state: &'a RunState, purpose: &Purpose) -> Option<&'a OpenSession> {
    let agent = select_agent(state, purpose);
    let is_able = agent.capabilities.follow_ups != FollowUps::Quoted
        // A prompt among the flags cannot follow the id of a session.
        && !agent.flags.iter().any(|flag| flag.contains("{prompt"));
    match &find_wrong_answer(state, purpose)?.session {
        AgentSession::Open(session) if is_able => Some(session),
        AgentSession::Open(_) | AgentSession::Unknown | AgentSession::Lost => None,
    }
}

/// Returns the trees before and after the work that an agent is asked to review or to describe: for a
/// gate and a commit message the work that has not landed yet, else that of the task that awaits
/// review.
pub(crate) fn find_reviewed_range(state: &RunState, purpose: &Purpose) -> Option<(TreeId, TreeId)> {
    match purpose {
        Purpose::Gate(_) | Purpose::Message => {
            let Some(Checkpoint::Git { head, tree, .. }) = &state.base else { return None };
            // Where the tree was not recorded, the work began at the commit.
            let from = tree.clone().or_else(|| head.as_ref().map(|head| TreeId(head.0.clone())));
            Some((from?, state.current.as_ref()?.observed_tree()?.clone()))
        }
        Purpose::Work => {
            let ranges = &state.tasks.as_ref()?.review_ranges;
            ranges.get(&state.current_task()?.id).cloned()
        }
    }
}

/// Returns the time left for the current task.
fn find_task_time_left(state: &RunState) -> Option<Millis> {
    let limit = state.recipe.task_work()?.hard_limit;
    let log = find_attempt_log(state, state.current_task()?);
    let used = log.spent.saturating_add(state.ran_in_iteration());
    Some(Millis(limit.0.saturating_sub(used.0)))
}
