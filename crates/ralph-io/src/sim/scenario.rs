//! The format of scenario files.
//!
//! Not here: playing them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ralph_model::agent_output::{RateLimitStatus, TodoState, ToolOutcome};
use serde::Deserialize;

/// A scenario: what to do for each call.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// The version of the format; 1.
    #[serde(default = "default_version")]
    pub(super) version: u32,
    #[serde(default)]
    pub(super) dialect: SimDialect,
    /// Where calls are counted, relative to the scenario; `<scenario>.state` if absent.
    #[serde(default)]
    pub(super) state_file: Option<PathBuf>,
    /// The entries; the first that matches is played.
    pub(super) calls: Vec<ScenarioEntry>,
}

/// Why a scenario cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    #[error("cannot read scenario `{path}`: {source}")]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// It is not a scenario. The source names line and column.
    #[error("bad scenario `{path}`: {source}")]
    Malformed { path: PathBuf, source: serde_json::Error },
    /// This ralph does not know its version.
    #[error("scenario `{path}` has version {version}; this ralph knows version 1")]
    Newer { path: PathBuf, version: u32 },
}

impl Scenario {
    /// Reads a scenario file.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ScenarioError::Unreadable { path: path.to_owned(), source })?;
        let scenario: Self = serde_json::from_str(&text)
            .map_err(|source| ScenarioError::Malformed { path: path.to_owned(), source })?;
        match scenario.version {
            1 => Ok(scenario),
            version => Err(ScenarioError::Newer { path: path.to_owned(), version }),
        }
    }
}

fn default_version() -> u32 {
    1
}

/// How the agent prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum SimDialect {
    /// ralph's own events, one per line.
    #[default]
    Sim,
    /// Claude Code's `stream-json`.
    Claude,
    /// Plain text.
    Text,
    /// The Agent Client Protocol.
    Acp,
    /// Amp's `--stream-json`.
    Amp,
    /// Cline's `--json`.
    Cline,
    /// Codex's `exec --json`.
    Codex,
}

/// What to do for calls that match.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ScenarioEntry {
    /// All conditions must hold.
    #[serde(default)]
    pub(super) when: CallCondition,
    /// How often it can be played; without limit if absent.
    #[serde(default)]
    pub(super) repeat: Option<u32>,
    #[serde(rename = "do")]
    pub(super) steps: Vec<ScenarioStep>,
}

/// Which calls an entry is for.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct CallCondition {
    /// The role of the call, such as `review`.
    pub(super) role: Option<String>,
    pub(super) iteration: Option<u32>,
    /// The number of the call within the iteration.
    pub(super) ask: Option<u32>,
    pub(super) task: Option<String>,
    /// The number of the call of this scenario, from 1.
    pub(super) call: Option<u32>,
    /// A text that the prompt contains.
    pub(super) prompt_contains: Option<String>,
    /// A text that the prompt does not contain.
    pub(super) prompt_lacks: Option<String>,
    /// A file that exists.
    pub(super) file_exists: Option<PathBuf>,
    /// A file that does not exist.
    pub(super) file_missing: Option<PathBuf>,
}

