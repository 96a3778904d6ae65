//! Drives a plan to its end: starts the engine, dies, resumes, and compares the end with that of
//! an undisturbed run.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::rc::Rc;

use ralph_core::ports::{NoWorkers, Ports};
use ralph_core::run_loop::engine::{Engine, EngineError, RunStart};
use ralph_core::run_loop::fold::fold_events;
use ralph_model::event::{Event, Recorded};
use ralph_model::ids::RunId;
use ralph_model::outcome::Outcome;
use ralph_model::task::TaskList;

use super::observer::{Invariant, InvariantViolation, Observer};
use super::plan::SimulationPlan;
use super::ports::{GIT_ERROR, Port, SimulatedDeath, ViolationFound};
use super::recipe::build_recipe;
use super::repository::{FileContent, SimulatedCommit, Tree};
use super::tally::Tally;
use super::world::SimulatedWorld;

/// The result of a simulated run.
#[derive(Debug)]
pub struct SimulationReport {
    pub violations: Vec<InvariantViolation>,
    pub ended: EndState,
    pub tally: Tally,
    /// The steps of the run: each is a point at which it can die.
    pub steps: u64,
    pub journal: Vec<Recorded>,
    /// How many runs were played for it.
    pub played: u64,
}

/// The end state that must not depend on deaths.
#[derive(Debug, Clone)]
pub struct EndState {
    /// How the run ended, each time.
    outcomes: Vec<String>,
    /// The commits in the checked-out history except those of agents, oldest first: message and
    /// tree.
    commits: Vec<CommitSummary>,
    work: Rc<Tree>,
    failure_branches: Vec<Rc<Tree>>,
}

/// The message of a commit, and its tree.
type CommitSummary = (String, Rc<Tree>);

/// How a process ended.
enum ProcessEnd {
    Ended(Outcome),
    Died,
    Caught,
}

/// Plays a plan to its end.
pub fn run_plan(plan: &SimulationPlan) -> SimulationReport {
    let observer = Rc::new(RefCell::new(Observer::default()));
    let port = Port::new(SimulatedWorld::new(plan), observer);
    let mut outcomes = Vec::new();
    let (mut deaths, mut resumes) = (plan.deaths.iter().copied(), plan.resumes);
    loop {
        port.world.borrow_mut().begin_process(deaths.next());
        let known = port.world.borrow().journal.len();
        let outcome = match run_process(&port, || run_engine(&port, plan)) {
            ProcessEnd::Caught => break,
            ProcessEnd::Ended(outcome) => outcome,
            // A process that dies after writing the end has still ended the run.
            ProcessEnd::Died => {
                let recorded = find_recorded_outcome(
                    port.world.borrow().journal.get(known..).unwrap_or_default(),
                );
                match recorded.or_else(|| end_killed_run(&port, &mut deaths)) {
                    Some(outcome) => outcome,
                    None => continue,
                }
            }
        };
        let name = name_outcome(&outcome);
        port.world.borrow_mut().tally.count_one(format!("ends {name}"));
        outcomes.push(describe_outcome(&outcome));
        if outcome == Outcome::Complete || resumes == 0 {
            break;
        }
        resumes -= 1;
        port.world.borrow_mut().fix_and_resume();
    }
    let mut world = port.world.borrow_mut();
    // Reading all of it takes as long as playing it; one in eight is enough.
    if !port.observer.borrow().has_found() && world.all_steps.is_multiple_of(8) {
        port.observer.borrow_mut().check_journal(&world);
    }
    let violations = std::mem::take(&mut port.observer.borrow_mut().violations);
    SimulationReport {
        violations,
        ended: take_end_state(&mut world, outcomes),
        tally: std::mem::take(&mut world.tally),
        steps: world.all_steps,
        journal: std::mem::take(&mut world.journal),
        played: 1,
    }
}

/// Ends a run that died, as a command does that uses the task list next. Returns the outcome if
/// the work was complete; any other end is resumed. Not where a death must change nothing: to
/// resume a run that was stopped is another order to ask the agent.
fn end_killed_run(port: &Port, deaths: &mut impl Iterator<Item = u64>) -> Option<Outcome> {
    // A run that had ended before it was resumed in vain is not a killed one.
    let is_killed = fold_events(&port.world.borrow().journal).is_ok_and(|it| it.outcome.is_none());
    if !is_killed || port.world.borrow().plan.is_timeless() {
        return None;
    }
    port.world.borrow_mut().begin_process(deaths.next());
    port.world.borrow_mut().stops = true;
    port.world.borrow_mut().tally.count_one("killed runs ended");
    let ended = run_process(port, || {
        let mut handles: [Port; 6] = std::array::from_fn(|_| port.clone());
        let [agent, gates, vcs, store, clock, ui] = &mut handles;
        let workers = &mut NoWorkers;
        let ports = Ports { agent, gates, vcs, store, clock, ui, workers };
        let state = fold_events(&port.world.borrow().journal)?;
        Engine::open_killed_run(ports, state).run()
    });
    match ended {
        ProcessEnd::Ended(Outcome::Complete) => Some(Outcome::Complete),
        ProcessEnd::Ended(_) | ProcessEnd::Died | ProcessEnd::Caught => None,
    }
}

