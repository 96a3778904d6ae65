//! `ralph build --jobs`: several tasks at once, each in a real clone, with real worker processes.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ralph_testkit::sealed::{Sealed, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    assert_clean, assert_statuses, build, failure_branches, handoff, made, plan, project, settings,
    task, worker,
};
use crate::repository;

/// The clones of the project, by slot.
fn clones(sealed: &Sealed) -> Vec<PathBuf> {
    let root = sealed.state_dir().join("clones");
    let projects = fs::read_dir(root).into_iter().flatten().flatten();
    let slots = projects.flat_map(|project| fs::read_dir(project.path()).into_iter().flatten());
    let mut found: Vec<PathBuf> = slots.flatten().map(|slot| slot.path()).collect();
    found.retain(|path| path.is_dir());
    found.sort();
    found
}

/// Returns a project, and a directory outside of it where agents meet. The calls get its path.
pub(super) fn project_with_meeting(
    tasks: &[Value],
    calls: impl Fn(&str) -> Value,
    further: Value,
) -> (Sealed, String) {
    let sealed = repository();
    let meet = sealed.root().join("meet");
    fs::create_dir(&meet).expect("a directory");
    let meet = meet.to_string_lossy().into_owned();
    sealed.write_script(&calls(&meet), &settings(further));
    sealed.write_file("plan.json", &format!("{:#}\n", plan(tasks)));
    sealed.write_file("shared.txt", "start\n");
    sealed.commit_all("Settings");
    (sealed, meet)
}

/// The tasks whose commits landed, oldest first.
pub(super) fn landed(sealed: &Sealed) -> Vec<String> {
    let format = "--format=%(trailers:key=Ralph-Task,valueonly)";
    let log = sealed.run_git(&["log", "--reverse", format]);
    log.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
}

/// An agent that waits until as many others have begun, then writes its file.
fn meeting(sealed: &str, count: usize) -> Value {
    let command = format!(
        "touch {sealed}/began-$RALPH_TASK; i=0; while [ $(ls {sealed}/began-* | wc -l) -lt {count} ] && [ $i -lt 300 ]; \
         do sleep 0.05; i=$((i+1)); done; [ $i -lt 300 ] && echo \"$RALPH_TASK\" > \"$RALPH_TASK.txt\""
    );
    json!([{ "do": [{ "run": { "command": command } }, handoff("Wrote it.")] }])
}

