//! Qwen Code's lines as they are on the wire, as far as they differ from Claude Code's.
//!
//! A field that cannot be read is absent and does not cost the line. Not here: what the lines
//! mean.

use serde::Deserialize;

use crate::fields::{Text, lenient};

/// The first `system` line.
#[derive(Debug, Deserialize)]
pub(super) struct Init {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) session_id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) model: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
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

/// The figures of an `assistant` line.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Spent {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) message: Option<SpentMessage>,
}

/// The message of an `assistant` line, for its figures only.
#[derive(Debug, Deserialize)]
pub(super) struct SpentMessage {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage: Option<Figures>,
}

/// `result` lines.
#[derive(Debug, Deserialize)]
pub(super) struct ResultLine {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) subtype: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) is_error: Option<bool>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) result: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) structured_result: Option<serde_json::Value>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) error: Option<Problem>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage: Option<Figures>,
}

/// What went wrong.
#[derive(Debug, Deserialize)]
pub(super) struct Problem {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) message: Option<String>,
}

/// Figures of a message, or of the whole process.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "the names are those of the wire")]
pub(super) struct Figures {
    /// With what came from the cache, unlike Claude Code's.
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) cache_read_input_tokens: u64,
}
