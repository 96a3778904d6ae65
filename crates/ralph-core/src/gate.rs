//! Gates: the checks that ralph runs after the agent, their results, and the feedback after a
//! failure. `ralph-io`'s `gates` module runs the commands.

pub mod excerpt;

use serde::{Deserialize, Serialize};

use crate::child::{ChildEnd, Ending, SoftLimit};
use crate::empty_test_run::TestsSeen;
use crate::glob::Pattern;
use crate::ids::Role;
use crate::recipe::AgentChoice;
use crate::sandbox::gate_signs::SandboxSign;
use crate::stuck::ErrorHash;
use crate::text::Truncate;
use crate::units::Millis;

/// A check that is run after the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// Its name, unique in the recipe.
    pub name: String,
    pub kind: GateKind,
    pub check: GateCheck,
    /// Whether a failure keeps the work from being accepted.
    pub severity: Severity,
    /// Whether it runs after an earlier hard gate failed.
    pub persistence: GatePersistence,
    /// How its failure is added to the next prompt.
    pub fail_action: FailAction,
    /// Guidance for the agent on failure; never truncated.
    pub hint: Option<String>,
    /// Which part of a long output is added to the next prompt.
    pub truncate: Truncate,
    /// After this time ralph warns.
    pub soft_limit: Millis,
    /// After this time it is killed and has failed.
    pub hard_limit: Millis,
    /// The roles after which it runs; empty means all.
    pub roles: Vec<Role>,
    /// Whether a pass on the same tree is reused.
    pub reuse: GateReuse,
    /// Whether a test run without a single test may pass.
    #[serde(default)]
    pub empty: EmptyRun,
    /// The changed paths after which it runs; empty means any.
    #[serde(default)]
    pub paths: Vec<Pattern>,
}

impl Gate {
    /// Returns a hard gate with the default settings that runs a command.
    pub fn for_command(kind: GateKind, command: impl Into<String>) -> Self {
        let command = command.into();
        Self {
            name: command.clone(),
            kind,
            check: GateCheck::Command(command),
            severity: Severity::Hard,
            persistence: GatePersistence::WhenGreen,
            fail_action: FailAction::Append,
            hint: None,
            truncate: kind.default_truncation(),
            soft_limit: Millis::from_mins(5),
            hard_limit: Millis::from_mins(10),
            roles: Vec::new(),
            reuse: GateReuse::SameTree,
            empty: EmptyRun::Refused,
            paths: Vec::new(),
        }
    }
}

/// What a gate checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum GateKind {
    /// Tests: a run without any test fails.
    Test,
    /// Style and static checks.
    Lint,
    /// Whether the work does what was asked.
    Spec,
    /// Whether the work is good.
    Quality,
    /// Anything else.
    #[default]
    Custom,
}

impl GateKind {
    /// Returns which part of a long output is kept by default. Test runners print the failure last;
    /// other checkers print the first finding first.
    pub fn default_truncation(self) -> Truncate {
        match self {
            Self::Test => Truncate::Both,
            Self::Lint | Self::Spec | Self::Quality | Self::Custom => Truncate::Head,
        }
    }
}

/// What a gate runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateCheck {
    Command(String),
    /// A fresh agent that gives a verdict on the work.
    Agent(Box<AgentChoice>),
}

impl GateCheck {
    /// Returns the text that names the check in messages and file names.
    pub fn label(&self) -> &str {
        match self {
            Self::Command(command) => command,
            Self::Agent(agent) => &agent.command,
        }
    }
}

/// Whether a failed gate keeps the work from being accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Hard,
    /// Only a warning in the report.
    Soft,
}

/// Whether a gate runs after an earlier hard gate failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GatePersistence {
    /// It is skipped then.
    WhenGreen,
    Always,
}

/// Whether a pass on the same tree is reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateReuse {
    /// The same tree is not checked twice in a run.
    SameTree,
    Never,
}

/// Whether a test run without a single test may pass. Only matters for gates of kind test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmptyRun {
    /// The gate fails.
    #[default]
    Refused,
    /// The gate passes if its command does.
    Allowed,
}

/// How a failure is added to the next prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum FailAction {
    /// After the base text.
    Append,
    /// Before the base text.
    Prepend,
    /// Instead of the base text.
    Replace,
}

impl FailAction {
    /// Returns the name in settings and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Append => "APPEND",
            Self::Prepend => "PREPEND",
            Self::Replace => "REPLACE",
        }
    }
}

