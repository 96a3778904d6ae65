//! Gates: the checks that ralph runs after the agent, and their results.

use serde::{Deserialize, Serialize};

use crate::agent::AgentChoice;
use crate::child::{ChildEnd, Ending};
use crate::glob::Pattern;
use crate::ids::Role;
use crate::sandbox::SandboxSign;
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum FailAction {
    /// After the base text.
    #[default]
    Append,
    /// Before the base text.
    Prepend,
    /// Instead of the base text.
    Replace,
}

impl FailAction {
    /// Every action.
    pub const ALL: [Self; 3] = [Self::Append, Self::Prepend, Self::Replace];

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
    /// How many tests ran, if the output of a known test runner says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<u64>,
    /// Whether an agent gave it as a verdict; then the exit code says nothing more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_verdict: bool,
}

/// How many tests a gate ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestNumbers {
    /// Before the run, or on the last work that was finished.
    pub before: u64,
    /// When it last passed.
    pub now: u64,
}

impl TestNumbers {
    /// Returns the numbers as text if fewer tests run now.
    pub fn describe_fall(self) -> Option<String> {
        let Self { before, now } = self;
        (now < before).then(|| format!("tests: {before} before, {now} now"))
    }
}

impl GateResult {
    /// Returns a result of which nothing else is known.
    pub fn new(
        gate: impl Into<String>,
        command: impl Into<String>,
        severity: Severity,
        status: GateStatus,
    ) -> Self {
        Self {
            gate: gate.into(),
            command: command.into(),
            severity,
            status,
            end: None,
            log: None,
            output: String::new(),
            hash: None,
            failing: Vec::new(),
            reason: None,
            sandbox: None,
            tests: None,
            is_verdict: false,
        }
    }

    /// Returns whether this result keeps the work from being accepted.
    pub fn is_hard_failure(&self) -> bool {
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
