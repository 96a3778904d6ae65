//! Measures a list of ten thousand tasks: choosing, alone and with workers, checking, reading,
//! changing.
//!
//! Reading is compared with `serde_json` reading the same bytes into values. `cargo
//! bench -p ralph --bench tasks` prints the figures; nothing is asserted.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::hint::black_box;
use std::path::Path;

use ralph_core::ports::{Moment, StopRequest};
use ralph_core::run_loop::choose::{Step, choose_next_step};
use ralph_core::run_loop::fold::fold_events;
use ralph_core::tasks::next_work::{RetryPolicy, choose_next_work, find_blockages};
use ralph_core::tasks::validation::validate_list;
use ralph_io::formats::TaskFile;
use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::event::{Event, JOURNAL_VERSION, Recorded};
use ralph_model::ids::{RunId, TaskId};
use ralph_model::recipe::{ParallelPolicy, Recipe, TaskWork, Work};
use ralph_model::review::ReviewPolicy;
use ralph_model::run::RunState;
use ralph_model::task::{TaskChange, TaskList, TaskStatus};
use ralph_model::units::{Millis, Timestamp};
use ralph_testkit::measure::{measure_repeated, to_milliseconds};
use serde_json::{Value, json};

const TASKS: usize = 10_000;

fn main() {
    let text = document();
    let read = || TaskFile::from_text(Path::new("plan.json"), text.clone()).expect("valid");
    let file = read();
    let list = file.list();
    let review = ReviewPolicy::Fresh { cap: 5 };
    println!("{TASKS} tasks, {} KiB", text.len() / 1024);
    report("choose the next", || {
        black_box(choose_next_work(list, review, RetryPolicy::Never));
    });
    let [alone, parallel] = [None, Some(ParallelPolicy::new(8))].map(|it| build_state(list, it));
    let moment = Moment { now: Timestamp(1), ran: Millis(1), stop: StopRequest::Continue };
    for (what, state) in [("the next step", &alone), ("  with 8 workers", &parallel)] {
        report(what, || {
            black_box(choose_next_step(state, moment));
        });
    }
    report("what blocks what", || {
        black_box(find_blockages(list));
    });
    report("check the list", || {
        black_box(validate_list(list));
    });
    report("read the text", || {
        black_box(read());
    });
    report("  serde_json reads it into values", || {
        black_box(serde_json::from_str::<Value>(&text).expect("valid"));
    });
    let mut file = read();
    let mut statuses = [TaskStatus::InProgress, TaskStatus::Pending].into_iter().cycle();
    report("set a status", || {
        let status = statuses.next().expect("endless");
        let task = TaskId(format!("TASK-{:05}", TASKS - 1));
        file.apply_changes(&[TaskChange::SetStatus { task, status }]).expect("possible");
    });
}

/// Returns the state of a run on a list; if it is parallel, with one worker at work.
fn build_state(list: &TaskList, parallel: Option<ParallelPolicy>) -> RunState {
    let agent = AgentChoice::new(AgentKind::Text, "agent");
    let mut recipe = Recipe::new(Work::Tasks(TaskWork::new("plan.json")), agent);
    recipe.limits.iterations = 100_000;
    recipe.parallel = parallel;
    let started = Event::RunStarted {
        journal: JOURNAL_VERSION,
        version: String::new(),
        run: RunId("run".to_owned()),
        project: "/project".into(),
        recipe: Box::new(recipe),
    };
    let read = Event::TasksRead { list: Box::new(list.clone()), remarks: Vec::new() };
    let mut events = vec![started, read, Event::TasksWritten];
    let record = |events: &[Event]| {
        let recorded = events.iter().cloned().zip(1..).map(|(event, seq)| Recorded {
            seq,
            at: Timestamp(1),
            ran: Millis(1),
            event,
        });
        fold_events(&recorded.collect::<Vec<_>>()).expect("the events fit")
    };
    let moment = Moment { now: Timestamp(1), ran: Millis(1), stop: StopRequest::Continue };
    if let Step::StartJob(assignment) = choose_next_step(&record(&events), moment) {
        events.extend([Event::JobAssigned { assignment }, Event::TasksWritten]);
    }
    record(&events)
}

/// Half of it done, each task waiting for the one before and one long before.
fn document() -> String {
    let id = |at: usize| format!("TASK-{at:05}");
    let tasks: Vec<Value> = (0..TASKS)
        .map(|at| {
            let depends_on: Vec<String> = match at {
                0 => Vec::new(),
                at => vec![id(at - 1), id(at / 2)],
            };
            json!({
                "id": id(at),
                "title": format!("Task number {at}"),
                "description": "What is wanted, in a sentence or two that a person would write.",
                "status": if at < TASKS / 2 { "done" } else { "pending" },
                "order": at,
                "acceptance_criteria": ["It builds", "It is tested"],
                "depends_on": depends_on,
            })
        })
        .collect();
    format!("{:#}\n", json!({ "project": "large", "tasks": tasks }))
}

/// Prints the median of a number of rounds.
fn report(what: &str, round: impl FnMut()) {
    println!("{what:<36} {:>8.2} ms", to_milliseconds(measure_repeated(21, round).median()));
}
