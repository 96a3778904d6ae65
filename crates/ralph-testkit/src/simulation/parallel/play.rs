//! Plays the plan of a parallel run: starts the engine, dies, resumes, and compares the end with
//! the one of a run that works on one task at a time.

use std::panic::{self, AssertUnwindSafe};

use ralph_core::ports::AgentRequest;
use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::control::{ControlRequest, ControlRequestId, SubmittedRequest};
use ralph_model::event::Recorded;
use ralph_model::gate::{Gate, GateKind};
use ralph_model::ids::{IterationNumber, Role, RunId, TaskId};
use ralph_model::outcome::Outcome;
use ralph_model::recipe::{CommitPolicy, ParallelPolicy, Recipe, TaskWork, Work};
use ralph_model::review::ReviewPolicy;
use ralph_model::run::IterationMark;
use ralph_model::task::{Task, TaskList, TaskStatus};
use ralph_model::units::{Timestamp, UsdMicros};
use ralph_model::worker::WorkerLimitKind;
use serde_json::json;

use super::observer::{self, ParallelInvariant, ParallelViolation};
use super::plan::{ParallelPlan, PlannedLimit};
use crate::world::{BEGINNING, ScriptedAction, SharedWorld};

/// A run that takes more starts than this makes no progress.
const MOST_STARTS: u32 = 60;

/// An approval, for the one criterion that each task has.
const APPROVED: &str = r#"{"verdict": "approved", "feedback": "", "criteria": [
    {"criterion": "1", "met": true, "evidence": "x:1"}]}"#;

/// The result of a simulated parallel run.
#[derive(Debug, Clone)]
pub struct ParallelReport {
    pub violations: Vec<ParallelViolation>,
    pub outcome: Option<Outcome>,
    /// The status of each task at the end, in the file.
    pub statuses: Vec<(TaskId, TaskStatus)>,
    /// The words of the last commit that tell which tasks landed.
    pub landed: Vec<String>,
    pub journal: Vec<Recorded>,
    /// The agent calls of all workers.
    pub calls: usize,
    /// How many events power cuts took.
    pub lost_events: usize,
}

/// Decides what the agent does, by the name of the task.
fn decide_action(request: &AgentRequest, tree: &str) -> ScriptedAction {
    let says = |text: String| ScriptedAction { tree: None, text, failure: None };
    if request.role == Role::Review {
        return says(APPROVED.to_owned());
    }
    let task = request.task.as_ref().map(|it| it.0.clone()).unwrap_or_default();
    let done = json!({ "task_completed": {
        "task_id": task, "summary": format!("Did {task}."), "fully_complete": true } });
    let says = says(format!("Done.\n```json\n{done}\n```\n"));
    if task.starts_with("bad") {
        return ScriptedAction { tree: Some(format!("broken{}", request.iteration)), ..says };
    }
    let mut words: Vec<String> =
        tree.split(' ').filter(|it| *it != "<<<").map(str::to_owned).collect();
    if task.starts_with("same") {
        words.retain(|it| !it.starts_with("x="));
        words.push(format!("x={task}"));
    }
    // The gate fails where there are two of these words; the later task does without.
    let clash = format!("!{task}");
    let clashes = words.iter().any(|it| it.starts_with('!') && *it != clash);
    words.retain(|it| *it != clash);
    if task.starts_with("clash") && !clashes {
        words.push(clash);
    }
    if !words.contains(&task) {
        words.push(task);
    }
    ScriptedAction { tree: Some(words.join(" ")), ..says }
}

/// Returns the task list of a plan.
fn build_list(plan: &ParallelPlan) -> TaskList {
    let build = |at: usize| {
        let (name, planned) = (plan.name_task(at), &plan.tasks[at]);
        Task {
            description: format!("Make {name}."),
            acceptance_criteria: vec![format!("{name} is there")],
            depends_on: planned.after.iter().map(|it| TaskId(plan.name_task(*it))).collect(),
            touches: planned.touches.map(|it| format!("dir{it}/**")).into_iter().collect(),
            ..Task::new(name.as_str(), format!("The {name}"))
        }
    };
    let tasks = (0..plan.tasks.len()).map(build).collect();
    TaskList { project: "p".into(), tasks, ..TaskList::default() }
}

