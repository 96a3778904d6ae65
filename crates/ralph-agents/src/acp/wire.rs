//! The messages of the protocol as they are on the wire, as far as ralph uses them.
//!
//! Fields that cannot be read are absent and do not make the line unreadable. Not here: what the
//! messages mean.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient_json::{Text, read_lenient};

/// A request, a notification or a response.
#[derive(Debug, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) method: Option<String>,
    #[serde(borrow, default)]
    pub(super) params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) error: Option<ErrorOf<'a>>,
}

/// Parses a value that may be absent or of another type.
pub(super) fn parse_or_default<'a, T: Deserialize<'a> + Default>(raw: Option<&'a RawValue>) -> T {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// Why a request failed.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ErrorOf<'a> {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) code: Option<i64>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) message: Option<String>,
    #[serde(borrow, default)]
    pub(super) data: Option<&'a RawValue>,
}

/// What agents add to an error.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ErrorData<'a> {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) message: Option<String>,
    /// A word, or an object with one key.
    #[serde(borrow, default, rename = "codexErrorInfo")]
    pub(super) codex: Option<&'a RawValue>,
}

/// The response to `initialize`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Greeted {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) protocol_version: Option<u64>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) agent_info: Option<AgentInfo>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) auth_methods: Option<Vec<AuthMethod>>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct AgentInfo {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) version: Option<String>,
}

/// A way to log in.
#[derive(Debug, Default, Deserialize)]
pub(super) struct AuthMethod {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) name: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) description: Option<String>,
}

/// A session.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Session {
    #[serde(rename = "sessionId", default, deserialize_with = "read_lenient")]
    pub(super) id: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) models: Option<Models>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) config_options: Option<Vec<ConfigOption>>,
}

/// The models of a session.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Models {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) current_model_id: Option<String>,
}

/// What can be chosen in a session; the model is one of them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConfigOption {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) id: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) current_value: Option<String>,
}

/// The end of a turn.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TurnEnd {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) stop_reason: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) usage: Option<Tokens>,
    #[serde(rename = "_meta", default, deserialize_with = "read_lenient")]
    pub(super) meta: Option<EndMeta>,
}

/// What agents add to the end of a turn.
#[derive(Debug, Deserialize)]
pub(super) struct EndMeta {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) quota: Option<Quota>,
}

/// Usage of a turn, in the format of some agents.
#[derive(Debug, Deserialize)]
pub(super) struct Quota {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) token_count: Option<Tokens>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) model_usage: Option<Vec<ModelUsage>>,
}

/// Usage of one model in a turn.
#[derive(Debug, Deserialize)]
pub(super) struct ModelUsage {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) model: Option<String>,
}

/// Token counts. Whether cached and thought tokens are included differs between agents.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct Tokens {
    #[serde(
        default,
        rename = "inputTokens",
        alias = "input_tokens",
        deserialize_with = "read_lenient"
    )]
    pub(super) input: Option<u64>,
    #[serde(
        default,
        rename = "outputTokens",
        alias = "output_tokens",
        deserialize_with = "read_lenient"
    )]
    pub(super) output: Option<u64>,
    #[serde(default, rename = "thoughtTokens", deserialize_with = "read_lenient")]
    pub(super) thought: Option<u64>,
    #[serde(default, rename = "cachedReadTokens", deserialize_with = "read_lenient")]
    pub(super) cache_read: Option<u64>,
    #[serde(default, rename = "cachedWriteTokens", deserialize_with = "read_lenient")]
    pub(super) cache_write: Option<u64>,
    #[serde(default, rename = "totalTokens", deserialize_with = "read_lenient")]
    pub(super) total: Option<u64>,
}

/// What a `session/update` carries.
#[derive(Debug, Default, Deserialize)]
pub(super) struct UpdateParams<'a> {
    #[serde(borrow, default)]
    pub(super) update: Option<&'a RawValue>,
}

/// An update of any kind but a tool call.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Update<'a> {
    #[serde(rename = "sessionUpdate", default, deserialize_with = "read_lenient")]
    pub(super) kind: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) message_id: Option<String>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) content: Option<Block<'a>>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) entries: Option<Vec<Entry>>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) cost: Option<Cost>,
    #[serde(rename = "_meta", default, deserialize_with = "read_lenient")]
    pub(super) meta: Option<ChunkMeta>,
}

