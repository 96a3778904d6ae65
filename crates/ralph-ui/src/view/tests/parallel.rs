//! A run with three workers: a loss, a usage limit, a conflict, and a task that starts again.

use expect_test::expect;
use ralph_core::reporting::notification::{NotificationPolicy, build_notification};
use ralph_core::reporting::report::Report;
use ralph_core::reporting::stats::StatsFold;
use ralph_core::reporting::telemetry::{Telemetry, TraceSpan};
use ralph_model::attempt_label::AttemptLabel;
use ralph_model::event::JOURNAL_VERSION;
use ralph_model::ids::{TaskId, WorkerId};
use ralph_model::occasion::Occasion;
use ralph_model::outcome::Outcome;
use ralph_model::parallel_state::MergeOutcome;
use ralph_model::recipe::{ParallelPolicy, TaskWork};
use ralph_model::review::ReviewPolicy;
use ralph_model::task::{Task, TaskList};
use ralph_model::worker::{
    JobAssignment, JobResult, TakenOver, WorkerLimitKind, WorkerOrigin, WorkerShare,
};
use ralph_model::worktree::{Landed, TreeId};

use super::*;
use crate::html::{LiveFacts, PageInput, RunActivity, WorkerKeys, render_parts};

const RUN: &str = "20261114-231500-k3f9";

fn worker(task: &str, job: u32) -> WorkerId {
    WorkerId(format!("{RUN}-{task}-r{job}"))
}

fn spent(cents: u64) -> Usage {
    let cost = Some(UsdMicros(cents * 10_000));
    Usage { input: Tokens(1_000 * cents), output: Tokens(100), cost, ..Usage::default() }
}

fn begun() -> Event {
    let work = TaskWork { review: ReviewPolicy::Skip, ..TaskWork::new("plan.json") };
    let parallel = Some(ParallelPolicy::new(3));
    let gates = vec![gate("test", "make test", Severity::Hard)];
    let recipe = Recipe { work: Work::Tasks(work), parallel, gates, ..super::recipe() };
    let Event::RunStarted { version, run, project, recipe, journal: _ } = started(recipe) else {
        unreachable!("it is the first event")
    };
    Event::RunStarted { journal: JOURNAL_VERSION, version, run, project, recipe }
}

fn assigned(task: &str, round: u32) -> Event {
    let share = WorkerShare { budget: Budget::default(), iterations: 5 };
    let base = Some(CommitId("1a2b3c4d5e6f".into()));
    let (worker, task) = (worker(task, round), TaskId(task.into()));
    let (conflicts, compacts) = (Vec::new(), None);
    let assignment =
        JobAssignment { worker, task, round, base, start_tree: None, share, conflicts, compacts };
    Event::JobAssigned { assignment: Box::new(assignment) }
}

fn started_in(task: &str, round: u32, place: &str) -> Event {
    Event::WorkerStarted {
        worker: worker(task, round),
        place: place.into(),
        origin: WorkerOrigin::default(),
    }
}

fn progressed(task: &str, round: u32, cents: u64, doing: &str) -> Event {
    Event::WorkerProgressed {
        worker: worker(task, round),
        usage: spent(cents),
        iterations: 1,
        ran: Millis::from_secs(60),
        doing: doing.into(),
    }
}

fn ended(task: &str, cents: u64, seconds: u64, outcome: Outcome) -> Event {
    let result = JobResult {
        commit: Some(CommitId(format!("{task}abcdef0123"))),
        usage: spent(cents),
        iterations: 2,
        ran: Millis::from_secs(seconds),
        ..JobResult::without_work(outcome, "s1", std::path::Path::new("/clone"))
    };
    Event::WorkerEnded { worker: worker(task, 1), result: Box::new(result) }
}

impl Course {
    fn merge(&mut self, number: u32, task: &str, outcome: MergeOutcome) {
        let iteration = IterationNumber(number);
        let head = Some(CommitId("1a2b3c4d5e6f".into()));
        let checkpoint = Checkpoint::Git { head, branch: None, tree: None };
        let id = Some(TaskId(task.into()));
        self.take(Event::IterationStarted { iteration, role: Role::Merge, task: id });
        self.take(Event::Checkpointed { checkpoint });
        self.take(Event::CandidateMerged { worker: worker(task, 1), outcome });
    }

