//! The scenes: whole runs of the built binary with a real CLI and a scripted model.
//!
//! Not here: which CLI plays which scene; that is the table in `main.rs`.

use std::path::Path;
use std::time::Duration;

use ralph_testkit::models::{ModelAnswer, ModelTurn, SchemaTreatment, TOKEN};
use ralph_testkit::sealed::Finished;
use rustix::process::Signal;
use serde_json::json;

use crate::cli::Cli;
use crate::stage::{DONE, Stage};

/// A command that starts a process in a session of its own and does not wait for it.
const LEAVES_A_PROCESS: &str = "setsid sleep 300 >/dev/null 2>&1 & echo left";

#[track_caller]
fn expect_end(stage: &Stage, end: &Finished, code: i32) {
    assert_eq!(end.code, Some(code), "{}\n{}", end.stderr, stage.account());
    stage.expect_silence();
}

/// A plain answer with the tag completes the work.
pub(crate) fn an_answer_completes_the_work(cli: Cli) {
    let Some(stage) = Stage::new(cli, |_| vec![ModelTurn::from_text(DONE)], &json!({})) else {
        return;
    };
    let end = stage.run();
    expect_end(&stage, &end, 0);
    stage.expect_events(&[("asked", 1), ("iteration_started", 1)]);
    assert!(end.stderr.contains("All is well."), "{}", end.stderr);
}

/// The model gets the error of a failed command and continues; what it then writes with its own
/// tool is there for the gate. The tag in the prompt, in a tool's output and in words before the
/// last completes nothing.
pub(crate) fn tools_work_and_only_the_final_answer_completes(cli: Cli) {
    let turns = |project: &Path| {
        let fails = cli.runs(&format!("echo '{DONE}'; ls /no-such-place; exit 3"));
        vec![
            fails.with_text(DONE),
            cli.writes(&project.join("made.txt"), "hello"),
            ModelTurn::from_text("I have seen it."),
        ]
    };
    let settings = json!({
        "maximumIterations": 1,
        "guardrails": [{ "command": "grep -q hello made.txt" }],
    });
    let Some(stage) = Stage::new(cli, turns, &settings) else { return };
    let end = stage.run();
    expect_end(&stage, &end, 1);
    stage.expect_events(&[("asked", 1), ("iteration_started", 1)]);
    let asked = stage.model.turn_requests();
    assert_eq!(asked.len(), 3, "{}", stage.account());
    let received = asked[1].body.to_string();
    assert!(received.contains("No such file"), "the model sees the error: {received}");
    assert!(end.stderr.contains("made.txt"), "the call is shown: {}", end.stderr);
    assert!(end.stderr.contains("Gate grep -q hello made.txt: passed"), "{}", end.stderr);
    assert!(end.stderr.contains("not complete after 1 iteration"), "{}", end.stderr);
}

/// A task of a list is done with the agent's own tool, and handed over as it was asked for: held
/// to a schema where the CLI has a way to, else in words.
pub(crate) fn a_task_is_handed_over_as_it_was_asked_for(cli: Cli) {
    let turns = |project: &Path| {
        vec![cli.writes(&project.join("made.txt"), "hello"), cli.hands_over(&handoff())]
    };
    let settings = json!({ "review": { "enabled": false } });
    let Some(stage) = Stage::new(cli, turns, &settings) else { return };
    let list = json!({
        "verifyCommands": ["grep -q hello made.txt"],
        "userStories": [{
            "id": "US-1",
            "title": "Greet",
            "description": "Write a greeting to made.txt.",
            "acceptanceCriteria": ["made.txt says hello"],
            "priority": 1,
            "passes": false,
        }],
    });
    stage.sealed.write_file("ralph/tasks.json", &format!("{list:#}"));
    let end = stage.sealed.start_ralph(&["build", "--include-dirty"]).wait_for_end();
    expect_end(&stage, &end, 0);
    let kept = stage.sealed.project_dir().join(".ralph/handoffs/handoff-001.json");
    let kept = std::fs::read_to_string(kept).expect("a handoff");
    let kept: serde_json::Value = serde_json::from_str(&kept).expect("JSON");
    assert_eq!(kept["derived"], json!(false), "{}", stage.account());
    assert_eq!(kept["architectural_notes"], handoff()["architectural_notes"]);
    assert_eq!(kept["files_touched"][0]["path"], "made.txt", "{kept}");
    let list = std::fs::read_to_string(stage.sealed.project_dir().join("ralph/tasks.json"));
    let list: serde_json::Value = serde_json::from_str(&list.expect("a list")).expect("JSON");
    assert_eq!(list["userStories"][0]["passes"], json!(true));
}