/// Returns the outcome that this process recorded. The end of an earlier process does not count.
fn find_recorded_outcome(written: &[Recorded]) -> Option<Outcome> {
    written.iter().rev().find_map(|recorded| {
        let Event::RunEnded { outcome, .. } = &recorded.event else { return None };
        Some(outcome.clone())
    })
}

/// Runs the engine until it ends or dies.
fn run_process(port: &Port, engine: impl FnOnce() -> Result<Outcome, EngineError>) -> ProcessEnd {
    match panic::catch_unwind(AssertUnwindSafe(engine)) {
        Ok(Ok(outcome)) => ProcessEnd::Ended(outcome),
        Ok(Err(EngineError::Journal(_))) => ProcessEnd::Died,
        Ok(Err(EngineError::Moved { left, .. }))
            if port.world.borrow_mut().take_back_user_commit(&left) =>
        {
            ProcessEnd::Died
        }
        Ok(Err(EngineError::Git(_))) => {
            port.world.borrow_mut().fix_faults();
            ProcessEnd::Died
        }
        // Nothing in the simulation changes protected files while a run is stopped.
        Ok(Err(
            error @ (EngineError::Fold(_)
            | EngineError::Protected { .. }
            | EngineError::Moved { .. }),
        )) => {
            port.observer.borrow_mut().report_violation(Invariant::Fold, error.to_string());
            ProcessEnd::Caught
        }
        Err(payload) if payload.is::<SimulatedDeath>() => ProcessEnd::Died,
        Err(payload) if payload.is::<ViolationFound>() => ProcessEnd::Caught,
        Err(payload) => {
            let text = payload.downcast_ref::<String>().cloned();
            let text = text.or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string));
            let message = text.unwrap_or_else(|| "a panic without a message".to_owned());
            port.observer.borrow_mut().report_violation(Invariant::Panics, message);
            ProcessEnd::Caught
        }
    }
}

fn run_engine(port: &Port, plan: &SimulationPlan) -> Result<Outcome, EngineError> {
    let mut handles: [Port; 6] = std::array::from_fn(|_| port.clone());
    let [agent, gates, vcs, store, clock, ui] = &mut handles;
    let workers = &mut NoWorkers;
    let ports = Ports { agent, gates, vcs, store, clock, ui, workers };
    let state = match port.world.borrow().journal.as_slice() {
        [] => None,
        journal => Some(fold_events(journal)?),
    };
    let mut engine = match state {
        Some(state) => Engine::resume_run(ports, state, "0".to_owned(), None)?,
        None => Engine::start_run(
            ports,
            RunStart {
                run: RunId("20260101-000000-test".to_owned()),
                project: PathBuf::from("/project"),
                recipe: build_recipe(plan),
                version: "0".to_owned(),
            },
        )?,
    };
    engine.run()
}

/// Plays a plan, and again without deaths if that must give the same end. Returns all violations
/// and the report of the run.
pub fn check_plan(plan: &SimulationPlan) -> SimulationReport {
    let mut report = run_plan(plan);
    let calm = plan.without_deaths();
    if report.violations.is_empty() && calm != *plan && plan.is_timeless() {
        let undisturbed = run_plan(&calm);
        compare_ends(&mut report, &undisturbed.ended);
        report.played += undisturbed.played;
    }
    report
}

/// How many deaths a sweep tries in one plan: each costs a complete run, and a few plans have
/// tens of thousands of steps.
const MOST_DEATHS: u64 = 2_000;

/// Plays a plan with a death at every step, one after the other, while `may_continue` holds. In a
/// plan with very many steps the deaths are spread over it. Returns the first report with a
/// violation, with its plan, and how many deaths were tried.
pub fn sweep_deaths(
    plan: &SimulationPlan,
    may_continue: impl Fn() -> bool,
) -> (Option<(SimulationPlan, SimulationReport)>, u64) {
    let calm = plan.without_deaths();
    let undisturbed = run_plan(&calm);
    if !undisturbed.violations.is_empty() {
        return (Some((calm, undisturbed)), 0);
    }
    let apart = undisturbed.steps.div_ceil(MOST_DEATHS).max(1);
    let mut deaths = 0;
    for step in (1..=undisturbed.steps).step_by(usize::try_from(apart).unwrap_or(usize::MAX)) {
        if !may_continue() {
            break;
        }
        deaths += 1;
        let deadly = SimulationPlan { deaths: vec![step], ..calm.clone() };
        let mut report = run_plan(&deadly);
        if report.violations.is_empty() && plan.is_timeless() {
            compare_ends(&mut report, &undisturbed.ended);
        }
        if !report.violations.is_empty() {
            return (Some((deadly, report)), deaths);
        }
    }
    (None, deaths)
}