/// Returns the recipe of a plan.
pub(super) fn build_recipe(plan: &ParallelPlan) -> Recipe {
    let review = if plan.review { ReviewPolicy::Fresh { cap: 3 } } else { ReviewPolicy::Skip };
    let work = TaskWork { review, attempts: 1, ..TaskWork::new("plan.json") };
    let agent = AgentChoice::new(AgentKind::Text, "agent");
    // `start` must be there, and no two clashing words.
    let mut gates = vec![Gate::for_command(GateKind::Test, "start")];
    let clashing: Vec<String> = (0..plan.tasks.len())
        .map(|at| plan.name_task(at))
        .filter(|name| name.starts_with("clash"))
        .collect();
    for (at, one) in clashing.iter().enumerate() {
        for other in &clashing[at + 1..] {
            let gate = Gate::for_command(GateKind::Test, format!("!!{one} !{other}"));
            gates.push(Gate { name: format!("{one} or {other}"), ..gate });
        }
    }
    let policy =
        ParallelPolicy { merge_attempts: plan.merge_attempts, ..ParallelPolicy::new(plan.jobs) };
    let mut recipe =
        Recipe { gates, parallel: Some(policy), ..Recipe::new(Work::Tasks(work), agent) };
    recipe.landing.commit = CommitPolicy::Ralph;
    recipe.limits.iterations = plan.iterations;
    recipe.limits.budget.cost = plan.cents.map(|cents| UsdMicros(cents * 10_000));
    recipe
}

fn build_request(after: i64, request: ControlRequest) -> SubmittedRequest {
    let id = ControlRequestId(format!("{after:015}-{}", request.describe()));
    SubmittedRequest { id, at: Timestamp(BEGINNING + after), by: None, request }
}

pub(super) fn build_world(plan: &ParallelPlan) -> SharedWorld {
    let world = SharedWorld::new(decide_action);
    {
        let mut inner = world.0.borrow_mut();
        inner.tasks = Some(build_list(plan));
        inner.commit_start();
        for (at, task) in plan.tasks.iter().enumerate() {
            let id = TaskId(plan.name_task(at));
            inner.worker_polls.insert(id.clone(), task.polls);
            inner.losses.insert(id.clone(), task.losses);
            inner.unfetchable.insert(id.clone(), task.unfetchable);
            inner.worker_deaths.extend(task.death.map(|death| (id.clone(), death)));
            let limit = task.limit.map(|limit| match limit {
                PlannedLimit::Usage => WorkerLimitKind::UsageLimit,
                PlannedLimit::Overload => WorkerLimitKind::Overload,
            });
            inner.limits.extend(limit.map(|limit| (id, limit)));
        }
        inner.power_fails = plan.power;
        inner.lost_host = plan.lost_host.map(|at| TaskId(plan.name_task(at)));
        inner.stop_at = plan.stop.map(|after| BEGINNING + after);
        inner.user_word = plan.edit.map(|after| (after, "x=user".to_owned()));
        let pause = plan.pause.map(|(after, _)| build_request(after, ControlRequest::Pause));
        let resume =
            plan.pause.map(|(after, many)| build_request(after + many, ControlRequest::Resume));
        let skip = plan.skip.map(|(after, at)| {
            build_request(after, ControlRequest::Skip { task: TaskId(plan.name_task(at)) })
        });
        inner.inbox.extend(pause.into_iter().chain(skip).chain(resume));
        inner.inbox.sort_by_key(|it| it.at);
    }
    world
}

/// Commits what the user changed, as the user does once ralph asks for it.
fn commit_as_user(world: &SharedWorld) {
    let mut world = world.0.borrow_mut();
    let run = RunId("user".to_owned());
    let mark = IterationMark { run, iteration: IterationNumber(0), task: None };
    let tree = world.tree.clone();
    world.commits.push((tree, "user".to_owned(), mark));
}

