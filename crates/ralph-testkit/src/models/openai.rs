//! `OpenAI`'s responses, as Codex requests them, and its chat completions, which most other CLIs
//! can be pointed at.

use serde_json::{Value, json};

use super::http::EventFrame;
use super::server::{
    AnswerFrames, AnswerMode, RequestRoute, SchemaTreatment, has_tools, take_next_id,
};
use super::strict::check_strict_schema;
use super::turn::{ModelAnswer, ModelRefusal, ModelToolUse};

/// The path of the responses API; everything else is chat completions.
const RESPONSES: &str = "/responses";

/// Classifies a request.
pub(super) fn classify_request(path: &str, body: &Value) -> RequestRoute {
    if !path.ends_with(RESPONSES) && !path.ends_with("/chat/completions") {
        return RequestRoute::Direct(json!({}));
    }
    let mode = if body["stream"] == true { AnswerMode::Stream } else { AnswerMode::Complete };
    if has_tools(body) { RequestRoute::Turn(mode) } else { RequestRoute::SideRequest(mode) }
}

/// Returns the error about the requested schema, in the wording of the real API.
pub(super) fn check_schema(path: &str, body: &Value, schemas: SchemaTreatment) -> Option<Value> {
    let (format, param) = if path.ends_with(RESPONSES) {
        (&body["text"]["format"], "text.format.schema")
    } else {
        (&body["response_format"]["json_schema"], "response_format")
    };
    let schema = format.get("schema")?;
    let why = match schemas {
        SchemaTreatment::AsReal if format["strict"] != true => None,
        SchemaTreatment::AsReal => check_strict_schema(schema),
        SchemaTreatment::Refused => Some("In context=(), 'required' is not permitted.".to_owned()),
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
pub(super) fn build_message(path: &str, body: &Value, answer: &ModelAnswer) -> Value {
    if path.ends_with(RESPONSES) {
        return build_response(body, &build_items(answer), "completed");
    }
    let mut message = json!({ "role": "assistant", "content": answer.text });
    if !answer.tools.is_empty() {
        message["tool_calls"] = answer.tools.iter().map(build_chat_call).collect();
    }
    let choice =
        json!({ "index": 0, "message": message, "finish_reason": choose_finish_reason(answer) });
    build_chat("chat.completion", body, &json!([choice]), &build_usage())
}

/// Builds an answer as a stream of events.
pub(super) fn build_frames(path: &str, body: &Value, answer: &ModelAnswer) -> AnswerFrames {
    if path.ends_with(RESPONSES) {
        return build_response_frames(body, answer);
    }
    let chunk = |delta: Value, finish: Option<&str>| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        build_unnamed_frame(&build_chat(
            "chat.completion.chunk",
            body,
            &json!([choice]),
            &Value::Null,
        ))
    };
    let mut content = vec![chunk(json!({ "role": "assistant", "content": "" }), None)];
    content.extend(answer.split_text().iter().map(|text| chunk(json!({ "content": text }), None)));
    for (index, tool) in answer.tools.iter().enumerate() {
        let mut call = build_chat_call(tool);
        call["index"] = json!(index);
        content.push(chunk(json!({ "tool_calls": [call] }), None));
    }
    let ending = vec![
        chunk(json!({}), Some(choose_finish_reason(answer))),
        build_unnamed_frame(&build_chat("chat.completion.chunk", body, &json!([]), &build_usage())),
        EventFrame { name: None, data: "[DONE]".to_owned() },
    ];
    AnswerFrames { content, ending }
}

fn build_unnamed_frame(data: &Value) -> EventFrame {
    EventFrame { name: None, data: data.to_string() }
}

fn choose_finish_reason(answer: &ModelAnswer) -> &'static str {
    if answer.tools.is_empty() { "stop" } else { "tool_calls" }
}

fn build_chat_call(tool: &ModelToolUse) -> Value {
    json!({
        "id": format!("call_{}", take_next_id()),
        "type": "function",
        "function": { "name": tool.name, "arguments": tool.input.to_string() },
    })
}

fn build_chat(object: &str, body: &Value, choices: &Value, usage: &Value) -> Value {
    json!({
        "id": "chatcmpl-scripted",
        "object": object,
        "created": 1,
        "model": body["model"],
        "choices": choices,
        "usage": usage,
    })
}

fn build_usage() -> Value {
    json!({ "prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110 })
}

fn build_items(answer: &ModelAnswer) -> Vec<Value> {
    let text = (!answer.text.is_empty()).then(|| {
        json!({
            "id": format!("msg_{}", take_next_id()),
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [{ "type": "output_text", "text": answer.text, "annotations": [] }],
        })
    });
    text.into_iter().chain(answer.tools.iter().map(build_response_call)).collect()
}

/// Builds a tool call; a string input is for a tool that takes free text.
fn build_response_call(tool: &ModelToolUse) -> Value {
    let (id, call) = (take_next_id(), take_next_id());
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

fn build_response(body: &Value, output: &[Value], status: &str) -> Value {
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

fn build_response_frames(body: &Value, answer: &ModelAnswer) -> AnswerFrames {
    let items = build_items(answer);
    let begun = build_response(body, &[], "in_progress");
    let mut content = vec![build_named_frame(
        "response.created",
        json!({ "type": "response.created", "response": begun }),
    )];
    for (at, item) in items.iter().enumerate() {
        let event = |name: &str| json!({ "type": name, "output_index": at, "item": item });
        let mut added = event("response.output_item.added");
        if item["type"] == "message" {
            added["item"]["content"] = json!([]);
        }
        content.push(build_named_frame("response.output_item.added", added));
        if item["type"] == "message" {
            content.extend(answer.split_text().into_iter().map(|piece| {
                build_named_frame(
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
        content.push(build_named_frame(
            "response.output_item.done",
            event("response.output_item.done"),
        ));
    }
    let done = build_response(body, &items, "completed");
    let ending = vec![build_named_frame(
        "response.completed",
        json!({ "type": "response.completed", "response": done }),
    )];
    AnswerFrames { content, ending }
}

#[expect(clippy::needless_pass_by_value, reason = "events are written where they are sent")]
fn build_named_frame(name: &'static str, data: Value) -> EventFrame {
    EventFrame { name: Some(name), data: data.to_string() }
}

/// Builds the body of an error.
pub(super) fn build_error(refusal: &ModelRefusal) -> Value {
    let code = match refusal.status {
        401 => "invalid_api_key",
        429 => "rate_limit_exceeded",
        503 => "server_is_overloaded",
        _ => "server_error",
    };
    json!({ "error": { "message": refusal.message, "type": code, "code": code } })
}

/// Builds the body of a reached subscription limit.
pub(super) fn build_limit(resets_at: u64) -> Value {
    json!({ "error": {
        "type": "usage_limit_reached",
        "message": "The usage limit has been reached",
        "plan_type": "plus",
        "resets_at": resets_at,
    } })
}
