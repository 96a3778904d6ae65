//! Choices of a parallel run that complete runs rarely reach.

use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::agent_output::Usage;
use ralph_model::attempt::AttemptLog;
use ralph_model::control::{ControlRequest, ControlRequestId, SubmittedRequest};
use ralph_model::event::{Event, Recorded};
use ralph_model::ids::{RunId, TaskId, WorkerId};
use ralph_model::recipe::{OverlapPolicy, Recipe, Work};
use ralph_model::task::{Task, TaskStatus};
use ralph_model::units::Tokens;
use ralph_model::worker::{JobResult, WorkerLimitKind, WorkerOrigin};
use ralph_model::worktree::{Checkpoint, CommitId};

use super::*;
use crate::ports::StopRequest;
use crate::run_loop::choose::choose_next_step;
use crate::run_loop::fold::{choose_pause, fold_events};

/// A run with three workers on four tasks, of which `c` depends on `a`.
struct Run(Vec<Event>);

impl Run {
    fn new() -> Self {
        let agent = AgentChoice::new(AgentKind::Text, "agent");
        let mut recipe = Recipe::new(Work::Tasks(TaskWork::new("plan.json")), agent);
        recipe.limits.iterations = 40;
        recipe.parallel = Some(ParallelPolicy::new(3));
        let mut tasks = ["a", "b", "c", "d"].map(|it| Task::new(it, it)).to_vec();
        tasks[2].depends_on = vec![TaskId("a".into())];
        let list = Box::new(TaskList { tasks, ..TaskList::default() });
        let started = Event::RunStarted {
            journal: 3,
            version: "0".into(),
            run: RunId("r".into()),
            project: "/p".into(),
            recipe: Box::new(recipe),
        };
        let read = Event::TasksRead { list, remarks: Vec::new() };
        Self(vec![started, read, Event::TasksWritten])
    }

    fn state(&self) -> RunState {
        let recorded: Vec<Recorded> = self
            .0
            .iter()
            .cloned()
            .zip(1..)
            .map(|(event, seq)| Recorded { seq, at: Timestamp(1_000), ran: Millis(0), event })
            .collect();
        fold_events(&recorded).expect("the events fit")
    }

    fn next(&self, now: i64) -> Step {
        let (now, stop) = (Timestamp(now), StopRequest::Continue);
        choose_next_step(&self.state(), Moment { now, ran: Millis(0), stop })
    }

    /// Starts the next job, which must be for this task.
    #[track_caller]
    fn start(mut self, task: &str) -> Self {
        let Step::StartJob(mut assignment) = self.next(1_000) else {
            panic!("{:?}", self.next(1_000))
        };
        assert_eq!(assignment.task.0, task);
        assignment.base = Some(CommitId("base".into()));
        self.0.extend([Event::JobAssigned { assignment }, Event::TasksWritten]);
        self
    }

    fn with(mut self, event: Event) -> Self {
        self.0.push(event);
        self
    }

    fn end(self, task: &str, outcome: Outcome) -> Self {
        let worker = WorkerId(format!("r-{task}-r1"));
        let result = JobResult {
            outcome,
            place: "s1".into(),
            repository: "/c".into(),
            commit: Some(CommitId(task.into())),
            tree: None,
            failure_branch: None,
            passed: std::collections::BTreeMap::new(),
            usage: Usage::default(),
            iterations: 1,
            ran: Millis(5),
            figures: None,
            task: None,
            added: Vec::new(),
            proposals: Vec::new(),
            memory: None,
            handoffs: Vec::new(),
            abandoned: None,
            log: AttemptLog::default(),
            unread_notes: Vec::new(),
        };
        self.with(Event::WorkerEnded { worker, result: Box::new(result) })
    }

    fn limited(self, kind: WorkerLimitKind, until: Option<i64>) -> Self {
        let (worker, agent) = (WorkerId("r-a-r1".into()), AgentKind::Text);
        self.with(Event::WorkerLimited { worker, agent, until: until.map(Timestamp), kind })
    }
}

fn poll() -> Step {
    Step::PollWorkers { until: Timestamp(61_000) }
}

fn merge(task: &str) -> Step {
    let task = Some(TaskId(task.into()));
    Step::Begin { iteration: IterationNumber(1), role: Role::Merge, task }
}

#[test]
fn slots_are_filled_before_anything_is_merged() {
    let run = Run::new().start("a").start("b").start("d");
    assert_eq!(run.next(1_000), poll(), "`c` waits for `a`");
    let run = run.end("b", Outcome::Complete);
    assert_eq!(run.next(1_000), merge("b"));
    // `c` waits for `a`, so `a` lands first.
    assert_eq!(run.end("a", Outcome::Complete).next(1_000), merge("a"));
}

