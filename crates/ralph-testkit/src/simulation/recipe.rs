//! Builds a recipe and a task list from a plan: what the binary would build from equivalent
//! settings.
//!
//! The binary's own code for this needs settings and a machine and is not available here: these
//! are the same values, built with the core's constructors.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::amendment::AmendmentPolicy;
use ralph_model::budget::Budget;
use ralph_model::failure::{RateLimitAction, RateLimitPolicy, Retries};
use ralph_model::gate::{EmptyRun, Gate, GateCheck, GateKind, GateReuse};
use ralph_model::glob::Pattern;
use ralph_model::ids::{Role, TaskId};
use ralph_model::memory::MemoryPolicy;
use ralph_model::recipe::{
    BaselinePolicy, CommitPolicy, Completion, MessageAuthor, OnFailure, PROGRESS, PlanFile,
    PlanPart, PromptSource, Recipe, Retry, RunPrompt, Scm, ScmTask, TaskWork, Template,
    TemplatePlace, Uncommitted, Work,
};
use ralph_model::review::{ReviewPolicy, ReviewState, ReviewStatus};
use ralph_model::stuck::StuckPolicy;
use ralph_model::task::{ListForm, ListOwner, Task, TaskList};
use ralph_model::units::{Millis, Tokens, UsdMicros};

use super::plan::{CommitMode, GatePlan, SimulatedWorkflow, SimulationPlan, TaskPlan};

/// The task file.
pub const TASKS: &str = "plan.json";

/// The plan that the agent maintains.
pub const PLAN: &str = "implementation_plan.md";

/// The protected file.
pub const PROTECTED: &str = "gates/check.sh";

/// A file that agents read as instructions.
pub const INSTRUCTIONS: &str = "AGENTS.md";

/// A file that code in gates writes.
pub const GATE_FILE: &str = "work/of-a-gate";

/// The tests of the project, one on each line.
pub const TEST_LIST: &str = "work/tests";

/// The directory of the work.
pub const WORK: &str = "work/";

/// The gate of `ralph plan` for a task list.
pub const LIST_GATE: &str = "ralph tasks validate";

/// Returns the recipe of a plan.
pub fn build_recipe(plan: &SimulationPlan) -> Recipe {
    let agent = AgentChoice::new(AgentKind::Text, "agent");
    let mut recipe = Recipe::new(build_work(plan), agent);
    let pattern = |text: &str| Pattern::new(text).into_iter().collect::<Vec<_>>();
    recipe.gates = plan.gates.iter().enumerate().map(|(at, it)| build_gate(at, it)).collect();
    recipe.baseline = plan.baseline;
    recipe.strategy = plan.strategy;
    recipe.protect = pattern("gates/**");
    recipe.retries = Retries { max: plan.retries, backoff: Millis::from_secs(5) };
    recipe.rate_limit = RateLimitPolicy {
        wait: if plan.wait_minutes.is_some() {
            RateLimitAction::Wait
        } else {
            RateLimitAction::Stop
        },
        max_wait: Millis::from_mins(plan.wait_minutes.unwrap_or(0)),
    };
    recipe.limits.iterations = plan.iterations;
    recipe.limits.delay = Millis::from_secs(plan.delay);
    recipe.limits.budget = Budget {
        cost: plan.cents.map(|cents| UsdMicros(cents * 10_000)),
        tokens: plan.tokens.map(Tokens),
        time: plan.seconds.map(Millis::from_secs),
    };
    recipe.prompt.context.budget = Tokens(plan.context);
    recipe.landing.on_failure = plan.on_failure;
    recipe.landing.commit = match plan.commit {
        CommitMode::Ralph => CommitPolicy::Ralph,
        CommitMode::Agent | CommitMode::AgentMay => CommitPolicy::Agent,
        CommitMode::Scm => CommitPolicy::Scm(Scm {
            command: "git".to_owned(),
            tasks: vec![ScmTask::Commit, ScmTask::Run(vec!["push".to_owned()])],
            message: MessageAuthor::Agent,
        }),
        CommitMode::NoCommit | CommitMode::NoGit => CommitPolicy::NoCommit,
    };
    if plan.commit == CommitMode::AgentMay {
        recipe.landing.uncommitted = Uncommitted::Reported;
    }
    apply_workflow(plan, &mut recipe);
    recipe
}

