//! `OpenCode`'s lines as they are on the wire, as far as ralph uses them.
//!
//! Fields that cannot be read are absent and do not make the line unreadable. Not here: what the
//! lines mean.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient_json::{Text, read_lenient};

/// A line of any type.
#[derive(Debug, Deserialize)]
pub(super) struct Line<'a> {
    #[serde(rename = "sessionID", default, deserialize_with = "read_lenient")]
    pub(super) session: Option<String>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) part: Option<Part<'a>>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) error: Option<ErrorOf>,
}

/// A part of a message.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Part<'a> {
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) text: Option<Text<'a>>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) tool: Option<String>,
    #[serde(rename = "callID", default, deserialize_with = "read_lenient")]
    pub(super) call: Option<String>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) state: Option<ToolState<'a>>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) reason: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) tokens: Option<Tokens>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) cost: Option<f64>,
}

/// A tool call that has ended.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ToolState<'a> {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) status: Option<String>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) output: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) error: Option<Text<'a>>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) metadata: Option<Metadata>,
}

/// What a tool reports in addition to its output.
#[derive(Debug, Deserialize)]
pub(super) struct Metadata {
    /// The exit code of a command.
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) exit: Option<i64>,
}

/// The input of `todowrite`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct TodoWrite {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) todos: Option<Vec<Todo>>,
}

/// An entry of the to-do list.
#[derive(Debug, Deserialize)]
pub(super) struct Todo {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) content: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) status: Option<String>,
}

/// The tokens of a step. `input` is without the cache, `output` without reasoning.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Tokens {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) input: Option<u64>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) output: Option<u64>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) reasoning: Option<u64>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) cache: Option<Cache>,
}

/// The cached tokens of a step.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Cache {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) read: Option<u64>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) write: Option<u64>,
}

/// An error.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ErrorOf {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) name: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) data: Option<ErrorData>,
}

/// What is known of an error.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ErrorData {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) message: Option<String>,
    #[serde(rename = "statusCode", default, deserialize_with = "read_lenient")]
    pub(super) status: Option<u16>,
    #[serde(rename = "responseBody", default, deserialize_with = "read_lenient")]
    pub(super) body: Option<String>,
}