/// One step. Paths are relative to the directory the agent runs in.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub(super) enum ScenarioStep {
    /// Writes a file, and creates its parent directories.
    Write {
        path: PathBuf,
        text: String,
    },
    Append {
        path: PathBuf,
        text: String,
    },
    /// Removes a file, or a directory with its contents.
    Delete {
        path: PathBuf,
    },
    /// Replaces a text in a file. Fails if it is not there.
    Edit {
        path: PathBuf,
        find: String,
        replace: String,
    },
    Mkdir {
        path: PathBuf,
    },
    Symlink {
        path: PathBuf,
        to: PathBuf,
    },
    /// Creates an empty file, as a marker for others.
    Touch(PathBuf),
    /// Runs a shell command.
    Run {
        command: String,
        #[serde(default)]
        show: CommandDisplay,
        #[serde(default)]
        env: BTreeMap<String, String>,
    },
    /// Prints a message.
    Text(String),
    /// Prints one message in pieces.
    Delta(Vec<String>),
    /// Prints a message of a subagent.
    SubagentText(String),
    Reasoning(String),
    /// Calls a tool.
    Tool {
        name: String,
        #[serde(default)]
        summary: String,
        #[serde(default)]
        output: String,
        #[serde(default = "default_tool_outcome")]
        outcome: ToolOutcome,
    },
    /// Asks for permission to call a tool, if the dialect can ask, and calls it.
    Permission(String),
    Todo(Vec<ScriptedTodo>),
    /// Reports token usage.
    Usage {
        #[serde(default)]
        input: u64,
        #[serde(default)]
        output: u64,
        #[serde(default)]
        cache_read: u64,
        #[serde(default)]
        cache_write: u64,
        /// In dollars.
        #[serde(default)]
        cost: Option<f64>,
    },
    Notice(String),
    RateLimit {
        status: RateLimitStatus,
        #[serde(default)]
        resets: LimitReset,
    },
    /// Ends the turn. A success is the default at the end.
    Result(ScriptedOutcome),
    /// Ends the turn with a structured answer.
    Structured(serde_json::Value),
    /// Ends the turn with a handoff.
    Handoff(serde_json::Value),
    /// Ends the turn with a verdict. An approval without `criteria` gets an entry for each
    /// criterion in the prompt.
    Verdict(serde_json::Value),
    /// Prints the completion tag with this text.
    Claim(String),
    /// Prints the prompt as it came.
    EchoPrompt,
    /// Waits this many seconds.
    Sleep(f64),
    /// Waits for a file, and gives up after some seconds.
    WaitFor {
        path: PathBuf,
        #[serde(default = "default_wait_seconds")]
        seconds: f64,
    },
    /// Does nothing, forever.
    Hang,
    /// Prints lines without content, forever.
    Chatter {
        #[serde(default = "default_chatter_seconds")]
        seconds: f64,
    },
    /// Ignores TERM and INT from now on.
    IgnoreTerm,
    /// Starts a process and leaves it behind.
    Grandchild {
        kind: GrandchildKind,
        /// Gets its process id; the agent continues once it is written.
        pid_file: PathBuf,
        /// How long it lives.
        #[serde(default = "default_grandchild_seconds")]
        seconds: f64,
    },
    /// Prints a large amount of text.
    Flood {
        bytes: usize,
        #[serde(default)]
        shape: FloodShape,
    },
    /// Prints bytes unchanged.
    Garbage(ScriptedBytes),
    /// Prints a line to stderr.
    Stderr(String),
    /// Prints no result at the end.
    NoResult,
    /// Exits at once, without printing a result.
    Exit(u8),
    Die(DeathSignal),
}

/// Whether a command is printed as a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum CommandDisplay {
    /// Not printed.
    #[default]
    Hidden,
    /// Printed with its output.
    Tool,
}

/// An entry of a to-do list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptedTodo {
    pub(super) text: String,
    pub(super) state: TodoState,
}

/// When a limit resets.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum LimitReset {
    /// Not reported.
    #[default]
    Unknown,
    /// In this many seconds.
    In(i64),
    /// At this Unix time in seconds.
    At(i64),
}

/// How a turn ends.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum ScriptedOutcome {
    Success,
    Error { class: ScriptedErrorClass, words: String },
}

/// The kinds of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ScriptedErrorClass {
    Crashed,
    Malformed,
    TurnLimit,
    RateLimited,
    Overloaded,
    NotLoggedIn,
    BadCall,
    ContextExceeded,
}

/// How a grandchild evades cleanup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum GrandchildKind {
    /// Not at all.
    Plain,
    /// In a session of its own.
    OwnSession,
    /// It keeps the agent's stdout open.
    HoldStdout,
    /// In a session of its own, orphaned at once, without the agent's environment.
    Detached,
}

/// The form of a flood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum FloodShape {
    /// Many pieces of one message.
    #[default]
    Events,
    /// One line.
    Line,
}

/// Bytes in a scenario.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ScriptedBytes {
    Text(String),
    Base64(String),
}

/// The signals that an agent can be ended by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum DeathSignal {
    Hup,
    Int,
    Abrt,
    Kill,
    Segv,
    Term,
}

fn default_tool_outcome() -> ToolOutcome {
    ToolOutcome::Ok
}

fn default_chatter_seconds() -> f64 {
    0.1
}

fn default_wait_seconds() -> f64 {
    30.0
}

fn default_grandchild_seconds() -> f64 {
    60.0
}
