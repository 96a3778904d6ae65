//! pi's lines as they are on the wire, as far as ralph uses them.
//!
//! Fields that cannot be read are absent and do not make the line unreadable. Each update repeats
//! the whole message so far twice; ralph skips that. Not here: what the lines mean.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient_json::{Text, read_lenient};

/// `session`.
#[derive(Debug, Deserialize)]
pub(super) struct Session {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) id: Option<String>,
}

/// `message_start` and `message_end`.
#[derive(Debug, Deserialize)]
pub(super) struct MessageLine<'a> {
    #[serde(borrow)]
    pub(super) message: Message<'a>,
}

/// `agent_end`.
#[derive(Debug, Deserialize)]
pub(super) struct AgentEnd<'a> {
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) messages: Option<Vec<Message<'a>>>,
}

/// A message of the user, the agent or a tool.
#[derive(Debug, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) role: Option<String>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) content: Option<Vec<Block<'a>>>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) model: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) usage: Option<Usage>,
    #[serde(rename = "stopReason", default, deserialize_with = "read_lenient")]
    pub(super) stop: Option<String>,
    #[serde(rename = "errorMessage", default, deserialize_with = "read_lenient")]
    pub(super) error: Option<String>,
}

impl Message<'_> {
    /// Returns whether the message is from the agent, not from the user or a tool.
    pub(super) fn is_from_agent(&self) -> bool {
        self.role.as_deref() == Some("assistant")
    }

    /// Returns whether it has token counts and all of them are zero.
    pub(super) fn has_zero_usage(&self) -> bool {
        self.usage.as_ref().is_some_and(|usage| {
            [usage.input, usage.output, usage.cache_read, usage.cache_write]
                .iter()
                .all(|tokens| *tokens == Some(0))
        })
    }

    /// Returns its text.
    pub(super) fn text(&self) -> String {
        self.content.iter().flatten().filter_map(|block| block.text.as_ref()).fold(
            String::new(),
            |mut all, text| {
                all.push_str(&text.0);
                all
            },
        )
    }
}

/// A block of a message, or of what a tool returned.
#[derive(Debug, Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) thinking: Option<Text<'a>>,
}

/// Usage of one message.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Usage {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) input: Option<u64>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) output: Option<u64>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) cache_read: Option<u64>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) cache_write: Option<u64>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) cost: Option<Cost>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Cost {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) total: Option<f64>,
}

/// `message_update`.
#[derive(Debug, Deserialize)]
pub(super) struct UpdateLine<'a> {
    #[serde(borrow, rename = "assistantMessageEvent")]
    pub(super) update: Update<'a>,
}

/// A delta of the agent's message.
#[derive(Debug, Deserialize)]
pub(super) struct Update<'a> {
    #[serde(borrow, rename = "type", default, deserialize_with = "read_lenient")]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) delta: Option<Text<'a>>,
}

/// `tool_execution_start` and `tool_execution_end`.
#[derive(Debug, Deserialize)]
pub(super) struct Tool<'a> {
    #[serde(rename = "toolCallId", default, deserialize_with = "read_lenient")]
    pub(super) call: Option<String>,
    #[serde(rename = "toolName", default, deserialize_with = "read_lenient")]
    pub(super) name: Option<String>,
    #[serde(borrow, default)]
    pub(super) args: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) result: Option<Returned<'a>>,
    #[serde(rename = "isError", default, deserialize_with = "read_lenient")]
    pub(super) is_error: Option<bool>,
}

/// What a tool returned.
#[derive(Debug, Deserialize)]
pub(super) struct Returned<'a> {
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) content: Option<Vec<Block<'a>>>,
}

/// `auto_retry_start`.
#[derive(Debug, Deserialize)]
pub(super) struct Retry {
    #[serde(rename = "errorMessage", default, deserialize_with = "read_lenient")]
    pub(super) error: Option<String>,
}