#[test]
fn a_usage_limit_holds_new_jobs_until_it_is_over() {
    let run = Run::new().start("a").limited(WorkerLimitKind::UsageLimit, Some(90_000));
    assert_eq!(run.next(1_000), poll());
    let run = run.end("a", Outcome::Interrupted);
    let until = Timestamp(90_000);
    assert_eq!(run.next(1_000), Step::Wait { until, reason: WaitReason::UsageLimit });
    assert!(matches!(run.next(90_000), Step::StartJob(it) if it.task.0 == "a"));
}

#[test]
fn a_limit_longer_than_the_longest_wait_ends_the_run_and_one_worker_asks_again() {
    let run = Run::new().start("a").start("b").limited(WorkerLimitKind::UsageLimit, Some(1 << 40));
    // Its process was killed.
    let run = run.with(Event::RunResumed { version: "0".into(), recipe: None });
    let Step::Finish(end) = run.next(1_000) else { panic!("{:?}", run.next(1_000)) };
    assert!(
        matches!(end, Outcome::LimitTooLong { resets_at: Some(Timestamp(it)), .. } if it == 1 << 40)
    );
    let run = run.with(Event::RunEnded { outcome: end, left: None });
    let run = run.with(Event::RunResumed { version: "0".into(), recipe: None }).start("a");
    assert_eq!(run.next(1_000), poll(), "`b` waits for what the agent answers");
}

#[test]
fn an_overload_halves_the_number_of_workers() {
    let run = Run::new().start("a").limited(WorkerLimitKind::Overload, None);
    let state = run.state();
    let parallel = state.parallel.as_ref().expect("parallel");
    assert_eq!((parallel.concurrency, parallel.holds.len()), (1, 1));
    assert_eq!(run.next(1_000), poll());
    assert_eq!(run.next(40_000), Step::PollWorkers { until: Timestamp(100_000) }, "one is enough");
}

#[test]
fn each_limit_holds_twice_as_long_and_reports_of_the_same_one_count_once() {
    let held = |run: &Run| {
        let parallel = run.state().parallel.expect("parallel");
        (parallel.concurrency, parallel.overloads, parallel.holds[&AgentKind::Text].0 - 1_000)
    };
    let run = Run::new().start("a").limited(WorkerLimitKind::Overload, None);
    let (_, _, first) = held(&run);
    assert!((30_000..=37_500).contains(&first), "{first}");
    let run = run.limited(WorkerLimitKind::Overload, None);
    assert_eq!(held(&run), (1, 1, first), "the workers met the same limit");
    let run = run.limited(WorkerLimitKind::UsageLimit, Some(90_000));
    assert_eq!(held(&run), (1, 1, 89_000), "the latest end counts");
    let pauses: Vec<u64> = (0..9).map(|it| choose_pause(&RunId("r".into()), it).0).collect();
    for (at, pause) in pauses.iter().enumerate() {
        let least = 30_000 << at.min(6);
        assert!((least..=least + least / 4).contains(pause), "{pauses:?}");
    }
}

/// Returns the next step of a worker's run that works and was asked to hold its agent.
fn choose_when_held(until: i64, now: i64) -> Step {
    let mut run = Run::new();
    if let Event::RunStarted { recipe, .. } = &mut run.0[0] {
        recipe.parallel = None;
        recipe.rate_limit.max_wait = Millis(60_000);
    }
    let (agent, until) = (AgentKind::Text, Timestamp(until));
    let asked = SubmittedRequest {
        id: ControlRequestId("1".into()),
        at: Timestamp(1_000),
        by: None,
        request: ControlRequest::Hold { agent, until },
    };
    let task = Some(TaskId("a".into()));
    let run = run
        .with(Event::IterationStarted {
            iteration: IterationNumber(1),
            role: Role::Implement,
            task,
        })
        .with(Event::TasksWritten)
        .with(Event::Checkpointed { checkpoint: Checkpoint::None })
        .with(Event::ControlRequested { asked, refused: None });
    run.next(now)
}

#[test]
fn a_worker_waits_for_a_limit_that_another_one_met() {
    let until = Timestamp(50_000);
    let wait = Step::Wait { until, reason: WaitReason::UsageLimit };
    assert_eq!(choose_when_held(50_000, 2_000), wait);
    assert!(matches!(choose_when_held(50_000, 50_000), Step::Ask { .. }));
    let end = choose_when_held(100_000, 2_000);
    assert!(matches!(&end, Step::Finish(Outcome::LimitTooLong { .. })), "{end:?}");
}

