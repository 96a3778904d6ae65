//! `serde_json` reading lines into typed values: the fields that the adapters read, in structs
//! as one derives them, text borrowed where nothing in it is escaped.
//!
//! Stricter than the adapters: a field of another type is an error here. Not here: what the
//! values mean.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::hint::black_box;
use std::marker::PhantomData;

use ralph_model::agent::AgentKind;
use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Reads every line as the type of its agent.
#[expect(clippy::wildcard_enum_match_arm, reason = "two agents have types here")]
pub(crate) fn read(kind: AgentKind, bytes: &[u8]) {
    match kind {
        AgentKind::Claude => each::<ClaudeLine<'_>>(bytes),
        AgentKind::Codex => each::<CodexLine<'_>>(bytes),
        AgentKind::Text => each::<String>(bytes),
        // No types are defined for these here; they are read as generic values.
        _ => each::<Value>(bytes),
    }
}

/// Reads every line as a value of one type.
pub(crate) fn each<'de, T: Deserialize<'de>>(bytes: &'de [u8]) {
    let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    for line in text.split(|&byte| byte == b'\n') {
        let value: T = serde_json::from_slice(line).expect("a line of the type");
        black_box(&value);
    }
}

#[derive(Deserialize)]
struct Text<'a>(
    #[serde(borrow)]
    #[expect(dead_code, reason = "it is only read")]
    Cow<'a, str>,
);

#[derive(Deserialize)]
struct ClaudeLine<'a> {
    #[serde(borrow, rename = "type")]
    _kind: Text<'a>,
    #[serde(borrow, rename = "subtype")]
    _subtype: Option<Text<'a>>,
    #[serde(borrow, rename = "session_id")]
    _session: Option<Text<'a>>,
    #[serde(borrow, rename = "model")]
    _model: Option<Text<'a>>,
    #[serde(borrow, rename = "claude_code_version")]
    _version: Option<Text<'a>>,
    #[serde(borrow, rename = "content")]
    _content: Option<Text<'a>>,
    #[serde(borrow, rename = "text")]
    _text: Option<Text<'a>>,
    #[serde(borrow, rename = "message")]
    _message: Option<Message<'a>>,
    #[serde(borrow, rename = "parent_tool_use_id")]
    _parent: Option<Text<'a>>,
    #[serde(borrow, rename = "error")]
    _error: Option<Text<'a>>,
    #[serde(borrow, rename = "tool_use_result", default, deserialize_with = "object")]
    _tool_use_result: Option<ToolUseResult<'a>>,
    #[serde(rename = "is_error")]
    _is_error: Option<bool>,
    #[serde(borrow, rename = "result")]
    _result: Option<Text<'a>>,
    #[serde(rename = "structured_output")]
    _structured: Option<Value>,
    #[serde(rename = "total_cost_usd")]
    _cost: Option<f64>,
    #[serde(rename = "usage", default, deserialize_with = "object")]
    _usage: Option<TurnUsage>,
    #[serde(rename = "modelUsage")]
    _model_usage: Option<BTreeMap<String, ModelUsage>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, rename = "id")]
    _id: Option<Text<'a>>,
    #[serde(borrow, rename = "model")]
    _model: Option<Text<'a>>,
    #[serde(borrow, rename = "content")]
    _content: Content<'a>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    _kind: Text<'a>,
    #[serde(borrow, rename = "text")]
    _text: Option<Text<'a>>,
    #[serde(borrow, rename = "thinking")]
    _thinking: Option<Text<'a>>,
    #[serde(borrow, rename = "id")]
    _id: Option<Text<'a>>,
    #[serde(borrow, rename = "name")]
    _name: Option<Text<'a>>,
    #[serde(borrow, rename = "input")]
    _input: Option<Input<'a>>,
    #[serde(borrow, rename = "tool_use_id")]
    _tool_use_id: Option<Text<'a>>,
    #[serde(rename = "is_error")]
    _is_error: Option<bool>,
    #[serde(borrow, rename = "content")]
    _content: Option<Content<'a>>,
}

