//! Anthropic's messages, as Claude Code asks for them.

use serde_json::{Value, json};

use super::http::Frame;
use super::server::{Frames, Mode, Route, fresh, offers_tools};
use super::turn::{Answer, Refusal};

/// Classifies a request.
pub(super) fn route(path: &str, body: &Value) -> Route {
    if path.ends_with("/count_tokens") {
        return Route::Beside(json!({ "input_tokens": 100 }));
    }
    if !path.ends_with("/messages") {
        return Route::Beside(json!({}));
    }
    let mode = if body["stream"] == true { Mode::Stream } else { Mode::Whole };
    if offers_tools(body) { Route::Turn(mode) } else { Route::Aside(mode) }
}

/// Builds an answer in one piece.
pub(super) fn message(body: &Value, answer: &Answer) -> Value {
    let mut content = Vec::new();
    if !answer.text.is_empty() {
        content.push(json!({ "type": "text", "text": answer.text }));
    }
    for tool in &answer.tools {
        let id = format!("toolu_{}", fresh());
        content
            .push(json!({ "type": "tool_use", "id": id, "name": tool.name, "input": tool.input }));
    }
    json!({
        "id": format!("msg_{}", fresh()),
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
pub(super) fn frames(body: &Value, answer: &Answer) -> Frames {
    let message = message(body, answer);
    let mut start = message.clone();
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    let mut content =
        vec![frame("message_start", json!({ "type": "message_start", "message": start }))];
    for (index, block) in message["content"].as_array().into_iter().flatten().enumerate() {
        let mut opening = block.clone();
        let deltas: Vec<Value> = if block["type"] == "text" {
            opening["text"] = json!("");
            let delta = |text| json!({ "type": "text_delta", "text": text });
            answer.pieces().into_iter().map(delta).collect()
        } else {
            opening["input"] = json!({});
            let input = block["input"].to_string();
            vec![json!({ "type": "input_json_delta", "partial_json": input })]
        };
        content.push(frame(
            "content_block_start",
            json!({ "type": "content_block_start", "index": index, "content_block": opening }),
        ));
        content.extend(deltas.into_iter().map(|delta| {
            let data = json!({ "type": "content_block_delta", "index": index, "delta": delta });
            frame("content_block_delta", data)
        }));
        content.push(frame(
            "content_block_stop",
            json!({ "type": "content_block_stop", "index": index }),
        ));
    }
    let delta = json!({ "stop_reason": message["stop_reason"], "stop_sequence": null });
    let ending = vec![
        frame(
            "message_delta",
            json!({ "type": "message_delta", "delta": delta, "usage": message["usage"] }),
        ),
        frame("message_stop", json!({ "type": "message_stop" })),
    ];
    Frames { content, ending }
}

#[expect(clippy::needless_pass_by_value, reason = "events are written where they are sent")]
fn frame(name: &'static str, data: Value) -> Frame {
    Frame { name: Some(name), data: data.to_string() }
}

/// Builds the body of an error.
pub(super) fn error(refusal: &Refusal) -> Value {
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
pub(super) fn limit(resets_at: u64) -> (Vec<(String, String)>, Value) {
    let unified =
        |name: &str, value: &str| (format!("anthropic-ratelimit-unified-{name}"), value.to_owned());
    let headers = vec![
        unified("status", "rejected"),
        unified("representative-claim", "five_hour"),
        unified("reset", &resets_at.to_string()),
    ];
    let message = "This request would exceed your account's rate limit.".to_owned();
    (headers, error(&Refusal { status: 429, message, headers: Vec::new() }))
}
