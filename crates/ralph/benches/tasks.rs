//! Measures a list of ten thousand tasks: choosing, checking, reading, changing.
//!
//! Reading is compared with `serde_json` reading the same bytes into values. `cargo
//! bench -p ralph --bench tasks` prints the figures; nothing is asserted.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::hint::black_box;
use std::path::Path;

use ralph_core::tasks::next_work::{RetryPolicy, choose_next_work, find_blockages};
use ralph_core::tasks::validation::validate_list;
use ralph_io::formats::TaskFile;
use ralph_model::ids::TaskId;
use ralph_model::review::ReviewPolicy;
use ralph_model::task::{TaskChange, TaskStatus};
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
        black_box(choose_next_work(&list, review, RetryPolicy::Never));
    });
    report("what blocks what", || {
        black_box(find_blockages(&list));
    });
    report("check the list", || {
        black_box(validate_list(&list));
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