fn compare_ends(report: &mut SimulationReport, expected: &EndState) {
    let ended = &report.ended;
    // Work done before a death is detected afterwards and not repeated: then git cannot fail at
    // it, and the run does not stop for it. A survey taken before a death is repeated, and git
    // fails earlier.
    let stops = |ended: &EndState| -> Vec<bool> {
        ended.outcomes.iter().map(|it| it.starts_with(GIT_ERROR)).collect()
    };
    let is_stopped = |ended: &EndState| stops(ended).contains(&true);
    if (is_stopped(ended) || is_stopped(expected)) && stops(ended) != stops(expected) {
        return;
    }
    // A run that git stopped last is not over: it may have stopped before or after the list and
    // its notes were written.
    let is_over = stops(ended).last() != Some(&true);
    let is_same = |(one, other): (&CommitSummary, &CommitSummary)| {
        one.0 == other.0 && are_alike(&one.1, &other.1)
    };
    let difference = if ended.outcomes != expected.outcomes {
        format!("ended {:?}, and undisturbed {:?}", ended.outcomes, expected.outcomes)
    } else if ended.commits.len() != expected.commits.len()
        || !ended.commits.iter().zip(&expected.commits).all(is_same)
    {
        let (made, wanted) = (&ended.commits, &expected.commits);
        let at = made.iter().zip(wanted).position(|both| !is_same(both));
        let at = at.unwrap_or(made.len().min(wanted.len()));
        format!("commit {at} is {:?}, and undisturbed {:?}", made.get(at), wanted.get(at))
    } else if is_over && !are_alike(&ended.work, &expected.work) {
        format!("left {:?}, and undisturbed {:?}", ended.work, expected.work)
    } else if ended.failure_branches.len() != expected.failure_branches.len()
        || !ended
            .failure_branches
            .iter()
            .zip(&expected.failure_branches)
            .all(|(one, other)| are_alike(one, other))
    {
        format!(
            "failure branches {:?}, and undisturbed {:?}",
            ended.failure_branches, expected.failure_branches
        )
    } else {
        return;
    };
    let seq = report.journal.last().map_or(0, |last| last.seq);
    report.violations.push(InvariantViolation {
        invariant: Invariant::Deaths,
        message: difference,
        seq,
    });
}

/// Extracts the end state from the world.
fn take_end_state(world: &mut SimulatedWorld, outcomes: Vec<String>) -> EndState {
    let work = Rc::new(std::mem::take(&mut world.repository.work));
    let repository = &world.repository;
    // How often agents commit depends on how often they are called, and that on deaths.
    let is_agents = |at: &usize| {
        let SimulatedCommit { mark, parent, .. } = &repository.commits[*at];
        mark.is_none() && parent.is_some()
    };
    let ancestors = repository.list_ancestors(repository.head);
    let mut commits: Vec<usize> = ancestors.filter(|at| !is_agents(at)).collect();
    commits.reverse();
    let describe = |at: usize| {
        let commit = &repository.commits[at];
        (commit.message.clone(), repository.find_tree(commit.tree))
    };
    let branches = repository.failure_branches.iter();
    EndState {
        outcomes,
        commits: commits.into_iter().map(describe).collect(),
        work,
        failure_branches: branches
            .map(|(_, commit)| repository.find_tree(repository.commits[*commit].tree))
            .collect(),
    }
}

/// Returns whether two trees are the same except for times in them.
fn are_alike(one: &Tree, other: &Tree) -> bool {
    let is_alike = |one: &FileContent, other: &FileContent| match (one, other) {
        (FileContent::Text(one), FileContent::Text(other)) => {
            let facts = |text: &str| -> Vec<String> {
                text.lines().map(|line| strip_token(strip_time(line))).collect()
            };
            one == other || facts(one) == facts(other)
        }
        (FileContent::List(one), FileContent::List(other)) => {
            Rc::ptr_eq(one, other) || list_task_facts(one).eq(list_task_facts(other))
        }
        (FileContent::Text(_), FileContent::List(_))
        | (FileContent::List(_), FileContent::Text(_)) => false,
    };
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .all(|((path, one), (there, other))| path == there && is_alike(one, other))
}

/// Returns a line of the progress log without its time.
fn strip_time(line: &str) -> &str {
    match line.split_once(" — ") {
        Some((stamp, rest)) if stamp.starts_with("## 2") => rest,
        Some(_) | None => line,
    }
}

