//! How a run ends, and its exit code.
//!
//! Not here: mistakes found before a run begins. The binary reports those itself.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::budget::ExhaustedBudget;
use crate::failure::Failure;
use crate::ids::TaskId;
use crate::sandbox::SandboxSign;
use crate::text::choose_plural;
use crate::units::Timestamp;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "end")]
pub enum Outcome {
    Complete,
    /// All iterations were used.
    IterationsUsedUp {
        limit: u32,
    },
    /// Too many consecutive iterations on a prompt passed the gates without changing
    /// anything.
    NothingChanges {
        iterations: u32,
        /// The answer that would have completed the run.
        tag: String,
    },
    /// Too many consecutive iterations on a prompt failed in the same way.
    SameFailure {
        iterations: u32,
        /// What refused the work: rules of ralph or gates.
        checks: Vec<String>,
    },
    /// A budget was used up.
    BudgetUsedUp {
        exhausted: ExhaustedBudget,
    },
    /// A usage limit would have taken longer to reset than the run may wait.
    LimitTooLong {
        resets_at: Option<Timestamp>,
        #[serde(rename = "words")]
        message: String,
    },
    /// The agent failed for good.
    AgentFailed {
        failure: Failure,
        /// Number of calls in the iteration that failed.
        asks: u32,
    },
    /// The agent gave no commit message; the changes are kept.
    NoCommitMessage,
    /// A source-control command failed.
    ScmFailed {
        command: String,
        output: String,
    },
    /// A git operation failed.
    GitFailed {
        message: String,
    },
    /// The prompt could not be read.
    PromptLost {
        message: String,
    },
    /// There is no plan to follow.
    PlanMissing,
    /// Tasks are left, and none of them can be worked on.
    TasksLeft {
        failed: Vec<TaskId>,
        /// The tasks that wait for those, or for skipped ones.
        waiting: Vec<TaskWait>,
    },
    /// All tasks are done, but the last review of these wanted changes.
    ApprovedAtCap {
        tasks: Vec<TaskId>,
    },
    /// A gate failed before the first agent call, and the settings require it to pass.
    BaselineBroken {
        gates: Vec<String>,
        /// Why the sandbox makes the first of them fail; that ends a run whatever the
        /// settings require.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sandbox: Option<Box<SandboxBlockedGate>>,
    },
    /// Gates fail only because of the sandbox, which no agent can fix. The work stays in the
    /// work tree, and the attempt is not counted.
    SandboxBlocked {
        /// The first of them.
        gate: Box<SandboxBlockedGate>,
    },
    /// The task list could not be read.
    TasksLost {
        message: String,
    },
    /// No worker can start: its clone cannot be made or set up, or there is too little disk space.
    WorkersFailed {
        message: String,
    },
    /// The work on a task waits to land, and files of the user are in its way.
    LandingBlocked {
        task: TaskId,
        message: String,
    },
    Interrupted,
}

/// A gate that cannot pass in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxBlockedGate {
    pub command: String,
    /// The evidence in its output.
    pub sign: SandboxSign,
}

/// A task that waits for another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskWait {
    pub task: TaskId,
    pub on: TaskId,
}

impl Outcome {
    /// Returns the exit code.
    pub fn exit_code(&self) -> ExitStatus {
        match self {
            Self::Complete => ExitStatus::Complete,
            Self::IterationsUsedUp { .. }
            | Self::NothingChanges { .. }
            | Self::SameFailure { .. }
            | Self::BudgetUsedUp { .. }
            | Self::LimitTooLong { .. }
            | Self::TasksLeft { .. }
            | Self::ApprovedAtCap { .. }
            | Self::BaselineBroken { .. }
            | Self::SandboxBlocked { .. } => ExitStatus::Incomplete,
            Self::PromptLost { .. }
            | Self::PlanMissing
            | Self::TasksLost { .. }
            | Self::WorkersFailed { .. } => ExitStatus::BadInput,
            Self::AgentFailed { .. } | Self::NoCommitMessage => ExitStatus::AgentFailed,
            Self::ScmFailed { .. } | Self::GitFailed { .. } | Self::LandingBlocked { .. } => {
                ExitStatus::GitFailed
            }
            Self::Interrupted => ExitStatus::Interrupted,
        }
    }

