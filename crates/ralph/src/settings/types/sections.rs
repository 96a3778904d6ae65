//! The smaller sections: task list, review, memory, context, commits, screen.
//!
//! Not here: agents, gates, limits and the sandbox; they have files of their own.

use std::borrow::Cow;
use std::fmt;

use clap::ValueEnum;
use ralph_model::amendment::AmendmentPolicy;
use ralph_model::task::ListOwner;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

/// What a run works on.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WorkflowSetting {
    /// One prompt, again and again.
    #[default]
    Prompt,
    /// A specs folder with its implementation plan.
    Specs,
    /// A task list.
    Tasks,
}

impl WorkflowSetting {
    /// Every workflow, in the order of the question.
    pub(crate) const ALL: [Self; 3] = [Self::Prompt, Self::Specs, Self::Tasks];

    /// Returns its name in the settings.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Specs => "specs",
            Self::Tasks => "tasks",
        }
    }
}

/// Who commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CommitSetting {
    /// Ralph, after the gates passed.
    Ralph,
    /// The agent; ralph checks the result.
    Agent,
    /// Neither: nothing is committed.
    None,
}

/// Secrets in what is committed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SecretsSettings {
    /// Globs of files in which text that only looks like a secret may be committed.
    pub(crate) allow: Vec<String>,
}

/// The task list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct TaskSettings {
    /// Its file. Not set: `ralph/tasks.json`, then `plan.json`.
    pub(crate) file: Option<String>,
    /// Who writes it.
    pub(crate) keeper: ListOwner,
    /// How many attempts a task gets.
    #[schemars(range(min = 1))]
    pub(crate) max_attempts: u32,
    /// How many changes to the list one iteration may make; others become proposals.
    pub(crate) max_amendments: u32,
    /// Which changes that agents ask for are applied without asking you.
    pub(crate) amendments: AmendmentPolicy,
    /// What to do when the list names another branch than the one that is checked out.
    pub(crate) branch: BranchSetting,
}

/// What to do when a task list names another branch than the one that is checked out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BranchSetting {
    /// Ask on a terminal, else warn.
    #[default]
    Ask,
    /// Switch to it, and create it if it does not exist.
    Use,
    /// Stay on the branch, without a warning.
    Ignore,
}

impl Default for TaskSettings {
    fn default() -> Self {
        Self {
            file: None,
            keeper: ListOwner::default(),
            max_attempts: 5,
            max_amendments: 3,
            amendments: AmendmentPolicy::default(),
            branch: BranchSetting::default(),
        }
    }
}

/// The review of finished tasks by a fresh agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ReviewSettings {
    /// Whether tasks are reviewed.
    pub(crate) enabled: bool,
    /// After how many reviews a task is approved anyway, and marked.
    #[schemars(range(min = 1))]
    pub(crate) cap: u32,
}

impl Default for ReviewSettings {
    fn default() -> Self {
        Self { enabled: true, cap: 5 }
    }
}

/// Commands of the version control system after a passing iteration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ScmSettings {
    /// The program, such as `git`.
    #[schemars(length(min = 1))]
    pub(crate) command: Option<String>,
    /// Its subcommands in order, such as `commit` and `push`.
    pub(crate) tasks: Vec<String>,
}

/// Compaction of what earlier iterations learned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct MemorySettings {
    /// Whether it is on. Not set: yes for task lists.
    pub(crate) enabled: Option<bool>,
    /// Compacts after this many coding iterations.
    #[schemars(range(min = 1))]
    pub(crate) every_iterations: u32,
    /// Compacts when the handoffs since the last time are larger than this.
    pub(crate) threshold_bytes: u64,
    /// How many turns the compacting agent gets. Not set: as many as it takes.
    #[schemars(range(min = 1))]
    pub(crate) max_turns: Option<u32>,
}

impl Default for MemorySettings {
    fn default() -> Self {
        Self { enabled: None, every_iterations: 5, threshold_bytes: 32_000, max_turns: None }
    }
}