#[test]
fn a_job_that_stopped_is_started_again_first_and_ends_once() {
    let run = Run::new().start("a").end("a", Outcome::Interrupted);
    let Step::StartJob(again) = run.next(1_000) else { panic!("it is started again") };
    assert_eq!((again.worker.0.as_str(), again.base), ("r-a-r1", Some(CommitId("base".into()))));
    let run = run.start("a").end("a", Outcome::Complete);
    let once = run.state();
    let twice = run.end("a", Outcome::Complete).state();
    assert_eq!(once.parallel, twice.parallel, "a second report has no effect");
}

#[test]
fn an_end_that_no_worker_can_avoid_ends_the_run_after_the_others_landed() {
    let failed = Outcome::GitFailed { message: "full disk".into() };
    let run = Run::new().start("a").start("b").end("a", failed.clone());
    assert_eq!(run.next(1_000), poll(), "no further job is started");
    let run = run.end("b", Outcome::Complete);
    assert_eq!(run.next(1_000), merge("b"));
    // A resumed run tries again.
    let resumed = run.with(Event::RunResumed { version: "0".into(), recipe: None });
    assert!(matches!(resumed.next(1_000), Step::StartJob(it) if it.task.0 == "a"));
}

/// Returns a run whose tasks declare these paths, with an overlap policy.
fn run_with_paths(overlap: OverlapPolicy, paths: [&str; 4]) -> Run {
    let mut run = Run::new();
    if let Event::RunStarted { recipe, .. } = &mut run.0[0] {
        recipe.parallel = Some(ParallelPolicy { overlap, ..ParallelPolicy::new(3) });
    }
    if let Event::TasksRead { list, .. } = &mut run.0[1] {
        for (task, path) in list.tasks.iter_mut().zip(paths) {
            match path.strip_prefix("in text: ") {
                Some(text) => task.description = text.to_owned(),
                None => task.touches = vec![path.to_owned()],
            }
        }
    }
    run
}

#[test]
fn a_task_waits_for_one_at_work_that_declares_the_same_paths() {
    let paths = ["src/**", "src/b.rs", "c/", "docs/"];
    let run = run_with_paths(OverlapPolicy::Wait, paths).start("a").start("d");
    assert_eq!(run.next(1_000), poll(), "a slot is free, but `b` waits for `a`");
    // It waits until the work of `a` has landed.
    let run = run.end("a", Outcome::Complete);
    assert_eq!(run.next(1_000), merge("a"));
    let run = run_with_paths(OverlapPolicy::Run, paths).start("a").start("d");
    run.start("b");
}

#[test]
fn a_guessed_overlap_only_changes_the_order() {
    let paths = ["src/**", "in text: fix src/b.rs", "c/", "docs/"];
    run_with_paths(OverlapPolicy::Wait, paths).start("a").start("d").start("b");
}

#[test]
fn a_task_that_is_worked_on_is_in_progress() {
    let tasks = Run::new().start("a").state().tasks.expect("a list");
    assert_eq!(tasks.list.tasks[0].status, TaskStatus::InProgress);
}

#[test]
fn what_a_lost_clone_had_used_stays_spent() {
    let started = |place: &str| Event::WorkerStarted {
        worker: WorkerId("r-a-r1".into()),
        place: place.into(),
        origin: WorkerOrigin::default(),
    };
    let used = |tokens: u64, iterations: u32| Event::WorkerProgressed {
        worker: WorkerId("r-a-r1".into()),
        usage: Usage { output: Tokens(tokens), ..Usage::default() },
        iterations,
        ran: Millis(1),
        doing: String::new(),
    };
    let check = |events: &[Event], expected: (u64, u32)| {
        let run = events.iter().cloned().fold(Run::new().start("a"), Run::with);
        let state = run.state();
        let parallel = state.parallel.as_ref().expect("parallel");
        let running = &parallel.running[&WorkerId("r-a-r1".into())];
        let tokens = parallel.spent.plus(running.usage).tokens().0;
        assert_eq!((tokens, parallel.iterations + running.iterations), expected, "{events:#?}");
    };
    // A call that was cut off may be missing in what the same clone reports next.
    check(&[started("s1"), used(50, 2), started("s1"), used(40, 2)], (40, 2));
    // Another machine continues from the journal.
    check(&[started("one/s1"), used(50, 2), started("two/s1 (a2)"), used(70, 3)], (70, 3));
    // Another machine begins from zero.
    check(&[started("one/s1"), used(50, 2), started("two/s1 (a2)"), used(7, 1)], (57, 3));
    let again = [started("two/s1 (a2)"), used(7, 1), used(9, 1)];
    check(&[&[started("one/s1"), used(50, 2)], &again[..]].concat(), (59, 3));
}
