//! The output of gates: the feedback after a failure, and the names of log files.
//!
//! `ralph-io`'s `gates` module runs the commands.

pub mod excerpt;

use ralph_model::gate::{EmptyRun, Gate, GateKind, GateResult};

use crate::checking::empty_test_run::TestsSeen;

/// Returns the feedback of a failed gate for the next iteration.
pub(crate) fn format_failure(hint: Option<&str>, result: &GateResult) -> String {
    let hint = hint.map(|hint| format!("Hint: {hint}\n")).unwrap_or_default();
    let log = result.log.as_ref().map(|log| format!("Output file: {log}\n")).unwrap_or_default();
    let failing = format_failing(&result.failing);
    let sandbox = result.sandbox.as_ref().map(|sign| {
        let reason = &sign.reason;
        format!(
            "It failed because {reason}. Only the user can allow that: do not work around it.\n"
        )
    });
    let reason = result.reason.as_ref().map(|reason| match result.output.as_str() {
        "" => format!("[ralph] {reason}"),
        _ => format!("\n[ralph] {reason}"),
    });
    format!(
        "Guardrail \"{}\" failed with exit code {}.\n{}{hint}{log}{failing}Output (truncated):\n{}{}",
        result.command,
        result.exit_code(),
        sandbox.unwrap_or_default(),
        result.output,
        reason.unwrap_or_default()
    )
}

/// The most failing tests that are listed; the first ones are enough to start with.
const MOST_LISTED: usize = 20;

/// Returns the names of failing tests as a list under a heading; empty if none are known.
pub(crate) fn format_failing(names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let mut text = String::from("Failing tests:\n");
    for name in names.iter().take(MOST_LISTED) {
        text.push_str(&format!("- {name}\n"));
    }
    if names.len() > MOST_LISTED {
        text.push_str(&format!("- and {} more\n", names.len() - MOST_LISTED));
    }
    text
}

/// Returns why a gate failed although its command succeeded: it is a test gate, and its output
/// shows that no test ran, or that tests failed.
pub fn explain_false_pass(gate: &Gate, seen: &TestsSeen) -> Option<String> {
    match (gate.kind, gate.empty, seen) {
        (GateKind::Test, EmptyRun::Refused, TestsSeen::NoneRan { line }) => {
            Some(format!("no test ran: `{line}`"))
        }
        (GateKind::Test, EmptyRun::Refused, TestsSeen::Failed { line }) => {
            Some(format!("tests failed, although the command ended with 0: `{line}`"))
        }
        (
            GateKind::Test | GateKind::Lint | GateKind::Spec | GateKind::Quality | GateKind::Custom,
            EmptyRun::Refused | EmptyRun::Allowed,
            TestsSeen::Ran
            | TestsSeen::Failed { .. }
            | TestsSeen::NoneRan { .. }
            | TestsSeen::Unknown,
        ) => None,
    }
}

/// Returns the name of the file with a gate's whole output in the runtime directory.
pub fn format_log_name(iteration: u32, command: &str) -> String {
    format!("guardrail_{iteration}_{}.log", to_slug(command))
}

/// Keeps file names readable, and far from the limits of file systems.
const LONGEST_SLUG: usize = 50;

/// Returns a command as part of a file name: runs of characters other than letters and digits
/// become `_`, trimmed at both ends.
pub fn to_slug(command: &str) -> String {
    let mut slug = String::new();
    for character in command.chars() {
        if character.is_ascii_alphanumeric() {
            slug.push(character);
        } else if !slug.is_empty() && !slug.ends_with('_') {
            slug.push('_');
        }
    }
    slug.truncate(LONGEST_SLUG);
    let trimmed = slug.trim_end_matches('_');
    if trimmed.is_empty() { "gate".to_owned() } else { trimmed.to_owned() }
}

#[cfg(test)]
mod tests {
    use ralph_model::child::{ChildEnd, Ending};
    use ralph_model::gate::{GateStatus, Severity, ValidationStrategy};
    use ralph_model::units::Millis;