    fn judge(&mut self) {
        let current = self.state().current.as_ref().expect("an iteration is open");
        let judgement = judge_iteration(self.state(), current).expect("it is merged");
        self.take(Event::Judged { judgement: Box::new(judgement) });
    }

    fn check(&mut self, status: GateStatus) {
        let result = GateResult {
            end: (status != GateStatus::Cached).then(|| end(1, 1_200)),
            output: "expected 1, got 2".into(),
            ..GateResult::new("test", "make test", Severity::Hard, status)
        };
        self.take(Event::GateChecked { result, survey: None });
    }
}

/// Returns a run that is in the middle of its second merge: two workers are live, one task starts
/// again, and one candidate waits.
pub(crate) fn parallel_course() -> Course {
    let mut course = Course::default();
    course.take(begun());
    let tasks = ["T1", "T2", "T3", "T4", "T5"].map(|it| Task::new(it, format!("Write {it}")));
    let list = Box::new(TaskList { tasks: tasks.to_vec(), ..TaskList::default() });
    course.take(Event::TasksRead { list, remarks: Vec::new() });
    for (task, place) in [("T1", "s1"), ("T2", "s2"), ("T3", "s3")] {
        course.take(assigned(task, 1));
        course.take(started_in(task, 1, place));
    }
    course.pass(60);
    course.take(progressed("T1", 1, 5, "gate test failed; attempt 2 is next"));
    course.take(progressed("T3", 1, 2, "implementing"));
    let reason = "killed by signal 9".to_owned();
    course.take(Event::WorkerLost { worker: Some(worker("T3", 1)), reason, has_ended: false });
    course.take(assigned("T3", 1));
    course.take(started_in("T3", 1, "s3"));
    let until = Some(course.now().saturating_add(Millis::from_mins(90)));
    let (agent, kind) = (AgentKind::Claude, WorkerLimitKind::UsageLimit);
    course.take(Event::WorkerLimited { worker: worker("T2", 1), agent, until, kind });
    course.pass(60);
    course.take(ended("T1", 12, 120, Outcome::Complete));
    course.take(ended("T2", 8, 100, Outcome::Complete));
    course.merge(1, "T1", MergeOutcome::Same { tree: TreeId("t1".into()) });
    course.check(GateStatus::Cached);
    course.judge();
    let (commit, subject) = (CommitId("fedcba9876543210".into()), "T1".to_owned());
    course.take(Event::Landed { landed: Landed::Committed { commit, subject } });
    course.take(Event::IterationEnded { iteration: IterationNumber(1) });
    course.pass(3);
    let (tree, paths) = (TreeId("t2".into()), vec!["src/x.rs".to_owned()]);
    course.merge(
        2,
        "T2",
        MergeOutcome::Conflict { tree, paths, messages: String::new(), edits: Vec::new() },
    );
    course.judge();
    course.take(Event::IterationEnded { iteration: IterationNumber(2) });
    course.take(assigned("T4", 1));
    course.take(started_in("T4", 1, "s1"));
    course.pass(30);
    course.take(ended("T3", 4, 90, Outcome::Complete));
    course.merge(3, "T3", MergeOutcome::Clean { tree: TreeId("t3".into()), edits: Vec::new() });
    course.check(GateStatus::Failed);
    course
}

fn replay(around: &StreamEnvironment, verbosity: Verbosity, course: Course) -> Stage {
    let mut stage = Stage::with(&StylePreferences::default(), around, verbosity);
    for recorded in course.events {
        let passed = recorded.ran.0 - stage.course.ran.0;
        stage.pass(passed / 1000).tell(recorded.event);
    }
    stage
}

