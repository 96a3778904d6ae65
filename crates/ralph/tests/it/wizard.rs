//! The questions of `ralph init`, at a terminal.

use std::fs;

use expect_test::expect;
use ralph_testkit::sealed::Sealed;

use crate::typing::{Ended, Typist};
use crate::{repository, sealed};

const WORKFLOW: &str = "Workflow (prompt|specs|tasks) [prompt]: ";
const AGENT: &str = "Agent command (e.g., claude, codex, amp, or other LLM CLI): ";
const FLAGS: &str = "Agent flags (comma-separated, optional): ";
const ITERATIONS: &str = "Maximum iterations [10]: ";
const RESPONSE: &str = "Completion response [DONE]: ";
const GATE: &str = "Add gate command (leave blank to finish): ";
const FOUND: &str = "Gate: a number, `none`, another command, or Enter for all: ";
const ACTION: &str = "  Fail action (APPEND|PREPEND|REPLACE): ";
const HINT: &str = "  Hint (optional, guidance for agent on failure): ";
const REVIEWS: &str = "Reviews by another agent after the checks (spec, quality; optional): ";
const SCM: &str = "Configure SCM? (y/N): ";
const SCM_COMMAND: &str = "  SCM command (e.g., git): ";
const SCM_TASKS: &str = "  SCM tasks (comma-separated, e.g., commit,push): ";
const OVERWRITE: &str = "Overwrite? (y/N): ";

const NAME: &str = "Name of what is to be built [project]: ";

/// A question, and the line that answers it.
type Answer = (&'static str, &'static str);

/// The longest path through the questions for a prompt.
const ALL: [Answer; 13] = [
    (WORKFLOW, ""),
    (AGENT, "claude"),
    (FLAGS, "--model, opus"),
    (ITERATIONS, ""),
    (RESPONSE, ""),
    (GATE, "make lint"),
    (ACTION, "append"),
    (HINT, "Fix lint errors only. Do not change behavior."),
    (GATE, ""),
    (REVIEWS, ""),
    (SCM, "y"),
    (SCM_COMMAND, "git"),
    (SCM_TASKS, "commit"),
];

/// The longest paths through the questions of the other workflows.
const TASKS: [Answer; 11] = [
    (WORKFLOW, "tasks"),
    (NAME, "?!"),
    ("Enter one short line with a letter or a digit.\n", "Search in notes"),
    (AGENT, "claude"),
    (FLAGS, ""),
    ("Maximum iterations [15]: ", ""),
    (GATE, "make test"),
    (ACTION, "append"),
    (HINT, ""),
    (GATE, ""),
    (REVIEWS, ""),
];
const SPECS: [Answer; 7] = [
    (WORKFLOW, "specs"),
    (NAME, ""),
    (AGENT, "claude"),
    (FLAGS, ""),
    ("Maximum iterations [50]: ", "7"),
    ("Completion response [COMPLETE]: ", ""),
    (GATE, ""),
];

/// The shortest path through the questions for a prompt, with or without an answer before it.
fn quickly(before: Option<Answer>, agent: &'static str) -> Vec<Answer> {
    let questions = [WORKFLOW, AGENT, FLAGS, ITERATIONS, RESPONSE, GATE, SCM];
    let answers = questions.map(|question| (question, if question == AGENT { agent } else { "" }));
    before.into_iter().chain(answers).collect()
}

#[track_caller]
fn answer(sealed: &Sealed, columns: u16, answers: &[(&str, &str)]) -> Ended {
    let mut typist = Typist::start(sealed, &["init"], columns);
    for (question, line) in answers {
        typist.answer(question, line);
    }
    typist.end()
}

fn is_untouched(sealed: &Sealed) -> bool {
    fs::read_dir(sealed.project_dir()).expect("readable").count() == 0
}

