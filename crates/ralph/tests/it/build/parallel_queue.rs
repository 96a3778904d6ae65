//! `ralph build --jobs`: which tasks run side by side, in which order they land, the last round,
//! and what workers share: gates, budget, memory.

use std::fs;
use std::path::Path;

use ralph_testkit::sealed::{Sealed, wait_until};
use serde_json::{Value, json};

use super::parallel::{landed, project_with_meeting};
use super::parallel_faults::workers;
use super::parallel_rules::{acts, meets, read_calls, read_worker_file, rounds, wait_for};
use super::{assert_clean, assert_statuses, build, failure_branches, handoff, settings, task};

/// Returns where in the journal an event is, by what it must contain.
#[track_caller]
fn find_position(sealed: &Sealed, kind: &str, is_it: impl Fn(&Value) -> bool) -> usize {
    let events = sealed.events();
    let found = events.iter().position(|it| it["type"] == kind && is_it(it));
    found.unwrap_or_else(|| panic!("no such {kind}: {events:#?}"))
}

fn has_begun(meet: &str, name: &str) -> bool {
    fs::exists(format!("{meet}/began-{name}")).unwrap_or(false)
}

#[test]
fn tasks_that_declare_the_same_path_wait_for_each_other_unless_they_may_overlap() {
    for (overlap, together) in [("wait", false), ("run", true)] {
        let mut tasks = ["a", "b", "c"].map(|id| task(id, &[]));
        for (task, path) in tasks.iter_mut().zip(["src/**", "src/x.rs", "docs/"]) {
            task["touches"] = json!([path]);
        }
        // `a` ends once all others that may run beside it have begun.
        let calls = |meet: &str| {
            let others = if together { 3 } else { 2 };
            json!([
                { "when": { "task": "a" },
                  "do": [{ "run": { "command": meets(meet, others) } }, handoff("Wrote it.")] },
                acts(&meets(meet, 1))
            ])
        };
        let further = json!({ "parallel": { "overlap": overlap } });
        let (sealed, _) = project_with_meeting(&tasks, calls, further);
        build(&sealed, &["--jobs", "3"]).expect_code(0);
        assert_statuses(&sealed, &[("a", "done"), ("b", "done"), ("c", "done")]);
        let second = find_position(&sealed, "job_assigned", |it| it["assignment"]["task"] == "b");
        let first = find_position(&sealed, "worker_ended", |it| {
            it["worker"].as_str().is_some_and(|it| it.ends_with("-a-r1"))
        });
        assert_eq!(second < first, together, "overlap {overlap}");
    }
}

