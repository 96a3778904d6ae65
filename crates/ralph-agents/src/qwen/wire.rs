//! Qwen Code's lines as they are on the wire, where they differ from Claude Code's.
//!
//! Fields that cannot be read are absent and do not make the line unreadable. Not here: what the
//! lines mean.

use serde::Deserialize;

use crate::lenient_json::{Text, read_lenient};

/// The first `system` line.
#[derive(Debug, Deserialize)]
pub(super) struct Init {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) session_id: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) model: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) qwen_code_version: Option<String>,
}

/// `stream_event` lines.
#[derive(Debug, Deserialize)]
pub(super) struct StreamEvent<'a> {
    #[serde(borrow)]
    pub(super) event: EventHead<'a>,
}

/// What kind of event a `stream_event` carries.
#[derive(Debug, Deserialize)]
pub(super) struct EventHead<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
}

/// Usage of an `assistant` line.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Spent {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) message: Option<SpentMessage>,
}

/// The message of an `assistant` line, for its usage only.
#[derive(Debug, Deserialize)]
pub(super) struct SpentMessage {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) usage: Option<Figures>,
}

/// `result` lines.
#[derive(Debug, Deserialize)]
pub(super) struct ResultLine {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) subtype: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) is_error: Option<bool>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) result: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) structured_result: Option<serde_json::Value>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) error: Option<Problem>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) usage: Option<Figures>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) num_turns: Option<u32>,
}

/// What went wrong.
#[derive(Debug, Deserialize)]
pub(super) struct Problem {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) message: Option<String>,
}

/// Usage of a message, or of the whole process.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "the names are those of the wire")]
pub(super) struct Figures {
    /// Including cached tokens, unlike Claude Code's.
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) cache_read_input_tokens: u64,
}