    use super::*;

    #[test]
    fn slugs_name_the_command() {
        for (command, expect) in [
            ("./mvnw clean install -T 2C", "mvnw_clean_install_T_2C"),
            ("make test", "make_test"),
            ("  ", "gate"),
            ("äöü", "gate"),
            ("a&&b", "a_b"),
        ] {
            assert_eq!(to_slug(command), expect, "{command}");
        }
        assert_eq!(to_slug(&"ab ".repeat(40)).len(), 50);
        assert_eq!(to_slug(&format!("{} x", "a".repeat(49))).len(), 49);
    }

    fn failed(code: i32, output: &str) -> GateResult {
        GateResult {
            end: Some(ChildEnd {
                ran: Millis(3),
                ..ChildEnd::from_ending(Ending::Exited { code })
            }),
            log: Some(".ralph/guardrail_1_make_test.log".into()),
            output: output.into(),
            ..GateResult::new("test", "make test", Severity::Hard, GateStatus::Failed)
        }
    }

    fn gate() -> Gate {
        Gate::for_command(GateKind::Test, "make test")
    }

    #[test]
    fn the_failure_message_is_word_for_word() {
        expect_test::expect![[r#"
            Guardrail "make test" failed with exit code 2.
            Hint: Fix the code, not the test.
            Output file: .ralph/guardrail_1_make_test.log
            Output (truncated):
            boom"#]]
        .assert_eq(&format_failure(Some("Fix the code, not the test."), &failed(2, "boom")));
        expect_test::expect![[r#"
            Guardrail "make test" failed with exit code 1.
            Output file: .ralph/guardrail_1_make_test.log
            Output (truncated):
        "#]]
        .assert_eq(&format_failure(None, &failed(1, "")));
    }

    #[test]
    fn the_failure_message_lists_failing_tests_before_the_output() {
        let result = GateResult {
            failing: vec!["tests.test_core.T.test_triple".into()],
            ..failed(1, "FAILED (failures=1)")
        };
        expect_test::expect![[r#"
            Guardrail "make test" failed with exit code 1.
            Output file: .ralph/guardrail_1_make_test.log
            Failing tests:
            - tests.test_core.T.test_triple
            Output (truncated):
            FAILED (failures=1)"#]]
        .assert_eq(&format_failure(None, &result));
        let names: Vec<String> = (0..23).map(|number| format!("t{number}")).collect();
        assert!(format_failing(&names).ends_with("- t19\n- and 3 more\n"));
    }

    #[test]
    fn the_failure_message_has_a_reason_besides_the_exit_code() {
        let mut result = GateResult {
            reason: Some("no test ran: `running 0 tests`".into()),
            ..failed(0, "running 0 tests")
        };
        expect_test::expect![[r#"
            Guardrail "make test" failed with exit code 0.
            Output file: .ralph/guardrail_1_make_test.log
            Output (truncated):
            running 0 tests
            [ralph] no test ran: `running 0 tests`"#]]
        .assert_eq(&format_failure(None, &result));
        result.output.clear();
        expect_test::expect![[r#"
            Guardrail "make test" failed with exit code 0.
            Output file: .ralph/guardrail_1_make_test.log
            Output (truncated):
            [ralph] no test ran: `running 0 tests`"#]]
        .assert_eq(&format_failure(None, &result));
    }

    #[test]
    fn strategies_set_the_severity_by_kind() {
        let lint = Gate { kind: GateKind::Lint, ..gate() };
        assert_eq!(ValidationStrategy::Strict.find_severity(&lint), Some(Severity::Hard));
        assert_eq!(ValidationStrategy::Lenient.find_severity(&lint), Some(Severity::Soft));
        assert_eq!(ValidationStrategy::TestsOnly.find_severity(&lint), None);
        assert_eq!(ValidationStrategy::TestsOnly.find_severity(&gate()), Some(Severity::Hard));
    }
}