#[test]
fn independent_tasks_run_at_the_same_time_and_land_one_by_one() {
    let tasks = [task("a", &[]), task("b", &[]), task("c", &[])];
    let gates = json!({ "gates": [{ "name": "there", "command": "test -d ." }] });
    let (sealed, _) = project_with_meeting(&tasks, |meet| meeting(meet, 3), gates);
    build(&sealed, &["--jobs", "3"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done"), ("b", "done"), ("c", "done")]);
    let mut done = landed(&sealed);
    done.sort();
    assert_eq!(done, ["a", "b", "c"]);
    assert_eq!(sealed.run_git(&["log", "--merges", "--format=%H"]), "");
    let read = |command: &str| -> Value {
        let text = sealed.run_ralph(&[command, "--json"]).expect_code(0).stdout;
        serde_json::from_str(&text).expect("JSON")
    };
    let report = read("report");
    assert_eq!(report["total"]["asks"], 3, "{report:#}");
    let stats = read("stats");
    assert_eq!(stats["total"]["calls"], 3, "{stats:#}");
    assert_eq!(stats["total"]["landed"], 3, "{stats:#}");
    assert_eq!(stats["gates"]["there"]["runs"], report["gates"][0]["runs"], "{stats:#}");
    assert!(report["gates"][0]["runs"].as_u64() >= Some(3), "{report:#}");
    for name in ["a", "b", "c"] {
        assert_eq!(sealed.read_file(&format!("{name}.txt")).trim(), name);
    }
    assert_clean(&sealed);
    assert_eq!(clones(&sealed).len(), 3);
    assert_eq!(sealed.survivors(), Vec::<String>::new());
}

#[test]
fn dependencies_wait_until_what_they_need_has_landed() {
    let tasks = [task("a", &[]), task("b", &["a"]), task("c", &["a"]), task("d", &["b", "c"])];
    let command =
        "case $RALPH_TASK in a) ;; d) cat b.txt c.txt ;; *) cat a.txt ;; esac > $RALPH_TASK.txt";
    let calls = json!([{ "do": [{ "run": { "command": command } }, handoff("Wrote it.")] }]);
    let sealed = project(&tasks, &calls, &settings(json!({})));
    build(&sealed, &["--jobs", "4"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done"), ("b", "done"), ("c", "done"), ("d", "done")]);
    let done = landed(&sealed);
    assert_eq!((done[0].as_str(), done[3].as_str()), ("a", "d"));
    assert_clean(&sealed);
}

/// An agent whose tasks `a` and `b` write the same line; with conflict markers in front of it, it
/// keeps both. `b` ends after `c` has begun, which writes a file of its own.
fn writers_of_one_file(meet: &str) -> Value {
    let resolve = "grep -v '^[<=>|]' shared.txt | sort > all && mv all shared.txt";
    let wait = format!(
        "i=0; while [ ! -e {meet}/began-c ] && [ $i -lt 300 ]; do sleep 0.05; i=$((i+1)); done"
    );
    let command = format!(
        "touch {meet}/began-$RALPH_TASK; if grep -q '<<<' shared.txt; then {resolve}; \
         elif [ $RALPH_TASK = c ]; then echo c > c.txt; \
         else [ $RALPH_TASK = a ] || {{ {wait}; }}; echo $RALPH_TASK > shared.txt; fi"
    );
    json!([{ "do": [{ "run": { "command": command } }, handoff("Wrote it.")] }])
}

#[test]
fn a_conflict_starts_the_task_again_with_the_merged_files() {
    // The status of `c` in the list changes between the landing of `a` and the conflict.
    let tasks = [task("a", &[]), task("b", &[]), task("c", &["a"])];
    let (sealed, _) = project_with_meeting(&tasks, writers_of_one_file, json!({}));
    build(&sealed, &["--jobs", "2"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done"), ("b", "done"), ("c", "done")]);
    let shared = sealed.read_file("shared.txt");
    assert!(shared.contains('a') && shared.contains('b'), "{shared}");
    assert!(!shared.contains("<<<"), "{shared}");
    let merged = sealed.find_events("candidate_merged");
    let is_conflict = |event: &&Value| event["outcome"]["is"] == "conflict";
    assert_eq!(merged.iter().filter(is_conflict).count(), 1, "{merged:#?}");
    assert_eq!(sealed.run_git(&["log", "--format=%s", "--", "c.txt"]).lines().count(), 1);
    assert_clean(&sealed);
}

#[test]
fn the_prompt_of_the_next_round_describes_the_merged_tree() {
    let tasks = [task("a", &[]), task("b", &[]), task("c", &["a"])];
    let (sealed, _) = project_with_meeting(&tasks, writers_of_one_file, json!({}));
    build(&sealed, &["--jobs", "2"]).expect_code(0);
    let rounds = sealed.find_events("job_assigned");
    let second = rounds.iter().map(|it| &it["assignment"]).find(|it| it["round"] == 2);
    let second = second.expect("a second round")["worker"].as_str().expect("a name").to_owned();
    let prompt = format!("{second}/agent-1.prompt.md");
    let runs = fs::read_dir(sealed.state_dir()).expect("state").flatten();
    let mut prompts = runs.map(|project| project.path().join("runs").join(&prompt));
    let prompt = prompts.find_map(|path| fs::read_to_string(path).ok()).expect("a prompt");
    for expected in [
        "conflict in shared.txt",
        "could not be merged with what had landed by then. Its author wrote: Wrote it.",
        "The last attempt was complete and passed its checks, but other tasks landed",
        "`>>>>>>>`): `shared.txt`. Resolve them so that the work of both sides is kept.",
    ] {
        assert!(prompt.contains(expected), "no {expected:?} in:\n{prompt}");
    }
    assert!(!prompt.contains("for you to keep or to undo"), "{prompt}");
}

#[test]
fn a_task_that_fails_leaves_the_others_alone() {
    let tasks = [task("a", &[]), task("b", &[])];
    let calls = json!([
        { "when": { "task": "b" }, "do": [{ "write": { "path": "bad", "text": "x" } }, handoff("Done.")] },
        worker()[0]
    ]);
    let further =
        json!({ "gates": [{ "command": "test ! -e bad" }], "tasks": { "maxAttempts": 2 } });
    let sealed = project(&tasks, &calls, &settings(further));
    build(&sealed, &["--jobs", "2"]).expect_code(1);
    assert_statuses(&sealed, &[("a", "done"), ("b", "failed")]);
    assert_eq!(landed(&sealed), ["a"]);
    assert_eq!(failure_branches(&sealed).len(), 1, "{:?}", failure_branches(&sealed));
}

#[test]
fn a_killed_run_takes_its_workers_with_it_and_is_resumed_without_paying_twice() {
    let tasks = [task("a", &[]), task("b", &[])];
    // The first call of each task hangs until the run was killed.
    let calls = |place: &str| {
        let command = format!(
            "echo x >> {place}/calls; if [ -e {place}/go ]; then echo $RALPH_TASK > $RALPH_TASK.txt; \
             else touch {place}/began-$RALPH_TASK; sleep 60; fi"
        );
        json!([{ "do": [{ "run": { "command": command } }, handoff("Wrote it.")] }])
    };
    let (sealed, place) = project_with_meeting(&tasks, calls, json!({}));
    let run = sealed.start_ralph(&["build", "--jobs", "2"]);
    let began = |name: &str| fs::exists(format!("{place}/began-{name}")).unwrap_or(false);
    wait_until("both agents work", || began("a") && began("b"));
    run.send_signal(Signal::KILL);
    let killed = Instant::now();
    run.wait_for_end();
    wait_until("no process is left", || sealed.survivors().is_empty());
    assert!(killed.elapsed() < Duration::from_secs(10));
    let status = sealed.run_ralph(&["status"]).expect_code(0).stdout;
    assert!(status.contains("Workers    0 of 2"), "{status}");
    fs::write(format!("{place}/go"), "").expect("written");
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done"), ("b", "done")]);
    // Two were cut off, two succeeded.
    let calls = fs::read_to_string(format!("{place}/calls")).expect("calls");
    assert_eq!(calls.lines().count(), 4);
    assert_eq!(made(&sealed).len(), 2, "{:?}", made(&sealed));
    assert_clean(&sealed);
}

#[test]
fn what_cannot_run_side_by_side_is_refused_before_an_agent_is_paid() {
    let tasks = [task("a", &[])];
    for (further, args, expected) in [
        (json!({ "tasks": { "keeper": "agent" } }), &[][..], "the agent keeps the task list"),
        (json!({ "commit": "agent" }), &[], "do not let ralph itself commit"),
        (json!({}), &["--include-dirty"], "--include-dirty"),
    ] {
        let sealed = project(&tasks, &worker(), &settings(further));
        let finished = build(&sealed, &[&["--jobs", "2"], args].concat()).expect_code(2);
        assert!(finished.stderr.contains(expected), "{}", finished.stderr);
        assert_eq!(sealed.runs(), Vec::<PathBuf>::new());
    }
}

/// What makes workers impossible, done to a project, and what ralph says.
type Obstacle = (fn(&Sealed), &'static str, &'static str);

/// The repositories that workers cannot have clones of.
const OBSTACLES: [Obstacle; 7] = [
    (
        |sealed| drop(sealed.run_git(&["checkout", "--quiet", "--detach"])),
        "HEAD is detached",
        "git switch -c work",
    ),
    (
        |sealed| {
            let commit = sealed.run_git(&["rev-parse", "HEAD"]);
            fs::write(sealed.project_dir().join(".git/shallow"), commit).expect("written");
        },
        "the repository is a shallow clone",
        "git fetch --unshallow",
    ),
    (
        |sealed| drop(sealed.run_git(&["sparse-checkout", "set", "--no-cone", "/*"])),
        "the work tree is a sparse checkout",
        "git sparse-checkout disable",
    ),
    (
        |sealed| {
            let module = "[submodule \"lib\"]\n\tpath = lib\n\turl = ../lib\n";
            sealed.write_file(".gitmodules", module);
            sealed.commit_all("A submodule");
        },
        "there are submodules",
        "parallel.setup",
    ),
    (
        |sealed| {
            sealed.write_file(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs\n");
            sealed.commit_all("Attributes");
        },
        "uses Git LFS",
        "--jobs 1",
    ),
    (
        |sealed| {
            sealed.run_git(&["config", "remote.origin.promisor", "true"]);
            sealed.run_git(&["config", "remote.origin.url", "elsewhere"]);
        },
        "a partial clone",
        "--jobs 1",
    ),
    (
        |sealed| {
            let mut settings: Value =
                serde_json::from_str(&sealed.read_file(".ralph/settings.json")).expect("JSON");
            settings["parallel"] = json!({ "keepFree": "900T" });
            sealed.write_file(".ralph/settings.json", &settings.to_string());
            sealed.commit_all("Much free space");
        },
        "must stay free",
        "parallel.directory",
    ),
];

#[test]
fn doctor_names_what_prevents_workers() {
    let tasks = [task("a", &[])];
    for (obstacle, expected, _) in &OBSTACLES[3..5] {
        let sealed = project(&tasks, &worker(), &settings(json!({})));
        let before = sealed.run_ralph(&["doctor"]).stdout;
        assert!(!before.contains("--jobs"), "{before}");
        obstacle(&sealed);
        let doctor = sealed.run_ralph(&["doctor", "--json"]).stdout;
        let facts: Value = serde_json::from_str(&doctor).expect("JSON");
        let mut checks = facts["checks"].as_array().expect("checks").iter();
        let jobs = checks.find(|it| it["name"] == "jobs").expect("a check");
        assert!(jobs["title"].as_str().is_some_and(|it| it.contains(expected)), "{jobs}");
    }
}

#[test]
fn commands_without_independent_tasks_refuse_jobs_with_the_reason() {
    let sealed = project(&[task("a", &[])], &worker(), &settings(json!({})));
    sealed.write_file("prompt.md", "Do it.\n");
    for words in [&["run", "-p", "x"][..], &["prompt", "prompt.md"], &["plan"]] {
        let refused = sealed.run_ralph(&[words, &["--jobs", "2"]].concat()).expect_code(2);
        refused.expect_stderr("there is no list of independent tasks");
        assert_eq!(sealed.runs(), Vec::<PathBuf>::new());
    }
}

#[test]
fn submodules_stay_empty_in_clones_or_are_set_up_without_a_sandbox() {
    let update = "git -c protocol.file.allow=always submodule --quiet update --init";
    for (setup, args, expected) in [
        ("true", &["--jobs", "2"][..], ""),
        (update, &["--jobs", "2", "--no-sandbox"][..], "content"),
    ] {
        let calls = |_: &str| {
            let command = "cat lib/file > $RALPH_TASK.txt || touch $RALPH_TASK.txt";
            json!([{ "do": [{ "run": { "command": command } }, handoff("Wrote it.")] }])
        };
        let further = json!({ "parallel": { "setup": setup } });
        let (sealed, _) = project_with_meeting(&[task("a", &[])], calls, further);
        let lib = sealed.root().join("lib");
        fs::create_dir(&lib).expect("a directory");
        let lib = lib.to_string_lossy().into_owned();
        sealed.run_git(&["-C", &lib, "init", "--quiet"]);
        fs::write(format!("{lib}/file"), "content\n").expect("written");
        sealed.run_git(&["-C", &lib, "add", "."]);
        sealed.run_git(&["-C", &lib, "commit", "--quiet", "-m", "File"]);
        let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &lib, "lib"];
        sealed.run_git(&add);
        sealed.commit_all("A submodule");
        sealed.trust_project(&[]);
        build(&sealed, args).expect_code(0);
        assert_eq!(sealed.read_file("a.txt").trim(), expected);
    }
}

#[test]
fn bad_input_is_refused_before_an_agent_is_paid() {
    let tasks = [task("a", &[]), task("b", &[])];
    for (obstacle, expected, hint) in OBSTACLES {
        let sealed = project(&tasks, &worker(), &settings(json!({})));
        obstacle(&sealed);
        let finished = build(&sealed, &["--jobs", "2"]).expect_code(2);
        finished.expect_stderr(expected).expect_stderr(hint);
        assert_eq!(sealed.runs(), Vec::<PathBuf>::new(), "{expected}");
        assert_statuses(&sealed, &[("a", "pending"), ("b", "pending")]);
    }
    let sealed = project(&tasks, &worker(), &settings(json!({})));
    build(&sealed, &["--jobs", "0"]).expect_code(2).expect_stderr("--jobs");
    assert_eq!(sealed.runs(), Vec::<PathBuf>::new());
}

#[test]
fn a_second_signal_and_stop_now_end_the_workers_at_once() {
    let tasks = [task("a", &[]), task("b", &[])];
    let calls = |meet: &str| {
        let command = format!(
            "touch {meet}/began-$RALPH_TASK; while [ ! -e {meet}/go ]; do sleep 0.05; done"
        );
        json!([{ "do": [{ "run": { "command": command } }, handoff("Waited.")] }])
    };
    for is_signal in [true, false] {
        let (sealed, meet) = project_with_meeting(&tasks, calls, json!({}));
        let mut running = sealed.start_ralph(&["build", "--jobs", "2"]);
        let has_begun = |task: &str| PathBuf::from(format!("{meet}/began-{task}")).exists();
        wait_until("both agents are at work", || has_begun("a") && has_begun("b"));
        if is_signal {
            running.send_signal(Signal::INT);
            running.wait_for("Ctrl-C again");
            running.send_signal(Signal::INT);
        } else {
            sealed.run_ralph(&["stop", "--now"]).expect_code(0);
        }
        // The agents would never end by themselves.
        running.wait_for_end().expect_code(130);
        assert_eq!(sealed.survivors(), Vec::<String>::new());
    }
}
