//! Codex's lines as they are on the wire, as far as ralph uses them.
//!
//! Fields appear and disappear between versions. Fields that cannot be read are absent and do not
//! make the line unreadable. Not here: what the lines mean.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient_json::{Text, read_lenient, read_object, read_scalar};

/// A line of any type.
#[derive(Debug, Deserialize)]
pub(super) struct Line<'a> {
    #[serde(borrow, rename = "type", default, deserialize_with = "read_scalar")]
    pub(super) kind: Option<Text<'a>>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) thread_id: Option<String>,
    #[serde(borrow, default, deserialize_with = "read_object")]
    pub(super) item: Option<Item<'a>>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) usage: Option<Usage>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) error: Option<Error>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) message: Option<String>,
}

/// The error of a turn or a tool.
#[derive(Debug, Deserialize)]
pub(super) struct Error {
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) message: Option<String>,
}

/// A message, thought or tool call of the agent.
#[derive(Debug, Deserialize)]
pub(super) struct Item<'a> {
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) id: Option<String>,
    #[serde(borrow, rename = "type", default, deserialize_with = "read_scalar")]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_scalar")]
    pub(super) text: Option<Text<'a>>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) message: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) status: Option<String>,
    #[serde(borrow, default, deserialize_with = "read_scalar")]
    pub(super) command: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_scalar")]
    pub(super) aggregated_output: Option<Text<'a>>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) exit_code: Option<i64>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) changes: Option<Vec<Change>>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) server: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) tool: Option<String>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) result: Option<ToolResult<'a>>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) error: Option<Error>,
    #[serde(borrow, default, deserialize_with = "read_scalar")]
    pub(super) query: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_scalar")]
    pub(super) prompt: Option<Text<'a>>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) items: Option<Vec<Todo>>,
}

/// A file in a patch.
#[derive(Debug, Deserialize)]
pub(super) struct Change {
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) path: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) kind: Option<String>,
}

/// The result of an MCP tool.
#[derive(Debug, Deserialize)]
pub(super) struct ToolResult<'a> {
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) content: Option<Vec<Block<'a>>>,
}

/// A block of an MCP tool's result.
#[derive(Debug, Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow, rename = "type", default, deserialize_with = "read_scalar")]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_scalar")]
    pub(super) text: Option<Text<'a>>,
}

/// An entry of the to-do list.
#[derive(Debug, Deserialize)]
pub(super) struct Todo {
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) text: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) completed: Option<bool>,
}

/// Usage of the whole thread; the input includes cached tokens.
#[derive(Debug, Deserialize)]
pub(super) struct Usage {
    #[serde(default, rename = "input_tokens", deserialize_with = "read_scalar")]
    pub(super) input: Option<u64>,
    #[serde(default, rename = "cached_input_tokens", deserialize_with = "read_scalar")]
    pub(super) cache_read: Option<u64>,
    #[serde(default, rename = "cache_write_input_tokens", deserialize_with = "read_scalar")]
    pub(super) cache_write: Option<u64>,
    #[serde(default, rename = "output_tokens", deserialize_with = "read_scalar")]
    pub(super) output: Option<u64>,
}