/// A piece of a message; only text counts.
#[derive(Debug, Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) text: Option<Text<'a>>,
}

/// An entry of a plan, or of a to-do list in a tool's input.
#[derive(Debug, Deserialize)]
pub(super) struct Entry {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) content: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) status: Option<String>,
}

/// What the session has cost so far.
#[derive(Debug, Deserialize)]
pub(super) struct Cost {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) amount: Option<f64>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) currency: Option<String>,
}

/// What agents add to a piece of a message.
#[derive(Debug, Deserialize)]
pub(super) struct ChunkMeta {
    /// Usage of the step that has ended.
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) usage: Option<Tokens>,
}

/// What a request for permission carries.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PermissionParams<'a> {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) options: Option<Vec<PermissionOption>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) tool_call: Option<ToolCall<'a>>,
}

/// One answer to a request for permission.
#[derive(Debug, Deserialize)]
pub(super) struct PermissionOption {
    #[serde(rename = "optionId", default, deserialize_with = "read_lenient")]
    pub(super) id: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) kind: Option<String>,
}

/// The start of a tool call, or an update of it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolCall<'a> {
    #[serde(rename = "toolCallId", default, deserialize_with = "read_lenient")]
    pub(super) id: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) name: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) title: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) kind: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) status: Option<String>,
    #[serde(borrow, default)]
    pub(super) raw_input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) raw_output: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) content: Option<Vec<ToolContent<'a>>>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) locations: Option<Vec<Location>>,
    #[serde(borrow, rename = "_meta", default, deserialize_with = "read_lenient")]
    pub(super) meta: Option<ToolMeta<'a>>,
}

/// Something that a tool call shows: a text, or a change of a file.
#[derive(Debug, Deserialize)]
pub(super) struct ToolContent<'a> {
    #[serde(rename = "type", default, deserialize_with = "read_lenient")]
    pub(super) kind: Option<String>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) content: Option<Block<'a>>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) path: Option<String>,
    #[serde(borrow, rename = "oldText", default, deserialize_with = "read_lenient")]
    pub(super) old_text: Option<Text<'a>>,
    #[serde(borrow, rename = "newText", default, deserialize_with = "read_lenient")]
    pub(super) new_text: Option<Text<'a>>,
}

/// A file that a tool call is about.
#[derive(Debug, Deserialize)]
pub(super) struct Location {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) path: Option<String>,
}

/// What agents add to a tool call.
#[derive(Debug, Deserialize)]
pub(super) struct ToolMeta<'a> {
    #[serde(rename = "toolName", default, deserialize_with = "read_lenient")]
    pub(super) tool_name: Option<String>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) terminal_output_delta: Option<TerminalOutput<'a>>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) terminal_exit: Option<TerminalExit>,
}

/// A piece of a command's output.
#[derive(Debug, Deserialize)]
pub(super) struct TerminalOutput<'a> {
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) data: Option<Text<'a>>,
}

/// How a command ended.
#[derive(Debug, Deserialize)]
pub(super) struct TerminalExit {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) exit_code: Option<i64>,
}

/// The fields of a tool's input that are worth showing.
#[derive(Debug, Default, Deserialize)]
pub(super) struct RawInput<'a> {
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) command: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) pattern: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) query: Option<Text<'a>>,
    #[serde(
        borrow,
        default,
        alias = "filePath",
        alias = "file_path",
        deserialize_with = "read_lenient"
    )]
    pub(super) path: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) url: Option<Text<'a>>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) todos: Option<Vec<Entry>>,
}

/// What a tool returned, in the fields that agents use for it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawOutput<'a> {
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) output: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) content: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) message: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pub(super) error: Option<Text<'a>>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) exit_code: Option<i64>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) metadata: Option<OutputMetadata>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) contents: Option<Vec<OutputPart>>,
}

/// Exit code of a command, in the format of one agent.
#[derive(Debug, Deserialize)]
pub(super) struct OutputMetadata {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) exit: Option<i64>,
}

/// Exit code of a command, in the format of another agent.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OutputPart {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) exit_code: Option<i64>,
}