/// Plays a plan to its end, and checks P1 to P8.
pub fn play_parallel_plan(plan: &ParallelPlan) -> ParallelReport {
    let (world, recipe) = (build_world(plan), build_recipe(plan));
    let played = panic::catch_unwind(AssertUnwindSafe(|| play(plan, &world, &recipe)));
    let mut report = build_report(&world);
    match played {
        Ok(Ok(outcome)) => {
            report.violations = observer::check_run(plan, &world, &outcome);
            report.outcome = Some(outcome);
        }
        Ok(Err(message)) => report
            .violations
            .push(ParallelViolation { invariant: ParallelInvariant::EndsAfterRounds, message }),
        Err(payload) => {
            let text = payload.downcast_ref::<String>().cloned();
            let text = text.or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string));
            let message = text.unwrap_or_else(|| "a panic".to_owned());
            let invariant = ParallelInvariant::EndsAfterRounds;
            report.violations.push(ParallelViolation { invariant, message });
        }
    }
    report
}

#[expect(clippy::wildcard_enum_match_arm, reason = "all other outcomes are ends")]
fn play(plan: &ParallelPlan, world: &SharedWorld, recipe: &Recipe) -> Result<Outcome, String> {
    let mut deaths = plan.deaths.iter().copied();
    for _ in 0..MOST_STARTS {
        let Some(ended) = world.run_until_death(recipe, deaths.next()) else { continue };
        match ended.map_err(|error| error.to_string())? {
            Outcome::Interrupted if plan.stop.is_some() => world.0.borrow_mut().stop_at = None,
            Outcome::LandingBlocked { .. } if plan.edit.is_some() => commit_as_user(world),
            outcome => return Ok(outcome),
        }
    }
    Err(format!("{MOST_STARTS} starts and no end"))
}

fn build_report(world: &SharedWorld) -> ParallelReport {
    let world = world.0.borrow();
    let tasks = world.tasks.iter().flat_map(|it| &it.tasks);
    let last = world.commits.last().map_or("", |commit| commit.0.as_str());
    let is_task = |word: &&str| {
        world.tasks.as_ref().is_some_and(|it| it.tasks.iter().any(|task| task.id.0 == *word))
    };
    let mut landed: Vec<String> = last.split(' ').filter(is_task).map(str::to_owned).collect();
    landed.sort();
    ParallelReport {
        violations: Vec::new(),
        outcome: None,
        statuses: tasks.map(|task| (task.id.clone(), task.status)).collect(),
        landed,
        journal: world.journal.clone(),
        lost_events: world.lost_events,
        calls: world.workers.values().map(|it| it.world.0.borrow().prompts.len()).sum(),
    }
}

/// Plays a plan, and compares its end with the one of a run without faults that works on one task
/// at a time, and has no workers (P9).
pub fn check_parallel_plan(plan: &ParallelPlan) -> ParallelReport {
    let mut report = play_parallel_plan(plan);
    // A worker that is lost again and again ends the run.
    let has_given_up = matches!(report.outcome, Some(Outcome::WorkersFailed { .. }));
    if !report.violations.is_empty() || has_given_up || !plan.is_timeless() {
        return report;
    }
    let calm = plan.without_faults();
    let world = build_world(&calm);
    let recipe = Recipe { parallel: None, ..build_recipe(&calm) };
    let ended = play(&calm, &world, &recipe);
    let alone = build_report(&world);
    let mut compare = |what: &str, ours: String, theirs: String| {
        if ours != theirs {
            let message = format!("{what}: {ours} with workers, {theirs} without");
            let invariant = ParallelInvariant::SameResults;
            report.violations.push(ParallelViolation { invariant, message });
        }
    };
    compare("tasks", format!("{:?}", report.statuses), format!("{:?}", alone.statuses));
    compare("landed", report.landed.join(" "), alone.landed.join(" "));
    let describe = |outcome: &Outcome| outcome.to_string();
    let theirs = ended.as_ref().map_or_else(Clone::clone, describe);
    compare("end", report.outcome.as_ref().map(describe).unwrap_or_default(), theirs);
    report
}
