//! The format of scenario files.
//!
//! Not here: playing them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ralph_core::reading::{RateLimitStatus, TodoState, ToolOutcome};
use serde::Deserialize;

/// A scenario: what to do for each call.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// The version of the format; 1.
    #[serde(default = "first_version")]
    pub(super) version: u32,
    /// How it prints.
    #[serde(default)]
    pub(super) dialect: Dialect,
    /// Where calls are counted, relative to the scenario; `<scenario>.state` if absent.
    #[serde(default)]
    pub(super) state_file: Option<PathBuf>,
    /// The entries; the first that matches is played.
    pub(super) calls: Vec<Entry>,
}

/// A scenario could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file could not be read.
    #[error("cannot read scenario `{path}`: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is no scenario. The words name line and column.
    #[error("bad scenario `{path}`: {source}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        source: serde_json::Error,
    },
    /// It is of a version that this ralph does not know.
    #[error("scenario `{path}` has version {version}; this ralph knows version 1")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
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

fn first_version() -> u32 {
    1
}

/// How the agent prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Dialect {
    /// The common events, one a line.
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
pub(super) struct Entry {
    /// All of it must hold.
    #[serde(default)]
    pub(super) when: When,
    /// How often it can be played; without end if absent.
    #[serde(default)]
    pub(super) repeat: Option<u32>,
    /// What to do, in order.
    #[serde(rename = "do")]
    pub(super) deeds: Vec<Deed>,
}

/// Which calls an entry is for.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct When {
    /// What the call is for, such as `review`.
    pub(super) role: Option<String>,
    /// The number of the iteration.
    pub(super) iteration: Option<u32>,
    /// The number of the call within the iteration.
    pub(super) ask: Option<u32>,
    /// The id of the task.
    pub(super) task: Option<String>,
    /// The number of the call of this scenario, from 1.
    pub(super) call: Option<u32>,
    /// A text that the prompt contains.
    pub(super) prompt_contains: Option<String>,
    /// A text that the prompt does not contain.
    pub(super) prompt_lacks: Option<String>,
    /// A file that is there.
    pub(super) file_exists: Option<PathBuf>,
    /// A file that is not there.
    pub(super) file_missing: Option<PathBuf>,
}

/// One thing to do. Paths are relative to the directory the agent runs in.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub(super) enum Deed {
    /// Writes a file, with the directories on the way.
    Write { path: PathBuf, text: String },
    /// Adds to the end of a file.
    Append { path: PathBuf, text: String },
    /// Removes a file or a directory with all that is in it.
    Delete { path: PathBuf },
    /// Replaces a text in a file, which must be there.
    Edit { path: PathBuf, find: String, replace: String },
    /// Makes a directory.
    Mkdir { path: PathBuf },
    /// Makes a symbolic link.
    Symlink { path: PathBuf, to: PathBuf },
    /// Makes an empty file, as a mark for others.
    Touch(PathBuf),
    /// Runs a shell command.
    Run {
        command: String,
        #[serde(default)]
        show: Show,
        #[serde(default)]
        env: BTreeMap<String, String>,
    },
    /// Says something, as a message of its own.
    Text(String),
    /// Says one message in pieces.
    Delta(Vec<String>),
    /// Says something as a subagent.
    SubagentText(String),
    /// Thinks aloud.
    Reasoning(String),
    /// Calls a tool.
    Tool {
        name: String,
        #[serde(default)]
        summary: String,
        #[serde(default)]
        output: String,
        #[serde(default = "went_well")]
        outcome: ToolOutcome,
    },
    /// Asks for permission to call a tool, where the dialect can ask, and calls it.
    Permission(String),
    /// Shows a to-do list.
    Todo(Vec<Todo>),
    /// Reports figures of use.
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
    /// Shows a warning.
    Notice(String),
    /// Tells of a limit.
    RateLimit {
        status: RateLimitStatus,
        #[serde(default)]
        resets: Resets,
    },
    /// Ends the turn. A success comes by itself at the end.
    Result(Outcome),
    /// Ends the turn with a structured answer.
    Structured(serde_json::Value),
    /// Ends the turn with a handoff.
    Handoff(serde_json::Value),
    /// Ends the turn with a verdict. An approval without `criteria` gets an entry for each
    /// criterion in the prompt.
    Verdict(serde_json::Value),
    /// Says the completion tag with this text.
    Claim(String),
    /// Prints the prompt as it came.
    EchoPrompt,
    /// Waits this many seconds.
    Sleep(f64),
    /// Waits for a file, and gives up after some seconds.
    WaitFor {
        path: PathBuf,
        #[serde(default = "half_a_minute")]
        seconds: f64,
    },
    /// Never does anything again.
    Hang,
    /// Prints lines without content for ever.
    Chatter {
        #[serde(default = "a_tenth")]
        seconds: f64,
    },
    /// Ignores TERM and INT from now on.
    IgnoreTerm,
    /// Starts a process and leaves it behind.
    Grandchild {
        kind: Grandchild,
        /// Gets its process id; the agent goes on once it is there.
        pid_file: PathBuf,
        /// How long it lives.
        #[serde(default = "a_minute")]
        seconds: f64,
    },
    /// Says very much.
    Flood {
        bytes: usize,
        #[serde(default)]
        shape: Flood,
    },
    /// Prints bytes as they are.
    Garbage(Bytes),
    /// Prints a line to stderr.
    Stderr(String),
    /// Gives no result at the end.
    NoResult,
    /// Exits at once, without a result of its own.
    Exit(u8),
    /// Dies by a signal.
    Die(Signal),
}

/// Whether a command is shown as a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Show {
    /// It is not.
    #[default]
    Hidden,
    /// It is, with its output.
    Tool,
}

/// An entry of a to-do list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Todo {
    pub(super) text: String,
    pub(super) state: TodoState,
}

/// When a limit resets.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Resets {
    /// It does not say.
    #[default]
    Unknown,
    /// So many seconds from now.
    In(i64),
    /// At this second since the epoch.
    At(i64),
}

/// How a turn ends.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum Outcome {
    /// Well.
    Success,
    /// With an error.
    Error { class: ErrorClass, words: String },
}

/// The kinds of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ErrorClass {
    Crashed,
    Malformed,
    TurnLimit,
    RateLimited,
    Overloaded,
    NotLoggedIn,
    BadCall,
    ContextExceeded,
}

/// How a grandchild hides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Grandchild {
    /// Not at all.
    Plain,
    /// In a session of its own.
    OwnSession,
    /// It keeps the agent's stdout open.
    HoldStdout,
    /// In a session of its own, orphaned at once, without the agent's environment.
    Detached,
}

/// The shape of a flood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Flood {
    /// Many pieces of one message.
    #[default]
    Events,
    /// One line.
    Line,
}

/// Bytes as a scenario can hold them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Bytes {
    Text(String),
    Base64(String),
}

/// The signals an agent may die by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Signal {
    Hup,
    Int,
    Abrt,
    Kill,
    Segv,
    Term,
}

fn went_well() -> ToolOutcome {
    ToolOutcome::Ok
}

fn a_tenth() -> f64 {
    0.1
}

fn half_a_minute() -> f64 {
    30.0
}

fn a_minute() -> f64 {
    60.0
}