/// A task and its review, each under a schema that the real API takes: the model refuses others.
pub(crate) fn a_task_is_built_and_reviewed_under_schemas_that_the_api_takes(cli: Cli) {
    let turns = |project: &Path| {
        // Under a strict schema a model names every property.
        let mut whole = handoff();
        for absent in ["unfinished_business", "recommendations", "blocked"] {
            whole[absent] = serde_json::Value::Null;
        }
        vec![
            cli.writes(&project.join("made.txt"), "hello"),
            cli.hands_over(&whole),
            ModelTurn::from_text(verdict().to_string()),
        ]
    };
    let Some(stage) = Stage::new(cli, turns, &json!({})) else { return };
    build_one_story(&stage);
    let schemas: Vec<_> =
        stage.model.requests().into_iter().filter(|asked| has_schema(&asked.body)).collect();
    assert!(schemas.len() >= 2, "{}", stage.account());
    assert!(schemas.iter().all(|asked| asked.turn.is_some()), "{}", stage.account());
    stage.expect_events(&[("asked", 2)]);
}

/// An API that takes no schema at all is asked in words, after one refusal.
pub(crate) fn a_refused_schema_is_asked_for_in_words(cli: Cli) {
    let turns = |project: &Path| {
        let fenced =
            |value: &serde_json::Value| ModelTurn::from_text(format!("So:\n```json\n{value}\n```"));
        vec![cli.writes(&project.join("made.txt"), "hello"), fenced(&handoff()), fenced(&verdict())]
    };
    let Some(stage) = Stage::with_schemas(cli, SchemaTreatment::Refused, turns, &json!({})) else {
        return;
    };
    let end = build_one_story(&stage);
    let said = end.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("refuses the JSON Schema of the answer"), "{said}");
    let refused = stage.model.requests();
    let refused = refused.iter().filter(|asked| has_schema(&asked.body)).count();
    assert_eq!(refused, 1, "{}", stage.account());
    stage.expect_events(&[("asked", 3)]);
}

fn has_schema(body: &serde_json::Value) -> bool {
    body["text"]["format"]["type"] == "json_schema"
}

/// Runs the loop over a list with one story, which has to be done and approved.
fn build_one_story(stage: &Stage) -> Finished {
    let list = json!({
        "verifyCommands": ["grep -q hello made.txt"],
        "userStories": [{
            "id": "US-1",
            "title": "Greet",
            "description": "Write a greeting to made.txt.",
            "acceptanceCriteria": ["made.txt says hello"],
            "priority": 1,
            "passes": false,
        }],
    });
    stage.sealed.write_file("ralph/tasks.json", &format!("{list:#}"));
    let end = stage.sealed.start_ralph(&["build", "--include-dirty"]).wait_for_end();
    expect_end(stage, &end, 0);
    let list = stage.sealed.read_file("ralph/tasks.json");
    let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
    assert_eq!(list["userStories"][0]["passes"], json!(true), "{}", stage.account());
    end
}

/// A review in prose is asked for again, and the object that follows approves the work.
pub(crate) fn a_review_in_prose_gets_a_follow_up_question(cli: Cli) {
    let turns = |project: &Path| {
        vec![
            cli.writes(&project.join("made.txt"), "hello"),
            cli.hands_over(&handoff()),
            ModelTurn::from_text("made.txt says hello. Approved!"),
            cli.hands_over(&verdict()),
        ]
    };
    let Some(stage) = Stage::new(cli, turns, &json!({})) else { return };
    build_one_story(&stage);
    stage.expect_events(&[("iteration_started", 2)]);
    // Claude Code itself asks the model again. Qwen Code fails, and ralph repeats the call.
    stage.expect_events(&[("asked", if cli == Cli::Claude { 2 } else { 3 })]);
    if !matches!(cli, Cli::Claude | Cli::Qwen) {
        stage.expect_sent("Your last answer could not be used: it contains no JSON object");
        // All but Cline are asked in the same session, which has the answer.
        let said = "made.txt says hello. Approved!";
        let quoted = if cli == Cli::Cline { format!("> {said}") } else { said.to_owned() };
        stage.expect_sent(&quoted);
    }
}

