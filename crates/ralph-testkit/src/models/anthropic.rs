//! Anthropic's messages, as Claude Code asks for them.

use serde_json::{Value, json};

use super::http::EventFrame;
use super::server::{AnswerFrames, AnswerMode, RequestRoute, has_tools, take_next_id};
use super::turn::{ModelAnswer, ModelRefusal};

/// Classifies a request.
pub(super) fn classify_request(path: &str, body: &Value) -> RequestRoute {
    if path.ends_with("/count_tokens") {
        return RequestRoute::Direct(json!({ "input_tokens": 100 }));
    }
    if !path.ends_with("/messages") {
        return RequestRoute::Direct(json!({}));
    }
    let mode = if body["stream"] == true { AnswerMode::Stream } else { AnswerMode::Complete };
    if has_tools(body) { RequestRoute::Turn(mode) } else { RequestRoute::SideRequest(mode) }
}

/// Builds an answer in one piece.
pub(super) fn build_message(body: &Value, answer: &ModelAnswer) -> Value {
    let mut content = Vec::new();
    if !answer.text.is_empty() {
        content.push(json!({ "type": "text", "text": answer.text }));
    }
    for tool in &answer.tools {
        let id = format!("toolu_{}", take_next_id());
        content
            .push(json!({ "type": "tool_use", "id": id, "name": tool.name, "input": tool.input }));
    }
    json!({
        "id": format!("msg_{}", take_next_id()),
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": if answer.tools.is_empty() { "end_turn" } else { "tool_use" },
        "stop_sequence": null,
        "usage": { "input_tokens": 100, "output_tokens": 10 },
    })
}

/// Builds an answer as a stream of events.
pub(super) fn build_frames(body: &Value, answer: &ModelAnswer) -> AnswerFrames {
    let message = build_message(body, answer);
    let mut start = message.clone();
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    let mut content =
        vec![build_frame("message_start", json!({ "type": "message_start", "message": start }))];
    for (index, block) in message["content"].as_array().into_iter().flatten().enumerate() {
        let mut opening = block.clone();
        let deltas: Vec<Value> = if block["type"] == "text" {
            opening["text"] = json!("");
            let delta = |text| json!({ "type": "text_delta", "text": text });
            answer.split_text().into_iter().map(delta).collect()
        } else {
            opening["input"] = json!({});
            let input = block["input"].to_string();
            vec![json!({ "type": "input_json_delta", "partial_json": input })]
        };
        content.push(build_frame(
            "content_block_start",
            json!({ "type": "content_block_start", "index": index, "content_block": opening }),
        ));
        content.extend(deltas.into_iter().map(|delta| {
            let data = json!({ "type": "content_block_delta", "index": index, "delta": delta });
            build_frame("content_block_delta", data)
        }));
        content.push(build_frame(
            "content_block_stop",
            json!({ "type": "content_block_stop", "index": index }),
        ));
    }
    let delta = json!({ "stop_reason": message["stop_reason"], "stop_sequence": null });
    let ending = vec![
        build_frame(
            "message_delta",
            json!({ "type": "message_delta", "delta": delta, "usage": message["usage"] }),
        ),
        build_frame("message_stop", json!({ "type": "message_stop" })),
    ];
    AnswerFrames { content, ending }
}

#[expect(clippy::needless_pass_by_value, reason = "events are written where they are sent")]
fn build_frame(name: &'static str, data: Value) -> EventFrame {
    EventFrame { name: Some(name), data: data.to_string() }
}

/// Builds the body of an error.
pub(super) fn build_error(refusal: &ModelRefusal) -> Value {
    let kind = match refusal.status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    json!({ "type": "error", "error": { "type": kind, "message": refusal.message } })
}

/// Builds headers and body of a reached subscription limit.
pub(super) fn build_limit(resets_at: u64) -> (Vec<(String, String)>, Value) {
    let unified =
        |name: &str, value: &str| (format!("anthropic-ratelimit-unified-{name}"), value.to_owned());
    let headers = vec![
        unified("status", "rejected"),
        unified("representative-claim", "five_hour"),
        unified("reset", &resets_at.to_string()),
    ];
    let message = "This request would exceed your account's rate limit.".to_owned();
    (headers, build_error(&ModelRefusal { status: 429, message, headers: Vec::new() }))
}
