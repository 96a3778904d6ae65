//! Checks the invariants P1 to P9 of parallel runs, from the journal and the truth of the world.
//!
//! It uses no choice and no judgement of the engine. Not here: P9, which compares two runs
//! (`play`).
#![expect(clippy::wildcard_enum_match_arm, reason = "most events are about something else")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ralph_core::reporting::parallel_status::{CandidateStage, ParallelStatus};
use ralph_core::run_loop::fold::{apply_event, start_state};
use ralph_model::event::{Event, Recorded};
use ralph_model::ids::{Role, TaskId};
use ralph_model::outcome::Outcome;
use ralph_model::parallel_state::ParallelState;
use ralph_model::run::RunState;
use ralph_model::task::TaskStatus;
use ralph_model::worktree::{Checkpoint, CommitId, Landed};

use super::plan::ParallelPlan;
use crate::world::{ScriptedWorld, SharedWorld};

/// The invariants of parallel runs, in the order of their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ParallelInvariant {
    /// P1: a task is done only by a commit; views show each waiting candidate with a reason.
    DoneByCommit,
    /// P2: work is fetched before the end of its worker is recorded.
    FetchedFirst,
    /// P3: a commit lands on exactly the tip that the merged tree was gated on.
    LandsOnTip,
    /// P4: every landed tree passes every hard gate.
    GreenTrees,
    /// P5: no two workers share a task, and a live job is not started again.
    OneWorkerPerTask,
    /// P6: money spent ≤ budget + one call per worker; no answer is paid for twice.
    Budget,
    /// P7: rounds are bounded, the last is exclusive, and the run ends.
    EndsAfterRounds,
    /// P8: no worker is live once the run has ended or begins again.
    NoneOutlives,
    /// P9: results are those of a run that works on one task at a time.
    SameResults,
}

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParallelViolation {
    pub invariant: ParallelInvariant,
    pub message: String,
}

impl fmt::Display for ParallelViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P{} ({:?}): {}", self.invariant as u32 + 1, self.invariant, self.message)
    }
}

/// What is found while the journal is read.
#[derive(Default)]
struct ParallelObserver {
    violations: Vec<ParallelViolation>,
    /// Tasks that have landed.
    landed: BTreeSet<TaskId>,
    /// The commits of ralph in the order of the journal, with the tip that each was made on.
    commits: Vec<(CommitId, Option<CommitId>)>,
    rounds: BTreeMap<TaskId, u32>,
}

impl ParallelObserver {
    fn check(
        &mut self,
        invariant: ParallelInvariant,
        holds: bool,
        message: impl FnOnce() -> String,
    ) {
        if !holds {
            self.violations.push(ParallelViolation { invariant, message: message() });
        }
    }

    /// Checks an event, with the states before and after it.
    fn observe(&mut self, recorded: &Recorded, before: &RunState, after: &RunState) {
        let (Some(parallel), Some(policy)) = (&after.parallel, &after.recipe.parallel) else {
            return;
        };
        match &recorded.event {
            Event::JobAssigned { assignment } => {
                let running = before.parallel.as_ref().map(|it| &it.running);
                let is_live = running.and_then(|it| it.get(&assignment.worker));
                let is_live = is_live.is_some_and(|it| it.is_live);
                let worker = &assignment.worker;
                self.check(ParallelInvariant::OneWorkerPerTask, !is_live, || {
                    format!("{worker} is started again while it is live")
                });
                let (task, round) = (assignment.task.clone(), assignment.round);
                let known = self.rounds.get(&task).copied().unwrap_or(0);
                let is_bounded = round <= known + 1 && round <= policy.merge_attempts;
                self.check(ParallelInvariant::EndsAfterRounds, is_bounded, || {
                    format!("{task} is in round {round} after round {known}")
                });
                self.rounds.insert(task, round.max(known));
                self.check_dependencies(after, &assignment.task);
            }
            Event::IterationStarted { role: Role::Merge, task: Some(task), .. } => {
                let last = find_last_round(parallel, policy.merge_attempts);
                let is_alone = last.is_empty() || last.contains(task);
                self.check(ParallelInvariant::EndsAfterRounds, is_alone, || {
                    format!("{task} is merged while {last:?} are in their last round")
                });
            }
            Event::Landed { landed: Landed::Committed { commit, .. } } => {
                let current = after.current.as_ref();
                let tip = current.and_then(|it| it.checkpoint()).and_then(find_head);
                self.commits.push((commit.clone(), tip));
                let task = current.and_then(|it| it.task.clone());
                self.landed.extend(task);
            }
            Event::RunResumed { .. } => {
                let is_stopped = !parallel.has_live_workers();
                self.check(ParallelInvariant::NoneOutlives, is_stopped, || {
                    "a worker is live when the run begins again".to_owned()
                });
            }
            _ => {}
        }
        self.check_state(recorded.seq, after, parallel, policy.jobs);
    }