/// A story whose reviewer first approves without evidence.
fn stage_unproven_approval(cli: Cli) -> Option<Stage> {
    let mut unproven = verdict();
    unproven["criteria"] = json!([]);
    let turns = |project: &Path| {
        vec![
            cli.writes(&project.join("made.txt"), "hello"),
            cli.hands_over(&handoff()),
            cli.hands_over(&unproven),
            cli.hands_over(&verdict()),
        ]
    };
    Stage::new(cli, turns, &json!({}))
}

/// An approval without evidence is asked for again in the same session: the model still has what
/// it was asked and what it answered, the follow-up does not quote it, and nothing is counted
/// twice.
pub(crate) fn a_follow_up_continues_the_session(cli: Cli) {
    let Some(stage) = stage_unproven_approval(cli) else { return };
    build_one_story(&stage);
    stage.expect_events(&[("asked", 3), ("iteration_started", 2)]);
    let (asked, replies) = (stage.sealed.find_events("asked"), stage.sealed.find_events("replied"));
    assert_eq!(asked[2]["session"], replies[1]["reply"]["session"], "{}", stage.account());
    let last = stage.model.turn_requests().pop().expect("a request").body.to_string();
    for text in ["You review another agent's work", "Your last answer could not be used"] {
        assert!(last.contains(text), "{text}: {last}");
    }
    assert!(!last.contains("This is what you answered"), "{last}");
    // Both reviews took one turn of the model, and cost the same.
    let tokens = |reply: &serde_json::Value| reply["reply"]["usage"]["output"].clone();
    assert_eq!(tokens(&replies[2]), tokens(&replies[1]), "{replies:#?}");
}

/// Removes the sessions of every CLI.
const FORGET: &str = "find \"$HOME\" -name '*.jsonl' -delete\n\
    find \"$HOME\" -name 'state_*.sqlite*' -delete\n\
    find \"$HOME\" -name 'opencode*.db*' -delete\n\
    find \"$HOME\" -type d \\( -name chats -o -name session-state -o -name sessions \\) -prune -exec rm -r {} +";

/// A session that is gone is not continued: the answer is quoted to a new one.
pub(crate) fn a_follow_up_to_a_lost_session_quotes_the_answer(cli: Cli) {
    // The first review removes the sessions of the CLI when it ends.
    let Some(stage) = stage_unproven_approval(cli) else { return };
    let program = cli.name();
    let real = std::fs::read_link(stage.sealed.bin_dir().join(program)).expect("a link");
    std::fs::remove_file(stage.sealed.bin_dir().join(program)).expect("removed");
    let forgetful =
        format!("#!/bin/sh\n'{}' \"$@\"\ncode=$?\n{FORGET}\nexit $code\n", real.display());
    stage.sealed.write_program(program, &forgetful);
    build_one_story(&stage);
    stage.expect_events(&[("asked", 4), ("iteration_started", 2)]);
    stage.expect_sent("This is what you answered");
}

fn verdict() -> serde_json::Value {
    json!({
        "token": TOKEN,
        "verdict": "approved",
        "feedback": "",
        "criteria": [
            { "criterion": "made.txt says hello", "met": true, "evidence": "It is there." },
        ],
    })
}

fn handoff() -> serde_json::Value {
    json!({
        "token": TOKEN,
        "task_completed": { "task_id": "US-1", "summary": "Wrote it.", "fully_complete": true },
        "deviations": [],
        "bugs_encountered": [],
        "architectural_notes": ["A greeting is one word."],
        "files_touched": [{ "path": "made-up.txt", "action": "created" }],
        "plan_amendments": [],
        "tests_added": [],
        "constraints_discovered": [],
    })
}

/// A usage limit that names its reset is waited for; it costs no iteration and no retry.
pub(crate) fn a_usage_limit_is_waited_for(cli: Cli) {
    let turns = |_: &Path| vec![ModelTurn::Limited { resets_in: Duration::from_secs(3) }, done()];
    let settings = json!({ "maximumIterations": 1, "retries": { "max": 0 } });
    let Some(stage) = Stage::new(cli, turns, &settings) else { return };
    let end = stage.run();
    expect_end(&stage, &end, 0);
    stage.expect_events(&[("asked", 2), ("waiting", 1), ("iteration_started", 1)]);
    assert!(end.stderr.to_lowercase().contains("usage limit"), "{}", end.stderr);
}

