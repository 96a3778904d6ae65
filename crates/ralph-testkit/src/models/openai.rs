//! `OpenAI`'s responses, as Codex requests them, and its chat completions, which most other CLIs
//! can be pointed at.

use serde_json::{Value, json};

use super::http::Frame;
use super::server::{Frames, Mode, Route, Schemas, fresh, offers_tools};
use super::strict::refuse_strict_schema;
use super::turn::{Answer, Refusal, ToolUse};

/// The path of the responses API; everything else is chat completions.
const RESPONSES: &str = "/responses";

/// Classifies a request.
pub(super) fn route(path: &str, body: &Value) -> Route {
    if !path.ends_with(RESPONSES) && !path.ends_with("/chat/completions") {
        return Route::Beside(json!({}));
    }
    let mode = if body["stream"] == true { Mode::Stream } else { Mode::Whole };
    if offers_tools(body) { Route::Turn(mode) } else { Route::Aside(mode) }
}

/// Returns the error about the requested schema, in the wording of the real API.
pub(super) fn refuse_schema(path: &str, body: &Value, schemas: Schemas) -> Option<Value> {
    let (format, param) = if path.ends_with(RESPONSES) {
        (&body["text"]["format"], "text.format.schema")
    } else {
        (&body["response_format"]["json_schema"], "response_format")
    };
    let schema = format.get("schema")?;
    let why = match schemas {
        Schemas::AsReal if format["strict"] != true => None,
        Schemas::AsReal => refuse_strict_schema(schema),
        Schemas::Refused => Some("In context=(), 'required' is not permitted.".to_owned()),
    }?;
    let name = format["name"].as_str().unwrap_or_default();
    Some(json!({ "error": {
        "message": format!("Invalid schema for response_format '{name}': {why}"),
        "type": "invalid_request_error",
        "param": param,
        "code": "invalid_json_schema",
    } }))
}

/// Builds an answer in one piece.
pub(super) fn whole(path: &str, body: &Value, answer: &Answer) -> Value {
    if path.ends_with(RESPONSES) {
        return response(body, &items(answer), "completed");
    }
    let mut message = json!({ "role": "assistant", "content": answer.text });
    if !answer.tools.is_empty() {
        message["tool_calls"] = answer.tools.iter().map(chat_call).collect();
    }
    let choice = json!({ "index": 0, "message": message, "finish_reason": finish(answer) });
    chat("chat.completion", body, &json!([choice]), &usage())
}

/// Builds an answer as a stream of events.
pub(super) fn frames(path: &str, body: &Value, answer: &Answer) -> Frames {
    if path.ends_with(RESPONSES) {
        return response_frames(body, answer);
    }
    let chunk = |delta: Value, finish: Option<&str>| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        plain(&chat("chat.completion.chunk", body, &json!([choice]), &Value::Null))
    };
    let mut content = vec![chunk(json!({ "role": "assistant", "content": "" }), None)];
    content.extend(answer.pieces().iter().map(|text| chunk(json!({ "content": text }), None)));
    for (index, tool) in answer.tools.iter().enumerate() {
        let mut call = chat_call(tool);
        call["index"] = json!(index);
        content.push(chunk(json!({ "tool_calls": [call] }), None));
    }
    let ending = vec![
        chunk(json!({}), Some(finish(answer))),
        plain(&chat("chat.completion.chunk", body, &json!([]), &usage())),
        Frame { name: None, data: "[DONE]".to_owned() },
    ];
    Frames { content, ending }
}

fn plain(data: &Value) -> Frame {
    Frame { name: None, data: data.to_string() }
}

fn finish(answer: &Answer) -> &'static str {
    if answer.tools.is_empty() { "stop" } else { "tool_calls" }
}

fn chat_call(tool: &ToolUse) -> Value {
    json!({
        "id": format!("call_{}", fresh()),
        "type": "function",
        "function": { "name": tool.name, "arguments": tool.input.to_string() },
    })
}

fn chat(object: &str, body: &Value, choices: &Value, usage: &Value) -> Value {
    json!({
        "id": "chatcmpl-scripted",
        "object": object,
        "created": 1,
        "model": body["model"],
        "choices": choices,
        "usage": usage,
    })
}

fn usage() -> Value {
    json!({ "prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110 })
}

fn items(answer: &Answer) -> Vec<Value> {
    let text = (!answer.text.is_empty()).then(|| {
        json!({
            "id": format!("msg_{}", fresh()),
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [{ "type": "output_text", "text": answer.text, "annotations": [] }],
        })
    });
    text.into_iter().chain(answer.tools.iter().map(response_call)).collect()
}

/// Builds a tool call; a string input is for a tool that takes free text.
fn response_call(tool: &ToolUse) -> Value {
    let (id, call) = (fresh(), fresh());
    let (kind, field, input) = match tool.input.as_str() {
        Some(text) => ("custom_tool_call", "input", text.to_owned()),
        None => ("function_call", "arguments", tool.input.to_string()),
    };
    json!({
        "id": format!("fc_{id}"),
        "type": kind,
        "status": "completed",
        "call_id": format!("call_{call}"),
        "name": tool.name,
        field: input,
    })
}

fn response(body: &Value, output: &[Value], status: &str) -> Value {
    json!({
        "id": "resp_scripted",
        "object": "response",
        "created_at": 1,
        "model": body["model"],
        "status": status,
        "output": output,
        "usage": {
            "input_tokens": 100,
            "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": 10,
            "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": 110,
        },
    })
}

fn response_frames(body: &Value, answer: &Answer) -> Frames {
    let items = items(answer);
    let begun = response(body, &[], "in_progress");
    let mut content =
        vec![named("response.created", json!({ "type": "response.created", "response": begun }))];
    for (at, item) in items.iter().enumerate() {
        let event = |name: &str| json!({ "type": name, "output_index": at, "item": item });
        let mut added = event("response.output_item.added");
        if item["type"] == "message" {
            added["item"]["content"] = json!([]);
        }
        content.push(named("response.output_item.added", added));
        if item["type"] == "message" {
            content.extend(answer.pieces().into_iter().map(|piece| {
                named(
                    "response.output_text.delta",
                    json!({
                        "type": "response.output_text.delta",
                        "item_id": item["id"],
                        "output_index": at,
                        "content_index": 0,
                        "delta": piece,
                    }),
                )
            }));
        }
        content.push(named("response.output_item.done", event("response.output_item.done")));
    }
    let done = response(body, &items, "completed");
    let ending = vec![named(
        "response.completed",
        json!({ "type": "response.completed", "response": done }),
    )];
    Frames { content, ending }
}

#[expect(clippy::needless_pass_by_value, reason = "events are written where they are sent")]
fn named(name: &'static str, data: Value) -> Frame {
    Frame { name: Some(name), data: data.to_string() }
}

/// Builds the body of an error.
pub(super) fn error(refusal: &Refusal) -> Value {
    let code = match refusal.status {
        401 => "invalid_api_key",
        429 => "rate_limit_exceeded",
        503 => "server_is_overloaded",
        _ => "server_error",
    };
    json!({ "error": { "message": refusal.message, "type": code, "code": code } })
}

/// Builds the body of a reached subscription limit.
pub(super) fn limit(resets_at: u64) -> Value {
    json!({ "error": {
        "type": "usage_limit_reached",
        "message": "The usage limit has been reached",
        "plan_type": "plus",
        "resets_at": resets_at,
    } })
}
