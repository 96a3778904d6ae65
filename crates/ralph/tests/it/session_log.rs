//! The session log through the built binary: its blocks, its figures, and that it is written
//! during the run.

use std::fs;
use std::path::PathBuf;

use expect_test::expect;
use ralph_testkit::sealed::{Finished, Sealed, wait_until};
use serde_json::{Value, json};

use crate::{always, done, first_then, repository, run, sealed};

/// Returns the session logs of a project, oldest first.
fn files(sealed: &Sealed) -> Vec<PathBuf> {
    let logs =
        fs::read_dir(sealed.project_dir().join(".ralph/logs")).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = logs
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().contains("/session-"))
        .collect();
    found.sort();
    found
}

/// Returns everything in the session logs of a project.
fn logged(sealed: &Sealed) -> String {
    files(sealed).iter().map(|path| fs::read_to_string(path).expect("readable")).collect()
}

/// Returns a log with every time and duration replaced.
fn timeless(log: &str) -> String {
    let timed = ["Start Time: ", "End Time: ", "Duration: ", "Total Duration: "];
    let line = |line: &str| match timed.iter().find(|name| line.starts_with(*name)) {
        Some(name) => format!("{name}...\n"),
        None => format!("{line}\n"),
    };
    log.lines().map(line).collect()
}

/// Returns the values of a field, in the order of the log.
fn values(log: &str, name: &str) -> Vec<String> {
    let lead = format!("{name}: ");
    log.lines().filter_map(|line| line.strip_prefix(&lead)).map(str::to_owned).collect()
}

