//! Google's generated content, as Gemini CLI asks for it.

use serde_json::{Value, json};

use super::http::EventFrame;
use super::server::{AnswerFrames, AnswerMode, RequestRoute, has_tools, take_next_id};
use super::turn::{ModelAnswer, ModelRefusal};

/// Classifies a request.
pub(super) fn classify_request(path: &str, body: &Value) -> RequestRoute {
    let mode = if path.ends_with(":streamGenerateContent") {
        AnswerMode::Stream
    } else if path.ends_with(":generateContent") {
        AnswerMode::Complete
    } else if path.ends_with(":countTokens") {
        return RequestRoute::Direct(json!({ "totalTokens": 100 }));
    } else {
        return RequestRoute::Direct(json!({}));
    };
    if has_tools(body) { RequestRoute::Turn(mode) } else { RequestRoute::SideRequest(mode) }
}

/// Returns the answer to a request without tools. The CLI lets a model choose the model.
pub(super) fn answer_side_request(body: &Value) -> String {
    if body["generationConfig"]["responseMimeType"] == "application/json" {
        json!({ "reasoning": "scripted", "model_choice": "pro" }).to_string()
    } else {
        "ok".to_owned()
    }
}

/// Builds an answer in one piece.
pub(super) fn build_message(answer: &ModelAnswer) -> Value {
    let text = (!answer.text.is_empty()).then(|| json!({ "text": answer.text }));
    build_payload(&text.into_iter().chain(build_calls(answer)).collect::<Vec<_>>(), Some("STOP"))
}

/// Builds an answer as a stream of events.
pub(super) fn build_frames(answer: &ModelAnswer) -> AnswerFrames {
    let pieces = answer.split_text().into_iter().map(|text| json!({ "text": text }));
    let frame = |parts: &[Value], end| EventFrame {
        name: None,
        data: build_payload(parts, end).to_string(),
    };
    AnswerFrames {
        content: pieces.chain(build_calls(answer)).map(|part| frame(&[part], None)).collect(),
        ending: vec![frame(&[json!({ "text": "" })], Some("STOP"))],
    }
}

fn build_calls(answer: &ModelAnswer) -> impl Iterator<Item = Value> {
    answer.tools.iter().map(|tool| {
        let id = format!("call{}", take_next_id());
        json!({ "functionCall": { "id": id, "name": tool.name, "args": tool.input } })
    })
}

fn build_payload(parts: &[Value], end: Option<&str>) -> Value {
    let mut candidate = json!({ "index": 0, "content": { "role": "model", "parts": parts } });
    if let Some(end) = end {
        candidate["finishReason"] = json!(end);
    }
    json!({
        "candidates": [candidate],
        "modelVersion": "scripted",
        "responseId": "scripted",
        "usageMetadata":
            { "promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110 },
    })
}

/// Builds the body of an error.
pub(super) fn build_error(refusal: &ModelRefusal) -> Value {
    let status = match refusal.status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        _ => "INTERNAL",
    };
    json!({ "error": { "code": refusal.status, "message": refusal.message, "status": status } })
}

/// Builds the body of a reached daily limit, which does not include the reset time.
pub(super) fn build_limit() -> Value {
    let quota = "GenerateRequestsPerDayPerProjectPerModel-FreeTier";
    json!({ "error": {
        "code": 429,
        "message": "You exceeded your current quota, please check your plan.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [{
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{ "quotaId": quota, "quotaMetric": "generate_content_requests" }],
        }],
    } })
}
