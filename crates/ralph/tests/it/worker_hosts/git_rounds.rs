//! Jobs over git that take more than one go: another machine takes a job over, work comes in
//! conflict, a task fails. A server that accepts only branches, secrets, and telemetry.

use std::fs;
use std::path::Path;

use ralph_testkit::receiver::{Receiver, ReceiverAnswer};
use ralph_testkit::sealed::{Running, wait_until};
use serde_json::{Value, json};

use super::{HostWorld, acts, kill, on_machine, over_git};
use crate::telemetry;

/// Returns the process of `ralph worker` on a machine.
fn find_remote_worker(world: &HostWorld, machine: &str) -> i32 {
    let clone = world.machines().join(machine).join("clone");
    let is_it = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        let words: Vec<&str> = line.split('\0').collect();
        words.contains(&"--job")
            && words.contains(&"worker")
            && words.iter().any(|it| Path::new(it) == clone)
    };
    let pids = fs::read_dir("/proc").expect("there").flatten();
    let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.find(is_it).expect("a worker")
}

/// Starts a build whose first attempt at a job is on machine `one`, and each later one on `two`.
fn start_on_two_machines(world: &HostWorld) -> Running {
    let [one, two] = ["one", "two"].map(|it| on_machine(it, ""));
    let start = format!("case $RALPH_ATTEMPT in a1) {one} ;; *) {two} ;; esac");
    let host = format!("\"$RALPH\" __workers --git --attached --poll 300ms --start '{start}'");
    world.start_build(&host)
}

/// An agent that makes one half in each call, and hangs before the second.
fn halves(meet: &str) -> Value {
    acts(&format!(
        "echo $RALPH_TASK >> {meet}/calls; \
         if [ ! -e half1 ]; then echo 1 > half1; \
         else while [ ! -e {meet}/go ]; do sleep 0.05; done; echo 2 > half2; fi"
    ))
}

/// Waits until the remote has what another machine needs to continue a job.
fn wait_for_work(world: &HostWorld) {
    wait_until("the work is on the remote", || {
        let refs = world.remote_refs();
        let journal = refs.iter().find(|it| it.contains("/journals/"));
        journal.is_some_and(|it| {
            world.run_remote_git(&["ls-tree", "--name-only", it]).contains("work.json")
        })
    });
}

#[test]
fn another_machine_continues_after_the_last_iteration() {
    let further = json!({ "gates": [{ "command": "test -e half2" }] });
    let world = HostWorld::with_agent(&["a"], &halves, further);
    let run = start_on_two_machines(&world);
    // The second call, in the second iteration.
    world.wait_for_calls(2);
    wait_for_work(&world);
    kill(find_remote_worker(&world, "one"));
    // One call on the other machine, not two.
    world.wait_for_calls(3);
    let sealed = &world.sealed;
    wait_until("it is known who works", || sealed.find_events("worker_started").len() == 2);
    let status = sealed.run_ralph(&["status", "--json"]).expect_code(0).stdout;
    let status: Value = serde_json::from_str(&status).expect("JSON");
    let worker = &status["parallel"]["workers"][0];
    assert_eq!(
        (&worker["machine"], &worker["attempt"]),
        (&json!("two"), &json!("a2")),
        "{worker:#}"
    );
    let taken = json!({ "machine": "one", "attempt": "a1", "iterations": 1 });
    assert_eq!(worker["takenOverFrom"], taken);
    let status = sealed.run_ralph(&["status"]).expect_code(0).stdout;
    assert!(status.contains("taken over from one (a1) after 1 iteration"), "{status}");
    world.allow();
    run.wait_for_end().expect_code(0);
    assert_eq!(world.calls(), 3);
    assert_eq!((sealed.read_file("half1").trim(), sealed.read_file("half2").trim()), ("1", "2"));
    // Both iterations count.
    let ended = sealed.find_events("worker_ended");
    assert_eq!(ended[0]["result"]["iterations"], 2, "{ended:#?}");
    let report = sealed.run_ralph(&["report"]).expect_code(0).stdout;
    assert!(report.contains("taken over from one"), "{report}");
    assert_eq!(sealed.survivors(), Vec::<String>::new());
}

#[test]
fn a_conflict_goes_back_to_a_machine_with_the_merged_files() {
    let writers = |meet: &str| {
        acts(&format!(
            "touch {meet}/began-$RALPH_TASK; if grep -q '<<<' shared.txt; then \
             grep -v '^[<=>|]' shared.txt | sort > all && mv all shared.txt; \
             else while [ ! -e {meet}/began-a ] || [ ! -e {meet}/began-b ]; do sleep 0.05; done; \
             echo $RALPH_TASK > shared.txt; fi"
        ))
    };
    let world = HostWorld::with_agent(&["a", "b"], &writers, json!({}));
    let run = world.start_build(&over_git("--attached", "one"));
    run.wait_for_end().expect_code(0);
    let sealed = &world.sealed;
    assert_eq!(sealed.read_file("shared.txt"), "a\nb\n");
    let merged = sealed.find_events("candidate_merged");
    let is_conflict = |event: &&Value| event["outcome"]["is"] == "conflict";
    assert_eq!(merged.iter().filter(is_conflict).count(), 1, "{merged:#?}");
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), "");
}

