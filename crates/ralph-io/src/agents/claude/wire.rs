//! Claude Code's lines as they are on the wire, as far as they matter.
//!
//! Key order is not stable, fields come and go, and a field of an unexpected type must not cost
//! the line: each one that cannot be read is simply absent. Not here: what the lines mean.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::agents::fields::{Text, lenient};

/// What every line has.
#[derive(Debug, Deserialize)]
pub(in crate::agents) struct Head<'a> {
    #[serde(borrow, rename = "type", default, deserialize_with = "lenient")]
    pub(in crate::agents) kind: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub(in crate::agents) subtype: Option<Text<'a>>,
}

/// `system` lines of all kinds.
#[derive(Debug, Deserialize)]
pub(super) struct System {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) session_id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) model: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) claude_code_version: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) mcp_servers: Option<Vec<McpServer>>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) plugin_errors: Option<Vec<PluginError>>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) content: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) text: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) message: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) tool_name: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) attempt: Option<u32>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) max_retries: Option<u32>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) error_status: Option<u16>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) error: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) fallback_model: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(in crate::agents) struct McpServer {
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::agents) name: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::agents) status: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PluginError {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) plugin: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) message: Option<String>,
}

/// `assistant` and `user` lines.
#[derive(Debug, Deserialize)]
pub(in crate::agents) struct Said<'a> {
    #[serde(borrow)]
    pub(in crate::agents) message: Message<'a>,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::agents) parent_tool_use_id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::agents) is_api_error_message: Option<bool>,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::agents) error: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::agents) api_error_params: Option<ApiErrorParams>,
    #[serde(borrow, default)]
    pub(in crate::agents) tool_use_result: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(in crate::agents) struct Message<'a> {
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::agents) id: Option<String>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub(in crate::agents) model: Option<Text<'a>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

impl<'a> Message<'a> {
    /// Returns the blocks of the message, and how many could not be read. A bare string is one
    /// block of text.
    pub(in crate::agents) fn blocks(&self) -> (Vec<Block<'a>>, usize) {
        let Some(content) = self.content else {
            return (Vec::new(), 0);
        };
        if let Ok(text) = serde_json::from_str::<Text<'a>>(content.get()) {
            let block = Block { kind: Text("text".into()), text: Some(text), ..Block::default() };
            return (vec![block], 0);
        }
        let raw: Vec<&'a RawValue> = serde_json::from_str(content.get()).unwrap_or_default();
        let blocks: Vec<Block<'a>> =
            raw.iter().filter_map(|block| serde_json::from_str(block.get()).ok()).collect();
        let lost = raw.len() - blocks.len();
        (blocks, lost)
    }
}

/// One block of a message.
#[derive(Debug, Default, Deserialize)]
pub(in crate::agents) struct Block<'a> {
    #[serde(borrow, rename = "type")]
    pub(in crate::agents) kind: Text<'a>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub(in crate::agents) text: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub(in crate::agents) thinking: Option<Text<'a>>,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::agents) id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::agents) name: Option<String>,
    #[serde(borrow, default)]
    pub(in crate::agents) input: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::agents) tool_use_id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::agents) is_error: Option<bool>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

impl Block<'_> {
    /// Returns what a tool returned, as text: a string, or the text of its blocks.
    pub(in crate::agents) fn output(&self) -> String {
        let inner = Message { id: None, model: None, content: self.content };
        let texts: Vec<String> = inner
            .blocks()
            .0
            .into_iter()
            .map(|block| match block.text {
                Some(Text(text)) => text.into_owned(),
                None => format!("[{}]", block.kind.0),
            })
            .collect();
        texts.join("\n")
    }
}

/// The fields of tools' inputs that tell people most, and those of the to-do tools.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Input<'a> {
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub(super) command: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub(super) file_path: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub(super) notebook_path: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub(super) pattern: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub(super) query: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub(super) url: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub(super) skill: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub(super) description: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub(super) subject: Option<Text<'a>>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) todos: Option<Vec<Todo>>,
    #[serde(default, rename = "taskId", deserialize_with = "lenient")]
    pub(super) task_id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) status: Option<String>,
}

/// An entry of `TodoWrite` or of the task tools.
#[derive(Debug, Deserialize)]
pub(in crate::agents) struct Todo {
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::agents) id: Option<String>,
    #[serde(default, alias = "subject", deserialize_with = "lenient")]
    pub(in crate::agents) content: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::agents) status: Option<String>,
}

/// The parts of `tool_use_result` that say more than the text.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ToolUseResult {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) task: Option<Todo>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) tasks: Option<Vec<Todo>>,
    #[serde(default, rename = "bashEditDiff", deserialize_with = "lenient")]
    pub(super) bash_edit: Option<BashEdit>,
}

#[derive(Debug, Deserialize)]
pub(super) struct BashEdit {
    #[serde(default, rename = "changedFiles")]
    pub(super) changed_files: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(in crate::agents) struct ApiErrorParams {
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::agents) rate_limit_info: Option<RateLimitInfo>,
}

/// `rate_limit_event` lines.
#[derive(Debug, Deserialize)]
pub(in crate::agents) struct RateLimitEvent {
    pub(in crate::agents) rate_limit_info: RateLimitInfo,
}

#[derive(Debug, Deserialize)]
pub(in crate::agents) struct RateLimitInfo {
    #[serde(default, deserialize_with = "lenient")]
    pub(in crate::agents) status: Option<String>,
    /// Seconds since the epoch.
    #[serde(default, rename = "resetsAt", deserialize_with = "lenient")]
    pub(in crate::agents) resets_at: Option<i64>,
}

/// `result` lines.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ResultLine {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) subtype: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) is_error: Option<bool>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) terminal_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) num_turns: Option<u32>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) result: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) errors: Option<Vec<String>>,
    #[serde(default)]
    pub(super) structured_output: Option<serde_json::Value>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) api_error: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) api_error_status: Option<u16>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) total_cost_usd: Option<f64>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage: Option<TurnUsage>,
    #[serde(default, rename = "modelUsage", deserialize_with = "lenient")]
    pub(super) model_usage: Option<BTreeMap<String, ModelUsage>>,
}

/// Figures of the last turn.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "the names are those of the wire")]
pub(in crate::agents) struct TurnUsage {
    pub(in crate::agents) input_tokens: u64,
    pub(in crate::agents) output_tokens: u64,
    pub(in crate::agents) cache_read_input_tokens: u64,
    pub(in crate::agents) cache_creation_input_tokens: u64,
}

/// Figures of one model for the whole process, subagents included.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the names are those of the wire")]
pub(super) struct ModelUsage {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) cache_read_input_tokens: u64,
    pub(super) cache_creation_input_tokens: u64,
}