#[test]
fn each_line_of_a_worker_begins_with_its_task() {
    replay(&pipe(), Verbosity::Normal, parallel_course()).shows(&expect![[r#"
        ▶ ralph 0.1.0, run 20261114-231500-k3f9
          workflow prompt, agent claude (opus)
          sandbox none
          at most 10 iterations, $20.00, 3 workers
          gates test
          no file is protected: that needs a git repository or a sandbox
        📋 5 tasks, 5 to do; about 5 iterations if all goes well, 10 allowed
        ▶ T1 started in slot s1
        ▶ T2 started in slot s2
        ▶ T3 started in slot s3
        ● T1 gate test failed; attempt 2 is next
        ● T3 implementing
        ⚠ T3 worker lost: killed by signal 9; started again
        ▶ T3 started in slot s3, continues its work
        ⏳ T2 usage limit of claude, no calls before Sun 00:46
        ● T1 waits to land
        ● T2 waits to land
        ⏳ T1 merging
        ✔ T1 landed fedcba9, $0.12, 2m 0s
        Progress: 1/5 tasks done, iterations 5/10, 2m 0s elapsed, $0.22 so far
        ⏳ T2 merging
        ↻ T2 conflict in src/x.rs: starts again, round 2
        Progress: 1/5 tasks done, iterations 5/10, 2m 3s elapsed, $0.22 so far
        ▶ T4 started in slot s1
        ● T3 waits to land
        ⏳ T3 merging
        ✘ T3 gate test failed (1.2s)
          ⎿  expected 1, got 2
    "#]]);
}

#[test]
fn a_quiet_view_reports_losses_and_limits_of_workers() {
    replay(&pipe(), Verbosity::Quiet, parallel_course()).shows(&expect![[r#"
        ⚠ T3 worker lost: killed by signal 9; started again
        ⏳ T2 usage limit of claude, no calls before Sun 00:46
    "#]]);
}

#[test]
fn the_last_line_names_every_worker() {
    let mut stage = replay(&terminal(), Verbosity::Quiet, parallel_course());
    stage.view.verbosity = Verbosity::Normal;
    let before = stage.text().len();
    stage.pass(12);
    let now = stage.course.state().clone();
    stage.view.show_activity(&Activity::Workers(&now));
    expect!["⏳ ^[2m$0.24, 1 waits to land, claude in 1:28:15 | T4 working 0:42^[0m<CR>"]
        .assert_eq(&stage.text()[before..].replace('\u{1b}', "^").replace('\r', "<CR>"));
}

#[test]
fn workers_that_stop_fail_or_are_canceled_have_a_line() {
    let mut course = Course::default();
    course.take(begun());
    let tasks = ["T1", "T2", "T3"].map(|it| Task::new(it, it)).to_vec();
    let list = Box::new(TaskList { tasks, ..TaskList::default() });
    course.take(Event::TasksRead { list, remarks: Vec::new() });
    for task in ["T1", "T2", "T3"] {
        course.take(assigned(task, 1));
    }
    course.take(ended("T1", 1, 5, Outcome::Interrupted));
    course.take(assigned("T1", 1));
    course.take(started_in("T1", 1, "s1"));
    let Event::WorkerEnded { worker: id, mut result } = ended("T2", 1, 5, Outcome::Complete) else {
        unreachable!("it has ended")
    };
    let mut task = Task::new("T2", "T2");
    (task.status, task.notes) =
        (ralph_model::task::TaskStatus::Failed, "failed: stuck, the same failure 3 times".into());
    result.outcome = Outcome::TasksLeft { failed: vec![TaskId("T2".into())], waiting: Vec::new() };
    result.task = Some(Box::new(task));
    course.take(Event::WorkerEnded { worker: id, result });
    course.take(Event::WorkerCanceled { worker: worker("T3", 1) });
    course.take(Event::WorkerLost {
        worker: None,
        reason: "the host ended".into(),
        has_ended: false,
    });
    replay(&pipe(), Verbosity::Normal, course).shows(&expect![[r#"
        ▶ ralph 0.1.0, run 20261114-231500-k3f9
          workflow prompt, agent claude (opus)
          sandbox none
          at most 10 iterations, $20.00, 3 workers
          gates test
          no file is protected: that needs a git repository or a sandbox
        📋 3 tasks, 3 to do; about 3 iterations if all goes well, 10 allowed
        ↩ T1 stopped
        ▶ T1 started in slot s1, continues its work
        ✘ T2 failed: stuck, the same failure 3 times
        ↩ T3 canceled
        ⚠ All workers lost: the host ended; started again
    "#]]);
}

#[test]
fn the_status_lists_workers_queue_and_holds() {
    let course = parallel_course();
    NOW.set(course.now().saturating_add(Millis::from_secs(12)));
    let clock = WallClock { zone: TimeZone::UTC, now: || NOW.get() };
    let outlook = crate::status::RunOutlook { state: course.state(), clock: &clock, action: None };
    expect![[r#"
        Workers    1 of 3
          s1  T4  working  0 iterations  0:42
        Queue      1 waits to land
          T3  gates 0/1  0:12
        Again      T2 in round 2: conflict in src/x.rs
        Hold       claude takes no calls before Sun 00:46 (in 1:28:15)
    "#]]
    .assert_eq(&outlook.forecast().workers);
}

fn report() -> Report {
    Report::from_events(&parallel_course().events).expect("it folds")
}

#[test]
fn the_report_counts_what_workers_did_once() {
    let summary = report().summary().expect("it has begun");
    let page = crate::report::render_report(&summary);
    let from = page.find("## Tasks").expect("tasks");
    let to = page.find("## Gates").expect("gates");
    expect![[r#"
        ## Tasks

        | Task | Title | Status | Failed attempts | Reviews | Commits | Iterations | Time | Cost | Tokens |
        | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
        | T1 | Write T1 | done | 0 | 0 | 1 | 2 | 2m 0s | $0.12 | 12K in / 100 out |
        | T2 | Write T2 | in progress | 1 | 0 | 0 | 2 | 1m 40s | $0.08 | 8.0K in / 100 out |
        | T3 | Write T3 | in progress | 0 | 0 | 0 | 2 | 1m 30s | $0.04 | 4.0K in / 100 out |
        | T4 | Write T4 | in progress | 0 | 0 | 0 | 0 | 0.0s |  |  |
        | T5 | Write T5 | pending | 0 | 0 | 0 | 0 | 0.0s |  |  |
        | all |  |  |  |  | 1 | 6 | 2m 33s | $0.24 | 24K in / 300 out |

        ## Workers

        | Task | Slots | Rounds | Waited to land | Conflicts |
        | --- | --- | --- | --- | --- |
        | T1 | s1 | 1 | 0.0s |  |
        | T2 | s2 | 1 | 3.0s | src/x.rs |
        | T3 | s3 | 1 | 0.0s |  |
        | T4 | s1 | 1 | 0.0s |  |

        - Speed-up: 2.0 (worker time 5m 10s ÷ time of the run)
        - Idle slots: 7% of the time
        - Merges: 0.0s
        - Started again: 1 time
        - Workers lost: 1 time
        - Conflicts by path: src/x.rs 1×

        ### Not landed

        - **T4** working
        - **T3** gates 0/1
        - **T2** starts again in round 2: conflict in src/x.rs

        ## Iterations by role

        | Role | Calls | Iterations | Time | Cost | Tokens |
        | --- | --- | --- | --- | --- | --- |
        | merge | 0 | 3 | 0.0s |  |  |
        | workers | 0 | 6 | 5m 10s | $0.24 | 24K in / 300 out |
        | all | 0 | 6 | 2m 33s | $0.24 | 24K in / 300 out |

    "#]].assert_eq(&page[from..to]);
    let total = summary.total;
    assert_eq!((total.cost, total.iterations), (Some(UsdMicros(240_000)), 6));
    let figures = summary.parallel_figures.expect("workers");
    assert_eq!((figures.requeues, figures.losses), (1, 1));
    assert_eq!(figures.spent.ran, Millis::from_secs(120 + 100 + 90));
}

#[test]
fn statistics_count_workers_for_the_implementing_agent() {
    let mut counted = StatsFold::default();
    collect_all(|recorded, state| {
        counted.apply_event(recorded, state);
        Vec::<()>::new()
    });
    let stats = counted.to_stats(parallel_course().state());
    let [row] = stats.rows.as_slice() else { panic!("one row: {:?}", stats.rows) };
    assert_eq!((&*row.agent, &*row.model, row.role), ("claude", "opus", Role::Implement));
    assert_eq!((row.figures.attempts, row.figures.landed, stats.waits), (6, 1, 1));
    assert_eq!(row.figures.cost, Some(UsdMicros(240_000)));
}

#[test]
fn a_page_shows_workers_and_links_those_that_have_a_page() {
    let report = report();
    let summary = report.summary().expect("it has begun");
    let keys = [(worker("T4", 1), "00-w4".to_owned()), (worker("T3", 1), "00-w3".to_owned())];
    let parts = render_parts(&mut PageInput {
        summary: &summary,
        timeline: report.timeline(),
        project: "p",
        status: RunActivity::Active,
        live: LiveFacts::default(),
        workers: &WorkerKeys::from(keys),
        clock: &WallClock { zone: TimeZone::UTC, now: || START },
        diff: &mut |_, _| Err("none".to_owned()),
    });
    let part = parts.iter().find(|it| it.id == "workers").expect("the part");
    expect![[r#"<h2>Workers</h2><p class="note">1 of 3 at work.</p><div class="wide" role="group" tabindex="0" aria-label="Workers, and what each does"><table><caption>Workers, and what each does</caption><thead><tr><th scope="col">Slot</th><th scope="col">Task</th><th scope="col" class="n">Round</th><th scope="col">Doing</th><th scope="col" class="n">Iterations</th><th scope="col" class="n">Cost</th><th scope="col">Since</th></tr></thead><tbody><tr><td>s1</td><th scope="row"><a href="../00-w4/">T4</a></th><td class="n">1</td><td>working</td><td class="n">0</td><td class="n"></td><td><time datetime="2026-11-14T23:17:03Z">2026-11-14 23:17:03</time></td></tr></tbody></table></div><p class="note"><a href="../00-w3/">T3</a> gates 0/1</p><p class="note">T2 starts again in round 2: conflict in src/x.rs</p><p class="note">claude takes no calls before <time datetime="2026-11-15T00:46:00Z">2026-11-15 00:46:00</time>.</p><div class="wide" role="group" tabindex="0" aria-label="Tasks, and how their work landed"><table><caption>Tasks, and how their work landed</caption><thead><tr><th scope="col">Task</th><th scope="col">Slots</th><th scope="col" class="n">Rounds</th><th scope="col" class="n">Waited to land</th><th scope="col">Conflicts</th></tr></thead><tbody><tr><th scope="row">T1</th><td>s1</td><td class="n">1</td><td class="n">0.0s</td><td></td></tr><tr><th scope="row">T2</th><td>s2</td><td class="n">1</td><td class="n">3.0s</td><td>src/x.rs</td></tr><tr><th scope="row"><a href="../00-w3/">T3</a></th><td>s3</td><td class="n">1</td><td class="n">0.0s</td><td></td></tr><tr><th scope="row"><a href="../00-w4/">T4</a></th><td>s1</td><td class="n">1</td><td class="n">0.0s</td><td></td></tr></tbody></table></div><p class="note">Speed-up: 2.0 (worker time 5m 10s ÷ time of the run).</p><p class="note">Idle slots: 7% of the time.</p><p class="note">Merges: 0.0s.</p><p class="note">Started again: 1 time.</p><p class="note">Workers lost: 1 time.</p><p class="note">Conflicts by path: src/x.rs 1×.</p>"#]].assert_eq(&part.html);
}

/// Returns what another view makes of each event of the run.
fn collect_all<T>(mut view: impl FnMut(&Recorded, &RunState) -> Vec<T>) -> Vec<T> {
    let mut course = Course::default();
    let mut all = Vec::new();
    for recorded in parallel_course().events {
        course.ran = recorded.ran;
        let (recorded, state) = course.take(recorded.event);
        all.extend(view(recorded, state));
    }
    all
}

#[test]
fn a_worker_has_a_span_each_time_it_is_at_work() {
    let mut telemetry = Telemetry::default();
    let spans = collect_all(|recorded, state| telemetry.apply_event(recorded, state));
    let find = |span: &TraceSpan, name: &str| {
        let value = span.attributes.iter().find(|(known, _)| *known == name);
        format!("{:?}", value.map(|(_, value)| value))
    };
    let workers: Vec<String> = spans
        .iter()
        .filter(|span| span.name == "worker")
        .map(|span| {
            let [task, result, slot] =
                ["ralph.task.id", "ralph.worker.result", "ralph.worker.slot"]
                    .map(|name| find(span, name).replace("Some(Text(\"", "").replace("\"))", ""));
            format!("{task} {result} {slot} {}", span.end.elapsed_since(span.start))
        })
        .collect();
    let expect = [
        "T3 lost s3 1m 0s",
        "T1 complete s1 2m 0s",
        "T2 complete s2 2m 0s",
        "T3 complete s3 1m 33s",
    ];
    assert_eq!(workers, expect);
    let merge = spans.iter().find(|span| span.name == "iteration merge").expect("a merge");
    assert_eq!(find(merge, "ralph.queue.length"), "Some(Int(2))");
}

#[test]
fn a_wait_of_all_workers_and_the_last_round_are_worth_a_notification() {
    let on = [Occasion::Waiting, Occasion::Stuck].into();
    let policy = NotificationPolicy { on, long_wait: Millis::from_mins(10) };
    let titles = collect_all(|recorded, state| {
        let notification = build_notification(&policy, recorded, state);
        notification.map(|it| it.title).into_iter().collect()
    });
    assert_eq!(
        titles,
        ["ralph: project: waiting for a usage limit"],
        "round 2 of 3 is not the last"
    );
    let titles = collect_all(|recorded, state| {
        let mut state = state.clone();
        state.recipe.parallel =
            Some(ParallelPolicy { merge_attempts: 2, ..ParallelPolicy::new(3) });
        let notification = build_notification(&policy, recorded, &state);
        notification.map(|it| it.title).into_iter().collect()
    });
    assert_eq!(titles[1..], ["ralph: project: task T2 starts its last round"]);
}

/// Returns a run whose only worker continues on a machine what another machine began.
pub(crate) fn taken_over_course() -> Course {
    let mut course = Course::default();
    course.take(begun());
    let list = TaskList { tasks: vec![Task::new("T1", "Write T1")], ..TaskList::default() };
    course.take(Event::TasksRead { list: Box::new(list), remarks: Vec::new() });
    course.take(assigned("T1", 1));
    let label = |text: &str| text.parse::<AttemptLabel>().expect("a label");
    let taken = TakenOver { machine: "gpu-1".into(), attempt: label("a1.1-4f3e2d"), iterations: 3 };
    let origin = WorkerOrigin {
        machine: Some("gpu-2".into()),
        attempt: Some(label("a1.2-9a8b7c")),
        taken_over: Some(taken),
    };
    let place = "gpu-2/s1 (a1.2)".to_owned();
    course.take(Event::WorkerStarted { worker: worker("T1", 1), place, origin });
    course.pass(30);
    course
}

#[test]
fn every_view_names_machine_attempt_and_takeover() {
    let course = taken_over_course();
    let report = Report::from_events(&course.events).expect("it folds");
    let summary = report.summary().expect("it has begun");
    NOW.set(course.now());
    let clock = WallClock { zone: TimeZone::UTC, now: || NOW.get() };
    let outlook = crate::status::RunOutlook { state: course.state(), clock: &clock, action: None };
    let status = outlook.forecast().workers;
    let parts = render_parts(&mut PageInput {
        summary: &summary,
        timeline: report.timeline(),
        project: "p",
        status: RunActivity::Active,
        live: LiveFacts::default(),
        workers: &WorkerKeys::default(),
        clock: &WallClock { zone: TimeZone::UTC, now: || START },
        diff: &mut |_, _| Err("none".to_owned()),
    });
    let page = parts.iter().find(|it| it.id == "workers").expect("the part").html.clone();
    let lines = replay(&pipe(), Verbosity::Normal, taken_over_course()).text();
    let report = crate::report::render_report(&summary);
    let views = [("lines", lines), ("status", status), ("page", page), ("report", report)];
    for (name, view) in views {
        // Lines may be wrapped.
        let view = view.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["gpu-2/s1 (a1.2)", "taken over from gpu-1 (a1.1) after 3 iterations"] {
            assert!(view.contains(part), "{name}: no {part} in {view}");
        }
    }
}