#[test]
fn what_most_tasks_wait_for_lands_before_what_ended_first() {
    let tasks = [task("p", &[]), task("q", &[]), task("b", &[]), task("c", &[]), task("d", &["c"])];
    // What lands second runs its gate here, and `b` and `c` end during that.
    let calls = |meet: &str| {
        let write = |id: &str, until: &str| {
            let command = format!(
                "touch {meet}/began-{id}; {}; echo x > {id}.txt",
                wait_for(1, &format!("{meet}/{until}"))
            );
            let end = handoff("Wrote it.");
            json!({ "when": { "task": id }, "do": [{ "run": { "command": command } }, end] })
        };
        json!([
            write("p", "start"),
            write("q", "start"),
            write("b", "merging"),
            write("c", "second"),
            write("d", "start")
        ])
    };
    let (sealed, meet) = project_with_meeting(&tasks, calls, json!({}));
    let wait = wait_for(1, &format!("{meet}/go"));
    let gate = format!("test -n \"$RALPH_SLOT\" || {{ touch {meet}/merging; {wait}; }}");
    let mut all: Value =
        serde_json::from_str(&sealed.read_file(".ralph/settings.json")).expect("JSON");
    all["gates"] = json!([{ "name": "here", "command": gate }]);
    all["baseline"] = json!("off");
    all["parallel"] = json!({ "gateSlots": 8 });
    sealed.write_file(".ralph/settings.json", &all.to_string());
    sealed.commit_all("Gate");
    let run = sealed.start_ralph(&["build", "--jobs", "4"]);
    wait_until("all work", || ["p", "q", "b", "c"].iter().all(|it| has_begun(&meet, it)));
    let pids = workers(&sealed);
    assert_eq!(pids.len(), 4, "{pids:?}");
    fs::write(format!("{meet}/start"), "").expect("written");
    let has_ended =
        |worker: &str| read_worker_file(&sealed, worker, "journal.jsonl").contains("\"run_ended\"");
    wait_until("b has ended", || has_ended("b-r1"));
    fs::write(format!("{meet}/second"), "").expect("written");
    let is_there = |pid: &i32| Path::new(&format!("/proc/{pid}")).exists();
    wait_until("c has ended too", || has_ended("c-r1") && !pids.iter().any(is_there));
    fs::write(format!("{meet}/go"), "").expect("written");
    run.wait_for_end().expect_code(0);
    let order = landed(&sealed);
    let place = |id: &str| order.iter().position(|it| it == id);
    assert!(place("c") < place("b") && order.len() == 5, "{order:?}");
    let ended = |id: &str| {
        find_position(&sealed, "worker_ended", |it| {
            it["worker"].as_str().is_some_and(|it| it.ends_with(id))
        })
    };
    assert!(ended("-b-r1") < ended("-c-r1"));
}

#[test]
fn nothing_lands_during_a_last_round_and_work_that_fails_in_it_is_saved() {
    // With what the user commits, the work of the last round fails its gate, or conflicts.
    for users_file in ["user.txt", "shared.txt"] {
        fail_in_the_last_round(users_file);
    }
}

fn fail_in_the_last_round(users_file: &str) {
    let tasks = ["a", "b", "c"].map(|id| task(id, &[]));
    let calls = |meet: &str| {
        let (last, go) = (format!("{meet}/last"), wait_for(1, &format!("{meet}/go")));
        let conflict = format!(
            "if grep -q '<<<' shared.txt; then touch {last}; {go}; echo both > shared.txt; \
             else {}; echo $RALPH_TASK > shared.txt; fi",
            meets(meet, 3)
        );
        let waits = format!("touch {meet}/began-c; {}; echo x > c.txt", wait_for(1, &last));
        json!([
            { "when": { "task": "c" },
              "do": [{ "run": { "command": waits } }, handoff("Wrote it.")] },
            acts(&conflict)
        ])
    };
    let gate = "test ! -e user.txt || ! grep both shared.txt";
    let further = json!({
        "gates": [{ "name": "fits", "command": gate }], "parallel": { "mergeAttempts": 2 }
    });
    let (sealed, meet) = project_with_meeting(&tasks, calls, further);
    let run = sealed.start_ralph(&["build", "--jobs", "3"]);
    let has_ended = || {
        let ended = sealed.find_events("worker_ended");
        ended.iter().any(|it| it["worker"].as_str().is_some_and(|it| it.ends_with("-c-r1")))
    };
    wait_until("c waits to land", has_ended);
    sealed.write_file(users_file, "user\n");
    sealed.run_git(&["add", users_file]);
    sealed.run_git(&["commit", "--quiet", "-m", "User", users_file]);
    fs::write(format!("{meet}/go"), "").expect("written");
    let ended = run.wait_for_end().expect_code(1);
    let last = rounds(&sealed).into_iter().find(|(_, round)| *round == 2).expect("a last round").0;
    let first = if last == "a" { "b" } else { "a" };
    assert_eq!(landed(&sealed), [first, "c"]);
    let merged = |end: &str| {
        let is_it = |it: &Value| it["worker"].as_str().is_some_and(|it| it.ends_with(end));
        find_position(&sealed, "candidate_merged", is_it)
    };
    assert!(merged(&format!("-{last}-r2")) < merged("-c-r1"), "c waited for the last round");
    let kept = if users_file == "shared.txt" { "user" } else { first };
    assert_eq!(sealed.read_file("shared.txt").trim(), kept);
    let saved = failure_branches(&sealed);
    let [branch] = saved.as_slice() else { panic!("{saved:?}") };
    let shown = sealed.run_git(&["show", &format!("{branch}:shared.txt")]);
    assert!(shown.contains("both"), "{shown}");
    let report = sealed.run_git(&["show", &format!("{branch}:ralph-failure.md")]);
    assert!(report.contains("shared.txt") || users_file == "user.txt", "{report}");
    assert!(ended.stderr.contains(branch.as_str()), "{}", ended.stderr);
    let failed = (last.as_str(), "failed");
    let mut expected = [failed, (first, "done"), ("c", "done")];
    expected.sort_unstable();
    assert_statuses(&sealed, &expected);
}