/// A usage limit that names no reset is waited for as well, and the wait can be ended.
pub(crate) fn a_limit_without_a_reset_is_waited_for(cli: Cli) {
    let turns = |_: &Path| vec![ModelTurn::Limited { resets_in: Duration::ZERO }; 30];
    let Some(stage) = Stage::new(cli, turns, &json!({})) else { return };
    let mut running = stage.start();
    running.wait_for("waiting");
    running.send_signal(Signal::INT);
    expect_end(&stage, &running.wait_for_end(), 130);
    stage.expect_events(&[("asked", 1), ("waiting", 1)]);
}

/// Servers that fail or are overloaded are asked again, within the same iteration; the plain
/// answer that comes at last completes the work. A limit that is over soon is waited out by some
/// agents themselves.
pub(crate) fn failing_servers_are_asked_again(cli: Cli) {
    let mut turns = vec![
        ModelTurn::from_refusal(500, "Internal error"),
        ModelTurn::from_refusal(529, "Overloaded"),
        done(),
    ];
    if cli.waits_for_short_limits() {
        turns.insert(0, ModelTurn::from_refusal(429, "Slow down."));
    }
    let requests = turns.len();
    let settings = json!({ "maximumIterations": 1, "retries": { "max": 2, "backoff": "50ms" } });
    let Some(stage) = Stage::new(cli, |_| turns, &settings) else { return };
    expect_end(&stage, &stage.run(), 0);
    let asked = if cli.repeats_by_itself() { 1 } else { 3 };
    stage.expect_events(&[("asked", asked), ("iteration_started", 1)]);
    assert_eq!(stage.model.turn_requests().len(), requests, "{}", stage.account());
}

/// What was said before a connection broke is no answer, even with the tag in it.
pub(crate) fn a_broken_stream_completes_nothing(cli: Cli) {
    let turns = |_: &Path| {
        let answer = ModelAnswer { text: DONE.to_owned(), tools: Vec::new() };
        vec![ModelTurn::Drop(answer), ModelTurn::from_text("Not yet.")]
    };
    let settings = json!({ "maximumIterations": 1 });
    let Some(stage) = Stage::new(cli, turns, &settings) else { return };
    expect_end(&stage, &stage.run(), 1);
    stage.expect_events(&[("iteration_started", 1)]);
    assert_eq!(stage.model.turn_requests().len(), 2, "{}", stage.account());
}

/// The words of a response that ends in order but has no stop reason are no answer.
pub(crate) fn an_answer_without_an_end_completes_nothing(cli: Cli) {
    let turns = |_: &Path| {
        let answer = ModelAnswer { text: DONE.to_owned(), tools: Vec::new() };
        vec![ModelTurn::EndEarly(answer), ModelTurn::from_text("Not yet.")]
    };
    let settings = json!({ "maximumIterations": 1 });
    let Some(stage) = Stage::new(cli, turns, &settings) else { return };
    expect_end(&stage, &stage.run(), 1);
    stage.expect_events(&[("asked", 2), ("iteration_started", 1)]);
    assert_eq!(stage.model.turn_requests().len(), 2, "{}", stage.account());
}

/// A broken stream is repeated within the same call, and what follows completes the work.
pub(crate) fn a_broken_stream_is_repeated(cli: Cli) {
    let turns = |_: &Path| {
        let half = ModelAnswer { text: "Half a sen".to_owned(), tools: Vec::new() };
        vec![ModelTurn::Drop(half), done()]
    };
    let Some(stage) = Stage::new(cli, turns, &json!({ "maximumIterations": 1 })) else { return };
    expect_end(&stage, &stage.run(), 0);
    stage.expect_events(&[("asked", 1), ("iteration_started", 1)]);
}