    /// Checks what holds after every event.
    fn check_state(&mut self, seq: u64, state: &RunState, parallel: &ParallelState, jobs: u32) {
        let running = parallel.running.values().map(|it| &it.assignment.task);
        let taken: Vec<&TaskId> = running.chain(parallel.queue.iter().map(|it| &it.task)).collect();
        let distinct: BTreeSet<&TaskId> = taken.iter().copied().collect();
        self.check(ParallelInvariant::OneWorkerPerTask, distinct.len() == taken.len(), || {
            format!("after event {seq} tasks are taken twice: {taken:?}")
        });
        let is_few = parallel.running.len() <= jobs as usize;
        self.check(ParallelInvariant::OneWorkerPerTask, is_few, || {
            format!("after event {seq} there are {} workers", parallel.running.len())
        });
        let tasks = state.tasks.iter().flat_map(|it| &it.list.tasks);
        let early: Vec<&TaskId> = tasks
            .filter(|task| task.status == TaskStatus::Done && !self.landed.contains(&task.id))
            .map(|task| &task.id)
            .collect();
        // One that changes nothing lands without a commit; no agent of the simulation does that.
        let is_late = early.is_empty();
        let early = format!("{early:?}");
        self.check(ParallelInvariant::DoneByCommit, is_late, || {
            format!("after event {seq} {early} are done without a commit")
        });
        let shown = ParallelStatus::from_state(state);
        let is_shown = shown.is_some_and(|shown| {
            let has_reason = |stage: &CandidateStage| match stage {
                CandidateStage::Waiting { reason } => !reason.is_empty(),
                CandidateStage::Merging
                | CandidateStage::Gates { .. }
                | CandidateStage::Landing => true,
            };
            shown.queue.len() == parallel.queue.len()
                && shown.queue.iter().all(|it| has_reason(&it.stage))
        });
        self.check(ParallelInvariant::DoneByCommit, is_shown, || {
            format!("after event {seq} a waiting candidate is not shown")
        });
    }

    fn check_dependencies(&mut self, state: &RunState, id: &TaskId) {
        let Some(tasks) = &state.tasks else { return };
        let Some(task) = tasks.list.find_task(id) else { return };
        let missing: Vec<&TaskId> =
            task.depends_on.iter().filter(|it| !self.landed.contains(it)).collect();
        let (is_met, missing) = (missing.is_empty(), format!("{missing:?}"));
        self.check(ParallelInvariant::DoneByCommit, is_met, || {
            format!("{id} starts before {missing} have landed")
        });
    }
}

fn find_head(checkpoint: &Checkpoint) -> Option<CommitId> {
    match checkpoint {
        Checkpoint::Git { head, .. } => head.clone(),
        Checkpoint::None => None,
    }
}

/// Returns the tasks in their last round, at work or waiting.
fn find_last_round(parallel: &ParallelState, most: u32) -> BTreeSet<TaskId> {
    let running = parallel.running.values().map(|it| (it.assignment.round, &it.assignment.task));
    let all = running.chain(parallel.queue.iter().map(|it| (it.round, &it.task)));
    all.filter(|(round, _)| *round >= most).map(|(_, task)| task.clone()).collect()
}

