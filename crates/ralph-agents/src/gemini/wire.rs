//! Gemini CLI's lines as they are on the wire, as far as ralph uses them.
//!
//! Fields that cannot be read are absent and do not make the line unreadable. Not here: what the
//! lines mean.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient_json::{Text, read_lenient};

/// `init` lines.
#[derive(Debug, Deserialize)]
pub(super) struct Init {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) session_id: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) model: Option<String>,
}

/// `message` lines: the echo of the prompt, and deltas of the answer.
#[derive(Debug, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) role: Text<'a>,
    #[serde(borrow)]
    pub(super) content: Text<'a>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) delta: Option<bool>,
}

/// `tool_use` lines.
#[derive(Debug, Deserialize)]
pub(super) struct ToolUse<'a> {
    pub(super) tool_id: String,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) tool_name: Option<String>,
    #[serde(borrow, default)]
    pub(super) parameters: Option<&'a RawValue>,
}

/// `tool_result` lines.
#[derive(Debug, Deserialize)]
pub(super) struct ToolResult<'a> {
    pub(super) tool_id: String,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) status: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) output: Option<Text<'a>>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) error: Option<Problem>,
}

/// `error` lines: warnings as well.
#[derive(Debug, Deserialize)]
pub(super) struct ErrorLine<'a> {
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) severity: Option<Text<'a>>,
    pub(super) message: String,
}

/// `result` lines.
#[derive(Debug, Deserialize)]
pub(super) struct ResultLine<'a> {
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) status: Option<Text<'a>>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) error: Option<Problem>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) stats: Option<Stats>,
}

/// What went wrong.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Problem {
    #[serde(default, rename = "type", deserialize_with = "read_lenient")]
    pub(super) kind: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) message: Option<String>,
}

/// Usage of the whole process.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Stats {
    pub(super) total_tokens: u64,
    /// Including cached tokens.
    pub(super) input_tokens: u64,
    /// Without thinking tokens, which are only in the total.
    pub(super) output_tokens: u64,
    pub(super) cached: u64,
}