/// Which gates count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ValidationStrategy {
    /// All hard gates must pass.
    #[default]
    Strict,
    /// Tests must pass, lint only warns.
    Lenient,
    /// Only tests are run.
    TestsOnly,
}

impl ValidationStrategy {
    /// Returns how severe a gate is under this strategy; `None` if it is not run.
    pub fn find_severity(self, gate: &Gate) -> Option<Severity> {
        match (self, gate.kind) {
            (Self::Lenient, GateKind::Lint) => Some(Severity::Soft),
            (
                Self::TestsOnly,
                GateKind::Lint | GateKind::Spec | GateKind::Quality | GateKind::Custom,
            ) => None,
            (Self::Strict | Self::Lenient | Self::TestsOnly, _) => Some(gate.severity),
        }
    }
}

/// The result of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateResult {
    pub gate: String,
    pub command: String,
    pub severity: Severity,
    pub status: GateStatus,
    /// How the command ended; `None` if it was not run again.
    pub end: Option<ChildEnd>,
    /// The file with the whole output, relative to the project directory.
    pub log: Option<String>,
    /// The part of the output that is added to the next prompt.
    pub output: String,
    /// Identifies the failure; `None` unless it failed.
    #[serde(default)]
    pub hash: Option<ErrorHash>,
    /// The failed checks within the gate, if its output names them.
    #[serde(default)]
    pub failing: Vec<String>,
    /// Why it failed, if the exit code does not show it.
    #[serde(default)]
    pub reason: Option<String>,
    /// Evidence that the sandbox made it fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Box<SandboxSign>>,
}

impl GateResult {
    /// Returns whether this result keeps the work from being accepted.
    pub(crate) fn is_hard_failure(&self) -> bool {
        self.severity == Severity::Hard && self.status == GateStatus::Failed
    }

    /// Returns the exit code for messages. A signal is encoded as in a shell, and a timeout as in
    /// `timeout`.
    pub fn exit_code(&self) -> i32 {
        match self.end.as_ref().map(|end| &end.ending) {
            None => 0,
            Some(Ending::Exited { code }) => *code,
            Some(Ending::Signalled { signal }) => 128 + signal,
            Some(Ending::TimedOut { .. } | Ending::Lingered { .. }) => 124,
            Some(Ending::Interrupted { .. }) => 130,
            Some(Ending::NotStarted { .. }) => 127,
        }
    }

    /// Returns whether it ran past its soft limit.
    pub fn is_slow(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.soft_limit == SoftLimit::Passed)
    }
}

/// Whether a gate passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateStatus {
    Passed,
    /// It passed before on the same tree and was not run again.
    Cached,
    Failed,
}

/// Returns the feedback of a failed gate for the next iteration.
pub(crate) fn format_failure(hint: Option<&str>, result: &GateResult) -> String {
    let hint = hint.map(|hint| format!("Hint: {hint}\n")).unwrap_or_default();
    let log = result.log.as_ref().map(|log| format!("Output file: {log}\n")).unwrap_or_default();
    let failing = format_failing(&result.failing);
    let reason = result.reason.as_ref().map(|reason| match result.output.as_str() {
        "" => format!("[ralph] {reason}"),
        _ => format!("\n[ralph] {reason}"),
    });
    format!(
        "Guardrail \"{}\" failed with exit code {}.\n{hint}{log}{failing}Output (truncated):\n{}{}",
        result.command,
        result.exit_code(),
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
/// shows that no test ran.
pub fn explain_empty_run(gate: &Gate, seen: &TestsSeen) -> Option<String> {
    match (gate.kind, gate.empty, seen) {
        (GateKind::Test, EmptyRun::Refused, TestsSeen::NoneRan { line }) => {
            Some(format!("no test ran: `{line}`"))
        }
        (
            GateKind::Test | GateKind::Lint | GateKind::Spec | GateKind::Quality | GateKind::Custom,
            EmptyRun::Refused | EmptyRun::Allowed,
            TestsSeen::Ran | TestsSeen::NoneRan { .. } | TestsSeen::Unknown,
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
    use super::*;
    use crate::child::Leftovers;

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
            gate: "test".into(),
            command: "make test".into(),
            severity: Severity::Hard,
            status: GateStatus::Failed,
            end: Some(ChildEnd {
                ending: Ending::Exited { code },
                ran: Millis(3),
                soft_limit: SoftLimit::Kept,
                leftovers: Leftovers::default(),
            }),
            log: Some(".ralph/guardrail_1_make_test.log".into()),
            output: output.into(),
            hash: None,
            failing: Vec::new(),
            reason: None,
            sandbox: None,
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
