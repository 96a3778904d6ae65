//! Which part of a long output reaches the next attempt, the records, the report and the screen.

use ralph_testkit::sealed::merge_into;
use serde_json::{Value, json};

use super::{build, commit_all, failure_branches, project, settings, task, worker};
use crate::repository;

/// A test run that prints 600 lines of noise around an early error, and its failure last.
const LONG_RUN: &str = "\
i=0; while [ $i -lt 300 ]; do echo \"line $i of the output\"; i=$((i+1)); done
echo 'src/early.c:3:4: error: the first error'
while [ $i -lt 600 ]; do echo \"line $i of the output\"; i=$((i+1)); done
echo 'FAILED tests/test_tokens.py::test_names - ImportError'
echo \"ImportError: cannot import name 'Token' (src/tokens.py)\"
exit 1
";

const LAST: &str = "ImportError: cannot import name 'Token' (src/tokens.py)";

/// What every view of the failure shows.
#[track_caller]
fn assert_shows_failure(text: &str) {
    assert!(text.contains(LAST), "{text}");
    assert!(text.contains("src/early.c:3:4: error: the first error"), "{text}");
    assert!(text.contains("line 0 of the output"), "{text}");
    assert!(!text.contains("line 400 of the output"), "{text}");
}

#[track_caller]
fn check_gate(set_up: impl FnOnce() -> ralph_testkit::sealed::Sealed) {
    let sealed = set_up();
    let finished = build(&sealed, &[]).expect_code(1);
    let screen = &finished.stderr;
    assert!(screen.contains("failing: tests/test_tokens.py::test_names"), "{screen}");
    assert!(screen.contains(LAST), "{screen}");
    assert!(screen.contains("the first error"), "{screen}");
    assert!(!screen.contains("line 0 of the output"), "{screen}");
    let prompt = &sealed.prompts()[1];
    assert_shows_failure(prompt);
    let message = prompt.split_once("failed with exit code 1.\n").expect("the message").1;
    let (before, output) = message.split_once("Output (truncated):\n").expect("the output");
    assert!(before.ends_with("Failing tests:\n- tests/test_tokens.py::test_names\n"), "{before}");
    let (output, _) = output.split_once("\n\n## Earlier attempts\n").expect("the attempts");
    assert!(output.chars().count() < 5_200, "{}", output.chars().count());
    let [branch] = &failure_branches(&sealed)[..] else { panic!("one failure branch") };
    let diagnostics = sealed.run_git(&["show", &format!("{branch}:ralph-failure.md")]);
    assert_shows_failure(&diagnostics);
    assert!(diagnostics.contains("- tests/test_tokens.py::test_names\n"), "{diagnostics}");
    let report = sealed.run_ralph(&["report"]).expect_code(0).stdout;
    assert!(report.contains("the first error"), "{report}");
}

fn twice(further: &Value) -> Value {
    let mut settings = settings(json!({ "tasks": { "maxAttempts": 2 }, "baseline": "off" }));
    merge_into(&mut settings, further);
    settings
}

#[test]
fn a_test_gate_shows_the_end_and_the_first_error_of_a_long_output() {
    check_gate(|| {
        let gates = json!({ "gates": [{ "kind": "test", "command": LONG_RUN }] });
        project(&[task("a", &[])], &worker(), &twice(&gates))
    });
}

#[test]
fn verify_commands_show_the_end_and_the_first_error_of_a_long_output() {
    check_gate(|| {
        let sealed = repository();
        sealed.write_script(&worker(), &twice(&json!({})));
        let plan = json!({
            "project": "p", "verify_commands": ["sh test.sh"], "tasks": [task("a", &[])]
        });
        sealed.write_file("plan.json", &plan.to_string());
        sealed.write_file("test.sh", LONG_RUN);
        commit_all(&sealed);
        sealed
    });
}

#[test]
fn a_long_output_that_names_missing_files_last_expands_the_context() {
    let further = json!({
        "gates": [{ "kind": "test", "command": LONG_RUN }],
        "tasks": { "maxAttempts": 8 },
        "stuck": { "after": 2, "strategyShifts": 1 }
    });
    let sealed = project(&[task("a", &[])], &worker(), &twice(&further));
    sealed.write_file("src/tokens.py", "KNOWN = 1\n");
    commit_all(&sealed);
    build(&sealed, &[]).expect_code(1);
    let shift = sealed.prompts().into_iter().find(|it| it.contains("## The same failure "));
    assert_shows_failure(&shift.expect("a shift of strategy"));
    let expanded = sealed.prompts().into_iter().find(|it| it.contains("### src/tokens.py"));
    assert!(expanded.expect("an expansion").contains("KNOWN = 1"));
}

#[test]
fn guardrail_output_keeps_its_first_lines_verbatim() {
    let further = json!({
        "guardrails": [{ "command": "echo 123456789; exit 1" }], "outputTruncateChars": 4
    });
    let sealed = project(&[task("a", &[])], &worker(), &twice(&further));
    build(&sealed, &[]).expect_code(1);
    let reported = "Guardrail \"echo 123456789; exit 1\" failed with exit code 1.\n\
                Output file: .ralph/guardrail_1_echo_123456789_exit_1.log\n\
                Output (truncated):\n1234... [truncated]";
    let prompt = &sealed.prompts()[1];
    assert!(prompt.contains(reported), "{prompt}");
}