/// Sets what is specific to one workflow.
fn apply_workflow(plan: &SimulationPlan, recipe: &mut Recipe) {
    let exactly = |path: &str| Pattern::for_path(path).into_iter();
    match plan.workflow {
        SimulatedWorkflow::Prompt | SimulatedWorkflow::PromptFile => {
            "prompt".clone_into(&mut recipe.workflow);
        }
        SimulatedWorkflow::Template => {
            "prompt".clone_into(&mut recipe.workflow);
            "COMPLETE".clone_into(&mut recipe.completion_response);
        }
        SimulatedWorkflow::SpecsPlan => {
            (recipe.workflow, recipe.role) = ("specs".to_owned(), Role::Plan);
            "COMPLETE".clone_into(&mut recipe.completion_response);
            recipe.gates.clear();
            recipe.scope = exactly(PLAN).collect();
            recipe.protect = Vec::new();
            recipe.plan = Some(PlanFile { file: PLAN.into(), part: PlanPart::Makes });
        }
        SimulatedWorkflow::SpecsBuild => {
            (recipe.workflow, recipe.role) = ("specs".to_owned(), Role::Build);
            "COMPLETE".clone_into(&mut recipe.completion_response);
            recipe.plan = Some(PlanFile { file: PLAN.into(), part: PlanPart::Follows });
        }
        SimulatedWorkflow::ListPlan => {
            (recipe.workflow, recipe.role) = ("plan".to_owned(), Role::Plan);
            "COMPLETE".clone_into(&mut recipe.completion_response);
            recipe.gates = vec![Gate {
                reuse: GateReuse::Never,
                empty: EmptyRun::Allowed,
                ..Gate::for_command(GateKind::Test, LIST_GATE)
            }];
            recipe.baseline = BaselinePolicy::Off;
            recipe.landing.on_failure = OnFailure::Keep;
            recipe.scope = exactly(TASKS).chain(exactly(PROGRESS)).collect();
            recipe.protect = Vec::new();
            recipe.draft = Some(TASKS.into());
            recipe.completion = Completion::Gates;
        }
        SimulatedWorkflow::Tasks | SimulatedWorkflow::Stories => {
            (recipe.workflow, recipe.role) = ("tasks".to_owned(), Role::Implement);
            "COMPLETE".clone_into(&mut recipe.completion_response);
            recipe.memory = plan
                .memory
                .map(|every| MemoryPolicy { every_iterations: every, ..MemoryPolicy::default() });
            recipe.escalate = Some(AgentChoice::new(AgentKind::Text, "stronger"));
        }
    }
}

fn build_work(plan: &SimulationPlan) -> Work {
    let template = |place| {
        let values = [("PLAN_FILE", PLAN), ("COMMITTING", "Commit.")];
        let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Work::Prompt(PromptSource::Template(Template { place, values: BTreeMap::from(values) }))
    };
    match plan.workflow {
        SimulatedWorkflow::Prompt => Work::Prompt(PromptSource::Text("Make it work.".to_owned())),
        SimulatedWorkflow::PromptFile => Work::Prompt(PromptSource::File("prompt.md".into())),
        SimulatedWorkflow::Template => template(TemplatePlace::File("loop.md".into())),
        SimulatedWorkflow::SpecsPlan => template(TemplatePlace::Named(RunPrompt::PlanSpecs)),
        SimulatedWorkflow::SpecsBuild => template(TemplatePlace::Named(RunPrompt::Build)),
        SimulatedWorkflow::ListPlan => template(TemplatePlace::Named(RunPrompt::PlanTasks)),
        SimulatedWorkflow::Tasks | SimulatedWorkflow::Stories => Work::Tasks(build_task_work(plan)),
    }
}

