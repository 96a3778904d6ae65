//! Cline's lines as they are on the wire, as far as ralph uses them.
//!
//! Fields that cannot be read are absent and do not make the line unreadable. Not here: what the
//! lines mean.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient_json::read_lenient;

/// A line.
#[derive(Debug, Deserialize)]
pub(super) struct Line<'a> {
    #[serde(rename = "type", default, deserialize_with = "read_lenient")]
    pub(super) kind: Option<String>,
    #[serde(borrow, default)]
    pub(super) event: Option<&'a RawValue>,
    #[serde(rename = "hookEventName", default, deserialize_with = "read_lenient")]
    pub(super) hook: Option<String>,
    #[serde(rename = "taskId", default, deserialize_with = "read_lenient")]
    pub(super) task: Option<String>,
    /// Set in lines about a subagent.
    #[serde(rename = "parentAgentId", default, deserialize_with = "read_lenient")]
    pub(super) parent: Option<String>,
    #[serde(rename = "finishReason", default, deserialize_with = "read_lenient")]
    pub(super) finish: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) text: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) message: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) model: Option<Model>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) usage: Option<RunUsage>,
    /// Including subagents.
    #[serde(rename = "aggregateUsage", default, deserialize_with = "read_lenient")]
    pub(super) aggregate: Option<RunUsage>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Model {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) id: Option<String>,
}

/// Usage of a whole run.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RunUsage {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) cache_read_tokens: u64,
    pub(super) cache_write_tokens: u64,
    pub(super) total_cost: f64,
}

/// What an `agent_event` carries.
#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(rename = "type", default, deserialize_with = "read_lenient")]
    pub(super) kind: Option<String>,
    #[serde(rename = "contentType", default, deserialize_with = "read_lenient")]
    pub(super) content: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) text: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) reasoning: Option<String>,
    #[serde(rename = "toolName", default, deserialize_with = "read_lenient")]
    pub(super) tool: Option<String>,
    #[serde(rename = "toolCallId", default, deserialize_with = "read_lenient")]
    pub(super) call: Option<String>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) output: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) update: Option<Update>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) message: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) error: Option<ErrorObject>,
    #[serde(rename = "errorClass", default, deserialize_with = "read_lenient")]
    pub(super) error_class: Option<String>,
    #[serde(rename = "totalInputTokens", default, deserialize_with = "read_lenient")]
    pub(super) total_input: Option<u64>,
    #[serde(rename = "totalOutputTokens", default, deserialize_with = "read_lenient")]
    pub(super) total_output: Option<u64>,
    #[serde(rename = "totalCacheReadTokens", default, deserialize_with = "read_lenient")]
    pub(super) total_cache_read: Option<u64>,
    #[serde(rename = "totalCacheWriteTokens", default, deserialize_with = "read_lenient")]
    pub(super) total_cache_write: Option<u64>,
    #[serde(rename = "totalCost", default, deserialize_with = "read_lenient")]
    pub(super) total_cost: Option<f64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Update {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) chunk: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ErrorObject {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) message: Option<String>,
}

/// The fields of tools' inputs that are worth showing.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Input {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) commands: Option<Vec<String>>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) files: Option<Vec<File>>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) path: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct File {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) path: Option<String>,
}

/// The result of one query of a tool.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Returned {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) result: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) error: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) success: Option<bool>,
}

impl Event<'_> {
    /// Returns what a tool returned: a list, one object, or bare text. Anything else is shown as
    /// it is.
    pub(super) fn parse_returned(&self) -> Vec<Returned> {
        let Some(raw) = self.output.map(RawValue::get) else {
            return Vec::new();
        };
        if raw.starts_with('[') {
            let parts: Vec<&RawValue> = serde_json::from_str(raw).unwrap_or_default();
            return parts.into_iter().map(|part| Returned::from_raw(part.get())).collect();
        }
        vec![Returned::from_raw(raw)]
    }
}

impl Returned {
    fn from_raw(raw: &str) -> Self {
        let known = serde_json::from_str::<Self>(raw).ok().filter(|returned| {
            returned.result.is_some() || returned.error.is_some() || returned.success.is_some()
        });
        known.unwrap_or_else(|| {
            let text = serde_json::from_str(raw).unwrap_or_else(|_| raw.to_owned());
            Self { result: Some(text), ..Self::default() }
        })
    }
}