#[test]
fn answers_become_settings() {
    let sealed = sealed();
    let end = answer(&sealed, 80, &ALL);
    assert_eq!(end.code, Some(0), "{}", end.seen);
    assert!(end.seen.contains("\n\nSettings written to .ralph/settings.json\n"), "{}", end.seen);
    assert!(end.seen.contains("After every iteration these must succeed: make lint\n"));
    expect![[r#"
        {
          "$schema": "./schema.json",
          "workflow": "prompt",
          "maximumIterations": 10,
          "completionResponse": "DONE",
          "outputTruncateChars": 5000,
          "streamAgentOutput": true,
          "agent": { "command": "claude", "flags": ["--model","opus"] },
          "gates": [
            { "kind": "test", "command": "make lint", "hint": "Fix lint errors only. Do not change behavior." }
          ],
          "scm": {
            "command": "git",
            "tasks": [
              "commit"
            ]
          }
        }
    "#]]
    .assert_eq(&sealed.read_file(".ralph/settings.json"));
    // The written settings are valid.
    sealed.run_ralph(&["doctor"]).expect_code(4);
}

#[test]
fn ctrl_c_and_the_end_of_input_write_nothing_at_any_question() {
    for answers in [&ALL[..], &TASKS, &SPECS] {
        for (at, (question, _)) in answers.iter().enumerate() {
            for key in ["\u{3}", "\u{4}"] {
                let sealed = sealed();
                let mut typist = Typist::start(&sealed, &["init"], 80);
                for (question, line) in &answers[..at] {
                    typist.answer(question, line);
                }
                typist.wait_for(question);
                typist.press(key);
                let end = typist.end();
                assert_eq!(end.code, Some(130), "{key:?} at {question:?}:\n{}", end.seen);
                assert!(end.seen.contains("Nothing was written."), "{}", end.seen);
                assert!(is_untouched(&sealed), "{key:?} at {question:?}");
            }
        }
    }
}

#[test]
fn invalid_answers_are_asked_again() {
    let sealed = sealed();
    sealed.write_file("Makefile", "test:\n\ttrue\n");
    let end = answer(
        &sealed,
        80,
        &[
            (WORKFLOW, "waterfall"),
            ("Enter prompt, specs or tasks.\nWorkflow (prompt|specs|tasks) [prompt]: ", "P"),
            (AGENT, "  "),
            ("An agent is needed.\n", "\u{1b}[A"),
            ("The input contains a control character.\n", "claude"),
            (FLAGS, " , "),
            (ITERATIONS, "many"),
            ("Enter a whole number, 1 or more.\nMaximum iterations [10]: ", "0"),
            (ITERATIONS, "-3"),
            (ITERATIONS, "25"),
            (RESPONSE, "  SHIPPED "),
            (
                "  1. make test (Makefile)\nGate: a number, `none`, another command, or Enter for all: ",
                "1",
            ),
            (ACTION, "after"),
            ("  Enter APPEND, PREPEND or REPLACE.\n", "Prepend"),
            (HINT, ""),
            (GATE, "7"),
            ("There is no such number.\n", "make lint"),
            (ACTION, ""),
            (HINT, ""),
            (GATE, ""),
            (REVIEWS, ""),
            (SCM, "y"),
            (SCM_COMMAND, ""),
            ("  A command is needed.\n", "git"),
            (SCM_TASKS, " commit , push,"),
        ],
    );
    assert_eq!(end.code, Some(0), "{}", end.seen);
    let settings = sealed.read_file(".ralph/settings.json");
    for part in [
        "\"maximumIterations\": 25,",
        "\"completionResponse\": \"SHIPPED\"",
        "\"agent\": { \"command\": \"claude\" }",
        "\"command\": \"make test\", \"failAction\": \"PREPEND\" }",
        "\"command\": \"make lint\" }",
        "\"commit\",\n      \"push\"\n    ]",
    ] {
        assert!(settings.contains(part), "{part}: {settings}");
    }
}

#[test]
fn enter_takes_what_was_found() {
    let sealed = sealed();
    sealed.write_file("Makefile", "test:\n\ttrue\nlint:\n\ttrue\n");
    for name in ["claude", "codex"] {
        sealed.write_program(name, "#!/bin/sh\necho '2.1.3'\n");
    }
    let agent = "Agent command (e.g., claude, codex, amp, or other LLM CLI) [claude]: ";
    let mut typist = Typist::start(&sealed, &["init"], 80);
    for (question, line) in [
        (WORKFLOW, ""),
        (agent, "9"),
        ("Enter the command of an agent, or a number of the list.\n", ""),
        (FLAGS, ""),
        (ITERATIONS, ""),
        (RESPONSE, ""),
        (FOUND, ""),
        (REVIEWS, ""),
        (SCM, ""),
    ] {
        typist.answer(question, line);
    }
    let end = typist.end();
    assert_eq!(end.code, Some(0), "{}", end.seen);
    let settings = sealed.read_file(".ralph/settings.json");
    assert!(settings.contains("\"agent\": { \"command\": \"claude\" }"), "{settings}");
    for kind in ["test", "lint"] {
        let gate = format!("{{ \"kind\": \"{kind}\", \"command\": \"make {kind}\" }}");
        assert!(settings.contains(&gate), "{settings}");
    }
}

#[test]
fn found_checks_can_be_refused() {
    let sealed = sealed();
    sealed.write_file("Makefile", "test:\n\ttrue\n");
    let mut answers = quickly(None, "amp");
    answers[5] = (FOUND, "none");
    assert_eq!(answer(&sealed, 80, &answers).code, Some(0));
    assert!(!sealed.read_file(".ralph/settings.json").contains("gates"));
}

#[test]
fn twenty_columns_are_enough() {
    let sealed = sealed();
    let end = answer(&sealed, 20, &quickly(None, "amp"));
    assert_eq!(end.code, Some(0), "{}", end.seen);
    assert!(!end.seen.contains('\u{1b}'), "{:?}", end.seen);
    let settings = sealed.read_file(".ralph/settings.json");
    assert!(!settings.contains("scm") && !settings.contains("gates"), "{settings}");
}

#[test]
fn init_without_a_terminal_asks_nothing() {
    let sealed = sealed();
    let end = sealed.run_ralph(&["init"]).expect_code(2);
    end.expect_stderr("there is no terminal").expect_stderr("ralph init --yes");
    assert!(is_untouched(&sealed));
}

#[test]
fn existing_settings_are_shown_before_they_are_replaced() {
    let sealed = sealed();
    let mine = "{\n  \"agent\": { \"command\": \"codex\", \"env\": { \"API_KEY\": \"sk-very-secret\" } },\n  \"maximumIterations\": 3\n}\n";
    sealed.write_file(".ralph/settings.json", mine);
    for line in ["", "n", "no", "x"] {
        let end =
            answer(&sealed, 80, &[("Loaded from .ralph/settings.json\nOverwrite? (y/N): ", line)]);
        assert_eq!(end.code, Some(0), "{}", end.seen);
        assert_eq!(sealed.read_file(".ralph/settings.json"), mine, "{line:?}");
    }
    sealed.write_file(".ralph/settings.local.json", "{ \"agent\": { \"command\": \"amp\" } }\n");
    let mut typist = Typist::start(&sealed, &["init"], 80);
    typist.wait_for(OVERWRITE);
    let shown = typist.seen.clone();
    typist.press("\u{3}");
    assert_eq!(typist.end().code, Some(130));
    expect![[r#"
        {
          "maximumIterations": 3,
          "agent": {
            "command": "amp",
            "env": {
              "API_KEY": "***"
            }
          }
        }
        Where each value is set:
          maximumIterations  .ralph/settings.json:3:24
          agent.command      .ralph/settings.local.json:1:25
          agent.env.API_KEY  .ralph/settings.json:2:54
        Loaded from .ralph/settings.json (with local overlay from settings.local.json)
        Overwrite? (y/N): "#]]
    .assert_eq(&shown);
    assert_eq!(sealed.read_file(".ralph/settings.json"), mine);
    let end = answer(&sealed, 80, &quickly(Some((OVERWRITE, "Y")), "claude"));
    assert_eq!(end.code, Some(0), "{}", end.seen);
    assert!(end.seen.contains("the old one is .ralph/settings.json.bak"), "{}", end.seen);
    assert_eq!(sealed.read_file(".ralph/settings.json.bak"), mine);
    assert!(sealed.read_file(".ralph/settings.json").contains("\"claude\""));
}

#[test]
fn settings_with_mistakes_can_be_replaced() {
    let sealed = sealed();
    sealed.write_file(".ralph/settings.json", "{ \"agnet\": 1 }");
    let end = answer(&sealed, 80, &quickly(Some(("unknown key `agnet`", "y")), "claude"));
    assert_eq!(end.code, Some(0), "{}", end.seen);
    sealed.run_ralph(&["doctor"]).expect_code(4);
}

#[test]
fn documents_of_the_other_workflows_are_made() {
    let sealed = repository();
    sealed.write_program("claude", "#!/bin/sh\necho '2.1.3 (Claude Code)'\n");
    let mut answers = TASKS;
    answers[3] = (
        "  1. claude 2.1.3\nAgent command (e.g., claude, codex, amp, or other LLM CLI) [claude]: ",
        "1",
    );
    let end = answer(&sealed, 80, &answers);
    assert_eq!(end.code, Some(0), "{}", end.seen);
    assert!(end.seen.contains("After every story these must succeed: make test\n"), "{}", end.seen);
    assert!(sealed.read_file("ralph/tasks.json").contains("ralph/search-in-notes"));
    assert!(!sealed.read_file(".ralph/settings.json").contains("maximumIterations"));
    sealed.run_ralph(&["tasks", "validate"]).expect_code(0);

    let sealed = repository();
    sealed.write_file("specs/search.md", "# Search\n");
    let mut answers = SPECS;
    answers[0] = ("Workflow (prompt|specs|tasks) [specs]: ", "");
    let end = answer(&sealed, 80, &answers);
    assert_eq!(end.code, Some(0), "{}", end.seen);
    let settings = sealed.read_file(".ralph/settings.json");
    assert!(
        settings.contains("\"workflow\": \"specs\",\n  \"maximumIterations\": 7,"),
        "{settings}"
    );
    assert!(!settings.contains("completionResponse"), "{settings}");
}

#[test]
fn a_dry_run_shows_what_the_answers_would_write() {
    let sealed = sealed();
    let mut typist = Typist::start(&sealed, &["init", "--dry-run"], 80);
    for (question, line) in ALL {
        typist.answer(question, line);
    }
    let end = typist.end();
    assert_eq!(end.code, Some(0), "{}", end.seen);
    assert!(end.seen.contains("would write  .ralph/settings.json\n    {\n"), "{}", end.seen);
    assert!(is_untouched(&sealed));
}

#[test]
fn a_project_with_packages_is_asked_whether_they_may_be_fetched() {
    const PACKAGES: &str = "once with `ralph trust` (y/N): ";
    for (line, expect) in [("", false), ("y", true)] {
        let sealed = sealed();
        sealed.write_file("go.mod", "module example.com/x\n");
        let end = answer(
            &sealed,
            200,
            &[
                (WORKFLOW, ""),
                (AGENT, "claude"),
                (FLAGS, ""),
                (ITERATIONS, ""),
                (RESPONSE, ""),
                (FOUND, "none"),
                (PACKAGES, line),
                (SCM, ""),
            ],
        );
        assert_eq!(end.code, Some(0), "{}", end.seen);
        let settings = sealed.read_file(".ralph/settings.json");
        assert_eq!(settings.contains("\"packages\": true"), expect, "{settings}");
    }
}

#[test]
fn gates_that_ask_an_agent_are_offered() {
    let sealed = sealed();
    let mut answers = TASKS.to_vec();
    answers.pop();
    answers.push((REVIEWS, "spec,taste"));
    answers.push(("Enter spec, quality, or both.\n", "spec, quality"));
    let end = answer(&sealed, 200, &answers);
    assert_eq!(end.code, Some(0), "{}", end.seen);
    let settings = sealed.read_file(".ralph/settings.json");
    for kind in ["spec", "quality"] {
        let gate = format!("{{ \"kind\": \"{kind}\", \"agent\": {{}} }}");
        assert!(settings.contains(&gate), "{settings}");
    }
}

#[test]
fn gates_that_cannot_run_are_asked_about() {
    let sealed = repository();
    let mut answers = ALL.to_vec();
    answers.splice(
        5..6,
        [
            (GATE, "no-such-linter run"),
            ("`no-such-linter` is not installed\n  Add it all the same? (y/N): ", ""),
            (GATE, "make lint"),
        ],
    );
    let end = answer(&sealed, 200, &answers);
    assert_eq!(end.code, Some(0), "{}", end.seen);
    let settings = sealed.read_file(".ralph/settings.json");
    assert!(settings.contains("make lint") && !settings.contains("no-such-linter"), "{settings}");

    let sealed = repository().with_sandbox();
    let store = sealed.root().join("home/.mystore");
    fs::create_dir_all(&store).expect("a directory");
    fs::write(store.join("lib.txt"), "a library").expect("written");
    sealed.write_file("Makefile", "test:\n\tcat ~/.mystore/lib.txt\n");
    let question = "Add it with {\"sandbox\":{\"home\":[\".mystore\"]}}? That needs `ralph trust` once (y/N): ";
    let end = answer(
        &sealed,
        200,
        &[
            (WORKFLOW, ""),
            (AGENT, "claude"),
            (FLAGS, ""),
            (ITERATIONS, ""),
            (RESPONSE, ""),
            (FOUND, ""),
            (question, "y"),
            (REVIEWS, ""),
            (SCM, ""),
        ],
    );
    assert_eq!(end.code, Some(0), "{}", end.seen);
    assert!(end.seen.contains("1. ralph trust "), "{}", end.seen);
    let settings: serde_json::Value =
        serde_json::from_str(&sealed.read_file(".ralph/settings.json")).expect("JSON");
    assert_eq!(settings["sandbox"]["home"], serde_json::json!([".mystore"]), "{settings:#}");
    assert_eq!(settings["gates"][0]["command"], "make test", "{settings:#}");
}
