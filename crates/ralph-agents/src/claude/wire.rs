//! Claude Code's lines as they are on the wire, as far as ralph uses them.
//!
//! Key order is not stable, and fields appear and disappear between versions. Fields that cannot
//! be read are absent and do not make the line unreadable. Not here: what the lines mean.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use ralph_model::agent_output::Speaker;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::lenient_json::{Text, read_lenient, read_object, read_scalar};
use crate::translator::shorten_text;

/// The fields that every line has.
#[derive(Debug, Deserialize)]
pub(crate) struct Head<'a> {
    #[serde(borrow, rename = "type", default, deserialize_with = "read_scalar")]
    pub(crate) kind: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_scalar")]
    pub(crate) subtype: Option<Text<'a>>,
}

/// `system` lines of all kinds.
#[derive(Debug, Deserialize)]
pub(super) struct System {
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) subtype: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) session_id: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) model: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) claude_code_version: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) mcp_servers: Option<Vec<McpServer>>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) plugin_errors: Option<Vec<PluginError>>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) content: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) text: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) message: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) tool_name: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) attempt: Option<u32>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) max_retries: Option<u32>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) error_status: Option<u16>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) error: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) fallback_model: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) plugins: Option<Vec<Plugin>>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) hook_event: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) key: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) stdout: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) stderr: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) exit_code: Option<i64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Plugin {
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) name: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct McpServer {
    #[serde(default, deserialize_with = "read_scalar")]
    pub(crate) name: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(crate) status: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PluginError {
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) plugin: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) message: Option<String>,
}

/// `assistant` and `user` lines.
#[derive(Debug, Deserialize)]
pub(crate) struct MessageLine<'a> {
    #[serde(borrow)]
    pub(crate) message: Message<'a>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(crate) parent_tool_use_id: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(crate) is_api_error_message: Option<bool>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(crate) error: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(crate) api_error_params: Option<ApiErrorParams>,
    #[serde(default, deserialize_with = "read_object")]
    pub(crate) tool_use_result: Option<ToolUseResult>,
}

impl MessageLine<'_> {
    /// Returns who wrote the message.
    pub(crate) fn speaker(&self) -> Speaker {
        match self.parent_tool_use_id {
            Some(_) => Speaker::Subagent,
            None => Speaker::Agent,
        }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Message<'a> {
    #[serde(default, deserialize_with = "read_scalar")]
    pub(crate) id: Option<String>,
    #[serde(borrow, default, deserialize_with = "read_scalar")]
    pub(crate) model: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) content: Content<'a>,
}

/// The blocks of a message, or of a tool's result. A bare string is one text block.
#[derive(Debug, Default)]
pub(crate) struct Content<'a> {
    pub(crate) blocks: Vec<Block<'a>>,
    /// Number of blocks that could not be read.
    pub(crate) lost: usize,
}

impl<'a> Content<'a> {
    fn from_text(text: Cow<'a, str>) -> Self {
        let block = Block { kind: Text("text".into()), text: Some(Text(text)), ..Block::default() };
        Self { blocks: vec![block], lost: 0 }
    }
}

/// One block of a message.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Block<'a> {
    /// Empty if absent; no readable block has an empty type.
    #[serde(borrow, rename = "type", default, deserialize_with = "read_text_or_empty")]
    pub(crate) kind: Text<'a>,
    #[serde(borrow, default, deserialize_with = "read_scalar")]
    pub(crate) text: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_scalar")]
    pub(crate) thinking: Option<Text<'a>>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(crate) id: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(crate) name: Option<String>,
    #[serde(borrow, default)]
    pub(crate) input: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(crate) tool_use_id: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(crate) is_error: Option<bool>,
    #[serde(borrow, default)]
    content: Content<'a>,
}

impl Block<'_> {
    /// Returns the output of a tool as text: a string, or the text of its blocks.
    pub(crate) fn output(&self) -> Cow<'_, str> {
        if let [Block { text: Some(Text(text)), .. }] = self.content.blocks.as_slice() {
            return Cow::Borrowed(text);
        }
        let texts: Vec<Cow<'_, str>> = self
            .content
            .blocks
            .iter()
            .map(|block| match &block.text {
                Some(Text(text)) => Cow::Borrowed(text.as_ref()),
                None => Cow::Owned(format!("[{}]", block.kind.0)),
            })
            .collect();
        Cow::Owned(texts.join("\n"))
    }
}

fn read_text_or_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Text<'de>, D::Error> {
    read_scalar(deserializer).map(Option::unwrap_or_default)
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("anything")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Content::from_text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Content::from_text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut content = Content::default();
        while let Some(Item(block)) = items.next_element()? {
            match block.filter(|block: &Block<'_>| !block.kind.0.is_empty()) {
                Some(block) => content.blocks.push(block),
                None => content.lost += 1,
            }
        }
        Ok(content)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Content::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Content::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Content::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Content::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Content::default())
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Content::default())
    }
}