/// A key that is refused stops the run at once, with the words of the agent.
pub(crate) fn a_refused_key_stops_the_run(cli: Cli) {
    let turns = |_: &Path| vec![ModelTurn::from_refusal(401, "This key opens nothing."); 10];
    let Some(stage) = Stage::new(cli, turns, &json!({})) else { return };
    let end = stage.run();
    expect_end(&stage, &end, 4);
    stage.expect_events(&[("asked", 1)]);
    let words = cli.words_for_a_refused_key();
    assert!(end.stderr.contains(words), "no {words:?} in {}", end.stderr);
}

/// A model that falls silent is given up with the agent's whole tree; the loop continues.
pub(crate) fn silence_ends_the_tree_and_the_loop_continues(cli: Cli) {
    let half = ModelTurn::HangAfter(ModelAnswer { text: DONE.to_owned(), tools: Vec::new() });
    for silent in cli.all_or_first([half, ModelTurn::Hang]) {
        let turns = |_: &Path| vec![cli.runs(LEAVES_A_PROCESS), silent, done()];
        let idle = format!("{}s", cli.slowest_start().as_secs());
        // On a busy machine a CLI may also be silent for too long before its first request.
        let settings = json!({
            "timeouts": { "idle": idle },
            "maximumIterations": 6,
            "stuck": { "after": 9 },
        });
        let Some(stage) = Stage::new(cli, turns, &settings) else { return };
        let end = stage.run();
        expect_end(&stage, &end, 0);
        assert!(stage.sealed.find_events("asked").len() >= 2, "{}", stage.account());
        assert_eq!(stage.model.turn_requests().len(), 3, "{}", stage.account());
    }
}

/// The first signal lets the agent end its work; its answer is kept for `ralph resume`. What it
/// leaves running is ended all the same, and said.
pub(crate) fn the_first_signal_lets_the_agent_finish(cli: Cli) {
    for signal in cli.all_or_first([Signal::INT, Signal::TERM]) {
        let command =
            format!("{LEAVES_A_PROCESS}; touch begun; until test -f continue; do sleep 0.1; done");
        let turns = |_: &Path| vec![cli.runs(&command), done()];
        let Some(stage) = Stage::new(cli, turns, &json!({})) else { return };
        let mut running = stage.start();
        stage.sealed.wait_for("begun");
        running.send_signal(signal);
        running.wait_for("Received signal, shutting down...");
        stage.sealed.write_file("continue", "");
        let end = running.wait_for_end();
        expect_end(&stage, &end, 130);
        let is_said = end.stderr.contains("left behind");
        assert!(is_said || cli.ends_its_children(), "{}", end.stderr);
        stage.expect_events(&[("replied", 1)]);
        stage.sealed.run_ralph(&["resume"]).expect_code(0);
        stage.expect_events(&[("asked", 1)]);
    }
}

/// The second signal ends the agent in the middle of a command, with everything it started;
/// `ralph resume` asks again.
pub(crate) fn the_second_signal_ends_the_tree(cli: Cli) {
    for signal in cli.all_or_first([Signal::TERM, Signal::INT]) {
        let command = format!("{LEAVES_A_PROCESS}; touch begun; sleep 300");
        let turns = |_: &Path| vec![cli.runs(&command), done()];
        let Some(stage) = Stage::new(cli, turns, &json!({})) else { return };
        let mut running = stage.start();
        stage.sealed.wait_for("begun");
        running.send_signal(signal);
        running.wait_for("shutting down");
        running.send_signal(signal);
        expect_end(&stage, &running.wait_for_end(), 130);
        stage.sealed.run_ralph(&["resume"]).expect_code(0);
        stage.expect_events(&[("asked", 2), ("iteration_started", 1)]);
        stage.expect_silence();
    }
}

/// What the agent leaves running is ended, and said.
pub(crate) fn what_is_left_running_is_ended_and_said(cli: Cli) {
    let turns = |_: &Path| vec![cli.runs(LEAVES_A_PROCESS), done()];
    let Some(stage) = Stage::new(cli, turns, &json!({})) else { return };
    if cli == Cli::Codex {
        let unboxed = json!({ "agent": { "flags": ["--yolo"] } });
        stage.sealed.write_file(".ralph/settings.local.json", &unboxed.to_string());
        stage.sealed.trust_project(&[]);
    }
    let end = stage.run();
    expect_end(&stage, &end, 0);
    assert!(end.stderr.contains("left behind"), "{}", end.stderr);
}

fn done() -> ModelTurn {
    ModelTurn::from_text(DONE)
}