/// Checks P1 to P8 of a run that has ended.
pub(super) fn check_run(
    plan: &ParallelPlan,
    world: &SharedWorld,
    outcome: &Outcome,
) -> Vec<ParallelViolation> {
    let world = world.0.borrow();
    let mut observer = ParallelObserver::default();
    let mut events = world.journal.iter();
    let Some(mut state) = events.next().and_then(|first| start_state(first).ok()) else {
        return observer.violations;
    };
    for recorded in events {
        let before = state.clone();
        if let Err(error) = apply_event(&mut state, recorded) {
            observer.check(ParallelInvariant::EndsAfterRounds, false, || error.to_string());
            return observer.violations;
        }
        observer.observe(recorded, &before, &state);
    }
    check_end(&mut observer, &state, outcome);
    check_commits(&mut observer, plan, &world);
    check_money(&mut observer, plan, &world);
    let early = &world.ended_too_early;
    observer.check(ParallelInvariant::FetchedFirst, early.is_empty(), || {
        format!("the ends of {early:?} are recorded before their work is fetched")
    });
    observer.violations
}

fn check_end(observer: &mut ParallelObserver, state: &RunState, outcome: &Outcome) {
    let is_live = state.parallel.as_ref().is_some_and(|it| it.has_live_workers());
    observer.check(ParallelInvariant::NoneOutlives, !is_live, || {
        "a worker is live when the run has ended".to_owned()
    });
    let is_usual = matches!(
        outcome,
        Outcome::Complete
            | Outcome::TasksLeft { .. }
            | Outcome::BudgetUsedUp { .. }
            | Outcome::IterationsUsedUp { .. }
            | Outcome::WorkersFailed { .. }
    );
    observer.check(ParallelInvariant::EndsAfterRounds, is_usual, || format!("ends: {outcome}"));
}

fn check_commits(observer: &mut ParallelObserver, plan: &ParallelPlan, world: &ScriptedWorld) {
    // Each is made on the commit before it: `3+0` is the name of commit 3 as a tip.
    for (commit, tip) in observer.commits.clone() {
        let below = commit.0.parse::<usize>().ok().and_then(|at| at.checked_sub(1));
        let expect = below.map(|at| CommitId(format!("{at}+0")));
        observer.check(ParallelInvariant::LandsOnTip, tip == expect, || {
            format!("commit {} was gated on {tip:?}", commit.0)
        });
    }
    let clashes: Vec<String> = (0..plan.tasks.len())
        .map(|at| format!("!{}", plan.name_task(at)))
        .filter(|word| word.starts_with("!clash"))
        .collect();
    for (tree, subject, _) in &world.commits {
        let words: BTreeSet<&str> = tree.split(' ').collect();
        let clashing = clashes.iter().filter(|it| words.contains(it.as_str())).count();
        let is_green = words.contains("start") && clashing <= 1 && !words.contains("<<<");
        observer.check(ParallelInvariant::GreenTrees, is_green, || {
            format!("`{}` has the tree `{tree}`", subject.lines().next().unwrap_or_default())
        });
    }
    // A task that is done in the file has one commit, whose words are still there.
    let last = world.commits.last().map(|commit| commit.0.clone()).unwrap_or_default();
    for task in world.tasks.iter().flat_map(|it| &it.tasks) {
        let commits = world
            .commits
            .iter()
            .filter(|(_, _, mark)| mark.task.as_ref() == Some(&task.id))
            .count();
        let expect = usize::from(task.status == TaskStatus::Done);
        observer.check(ParallelInvariant::DoneByCommit, commits == expect, || {
            format!("{} is {:?} and has {commits} commits", task.id, task.status)
        });
        let is_there = expect == 0 || last.split(' ').any(|word| word == task.id.0);
        observer.check(ParallelInvariant::DoneByCommit, is_there, || {
            format!("what {} made is gone: {last}", task.id)
        });
    }
}