    /// Returns whether `ralph resume` can continue the run.
    pub fn is_resumable(&self) -> bool {
        *self != Self::Complete
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete => f.write_str("complete"),
            Self::IterationsUsedUp { limit } => {
                let plural = choose_plural(*limit as usize);
                write!(f, "not complete after {limit} iteration{plural}")
            }
            Self::NothingChanges { iterations, tag } => write!(
                f,
                "not complete: the last {iterations} iterations passed the checks and changed nothing, and none completed the work with {tag}"
            ),
            Self::SameFailure { iterations, checks } => write!(
                f,
                "not complete: stuck, the last {iterations} iterations failed for the same reason ({})",
                checks.join(", ")
            ),
            Self::BudgetUsedUp { exhausted } => write!(f, "not complete: {exhausted}"),
            Self::LimitTooLong { message, .. } => {
                write!(f, "not complete: the usage limit resets too late ({message})")
            }
            Self::AgentFailed { failure, asks } => write!(
                f,
                "the agent failed ({}, asked {asks} time{}): {}",
                failure.class.name(),
                choose_plural(*asks as usize),
                failure.message
            ),
            Self::NoCommitMessage => {
                f.write_str("the agent gave no commit message; the changes are kept, uncommitted")
            }
            Self::ScmFailed { command, output } => write!(f, "`{command}` failed: {output}"),
            Self::GitFailed { message } => write!(f, "git failed: {message}"),
            Self::PromptLost { message } | Self::TasksLost { message } => f.write_str(message),
            Self::PlanMissing => f.write_str(PLAN_MISSING),
            Self::TasksLeft { failed, waiting } => {
                f.write_str("not complete: ")?;
                match failed.as_slice() {
                    [] => f.write_str("no task can be worked on")?,
                    [task] => write!(f, "task {task} failed")?,
                    tasks => write!(f, "{} tasks failed: {}", tasks.len(), join_ids(tasks))?,
                }
                for (place, waits) in waiting.iter().enumerate() {
                    let before = if place == 0 { "; " } else { ", " };
                    write!(f, "{before}{} waits for {}", waits.task, waits.on)?;
                }
                Ok(())
            }
            Self::ApprovedAtCap { tasks } => write!(
                f,
                "all tasks are done, but the last review allowed still wanted changes in {}; check {} yourself",
                join_ids(tasks),
                if tasks.len() == 1 { "it" } else { "them" }
            ),
            Self::BaselineBroken { gates, sandbox } => {
                let gates = gates.iter().map(|gate| format!("`{gate}`")).collect::<Vec<_>>();
                write!(f, "not begun: {} failed before any agent was asked", gates.join(", "))?;
                match sandbox.as_deref() {
                    Some(SandboxBlockedGate { sign, .. }) => {
                        write!(f, ", because {} ({})", sign.reason, sign.line)
                    }
                    None => Ok(()),
                }
            }
            Self::SandboxBlocked { gate } => {
                let SandboxBlockedGate { command, sign } = gate.as_ref();
                let SandboxSign { reason, line, .. } = sign;
                write!(
                    f,
                    "not complete: `{command}` fails because {reason} ({line}); the work is kept, and the attempt does not count"
                )
            }
            Self::WorkersFailed { message } => write!(f, "no worker can start: {message}"),
            Self::LandingBlocked { task, message } => {
                write!(f, "the work on {task} waits to land: {message}")
            }
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

/// The message for a missing plan.
pub const PLAN_MISSING: &str = "Implementation plan not found. Run 'ralph plan' first.";

fn join_ids(tasks: &[TaskId]) -> String {
    tasks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The documented exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    Complete,
    /// It stopped before completion.
    Incomplete,
    /// Bad settings, arguments or input files.
    BadInput,
    /// Another run is active in this directory.
    Busy,
    /// The agent failed or cannot run.
    AgentFailed,
    /// A git operation failed.
    GitFailed,
    Interrupted,
}

impl ExitStatus {
    /// Returns the number.
    pub fn code(self) -> u8 {
        match self {
            Self::Complete => 0,
            Self::Incomplete => 1,
            Self::BadInput => 2,
            Self::Busy => 3,
            Self::AgentFailed => 4,
            Self::GitFailed => 5,
            Self::Interrupted => 130,
        }
    }
}