fn build_task_work(plan: &SimulationPlan) -> TaskWork {
    let (keeper, form) = match plan.workflow {
        SimulatedWorkflow::Stories => (ListOwner::Agent, ListForm::Stories),
        _ => (ListOwner::Ralph, ListForm::Plan),
    };
    TaskWork {
        keeper,
        form,
        only: plan.only.map(format_task_id),
        retry: if plan.retry { Retry::All } else { Retry::Nothing },
        attempts: plan.attempts,
        amendments: plan.amendments,
        amendment_policy: AmendmentPolicy::Add,
        review: match plan.review {
            Some(cap) => ReviewPolicy::Fresh { cap },
            None => ReviewPolicy::Skip,
        },
        stuck: StuckPolicy { after: plan.stuck.0, strategy_shifts: plan.stuck.1 },
        soft_limit: Millis::from_secs(plan.task_seconds.unwrap_or(86_400) / 2),
        hard_limit: Millis::from_secs(plan.task_seconds.unwrap_or(864_000)),
        ..TaskWork::new(PathBuf::from("/project").join(TASKS))
    }
}

fn build_gate(at: usize, plan: &GatePlan) -> Gate {
    let name = format_gate_name(at);
    let check = if plan.asks {
        GateCheck::Agent(Box::new(AgentChoice::new(AgentKind::Text, "reviewer")))
    } else {
        GateCheck::Command(name.clone())
    };
    let paths = if plan.paths { Pattern::new("work/**").into_iter().collect() } else { Vec::new() };
    Gate {
        name: name.clone(),
        check,
        severity: plan.severity,
        persistence: plan.persistence,
        reuse: plan.reuse,
        fail_action: plan.action,
        paths,
        ..Gate::for_command(plan.kind, name)
    }
}

/// Returns the name of the gate with this index.
pub fn format_gate_name(at: usize) -> String {
    format!("gate-{at}")
}

/// Returns the id of the task with this index.
pub fn format_task_id(at: usize) -> TaskId {
    TaskId(format!("task-{at}"))
}

/// Returns the task list of a plan.
pub fn build_list(plan: &SimulationPlan) -> TaskList {
    let tasks = plan.tasks.iter().enumerate().map(|(at, it)| build_task(at, it));
    TaskList { project: "project".to_owned(), tasks: tasks.collect(), ..TaskList::default() }
}

fn build_task(at: usize, plan: &TaskPlan) -> Task {
    let TaskId(id) = format_task_id(at);
    let about =
        if plan.names_protected { format!(" It changes {PROTECTED}.") } else { String::new() };
    let is_noted = match plan.review {
        ReviewStatus::None => "",
        ReviewStatus::NeedsReview | ReviewStatus::ChangesRequested | ReviewStatus::Approved => {
            "done before"
        }
    };
    Task {
        description: format!("Make the thing number {at}.{about}"),
        acceptance_criteria: vec![format!("Thing number {at} is there"), "It works".to_owned()],
        depends_on: plan.after.iter().copied().map(format_task_id).collect(),
        skills: if plan.skill { vec!["known".to_owned()] } else { Vec::new() },
        needs_docs: plan.docs,
        max_retries: plan.retries,
        status: plan.status,
        review: ReviewState {
            status: plan.review,
            count: u32::from(matches!(
                plan.review,
                ReviewStatus::ChangesRequested | ReviewStatus::Approved
            )),
            feedback: match plan.review {
                ReviewStatus::ChangesRequested => "Fix the edges.".to_owned(),
                ReviewStatus::None | ReviewStatus::NeedsReview | ReviewStatus::Approved => {
                    String::new()
                }
            },
        },
        notes: is_noted.to_owned(),
        ..Task::new(id, format!("Thing {at}"))
    }
}