fn check_money(observer: &mut ParallelObserver, plan: &ParallelPlan, world: &ScriptedWorld) {
    let (mut calls, mut answers) = (0, 0);
    for worker in world.workers.values() {
        let inner = worker.world.0.borrow();
        calls += inner.prompts.len() as u64;
        answers += inner.received.len() as u64;
    }
    observer.check(ParallelInvariant::Budget, calls == answers, || {
        format!("{calls} calls were paid for {answers} answers")
    });
    if let Some(cents) = plan.cents {
        let most = cents + u64::from(plan.jobs);
        observer.check(ParallelInvariant::Budget, calls <= most, || {
            format!("{calls} calls with a budget of {cents} and {} workers", plan.jobs)
        });
    }
}

#[cfg(test)]
mod tests {
    use ralph_model::ids::WorkerId;
    use ralph_model::worker::JobAssignment;

    use super::super::plan::{TaskFate, WorkerTaskPlan};
    use super::super::play::{build_recipe, build_world};
    use super::*;

    /// Two tasks without faults, for two workers.
    fn plan() -> ParallelPlan {
        let task = WorkerTaskPlan {
            fate: TaskFate::Done,
            after: Vec::new(),
            touches: None,
            polls: 2,
            losses: 0,
            death: None,
            unfetchable: 0,
            limit: None,
        };
        ParallelPlan {
            jobs: 2,
            merge_attempts: 3,
            review: false,
            tasks: vec![task.clone(), task],
            cents: Some(100),
            iterations: 100,
            deaths: Vec::new(),
            lost_host: None,
            stop: None,
            pause: None,
            skip: None,
            edit: None,
            power: false,
        }
    }

    /// Changes what a run left, and returns the invariants that are found to be violated.
    #[track_caller]
    fn check(expect: &[ParallelInvariant], change: impl FnOnce(&mut ScriptedWorld)) {
        let plan = plan();
        let world = build_world(&plan);
        let outcome = world.run_to_end(&build_recipe(&plan)).expect("it runs");
        change(&mut world.0.borrow_mut());
        let found = check_run(&plan, &world, &outcome);
        let found: BTreeSet<ParallelInvariant> = found.iter().map(|it| it.invariant).collect();
        assert_eq!(found, expect.iter().copied().collect());
    }

    /// Returns the place of the first event of a kind.
    fn find_event(world: &ScriptedWorld, is_it: impl Fn(&Event) -> bool) -> usize {
        world.journal.iter().position(|it| is_it(&it.event)).expect("it is there")
    }

    fn change_first_job(world: &mut ScriptedWorld, change: impl FnOnce(&mut JobAssignment)) {
        let at = find_event(world, |it| matches!(it, Event::JobAssigned { .. }));
        let Event::JobAssigned { assignment } = &mut world.journal[at].event else { return };
        change(assignment);
    }

    #[test]
    fn each_violation_is_found() {
        use ParallelInvariant as P;
        check(&[], |_| {});
        check(&[P::DoneByCommit], |world| {
            world.commits[1].2.task = None;
        });
        check(&[P::FetchedFirst], |world| world.ended_too_early.push(WorkerId("w".into())));
        check(&[P::LandsOnTip], |world| {
            let is_landed =
                |it: &Event| matches!(it, Event::Landed { landed: Landed::Committed { .. } });
            let at = find_event(world, is_landed);
            if let Event::Landed { landed: Landed::Committed { commit, .. } } =
                &mut world.journal[at].event
            {
                *commit = CommitId("7".into());
            }
        });
        check(&[P::GreenTrees], |world| world.commits[1].0 = "t0 t1".to_owned());
        check(&[P::OneWorkerPerTask], |world| {
            let at = find_event(world, |it| matches!(it, Event::JobAssigned { .. }));
            let again = world.journal[at].clone();
            world.journal.insert(at + 1, again);
            let first = world.journal[0].seq;
            world.journal.iter_mut().zip(first..).for_each(|(it, seq)| it.seq = seq);
        });
        check(&[P::Budget], |world| {
            let worker = world.workers.values().next().expect("a worker");
            worker.world.0.borrow_mut().received.clear();
        });
        check(&[P::EndsAfterRounds], |world| change_first_job(world, |it| it.round = 2));
        check(&[P::NoneOutlives], |world| {
            let is_start = |it: &Event| matches!(it, Event::WorkerEnded { .. });
            let at = find_event(world, is_start);
            world.journal.truncate(at);
        });
    }
}