#[test]
fn the_failure_branch_of_a_task_comes_back_from_its_machine() {
    let bad = |_: &str| acts("if [ $RALPH_TASK = b ]; then echo x > bad; else echo a > a.txt; fi");
    let further = json!({
        "gates": [{ "command": "test ! -e bad" }], "tasks": { "maxAttempts": 1 }
    });
    let world = HostWorld::with_agent(&["a", "b"], &bad, further);
    world.start_build(&over_git("--attached", "one")).wait_for_end().expect_code(1);
    let sealed = &world.sealed;
    assert_eq!(sealed.read_file("a.txt").trim(), "a");
    let branches = sealed.run_git(&["branch", "--list", "wip/*", "--format=%(refname:short)"]);
    assert_eq!(branches.lines().count(), 1, "{branches}");
    assert_eq!(sealed.run_git(&["show", &format!("{}:bad", branches.trim())]), "x\n");
}

#[test]
fn a_server_that_accepts_only_branches_needs_another_prefix() {
    let world = HostWorld::new(&["a", "b"], json!({}));
    let hook = world.sealed.root().join("remote.git/hooks/update");
    fs::write(&hook, "#!/bin/sh\ncase $1 in refs/heads/*) ;; *) exit 1 ;; esac\n")
        .expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&hook, mode).expect("a mode");
    world.allow();
    let run = world.start_build(&over_git("--attached --ref-prefix refs/heads/ralph", "one"));
    run.wait_for_end().expect_code(0);
    let sealed = &world.sealed;
    let texts = ["a", "b"].map(|it| sealed.read_file(&format!("{it}.txt")));
    assert_eq!(texts, ["a\n", "b\n"]);
    let left = world.run_remote_git(&["for-each-ref", "--format=%(refname)", "refs/heads/ralph"]);
    assert!(left.lines().all(|it| it.contains("/bases/")), "{left}");
}

#[test]
fn no_secret_of_an_agent_reaches_the_remote() {
    const SECRET: &str = "tok-8f3a9c1e7b2d4f60";
    let leaks = |meet: &str| {
        let summary = format!("Wrote it with {SECRET}.");
        let handoff = json!({ "task_completed": { "summary": summary, "fully_complete": true } });
        let command = format!(
            "echo $RALPH_TASK >> {meet}/calls; echo $API_TOKEN; \
             while [ ! -e {meet}/go ]; do sleep 0.05; done; echo $RALPH_TASK > $RALPH_TASK.txt"
        );
        json!([{ "do": [{ "run": { "command": command } }, { "handoff": handoff }] }])
    };
    let world = HostWorld::with_agent(&["a"], &leaks, json!({}));
    let sealed = &world.sealed;
    let home = sealed.root().join("home/.config/ralph");
    fs::create_dir_all(&home).expect("a directory");
    let settings = json!({ "agent": { "env": { "API_TOKEN": SECRET } } });
    fs::write(home.join("settings.json"), settings.to_string()).expect("written");
    let run = world.start_build(&over_git("--attached", "one"));
    world.wait_for_calls(1);
    sealed.run_ralph(&["note", "--task", "a", &format!("Use {SECRET}.")]).expect_code(0);
    let job = || world.run_remote_git(&["log", "-p", "--all", "--", "job.json"]);
    wait_until("the note is pushed", || job().contains("Use "));
    world.allow();
    run.wait_for_end().expect_code(0);
    // Every object that was ever pushed: jobs, journals, results, and the work.
    let objects = world.run_remote_git(&["cat-file", "--batch-all-objects", "--batch"]);
    assert!(objects.contains("Wrote it with") && objects.contains("iteration_started"));
    assert!(!objects.contains(SECRET), "it is on the remote");
}

#[test]
fn the_spans_of_another_machine_are_part_of_the_trace() {
    let collector = Receiver::start_server(vec![ReceiverAnswer::with_status(200)]);
    let world = HostWorld::new(&["a"], json!({ "gates": [{ "command": "true" }] }));
    let sealed = &world.sealed;
    let home = sealed.root().join("home/.config/ralph");
    fs::create_dir_all(&home).expect("a directory");
    let settings = json!({ "otel": { "endpoint": collector.build_url("") } });
    fs::write(home.join("settings.json"), settings.to_string()).expect("written");
    world.allow();
    world.start_build(&over_git("--attached", "one")).wait_for_end().expect_code(0);
    let requests = collector.requests();
    let found = telemetry::spans(&requests);
    assert!(found.iter().all(|span| span["traceId"] == found[0]["traceId"]), "{found:#?}");
    let [worker] = telemetry::named(&found, "worker")[..] else { panic!("one: {found:#?}") };
    let machine = telemetry::attribute(worker, "ralph.worker.machine");
    assert_eq!(machine, Some(&json!({ "stringValue": "one" })));
    // The agent was called there, in an iteration of a run in the span of the worker.
    let parent = |span: &Value| {
        let of = |it: &&Value| it["spanId"] == span["parentSpanId"];
        found.iter().find(of).unwrap_or_else(|| panic!("the parent of {span:#}"))
    };
    let [call] = telemetry::named(&found, "invoke_agent sim")[..] else { panic!("{found:#?}") };
    let (iteration, run) = (parent(call), parent(parent(call)));
    assert_eq!(
        (&iteration["name"], &run["name"]),
        (&json!("iteration implement"), &json!("ralph run"))
    );
    assert_eq!(parent(run), worker);
    // The same again later.
    sealed.run_ralph(&["otel", "export"]).expect_code(0);
    let later = telemetry::spans(&collector.requests()[requests.len()..]);
    assert_eq!(telemetry::ids(&later), telemetry::ids(&found));
}