#[derive(Deserialize)]
struct Input<'a> {
    #[serde(borrow, rename = "command")]
    _command: Option<Text<'a>>,
    #[serde(borrow, rename = "file_path")]
    _file_path: Option<Text<'a>>,
    #[serde(borrow, rename = "pattern")]
    _pattern: Option<Text<'a>>,
    #[serde(borrow, rename = "description")]
    _description: Option<Text<'a>>,
    #[serde(borrow, rename = "subject")]
    _subject: Option<Text<'a>>,
    #[serde(borrow, rename = "todos", default)]
    _todos: Vec<Todo<'a>>,
    #[serde(borrow, rename = "status")]
    _status: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Todo<'a> {
    #[serde(borrow, rename = "id")]
    _id: Option<Text<'a>>,
    #[serde(borrow, rename = "content", alias = "subject")]
    _content: Option<Text<'a>>,
    #[serde(borrow, rename = "status")]
    _status: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct ToolUseResult<'a> {
    #[serde(borrow, rename = "task")]
    _task: Option<Todo<'a>>,
    #[serde(borrow, rename = "tasks", default)]
    _tasks: Vec<Todo<'a>>,
}

#[derive(Deserialize)]
struct TurnUsage {
    #[serde(rename = "input_tokens")]
    _input: Option<u64>,
    #[serde(rename = "output_tokens")]
    _output: Option<u64>,
    #[serde(rename = "cache_read_input_tokens")]
    _cache_read: Option<u64>,
}

#[derive(Deserialize)]
struct ModelUsage {
    #[serde(rename = "inputTokens")]
    _input: Option<u64>,
    #[serde(rename = "outputTokens")]
    _output: Option<u64>,
    #[serde(rename = "cacheReadInputTokens")]
    _cache_read: Option<u64>,
}

#[derive(Deserialize)]
struct CodexLine<'a> {
    #[serde(borrow, rename = "type")]
    _kind: Text<'a>,
    #[serde(borrow, rename = "thread_id")]
    _thread: Option<Text<'a>>,
    #[serde(borrow, rename = "item")]
    _item: Option<Item<'a>>,
    #[serde(rename = "usage")]
    _usage: Option<TurnUsage>,
    #[serde(borrow, rename = "message")]
    _message: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, rename = "id")]
    _id: Option<Text<'a>>,
    #[serde(borrow, rename = "type")]
    _kind: Text<'a>,
    #[serde(borrow, rename = "text")]
    _text: Option<Text<'a>>,
    #[serde(borrow, rename = "status")]
    _status: Option<Text<'a>>,
    #[serde(borrow, rename = "command")]
    _command: Option<Text<'a>>,
    #[serde(borrow, rename = "aggregated_output")]
    _output: Option<Text<'a>>,
    #[serde(rename = "exit_code")]
    _exit_code: Option<i64>,
    #[serde(borrow, rename = "changes", default)]
    _changes: Vec<Change<'a>>,
    #[serde(borrow, rename = "items", default)]
    _items: Vec<CodexTodo<'a>>,
}

#[derive(Deserialize)]
struct Change<'a> {
    #[serde(borrow, rename = "path")]
    _path: Text<'a>,
    #[serde(borrow, rename = "kind")]
    _kind: Text<'a>,
}

#[derive(Deserialize)]
struct CodexTodo<'a> {
    #[serde(borrow, rename = "text")]
    _text: Text<'a>,
    #[serde(rename = "completed")]
    _completed: bool,
}

/// A text, or blocks.
enum Content<'a> {
    Text(#[expect(dead_code, reason = "it is only read")] Cow<'a, str>),
    Blocks(#[expect(dead_code, reason = "it is only read")] Vec<Block<'a>>),
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ContentVisitor;
        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = Content<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("text or blocks")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Content::Text(text.into()))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Content::Text(text.to_owned().into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut blocks = Vec::new();
                while let Some(block) = items.next_element()? {
                    blocks.push(block);
                }
                Ok(Content::Blocks(blocks))
            }
        }
        deserializer.deserialize_any(ContentVisitor)
    }
}

/// Reads an object where there may also be something else.
fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    struct ObjectVisitor<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
        type Value = Option<T>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("anything")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map)).map(Some)
        }

        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            Ok(None)
        }
    }
    deserializer.deserialize_any(ObjectVisitor(PhantomData))
}