/// Token budgets of prompts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ContextSettings {
    /// Tokens of a whole prompt.
    #[schemars(range(min = 1))]
    pub(crate) budget_tokens: u64,
    /// Tokens of each section.
    pub(crate) sections: ContextSectionSettings,
    /// Tokens of the model's context window. Not set: what the model's name says.
    #[schemars(range(min = 1))]
    pub(crate) window: Option<u64>,
}

impl Default for ContextSettings {
    fn default() -> Self {
        Self { budget_tokens: 8000, sections: ContextSectionSettings::default(), window: None }
    }
}

/// Tokens of each section of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ContextSectionSettings {
    /// The task: id, title, description, acceptance criteria. Never cut.
    pub(crate) task: u64,
    /// What the answer must look like. Never cut.
    pub(crate) output: u64,
    /// Skills.
    pub(crate) skills: u64,
    /// The previous iteration.
    pub(crate) previous: u64,
    /// Compacted memory.
    pub(crate) memory: u64,
    /// Earlier iterations, one line each.
    pub(crate) earlier: u64,
}

impl Default for ContextSectionSettings {
    fn default() -> Self {
        Self { task: 1000, output: 500, skills: 1500, previous: 500, memory: 3000, earlier: 150 }
    }
}

/// MCP server configurations. Not set: the ones in the binary.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct McpSettings {
    /// File for coding iterations.
    pub(crate) coding: Option<String>,
    /// File for compaction.
    pub(crate) memory: Option<String>,
}

/// The log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct LogSettings {
    /// Its level of detail.
    pub(crate) level: LogLevelSetting,
}

/// The level of detail of `.ralph/logs/ralph.log`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogLevelSetting {
    /// Also why: command lines, the beginnings of prompts, exit codes, timings.
    Debug,
    /// What happens.
    #[default]
    Info,
    /// What went wrong, and how the run ended.
    Warn,
    /// The same as `warn`.
    Error,
}

/// What the streaming view shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct UiSettings {
    /// Emoji, or text markers such as `[OK]`.
    pub(crate) emoji: EmojiSetting,
    /// Whether lines begin with the time of day.
    pub(crate) timestamps: bool,
    /// How many lines of a tool's output are shown.
    pub(crate) max_output_lines: u32,
    /// How many characters of a tool's output are shown.
    pub(crate) max_output_chars: u32,
    /// Whether runs are shown on a full screen.
    pub(crate) tui: bool,
}

impl Default for UiSettings {
    fn default() -> Self {
        Self {
            emoji: EmojiSetting::default(),
            timestamps: false,
            max_output_lines: 3,
            max_output_chars: 400,
            tui: false,
        }
    }
}

/// Whether to show emoji.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EmojiSetting {
    /// If the terminal supports it.
    #[default]
    Auto,
    /// Yes; `true` means the same.
    Always,
    /// No; `false` means the same.
    Never,
}

impl<'de> Deserialize<'de> for EmojiSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EmojiVisitor;
        impl Visitor<'_> for EmojiVisitor {
            type Value = EmojiSetting;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"auto\", \"always\", \"never\", true or false")
            }
            fn visit_bool<E: de::Error>(self, shown: bool) -> Result<EmojiSetting, E> {
                Ok(if shown { EmojiSetting::Always } else { EmojiSetting::Never })
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<EmojiSetting, E> {
                match text {
                    "auto" => Ok(EmojiSetting::Auto),
                    "always" => Ok(EmojiSetting::Always),
                    "never" => Ok(EmojiSetting::Never),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(EmojiVisitor)
    }
}

impl JsonSchema for EmojiSetting {
    fn schema_name() -> Cow<'static, str> {
        "Emoji".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Whether to show emoji: where the terminal can, always (or true), never (or false).",
            "anyOf": [
                { "type": "string", "enum": ["auto", "always", "never"] },
                { "type": "boolean" },
            ]
        })
    }
}
