//! `ralph build --jobs`: what is merged, repeated and started again, limits that workers share, and
//! what the user changes while they work.

use std::fs;
use std::path::PathBuf;

use ralph_testkit::sealed::{Sealed, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::parallel::{landed, project_with_meeting};
use super::{assert_clean, assert_statuses, build, handoff, list, task};

/// An agent that does a command, and hands its task in.
pub(super) fn acts(command: &str) -> Value {
    json!({ "do": [{ "run": { "command": command } }, handoff("Wrote it.")] })
}

/// A command that waits until there are so many files of this name.
pub(super) fn wait_for(count: usize, files: &str) -> String {
    format!(
        "i=0; while [ $(ls {files} 2> /dev/null | wc -l) -lt {count} ] && [ $i -lt 600 ]; \
         do sleep 0.05; i=$((i+1)); done"
    )
}

/// An agent that writes its file once all tasks have begun.
pub(super) fn meets(meet: &str, count: usize) -> String {
    let wait = wait_for(count, &format!("{meet}/began-*"));
    format!("touch {meet}/began-$RALPH_TASK; {wait}; echo $RALPH_TASK > $RALPH_TASK.txt")
}

/// The directory of a worker's run. The worker is named by its task and number, such as `b-r1`.
fn find_worker_run(sealed: &Sealed, worker: &str) -> Option<PathBuf> {
    let projects = fs::read_dir(sealed.state_dir()).into_iter().flatten().flatten();
    let runs = projects.flat_map(|it| fs::read_dir(it.path().join("runs")).into_iter().flatten());
    let mut runs = runs.flatten().map(|run| run.path());
    runs.find(|run| run.to_string_lossy().ends_with(&format!("-{worker}")))
}

pub(super) fn read_worker_file(sealed: &Sealed, worker: &str, file: &str) -> String {
    let run = find_worker_run(sealed, worker);
    run.and_then(|run| fs::read_to_string(run.join(file)).ok()).unwrap_or_default()
}

/// When a worker began its agent calls, in milliseconds.
pub(super) fn read_calls(sealed: &Sealed, worker: &str) -> Vec<i64> {
    let journal = read_worker_file(sealed, worker, "journal.jsonl");
    let recorded = journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    recorded
        .filter(|it| it["event"]["type"] == "asked")
        .filter_map(|it| it["at"].as_i64())
        .collect()
}

pub(super) fn rounds(sealed: &Sealed) -> Vec<(String, u64)> {
    let jobs = sealed.find_events("job_assigned");
    let round = |job: &Value| {
        let job = &job["assignment"];
        Some((job["task"].as_str()?.to_owned(), job["round"].as_u64()?))
    };
    jobs.iter().filter_map(round).collect()
}

#[test]
fn a_gate_that_fails_after_a_clean_merge_starts_the_task_again_with_its_output() {
    let tasks = [task("a", &[]), task("b", &[])];
    let calls = |meet: &str| {
        let command =
            format!("{}; test ! -e a.txt || test ! -e b.txt || touch both", meets(meet, 2));
        json!([acts(&command)])
    };
    let gate = "test ! -e a.txt || test ! -e b.txt || test -e both || { echo NOTBOTH; false; }";
    let gates = json!({ "gates": [{ "name": "fits", "command": gate }] });
    let (sealed, _) = project_with_meeting(&tasks, calls, gates);
    build(&sealed, &["--jobs", "2"]).expect_code(0).expect_stderr("failed after the merge: fits");
    assert_statuses(&sealed, &[("a", "done"), ("b", "done")]);
    let again = rounds(&sealed).into_iter().filter(|(_, round)| *round == 2).collect::<Vec<_>>();
    let [(task, _)] = again.as_slice() else { panic!("{again:?}") };
    let prompt = read_worker_file(&sealed, &format!("{task}-r2"), "agent-1.prompt.md");
    assert!(prompt.contains("NOTBOTH"), "{prompt}");
    assert!(sealed.project_dir().join("both").exists());
    assert_clean(&sealed);
}

#[test]
fn a_gate_that_fails_once_after_a_merge_costs_no_round() {
    let tasks = [task("a", &[]), task("b", &[])];
    let (sealed, meet) =
        project_with_meeting(&tasks, |meet| json!([acts(&meets(meet, 2))]), json!({}));
    // In clones it passes; in the work tree of the run it fails the first time.
    let gate = format!("test -n \"$RALPH_SLOT\" || ! mkdir {meet}/failed 2> /dev/null");
    let gates = json!([{ "name": "flaky", "command": gate }]);
    let all = json!({ "review": { "enabled": false }, "gates": gates, "baseline": "off" });
    sealed.write_script(&json!([acts(&meets(&meet, 2))]), &all);
    sealed.commit_all("Gate");
    build(&sealed, &["--jobs", "2"]).expect_code(0);
    assert!(fs::exists(format!("{meet}/failed")).unwrap_or(false), "it failed");
    assert_eq!(rounds(&sealed).len(), 2);
    assert_statuses(&sealed, &[("a", "done"), ("b", "done")]);
}

#[test]
fn gates_that_fail_for_two_candidates_and_on_the_tip_end_the_run() {
    let tasks = ["a", "b", "c", "d", "e"].map(|id| task(id, &[]));
    // What lands first, lands on the base of its worker, and its gates do not run again.
    let further = json!({
        "gates": [{ "name": "here", "command": "test -n \"$RALPH_SLOT\"" }],
        "baseline": "off", "parallel": { "flakeRetries": 0 }
    });
    // The second round of a task takes longer than the merges of the others.
    let calls = |meet: &str| {
        let again = format!("test ! -e {meet}/again-$RALPH_TASK || sleep 4");
        json!([acts(&format!("{again}; touch {meet}/again-$RALPH_TASK; {}", meets(meet, 3)))])
    };
    let (sealed, _) = project_with_meeting(&tasks, calls, further);
    build(&sealed, &["--jobs", "3"]).expect_code(1).expect_stderr("here");
    assert_eq!(landed(&sealed).len(), 1);
    assert_eq!(sealed.find_events("baseline_checked").len(), 1, "it ran on the tip");
    // None of the work is lost.
    let refs = ["for-each-ref", "--format=%(refname)", "refs/ralph/candidates"];
    let candidates = sealed.run_git(&refs);
    assert!(candidates.lines().count() >= 3, "{candidates}");
}

/// A call that a limit refuses.
fn limited(steps: &[Value], class: &str) -> Value {
    let mut steps = steps.to_vec();
    steps.push(json!({ "result": { "error": { "class": class, "words": "limit" } } }));
    json!(steps)
}

#[test]
fn a_usage_limit_is_met_once_and_holds_all_workers() {
    let tasks = [task("a", &[]), task("b", &[])];
    let calls = |meet: &str| {
        let refused = json!({ "rateLimit": { "status": "rejected", "resets": { "in": 5 } } });
        let begins = json!({ "run": { "command": format!("touch {meet}/limited") } });
        let is_known = format!("grep -rqs worker_limited {meet}/../state");
        let looks = format!("while ! {is_known}; do sleep 0.05; done; sleep 1");
        json!([
            { "when": { "task": "a", "fileMissing": format!("{meet}/limited") },
              "do": limited(&[begins, refused], "rateLimited") },
            // It changes nothing, so `b` needs a second call.
            { "when": { "task": "b", "iteration": 1 },
              "do": [{ "run": { "command": looks } }, handoff("Looked.")] },
            acts("echo $RALPH_TASK > $RALPH_TASK.txt")
        ])
    };
    let (sealed, _) = project_with_meeting(&tasks, calls, json!({}));
    build(&sealed, &["--jobs", "2"]).expect_code(0).expect_stderr("usage limit of");
    assert_statuses(&sealed, &[("a", "done"), ("b", "done")]);
    let met = sealed.find_events("worker_limited");
    let [limit] = met.as_slice() else { panic!("one limit: {met:#?}") };
    let until = limit["until"].as_i64().expect("a moment");
    let [_, second] = read_calls(&sealed, "b-r1")[..] else { panic!("two calls of b") };
    assert!(second >= until, "b was called {} ms before the limit was over", until - second);
    assert_eq!(read_calls(&sealed, "a-r1").len(), 2);
}

#[test]
fn a_limit_that_is_too_long_is_met_once_and_a_resumed_run_asks_once() {
    let tasks = ["a", "b", "c"].map(|id| task(id, &[]));
    let calls = |meet: &str| {
        let note = json!({ "run": { "command": format!("echo x >> {meet}/calls") } });
        let refused = json!({ "rateLimit": { "status": "rejected", "resets": { "in": 7200 } } });
        let (lifted, is_known) = (format!("{meet}/lifted"), "grep -rqs worker_limited");
        let looks = format!("while ! {is_known} {meet}/../state; do sleep 0.05; done; sleep 1");
        // All three have begun when the limit is met.
        let began = format!("while [ $(wc -l < {meet}/calls) -lt 3 ]; do sleep 0.05; done");
        let began = json!({ "run": { "command": began } });
        json!([
            { "when": { "task": "a", "fileMissing": lifted },
              "do": limited(&[note.clone(), began, refused], "rateLimited") },
            // They change nothing, so they need a second call.
            { "when": { "iteration": 1, "fileMissing": lifted },
              "do": [note, { "run": { "command": looks } }, handoff("Looked.")] },
            { "do": [note, { "run": { "command": "echo x > $RALPH_TASK.txt" } },
                     handoff("Wrote it.")] }
        ])
    };
    let further = json!({ "rateLimit": { "maxWait": "2s" } });
    let (sealed, meet) = project_with_meeting(&tasks, calls, further);
    let count = || fs::read_to_string(format!("{meet}/calls")).unwrap_or_default().lines().count();
    build(&sealed, &["--jobs", "3"]).expect_code(1).expect_stderr("limit");
    assert_eq!(count(), 3, "no worker calls after the limit is known");
    assert_eq!(sealed.find_events("worker_limited").len(), 1);
    sealed.run_ralph(&["resume"]).expect_code(1).expect_stderr("limit");
    assert_eq!(count(), 4, "one worker asks whether it is lifted");
    fs::write(format!("{meet}/lifted"), "").expect("written");
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done"), ("b", "done"), ("c", "done")]);
    assert_eq!(count(), 7);
}

#[test]
fn an_overload_halves_the_number_of_workers() {
    let tasks = ["a", "b", "c"].map(|id| task(id, &[]));
    let calls = |meet: &str| {
        let wait = wait_for(1, &format!("{meet}/go"));
        let begins = json!({ "run": { "command": format!("touch {meet}/overloaded") } });
        json!([
            { "when": { "task": "a", "fileMissing": format!("{meet}/overloaded") },
              "do": limited(&[begins], "overloaded") },
            acts(&format!("touch {meet}/began-$RALPH_TASK; {wait}"))
        ])
    };
    let (sealed, meet) =
        project_with_meeting(&tasks, calls, json!({ "retries": { "backoff": "100ms" } }));
    let mut run = sealed.start_ralph(&["build", "--jobs", "2"]);
    run.wait_for("a overload of");
    wait_until("a is called again", || fs::exists(format!("{meet}/began-a")).unwrap_or(false));
    let status = sealed.run_ralph(&["status"]).expect_code(0).stdout;
    assert!(status.contains("2 (fewer now: 1)") && status.contains("Hold "), "{status}");
    sealed.run_ralph(&["stop", "--now"]).expect_code(0);
    run.wait_for_end().expect_code(130);
    assert_eq!(sealed.find_events("worker_limited").len(), 1);
}

#[test]
fn a_budget_is_shared_and_the_run_continues_with_more() {
    let tasks = ["a", "b", "c", "d", "e", "f"].map(|id| task(id, &[]));
    let cost = json!({ "usage": { "input": 1000, "output": 10, "cost": 0.04 } });
    let write = json!({ "run": { "command": "echo $RALPH_TASK > $RALPH_TASK.txt" } });
    let calls = json!([{ "do": [write, cost, handoff("Wrote it.")] }]);
    let (sealed, _) = project_with_meeting(&tasks, |_| calls.clone(), json!({}));
    build(&sealed, &["--jobs", "2", "--max-cost", "0.10"]).expect_code(1).expect_stderr("0.1");
    // The budget, and at most one call for each worker above it.
    let done = landed(&sealed).len();
    assert!((2..=4).contains(&done), "{done}");
    sealed.run_ralph(&["resume", "--max-cost", "10"]).expect_code(0);
    assert_eq!(landed(&sealed).len(), 6);
    assert_clean(&sealed);
}

#[test]
fn a_note_reaches_one_worker_or_all() {
    let tasks = [task("a", &[]), task("b", &[])];
    let calls = |meet: &str| {
        let wait = wait_for(1, &format!("{meet}/go"));
        let looks = format!("touch {meet}/began-$RALPH_TASK; {wait}");
        json!([
            { "when": { "iteration": 1 },
              "do": [{ "run": { "command": looks } }, handoff("Looked.")] },
            acts("echo $RALPH_TASK > $RALPH_TASK.txt")
        ])
    };
    let (sealed, meet) = project_with_meeting(&tasks, calls, json!({}));
    let run = sealed.start_ralph(&["build", "--jobs", "2"]);
    let has_begun = |id: &str| fs::exists(format!("{meet}/began-{id}")).unwrap_or(false);
    wait_until("both agents work", || has_begun("a") && has_begun("b"));
    sealed.run_ralph(&["note", "--task", "b", "Use tabs."]).expect_code(0);
    sealed.run_ralph(&["note", "Be brief."]).expect_code(0);
    let count_notes = |worker: &str| {
        let inbox = find_worker_run(&sealed, worker).map(|run| run.join("inbox"));
        inbox.and_then(|inbox| fs::read_dir(inbox).ok()).into_iter().flatten().count()
    };
    wait_until("the notes are there", || count_notes("a-r1") >= 1 && count_notes("b-r1") >= 2);
    fs::write(format!("{meet}/go"), "").expect("written");
    run.wait_for_end().expect_code(0);
    let prompt = |worker: &str| read_worker_file(&sealed, worker, "agent-2.prompt.md");
    let (a, b) = (prompt("a-r1"), prompt("b-r1"));
    assert!(a.contains("Be brief.") && !a.contains("Use tabs."), "{a}");
    assert!(b.contains("Be brief.") && b.contains("Use tabs."), "{b}");
}

#[test]
fn a_paused_run_starts_and_lands_nothing_until_it_is_resumed() {
    let tasks = ["a", "b", "c"].map(|id| task(id, &[]));
    let calls = |meet: &str| {
        let wait = wait_for(1, &format!("{meet}/go"));
        let command = format!("touch {meet}/began-$RALPH_TASK; {wait}; echo x > $RALPH_TASK.txt");
        json!([acts(&command)])
    };
    let (sealed, meet) = project_with_meeting(&tasks, calls, json!({}));
    let mut run = sealed.start_ralph(&["build", "--jobs", "2"]);
    let has_begun = |id: &str| fs::exists(format!("{meet}/began-{id}")).unwrap_or(false);
    wait_until("both agents work", || has_begun("a") && has_begun("b"));
    sealed.run_ralph(&["pause"]).expect_code(0);
    fs::write(format!("{meet}/go"), "").expect("written");
    run.wait_for("aused");
    wait_until("workers have stopped", || {
        let status = sealed.run_ralph(&["status"]).expect_code(0).stdout;
        status.contains("paused")
    });
    assert_eq!(landed(&sealed), [""; 0]);
    assert!(!has_begun("c"));
    sealed.run_ralph(&["resume"]).expect_code(0);
    run.wait_for_end().expect_code(0);
    assert_statuses(&sealed, &[("a", "done"), ("b", "done"), ("c", "done")]);
    assert_clean(&sealed);
}

#[test]
fn edits_of_the_list_during_a_run_are_applied() {
    let tasks = ["a", "b", "c"].map(|id| task(id, &[]));
    let calls = |meet: &str| {
        let wait = wait_for(1, &format!("{meet}/go"));
        let command = format!("touch {meet}/began-$RALPH_TASK; {wait}; echo x > $RALPH_TASK.txt");
        json!([acts(&command)])
    };
    let (sealed, meet) = project_with_meeting(&tasks, calls, json!({}));
    let run = sealed.start_ralph(&["build", "--jobs", "2"]);
    let has_begun = |id: &str| fs::exists(format!("{meet}/began-{id}")).unwrap_or(false);
    wait_until("both agents work", || has_begun("a") && has_begun("b"));
    // The user removes a task that is worked on, and one that waits, and adds one.
    let mut edited = list(&sealed);
    let all = edited["tasks"].as_array_mut().expect("tasks");
    all.retain(|it| it["id"] == "a");
    all.push(task("d", &[]));
    sealed.write_file("plan.json", &format!("{edited:#}\n"));
    wait_until("the worker of b is canceled", || !sealed.find_events("worker_canceled").is_empty());
    fs::write(format!("{meet}/go"), "").expect("written");
    run.wait_for_end().expect_code(0);
    assert_statuses(&sealed, &[("a", "done"), ("d", "done")]);
    let mut done = landed(&sealed);
    done.sort();
    assert_eq!(done, ["a", "d"]);
    assert_eq!(sealed.survivors(), Vec::<String>::new());
}

#[test]
fn the_task_after_a_skipped_one_gets_its_clone() {
    let tasks = ["a", "b", "c"].map(|id| task(id, &[]));
    let calls = |meet: &str| {
        let wait = wait_for(1, &format!("{meet}/go"));
        let command = format!("touch {meet}/began-$RALPH_TASK; {wait}; echo x > $RALPH_TASK.txt");
        json!([acts(&command)])
    };
    let (sealed, meet) = project_with_meeting(&tasks, calls, json!({}));
    let run = sealed.start_ralph(&["build", "--jobs", "2"]);
    let has_begun = |id: &str| fs::exists(format!("{meet}/began-{id}")).unwrap_or(false);
    wait_until("both agents work", || has_begun("a") && has_begun("b"));
    sealed.run_ralph(&["skip", "b"]).expect_code(0);
    wait_until("c is worked on", || has_begun("c"));
    let clones = sealed.run_ralph(&["clones"]).expect_code(0).stdout;
    assert_eq!(clones.lines().count(), 2, "{clones}");
    fs::write(format!("{meet}/go"), "").expect("written");
    run.wait_for_end().expect_code(0);
    assert_statuses(&sealed, &[("a", "done"), ("b", "skipped"), ("c", "done")]);
}

#[test]
fn tasks_that_two_workers_add_under_one_id_are_both_done() {
    let tasks = [task("a", &[]), task("b", &[])];
    let calls = |meet: &str| {
        let new = json!({ "id": "more", "title": "More", "description": "More.",
                          "acceptance_criteria": ["It is there"] });
        let end = json!({ "handoff": {
            "task_completed": { "summary": "Wrote it.", "fully_complete": true },
            "plan_amendments": [{ "action": "add", "reason": "It is needed.", "task": new }]
        } });
        let adds = |id: &str| {
            json!({ "when": { "task": id },
                    "do": [{ "run": { "command": meets(meet, 2) } }, end] })
        };
        json!([adds("a"), adds("b"), acts("echo $RALPH_TASK > $RALPH_TASK.txt")])
    };
    let further = json!({ "tasks": { "amendments": "apply" } });
    let (sealed, _) = project_with_meeting(&tasks, calls, further);
    build(&sealed, &["--jobs", "2"]).expect_code(0);
    let all = list(&sealed);
    let mut ids: Vec<&str> =
        all["tasks"].as_array().expect("tasks").iter().filter_map(|it| it["id"].as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["a", "b", "more", "more-2"]);
    assert_eq!(landed(&sealed).len(), 4);
}

#[test]
fn work_that_cannot_be_fetched_is_done_again_as_the_next_round() {
    let tasks = [task("a", &[])];
    let calls = |meet: &str| {
        json!([acts(&format!("echo x >> {meet}/calls; echo $RALPH_TASK > $RALPH_TASK.txt"))])
    };
    let (sealed, meet) = project_with_meeting(&tasks, calls, json!({}));
    // A worker host that damages the first clone, each time before it reports the end.
    let clones = sealed.state_dir().join("clones");
    let ralph = env!("CARGO_BIN_EXE_ralph");
    let host = format!(
        "'{ralph}' __workers '{meet}/shared' | while IFS= read -r line; do \
         case \"$line\" in *'\"ended\"'*-r1*) rm -rf '{}'/*/s1/*/.git/objects/?? ;; esac; \
         printf '%s\\n' \"$line\"; done",
        clones.display()
    );
    build(&sealed, &["--jobs", "2", "--worker-host", &host])
        .expect_code(0)
        .expect_stderr("cannot be fetched");
    assert_statuses(&sealed, &[("a", "done")]);
    let rounds: Vec<u64> = rounds(&sealed).into_iter().map(|(_, round)| round).collect();
    assert_eq!(rounds.last(), Some(&2), "{rounds:?}");
    let calls = fs::read_to_string(format!("{meet}/calls")).unwrap_or_default();
    assert_eq!(calls.lines().count(), 2, "an end that is asked for again is no call");
    assert_clean(&sealed);
}

/// The second signal also ends the git command that fetches what the workers committed.
#[test]
fn a_second_signal_after_commits_of_workers_is_no_failure_of_git() {
    let tasks = [task("a", &[]), task("b", &[])];
    let calls = |meet: &str| {
        let hangs = format!("touch {meet}/began-$RALPH_TASK; while true; do sleep 0.05; done");
        json!([
            { "when": { "role": "review" }, "do": [{ "run": { "command": hangs } }] },
            acts("echo x > $RALPH_TASK.txt")
        ])
    };
    let review = json!({ "review": { "enabled": true } });
    let (sealed, meet) = project_with_meeting(&tasks, calls, review);
    let mut run = sealed.start_ralph(&["build", "--jobs", "2"]);
    let has_begun = |id: &str| fs::exists(format!("{meet}/began-{id}")).unwrap_or(false);
    wait_until("both are in review", || has_begun("a") && has_begun("b"));
    run.send_signal(Signal::INT);
    run.wait_for("Ctrl-C again");
    run.send_signal(Signal::INT);
    run.wait_for_end().expect_code(130);
    assert_eq!(sealed.survivors(), Vec::<String>::new());
}

#[test]
fn a_note_that_came_too_late_for_a_worker_is_named_at_the_end() {
    let tasks = [task("a", &[]), task("b", &[])];
    let calls = |meet: &str| {
        let wait = wait_for(1, &format!("{meet}/go"));
        let command = format!("touch {meet}/began-$RALPH_TASK; {wait}; echo x > $RALPH_TASK.txt");
        json!([acts(&command)])
    };
    let (sealed, meet) = project_with_meeting(&tasks, calls, json!({}));
    let run = sealed.start_ralph(&["build", "--jobs", "2"]);
    let has_begun = |id: &str| fs::exists(format!("{meet}/began-{id}")).unwrap_or(false);
    wait_until("both agents work", || has_begun("a") && has_begun("b"));
    sealed.run_ralph(&["note", "--task", "b", "Use tabs."]).expect_code(0);
    let inbox = || find_worker_run(&sealed, "b-r1").map(|run| run.join("inbox"));
    wait_until("the note is there", || {
        inbox().and_then(|inbox| fs::read_dir(inbox).ok()).into_iter().flatten().count() > 0
    });
    fs::write(format!("{meet}/go"), "").expect("written");
    let end = run.wait_for_end().expect_code(0);
    end.expect_stderr("b: Use tabs.").expect_stderr("ralph tasks add 'Use tabs.' --criterion");
    let log = sealed.run_ralph(&["log", "--task", "a"]).expect_code(0).stdout;
    assert!(log.contains("complete") && !log.contains("ralph resume"), "{log}");
}