#[test]
fn lines_of_a_file_with_merge_union_are_no_conflict() {
    let tasks = [task("a", &[]), task("b", &[])];
    let calls = |meet: &str| {
        let add = "echo \"- $RALPH_TASK\" >> shared.txt";
        json!([acts(&format!("{}; rm $RALPH_TASK.txt; {add}", meets(meet, 2)))])
    };
    let (sealed, _) = project_with_meeting(&tasks, calls, json!({}));
    sealed.write_file(".gitattributes", "shared.txt merge=union\n");
    sealed.commit_all("Attributes");
    build(&sealed, &["--jobs", "2"]).expect_code(0);
    assert_eq!(rounds(&sealed).len(), 2, "no task started again");
    let text = sealed.read_file("shared.txt");
    assert!(text.contains("- a\n") && text.contains("- b\n") && !text.contains("<<<"), "{text}");
    assert_clean(&sealed);
}

#[test]
fn no_more_workers_run_gates_at_once_than_there_are_gate_slots() {
    // How many gates had begun when one ended: it waits for another one, for half a second if
    // there should be none.
    for (slots, polls, expected) in [(1, 10, ["1", "2"]), (2, 600, ["2", "2"])] {
        let tasks = [task("a", &[]), task("b", &[])];
        let calls = |meet: &str| json!([acts(&meets(meet, 2))]);
        let (sealed, meet) = project_with_meeting(&tasks, calls, json!({}));
        let count = format!("$(ls {meet}/gate-* | wc -l)");
        let gate = format!(
            "test -n \"$RALPH_SLOT\" || exit 0; touch {meet}/gate-$RALPH_SLOT; i=0; \
             while [ {count} -lt 2 ] && [ $i -lt {polls} ]; do sleep 0.05; i=$((i+1)); done; \
             echo {count} >> {meet}/counts"
        );
        let mut all: Value =
            serde_json::from_str(&sealed.read_file(".ralph/settings.json")).expect("JSON");
        all["gates"] = json!([{ "name": "counts", "command": gate }]);
        all["baseline"] = json!("off");
        all["parallel"] = json!({ "gateSlots": slots });
        sealed.write_file(".ralph/settings.json", &all.to_string());
        sealed.commit_all("Gate");
        build(&sealed, &["--jobs", "2"]).expect_code(0);
        let counts = fs::read_to_string(format!("{meet}/counts")).expect("counts");
        assert_eq!(counts.split_whitespace().collect::<Vec<_>>(), expected, "{slots} slots");
    }
}