/// An item of a list of blocks; `None` if it is not a block.
#[derive(Deserialize)]
#[serde(transparent)]
struct Item<'a>(#[serde(borrow, deserialize_with = "read_object")] Option<Block<'a>>);

/// The fields of tools' inputs that are worth showing, and those of the to-do tools.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Input<'a> {
    #[serde(borrow, default, deserialize_with = "read_scalar")]
    pub(super) command: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_scalar")]
    pub(super) file_path: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_scalar")]
    pub(super) notebook_path: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_scalar")]
    pub(super) pattern: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_scalar")]
    pub(super) query: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_scalar")]
    pub(super) url: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_scalar")]
    pub(super) skill: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_scalar")]
    pub(super) description: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_scalar")]
    pub(super) subject: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_scalar")]
    old_string: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_scalar")]
    new_string: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_scalar")]
    content: Option<Text<'a>>,
    #[serde(default, deserialize_with = "read_lenient")]
    edits: Option<Vec<Edit>>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) todos: Option<Vec<Todo>>,
    #[serde(default, rename = "taskId", deserialize_with = "read_scalar")]
    pub(super) task_id: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) status: Option<String>,
}

/// One edit of `MultiEdit`.
#[derive(Debug, Deserialize)]
struct Edit {
    #[serde(default, deserialize_with = "read_scalar")]
    old_string: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    new_string: Option<String>,
}

/// More edits of one call are not shown.
const MOST_EDITS: usize = 8;

impl Input<'_> {
    /// Returns the texts that an edit removes and adds, cut to what is shown.
    pub(super) fn list_edits(&self) -> Vec<(String, String)> {
        let shorten = |text: &Option<Text<'_>>| {
            text.as_ref().map(|text| shorten_text(&text.0)).unwrap_or_default()
        };
        let added = if self.new_string.is_some() { &self.new_string } else { &self.content };
        let single = (shorten(&self.old_string), shorten(added));
        let several = self.edits.iter().flatten().take(MOST_EDITS).map(|edit| {
            let shorten = |text: &Option<String>| text.as_deref().map(shorten_text);
            let (old, new) = (shorten(&edit.old_string), shorten(&edit.new_string));
            (old.unwrap_or_default(), new.unwrap_or_default())
        });
        let all = std::iter::once(single).chain(several);
        all.filter(|(removed, added)| removed != added).collect()
    }
}

/// An entry of `TodoWrite` or of the task tools.
#[derive(Debug, Deserialize)]
pub(crate) struct Todo {
    #[serde(default, deserialize_with = "read_scalar")]
    pub(crate) id: Option<String>,
    #[serde(default, alias = "subject", deserialize_with = "read_scalar")]
    pub(crate) content: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(crate) status: Option<String>,
}

/// The parts of `tool_use_result` that contain more than the text.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ToolUseResult {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) task: Option<Todo>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) tasks: Option<Vec<Todo>>,
    #[serde(default, rename = "bashEditDiff", deserialize_with = "read_lenient")]
    pub(super) bash_edit: Option<BashEdit>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct BashEdit {
    #[serde(default, rename = "changedFiles")]
    pub(super) changed_files: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ApiErrorParams {
    #[serde(default, deserialize_with = "read_lenient")]
    pub(crate) rate_limit_info: Option<RateLimitInfo>,
}

/// `rate_limit_event` lines.
#[derive(Debug, Deserialize)]
pub(crate) struct RateLimitEvent {
    pub(crate) rate_limit_info: RateLimitInfo,
}

#[derive(Debug, Deserialize)]
pub(crate) struct RateLimitInfo {
    #[serde(default, deserialize_with = "read_scalar")]
    pub(crate) status: Option<String>,
    /// Seconds since the epoch.
    #[serde(default, rename = "resetsAt", deserialize_with = "read_scalar")]
    pub(crate) resets_at: Option<i64>,
}

/// `result` lines.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ResultLine {
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) subtype: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) is_error: Option<bool>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) terminal_reason: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) num_turns: Option<u32>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) result: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) errors: Option<Vec<String>>,
    #[serde(default)]
    pub(super) structured_output: Option<serde_json::Value>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) api_error: Option<String>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) api_error_status: Option<u16>,
    #[serde(default, deserialize_with = "read_scalar")]
    pub(super) total_cost_usd: Option<f64>,
    #[serde(default, deserialize_with = "read_lenient")]
    pub(super) usage: Option<TurnUsage>,
    #[serde(default, rename = "modelUsage", deserialize_with = "read_lenient")]
    pub(super) model_usage: Option<BTreeMap<String, ModelUsage>>,
}

/// Usage of the last turn.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "the names are those of the wire")]
pub(crate) struct TurnUsage {
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) cache_read_input_tokens: u64,
    pub(crate) cache_creation_input_tokens: u64,
}

/// Usage of one model for the whole process, including subagents.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the names are those of the wire")]
pub(super) struct ModelUsage {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) cache_read_input_tokens: u64,
    pub(super) cache_creation_input_tokens: u64,
}
