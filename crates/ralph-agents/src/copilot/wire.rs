//! GitHub Copilot CLI's lines as they are on the wire, as far as ralph uses them.
//!
//! Fields that cannot be read are absent and do not make the line unreadable. Not here: what the
//! lines mean.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient_json::{Text, read_lenient};

/// A line of any type.
#[derive(Debug, Deserialize)]
pub(super) struct Line<'a> {
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) data: Option<Data<'a>>,
    /// Whether readers may ignore the line.
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) ephemeral: Option<bool>,
    #[serde(rename = "sessionId", default, deserialize_with = "read_lenient")]
    pub(super) session: Option<String>,
    #[serde(rename = "exitCode", default, deserialize_with = "read_lenient")]
    pub(super) exit: Option<i64>,
}

/// The data of a line, for all types together.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Data<'a> {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) model: Option<String>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) content: Option<Text<'a>>,
    #[serde(borrow, rename = "deltaContent", default, deserialize_with = "read_lenient")]
    pub(super) delta: Option<Text<'a>>,
    #[serde(borrow, rename = "reasoningText", default, deserialize_with = "read_lenient")]
    pub(super) reasoning: Option<Text<'a>>,
    /// The tool call that a subagent works for.
    #[serde(rename = "parentToolCallId", default, deserialize_with = "read_lenient")]
    pub(super) parent: Option<String>,
    #[serde(rename = "toolCallId", default, deserialize_with = "read_lenient")]
    pub(super) call: Option<String>,
    #[serde(rename = "toolName", default, deserialize_with = "read_lenient")]
    pub(super) tool: Option<String>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) success: Option<bool>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) result: Option<ToolResult<'a>>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) error: Option<ToolError>,
    #[serde(rename = "shellExecution", default, deserialize_with = "read_lenient")]
    pub(super) shell: Option<Shell>,
    #[serde(rename = "fileEdits", default, deserialize_with = "read_lenient")]
    pub(super) edits: Option<Vec<FileEdit>>,
    #[serde(rename = "infoType", default, deserialize_with = "read_lenient")]
    pub(super) info: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) message: Option<String>,
    #[serde(rename = "errorMessage", default, deserialize_with = "read_lenient")]
    pub(super) error_message: Option<String>,
    #[serde(rename = "errorType", default, deserialize_with = "read_lenient")]
    pub(super) error_type: Option<String>,
    #[serde(rename = "statusCode", default, deserialize_with = "read_lenient")]
    pub(super) status: Option<u16>,
}

/// What a tool returned.
#[derive(Debug, Deserialize)]
pub(super) struct ToolResult<'a> {
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) content: Option<Text<'a>>,
}

/// Why a tool failed.
#[derive(Debug, Deserialize)]
pub(super) struct ToolError {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) message: Option<String>,
}

/// How a command ended.
#[derive(Debug, Deserialize)]
pub(super) struct Shell {
    #[serde(rename = "exitCode", default, deserialize_with = "read_lenient")]
    pub(super) exit: Option<i64>,
}

/// A file that a tool changed.
#[derive(Debug, Deserialize)]
pub(super) struct FileEdit {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) path: Option<String>,
}