#[test]
fn the_blocks_of_a_whole_session() {
    let sealed = sealed();
    let calls = json!([
        { "when": { "call": 1 }, "do": [{ "stderr": "segmentation fault" }, { "exit": 1 }] },
        { "when": { "call": 2 }, "do": [
            { "usage": { "input": 10, "cost": 0.25 } },
            { "text": "Looking." },
            { "tool": { "name": "Bash", "summary": "ls", "output": "no such file", "outcome": "error" } },
            { "usage": { "input": 10, "cost": 0.25 } },
            { "claim": "DONE" },
        ] },
        { "do": [{ "write": { "path": "ok", "text": "" } }, { "claim": "DONE" }] },
    ]);
    sealed.write_script(&calls, &json!({ "guardrails": [{ "command": "test -f ok" }] }));
    run(&sealed, &[]).expect_code(0);
    expect![[r"
        [warning] this is not a git repository: changes cannot be compared or undone
        [warning] there is no sandbox: agent and gates can do whatever you can
        ================================================================================
        ITERATION 1
        ================================================================================
        Mode: prompt
        Start Time: ...
        --------------------------------------------------------------------------------
        [notice] segmentation fault
        [crashed] exit code 1: segmentation fault
        Looking.
        [tool] Bash(ls)
        [tool error] no such file
        <response>DONE</response>
        [gate] test -f ok: failed with exit code 1
        --------------------------------------------------------------------------------
        ITERATION 1 COMPLETE
        End Time: ...
        Duration: ...
        API Requests: 2
        Model: sim
        Messages: 2
        Cost: $0.50
        Retries: 1
        Status: failed gates: test -f ok
        ================================================================================

        ================================================================================
        ITERATION 2
        ================================================================================
        Mode: prompt
        Start Time: ...
        --------------------------------------------------------------------------------
        <response>DONE</response>
        [gate] test -f ok: passed
        --------------------------------------------------------------------------------
        ITERATION 2 COMPLETE
        End Time: ...
        Duration: ...
        Model: sim
        Messages: 1
        Retries: 0
        Status: complete
        ================================================================================

        ================================================================================
        SESSION SUMMARY
        ================================================================================
        Total Iterations: 2
        Successful: 1
        Failed: 1
        Total Duration: ...
        Exit Reason: complete
        Exit Code: 0
        ================================================================================
    "]]
    .assert_eq(&timeless(&logged(&sealed)));
    let name = files(&sealed)[0].file_name().map(|name| name.to_string_lossy().into_owned());
    // The end of the run's id comes after the time.
    let name = name.expect("a name");
    let (time, _) = name.rsplit_once('-').expect("an end");
    let digits: String = time.chars().filter(char::is_ascii_digit).collect();
    assert_eq!(digits.len(), "YYYYMMDDHHMMSS".len());
}

#[test]
fn retries_that_are_used_up_end_the_run_with_their_number() {
    for most in [0, 2] {
        let sealed = sealed();
        sealed.write_script(&always(json!([{ "exit": 1 }])), &json!({}));
        let scenario = sealed.root().join("scenario.json");
        let config = format!(
            "AGENT_CLI=\"sim {}\"\nMAX_RETRIES={most}\nRALPH_RETRIES_BACKOFF=1ms\n",
            scenario.display()
        );
        sealed.write_file("config", &config);
        run(&sealed, &["--config", "config"]).expect_code(4);
        assert_eq!(sealed.find_events("asked").len(), most + 1);
        let log = logged(&sealed);
        assert_eq!(values(&log, "Retries"), [most.to_string()]);
        assert_eq!(values(&log, "Status"), ["failed: crashed"]);
        assert_eq!((values(&log, "Failed"), values(&log, "Exit Code")), (one("1"), one("4")));
    }
}

#[test]
fn retry_count_restarts_with_each_iteration() {
    let sealed = sealed();
    let calls = json!([
        { "when": { "call": 1 }, "do": [{ "exit": 1 }] },
        { "when": { "call": 2 }, "do": [{ "exit": 1 }] },
        { "when": { "call": 3 }, "do": [{ "text": "Hm." }] },
        { "when": { "call": 4 }, "do": [{ "exit": 1 }] },
        { "do": [{ "claim": "DONE" }] },
    ]);
    sealed.write_script(&calls, &json!({ "retries": { "max": 2, "backoff": "1ms" } }));
    run(&sealed, &[]).expect_code(0);
    let log = logged(&sealed);
    assert_eq!(values(&log, "Retries"), ["2", "1"]);
    assert_eq!(values(&log, "Status"), ["passed", "complete"]);
    assert_eq!(values(&log, "Successful"), ["2"]);
}

#[test]
fn rate_limit_wait_is_not_a_retry() {
    let sealed = sealed();
    let limited = json!([
        { "rateLimit": { "status": "rejected", "resets": { "in": 1 } } },
        { "result": { "error": { "class": "rateLimited", "words": "You've hit your limit" } } },
    ]);
    sealed.write_script(&first_then(limited, json!([{ "claim": "DONE" }])), &json!({}));
    run(&sealed, &[]).expect_code(0);
    let log = logged(&sealed);
    assert!(log.contains("[usage limit] You've hit your limit\n"), "{log}");
    assert_eq!(values(&log, "Retries"), ["0"]);
}

fn one(value: &str) -> Vec<String> {
    vec![value.to_owned()]
}

/// Whether the project is a repository.
#[derive(Clone, Copy)]
enum Place {
    Directory,
    Repository,
}

/// Plays calls to an end that the log must record.
#[track_caller]
fn check_end(place: Place, calls: Value, settings: Value, words: &[&str], expect: [&str; 4]) {
    let sealed = match place {
        Place::Directory => sealed(),
        Place::Repository => repository(),
    };
    sealed.write_script(&calls, &settings);
    sealed.write_file("PROMPT.md", "base");
    let words = [&["run", "-f", "PROMPT.md"], words].concat();
    let end = sealed.run_ralph(&words);
    check_summary(&sealed, &end, expect);
}

/// Compares counts, the beginning of the reason, code and last status with the log.
#[track_caller]
fn check_summary(sealed: &Sealed, end: &Finished, expect: [&str; 4]) {
    let project = sealed.project_dir().to_string_lossy().into_owned();
    let log = logged(sealed).replace(&project, "PROJECT");
    let last = |name: &str| values(&log, name).pop().unwrap_or_default();
    let counts =
        ["Total Iterations", "Successful", "Failed"].map(|name| values(&log, name).concat());
    let [counted, reason, code, status] = expect;
    assert_eq!([counts.join(" "), last("Exit Code"), last("Status")], [counted, code, status]);
    // The rest of git's message differs between versions.
    assert!(last("Exit Reason").starts_with(reason), "{log}");
    assert_eq!(end.code.map(|code| code.to_string()), Some(last("Exit Code")), "{}", end.stderr);
    assert!(log.ends_with(&format!("{}\n", "=".repeat(80))), "{log}");
}

#[test]
fn every_end_is_logged_with_its_exit_code() {
    use Place::Directory;
    let hm = || always(json!([{ "usage": { "input": 600, "cost": 0.3 } }, { "text": "Hm." }]));
    let error =
        |class: &str| always(json!([{ "result": { "error": { "class": class, "words": "no" } } }]));
    let limited = always(json!([
        { "rateLimit": { "status": "rejected", "resets": { "in": 90000 } } },
        { "result": { "error": { "class": "rateLimited", "words": "limit" } } },
    ]));
    let lost = always(json!([{ "delete": { "path": "PROMPT.md" } }, { "text": "Hm." }]));
    check_end(Directory, done(), json!({}), &[], ["1 1 0", "complete", "0", "complete"]);
    check_end(
        Directory,
        hm(),
        json!({}),
        &["-m", "2"],
        ["2 2 0", "not complete after 2 iterations", "1", "passed"],
    );
    check_end(
        Directory,
        hm(),
        json!({}),
        &["-m", "1", "--allow-incomplete"],
        ["1 1 0", "not complete after 1 iteration", "0", "passed"],
    );
    check_end(
        Directory,
        hm(),
        json!({}),
        &["--max-cost", "0.5"],
        ["2 2 0", "not complete: cost budget used up ($0.60 of $0.50)", "1", "passed"],
    );
    check_end(
        Directory,
        limited,
        json!({}),
        &[],
        [
            "1 0 0",
            "not complete: the usage limit resets too late (limit)",
            "1",
            "not finished: usage limit",
        ],
    );
    check_end(
        Directory,
        error("notLoggedIn"),
        json!({}),
        &[],
        [
            "1 0 1",
            "the agent failed (not logged in, asked 1 time): no",
            "4",
            "failed: not logged in",
        ],
    );
    check_end(
        Directory,
        error("turnLimit"),
        json!({}),
        &["-m", "2"],
        ["2 0 2", "not complete after 2 iterations", "1", "failed: turn or cost limit"],
    );
    check_end(
        Directory,
        lost,
        json!({}),
        &[],
        [
            "2 1 1",
            "cannot read the prompt file `PROJECT/PROMPT.md`: No such file or directory (os error 2)",
            "2",
            "failed: prompt lost",
        ],
    );
    check_end(
        Directory,
        done(),
        json!({ "baseline": "require", "guardrails": [{ "command": "false" }] }),
        &[],
        ["0 0 0", "not begun: `false` failed before any agent was asked", "1", ""],
    );
}

#[test]
fn failed_landing_is_not_a_success() {
    use Place::Repository;
    let scm = || json!({ "scm": { "command": "git", "tasks": ["commit", "push"] } });
    let with_message = |message: Value| {
        json!([
            { "when": { "role": "message" }, "do": [message] },
            { "do": [{ "write": { "path": "new", "text": "" } }, { "claim": "DONE" }] },
        ])
    };
    let dirty = ["--include-dirty"];
    // Without a message from the agent, ralph writes it.
    for message in [json!({ "result": "success" }), json!({ "text": "Add a file" })] {
        check_end(
            Repository,
            with_message(message),
            scm(),
            &dirty,
            ["1 0 1", "`git push` failed: fatal:", "5", "failed: source control"],
        );
    }
}

#[test]
fn interrupted_run_is_logged_and_resumes_in_a_new_session() {
    let sealed = sealed();
    let waiting = json!([{ "text": "Working." }, { "touch": "begun" }, "hang"]);
    sealed.write_script(&first_then(waiting, json!([{ "claim": "DONE" }])), &json!({}));
    let running = sealed.start_ralph(&["run", "-p", "base"]);
    sealed.wait_for("begun");
    let end = running.stop_at_once().expect_code(130);
    check_summary(&sealed, &end, ["1 0 0", "interrupted", "130", "interrupted"]);
    let before = files(&sealed);
    let log = logged(&sealed);
    assert!(log.contains("\nWorking.\n"), "{log}");
    // The file name contains seconds.
    let second = second_now();
    wait_until("another second", || second_now() != second);
    sealed.run_ralph(&["resume"]).expect_code(0);
    let after = files(&sealed);
    assert_eq!((before.len(), after.len()), (1, 2));
    expect![[r"
        [resumed] run ..., which began in an earlier session
        ================================================================================
        ITERATION 1
        ================================================================================
        Mode: prompt
        Start Time: ...
        --------------------------------------------------------------------------------
        [warning] there is no sandbox: agent and gates can do whatever you can
        <response>DONE</response>
        --------------------------------------------------------------------------------
        ITERATION 1 COMPLETE
        End Time: ...
        Duration: ...
        Model: sim
        Messages: 1
        Retries: 0
        Status: complete
        ================================================================================

        ================================================================================
        SESSION SUMMARY
        ================================================================================
        Total Iterations: 1
        Successful: 1
        Failed: 0
        Total Duration: ...
        Exit Reason: complete
        Exit Code: 0
        ================================================================================
    "]]
    .assert_eq(&{
        let id = sealed
            .runs()
            .pop()
            .expect("a run")
            .file_name()
            .map(|id| id.to_string_lossy().into_owned());
        let log = fs::read_to_string(&after[1]).expect("readable");
        timeless(&log.replace(&id.expect("an id"), "..."))
    });
}

fn second_now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("after 1970").as_secs()
}

#[test]
fn lines_are_there_while_the_agent_still_works() {
    let sealed = sealed();
    let actions = json!([
        { "text": "First words." },
        { "tool": { "name": "Bash", "summary": "make", "output": "" } },
        { "touch": "begun" },
        { "waitFor": { "path": "continue", "seconds": 50.0 } },
        { "claim": "DONE" },
    ]);
    sealed.write_script(&always(actions), &json!({}));
    let running = sealed.start_ralph(&["run", "-p", "base"]);
    sealed.wait_for("begun");
    wait_until("the log has the words", || logged(&sealed).ends_with("\n[tool] Bash(make)\n"));
    let log = logged(&sealed);
    assert!(log.contains("ITERATION 1\n") && log.contains("\nFirst words.\n"), "{log}");
    assert!(!log.contains("COMPLETE"), "{log}");
    sealed.write_file("continue", "");
    running.wait_for_end().expect_code(0);
    assert_eq!(values(&logged(&sealed), "Exit Code"), ["0"]);
}

#[test]
fn a_flood_leaves_room_for_the_footer() {
    let sealed = sealed();
    let actions =
        json!([{ "flood": { "bytes": 8_000_000, "shape": "events" } }, { "claim": "DONE" }]);
    sealed.write_script(&always(actions), &json!({}));
    run(&sealed, &["--quiet"]).expect_code(0);
    let log = logged(&sealed);
    assert!(log.len() < 6 << 20, "{}", log.len());
    assert_eq!(log.matches("`ralph log --raw` shows it").count(), 1);
    assert_eq!((values(&log, "Status"), values(&log, "Exit Code")), (one("complete"), one("0")));
}

#[test]
fn control_characters_in_agent_output_are_escaped() {
    let sealed = sealed();
    let text = "\u{1b}[2J\u{1b}]0;owned\u{7}gone\r\u{8}";
    sealed.write_script(&always(json!([{ "text": text }, { "claim": "DONE" }])), &json!({}));
    run(&sealed, &[]).expect_code(0);
    let log = logged(&sealed);
    assert!(log.chars().all(|it| it == '\n' || !it.is_control()), "{log:?}");
    assert!(log.contains("gone"), "{log}");
}

#[test]
fn log_level_controls_ralphs_own_log() {
    for (level, happens, why) in
        [("debug", true, true), ("info", true, false), ("warn", false, false)]
    {
        let sealed = sealed();
        sealed.write_script(&done(), &json!({ "log": { "level": level } }));
        run(&sealed, &[]).expect_code(0);
        let log =
            fs::read_to_string(sealed.project_dir().join(".ralph/logs/ralph.log")).expect("a log");
        assert!(log.contains("Run ended: complete"), "{level}: {log}");
        assert_eq!(log.contains("Iteration 1/10"), happens, "{level}: {log}");
        assert_eq!(log.contains("[ralph] "), why, "{level}: {log}");
    }
}

#[test]
fn files_of_two_runs_name_their_run() {
    let sealed = crate::repository();
    sealed.write_script(
        &serde_json::json!([{ "do": [{ "claim": "DONE" }] }]),
        &serde_json::json!({ "guardrails": [{ "command": "true" }] }),
    );
    let mut names = Vec::new();
    for _ in 0..2 {
        crate::run(&sealed, &["-m", "1"]).expect_code(0);
        let gates = sealed.read_file(".ralph/logs/validation/iter-1.json");
        let gates: serde_json::Value = serde_json::from_str(&gates).expect("JSON");
        let run = gates["run"].as_str().expect("a run").to_owned();
        assert!(sealed.runs().iter().any(|it| it.ends_with(&run)), "{run}");
        let end = run.rsplit('-').next().expect("an end").to_owned();
        let logs = std::fs::read_dir(sealed.project_dir().join(".ralph/logs")).expect("logs");
        let logs = logs.flatten().map(|it| it.file_name().to_string_lossy().into_owned());
        let of_run =
            |it: &String| it.starts_with("session-") && it.ends_with(&format!("-{end}.log"));
        assert_eq!(logs.filter(of_run).count(), 1, "{run}");
        names.push(run);
    }
    assert_ne!(names[0], names[1]);
}
