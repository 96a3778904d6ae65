//! Codex's lines as they are on the wire, as far as they matter.
//!
//! Fields come and go, and a field of an unexpected type must not cost the line: each one that
//! cannot be read is simply absent. Not here: what the lines mean.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::fields::{Text, lenient, object, scalar};

/// A line of any type.
#[derive(Debug, Deserialize)]
pub(super) struct Line<'a> {
    #[serde(borrow, rename = "type", default, deserialize_with = "scalar")]
    pub(super) kind: Option<Text<'a>>,
    #[serde(default, deserialize_with = "scalar")]
    pub(super) thread_id: Option<String>,
    #[serde(borrow, default, deserialize_with = "object")]
    pub(super) item: Option<Item<'a>>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage: Option<Usage>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) error: Option<Error>,
    #[serde(default, deserialize_with = "scalar")]
    pub(super) message: Option<String>,
}

/// What a turn or a tool failed with.
#[derive(Debug, Deserialize)]
pub(super) struct Error {
    #[serde(default, deserialize_with = "scalar")]
    pub(super) message: Option<String>,
}

/// A thing the agent said or did.
#[derive(Debug, Deserialize)]
pub(super) struct Item<'a> {
    #[serde(default, deserialize_with = "scalar")]
    pub(super) id: Option<String>,
    #[serde(borrow, rename = "type", default, deserialize_with = "scalar")]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "scalar")]
    pub(super) text: Option<Text<'a>>,
    #[serde(default, deserialize_with = "scalar")]
    pub(super) message: Option<String>,
    #[serde(default, deserialize_with = "scalar")]
    pub(super) status: Option<String>,
    #[serde(borrow, default, deserialize_with = "scalar")]
    pub(super) command: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "scalar")]
    pub(super) aggregated_output: Option<Text<'a>>,
    #[serde(default, deserialize_with = "scalar")]
    pub(super) exit_code: Option<i64>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) changes: Option<Vec<Change>>,
    #[serde(default, deserialize_with = "scalar")]
    pub(super) server: Option<String>,
    #[serde(default, deserialize_with = "scalar")]
    pub(super) tool: Option<String>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub(super) result: Option<ToolResult<'a>>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) error: Option<Error>,
    #[serde(borrow, default, deserialize_with = "scalar")]
    pub(super) query: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "scalar")]
    pub(super) prompt: Option<Text<'a>>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) items: Option<Vec<Todo>>,
}

/// A file in a patch.
#[derive(Debug, Deserialize)]
pub(super) struct Change {
    #[serde(default, deserialize_with = "scalar")]
    pub(super) path: Option<String>,
    #[serde(default, deserialize_with = "scalar")]
    pub(super) kind: Option<String>,
}

/// What an MCP tool returned.
#[derive(Debug, Deserialize)]
pub(super) struct ToolResult<'a> {
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub(super) content: Option<Vec<Block<'a>>>,
}

/// A block of what an MCP tool returned.
#[derive(Debug, Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow, rename = "type", default, deserialize_with = "scalar")]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "scalar")]
    pub(super) text: Option<Text<'a>>,
}

/// An entry of the to-do list.
#[derive(Debug, Deserialize)]
pub(super) struct Todo {
    #[serde(default, deserialize_with = "scalar")]
    pub(super) text: Option<String>,
    #[serde(default, deserialize_with = "scalar")]
    pub(super) completed: Option<bool>,
}

/// Figures of the whole thread; the input includes what the cache gave and took.
#[derive(Debug, Deserialize)]
pub(super) struct Usage {
    #[serde(default, rename = "input_tokens", deserialize_with = "scalar")]
    pub(super) input: Option<u64>,
    #[serde(default, rename = "cached_input_tokens", deserialize_with = "scalar")]
    pub(super) cache_read: Option<u64>,
    #[serde(default, rename = "cache_write_input_tokens", deserialize_with = "scalar")]
    pub(super) cache_write: Option<u64>,
    #[serde(default, rename = "output_tokens", deserialize_with = "scalar")]
    pub(super) output: Option<u64>,
}