/// Returns a text without the token of a call, which depends on when the call was made.
fn strip_token(text: &str) -> String {
    let is_digit = |it: char| it.is_ascii_hexdigit();
    let parts = text.split("\"token\": \"");
    parts.map(|part| part.trim_start_matches(is_digit)).collect()
}

/// Returns the relevant fields of the tasks of a list. The name of a failure branch depends on
/// deaths.
fn list_task_facts(list: &TaskList) -> impl Iterator<Item = impl PartialEq + '_> {
    list.tasks.iter().map(|task| {
        let notes = task.notes.split("; its work is on").next().map(strip_token);
        (&task.id, task.status, task.attempts, &task.review, &task.acceptance_criteria, notes)
    })
}

/// Returns how a run ended, without times and counts.
fn describe_outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::TasksLeft { failed, waiting } => format!("tasks left {failed:?} {waiting:?}"),
        Outcome::ApprovedAtCap { tasks } => format!("approved at the cap {tasks:?}"),
        Outcome::AgentFailed { failure, .. } => format!("agent failed {:?}", failure.class),
        // Which of two git failures comes first depends on what is surveyed again.
        Outcome::GitFailed { message } if message.starts_with(GIT_ERROR) => GIT_ERROR.to_owned(),
        Outcome::GitFailed { message } => message.clone(),
        _ => name_outcome(outcome).to_owned(),
    }
}

/// Returns the name of an outcome.
pub(super) fn name_outcome(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Complete => "complete",
        Outcome::IterationsUsedUp { .. } => "iterations-used-up",
        Outcome::NothingChanges { .. } => "nothing-changes",
        Outcome::SameFailure { .. } => "same-failure",
        Outcome::BudgetUsedUp { .. } => "budget-used-up",
        Outcome::LimitTooLong { .. } => "limit-too-long",
        Outcome::AgentFailed { .. } => "agent-failed",
        Outcome::NoCommitMessage => "no-commit-message",
        Outcome::ScmFailed { .. } => "scm-failed",
        Outcome::GitFailed { .. } => "git-failed",
        Outcome::PromptLost { .. } => "prompt-lost",
        Outcome::PlanMissing => "plan-missing",
        Outcome::TasksLeft { .. } => "tasks-left",
        Outcome::ApprovedAtCap { .. } => "approved-at-cap",
        Outcome::BaselineBroken { .. } => "baseline-broken",
        Outcome::SandboxBlocked { .. } => "sandbox-blocked",
        Outcome::TasksLost { .. } => "tasks-lost",
        Outcome::WorkersFailed { .. } => "workers-failed",
        Outcome::LandingBlocked { .. } => "landing-blocked",
        Outcome::Interrupted => "interrupted",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::draw_plan;
    use crate::simulation::ports::MOST_STEPS;

    #[test]
    fn another_end_than_the_undisturbed_one_is_found() {
        let mut report = run_plan(&draw_plan(0));
        let same = report.ended.clone();
        compare_ends(&mut report, &same);
        assert_eq!(report.violations, []);
        let others = [
            EndState { outcomes: vec!["another".into()], ..same.clone() },
            EndState { commits: Vec::new(), ..same.clone() },
            EndState { work: Rc::default(), ..same.clone() },
            EndState { failure_branches: vec![Rc::default()], ..same },
        ];
        for (found, other) in others.iter().enumerate() {
            compare_ends(&mut report, other);
            assert_eq!(report.violations.len(), found + 1);
            assert_eq!(report.violations[found].invariant, Invariant::Deaths);
        }
    }

    #[test]
    fn steps_without_end_are_found() {
        let observer = Rc::new(RefCell::new(Observer::default()));
        let port = Port::new(SimulatedWorld::new(&draw_plan(0)), observer);
        let plan = draw_plan(0);
        port.world.borrow_mut().all_steps = MOST_STEPS;
        let end = run_process(&port, || run_engine(&port, &plan));
        assert!(matches!(end, ProcessEnd::Caught));
        let found = port.observer.borrow().violations.clone();
        assert_eq!(found[0].invariant, Invariant::Ends);
        assert_eq!(found[0].message, format!("{MOST_STEPS} steps and no end"));
    }

    #[test]
    fn a_panic_is_found() {
        let observer = Rc::new(RefCell::new(Observer::default()));
        let port = Port::new(SimulatedWorld::new(&draw_plan(0)), observer);
        let end = run_process(&port, || panic!("at the disco"));
        assert!(matches!(end, ProcessEnd::Caught));
        let found = port.observer.borrow().violations.clone();
        assert_eq!(found[0].invariant, Invariant::Panics);
        assert_eq!(found[0].message, "at the disco");
    }
}