#[test]
fn the_setup_command_runs_again_if_a_named_file_differs() {
    let tasks = [task("a", &[]), task("b", &["a"]), task("c", &["b"])];
    let command = "[ $RALPH_TASK != b ] || echo 2 > deps.txt; echo x > $RALPH_TASK.txt";
    let (sealed, meet) = project_with_meeting(&tasks, |_| json!([acts(command)]), json!({}));
    let parallel =
        json!({ "setup": format!("echo x >> {meet}/setups"), "setupWhen": ["deps.txt"] });
    let mut all: Value =
        serde_json::from_str(&sealed.read_file(".ralph/settings.json")).expect("JSON");
    all["parallel"] = parallel;
    sealed.write_file(".ralph/settings.json", &all.to_string());
    sealed.write_file("deps.txt", "1\n");
    sealed.commit_all("Set up");
    sealed.trust_project(&[]);
    build(&sealed, &["--jobs", "2"]).expect_code(0);
    assert_eq!(landed(&sealed), ["a", "b", "c"]);
    // For the new clone, and for `c`.
    assert_eq!(fs::read_to_string(format!("{meet}/setups")).expect("setups"), "x\nx\n");
}

#[test]
fn one_of_several_workers_compacts_the_memory() {
    let tasks = [task("a", &[]), task("b", &["a"]), task("c", &["a"])];
    let calls = |meet: &str| {
        let memory = json!({ "structured": {
            "project_summary": "A project.", "completed_work": [], "active_constraints": [],
            "architectural_decisions": [], "file_knowledge": []
        } });
        json!([
            { "when": { "role": "compact" }, "do": [memory] },
            { "when": { "task": "a" },
              "do": [{ "run": { "command": "echo x > a.txt" } }, handoff("Wrote it.")] },
            acts(&meets(meet, 2))
        ])
    };
    let further = json!({ "memory": { "everyIterations": 1 } });
    let (sealed, _) = project_with_meeting(&tasks, calls, further);
    build(&sealed, &["--jobs", "2"]).expect_code(0);
    let count = |worker: &str| {
        let journal = read_worker_file(&sealed, worker, "journal.jsonl");
        let is_it = |it: &&str| it.contains("iteration_started") && it.contains("\"compact\"");
        journal.lines().filter(is_it).count()
    };
    assert_eq!((count("a-r1"), count("b-r1") + count("c-r1")), (0, 1));
    let duties = sealed.find_events("job_assigned");
    let duties = duties.iter().filter(|it| !it["assignment"]["compacts"].is_null());
    assert_eq!(duties.count(), 1);
    assert!(sealed.project_dir().join(".ralph/context/compacted-latest.json").exists());
}

#[test]
fn a_worker_that_used_its_share_of_the_budget_continues_with_a_new_one() {
    let tasks = [task("a", &[]), task("b", &[])];
    let call = |cost: f64, command: &str| {
        let cost = json!({ "usage": { "input": 1000, "output": 10, "cost": cost } });
        json!([{ "run": { "command": command } }, cost, handoff("Wrote it.")])
    };
    // The fourth attempt at `a` passes. A third of the budget is its first share.
    let calls = json!([
        { "when": { "task": "a" }, "do": call(0.12, "echo x >> a.txt") },
        { "do": call(0.01, "echo x > b.txt") }
    ]);
    let gate = "test ! -e a.txt || test $(wc -l < a.txt) -ge 4 || { wc -l a.txt; false; }";
    let further = settings(json!({
        "gates": [{ "name": "four", "command": gate }], "tasks": { "maxAttempts": 8 }
    }));
    let (sealed, _) = project_with_meeting(&tasks, |_| calls.clone(), further);
    build(&sealed, &["--jobs", "2", "--max-cost", "1.00"])
        .expect_code(0)
        .expect_stderr("used its share of the budget");
    assert_statuses(&sealed, &[("a", "done"), ("b", "done")]);
    let jobs = rounds(&sealed).into_iter().filter(|(task, _)| task == "a").collect::<Vec<_>>();
    assert_eq!(jobs, [("a".to_owned(), 1), ("a".to_owned(), 1)], "one round, two shares");
    assert_eq!(read_calls(&sealed, "a-r1").len(), 4, "no call is repeated");
}
