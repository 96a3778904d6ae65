//! Amp's lines as they are on the wire, where they differ from Claude Code's.
//!
//! Fields that cannot be read are absent and do not make the line unreadable. Not here: what the
//! lines mean.

use serde::Deserialize;

use crate::claude::wire::{McpServer, Todo, TurnUsage};
use crate::lenient_json::{Text, read_lenient};

/// The first line.
#[derive(Debug, Deserialize)]
pub(super) struct Init {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) session_id: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) mcp_servers: Option<Vec<McpServer>>,
}

/// Usage of an `assistant` line.
#[derive(Debug, Deserialize)]
pub(super) struct Spent {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) message: Option<SpentMessage>,
}

#[derive(Debug, Deserialize)]
pub(super) struct SpentMessage {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) usage: Option<TurnUsage>,
}

/// The last line.
#[derive(Debug, Deserialize)]
pub(super) struct ResultLine {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) subtype: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) is_error: Option<bool>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) result: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) error: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) usage: Option<TurnUsage>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) num_turns: Option<u32>,
}

/// The fields of tools' inputs that are worth showing, and the to-do list.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Input<'a> {
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) cmd: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) path: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) pattern: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) query: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) url: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) description: Option<Text<'a>>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) todos: Option<Vec<Todo>>,
}
