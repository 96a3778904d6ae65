//! Google's generated content, as Gemini CLI asks for it.

use serde_json::{Value, json};

use super::http::Frame;
use super::server::{Frames, Mode, Route, fresh, offers_tools};
use super::turn::{Answer, Refusal};

/// Classifies a request.
pub(super) fn route(path: &str, body: &Value) -> Route {
    let mode = if path.ends_with(":streamGenerateContent") {
        Mode::Stream
    } else if path.ends_with(":generateContent") {
        Mode::Whole
    } else if path.ends_with(":countTokens") {
        return Route::Beside(json!({ "totalTokens": 100 }));
    } else {
        return Route::Beside(json!({}));
    };
    if offers_tools(body) { Route::Turn(mode) } else { Route::Aside(mode) }
}

/// Returns the answer to a request without tools. The CLI lets a model choose the model.
pub(super) fn aside(body: &Value) -> String {
    if body["generationConfig"]["responseMimeType"] == "application/json" {
        json!({ "reasoning": "scripted", "model_choice": "pro" }).to_string()
    } else {
        "ok".to_owned()
    }
}

/// Builds an answer in one piece.
pub(super) fn whole(answer: &Answer) -> Value {
    let text = (!answer.text.is_empty()).then(|| json!({ "text": answer.text }));
    payload(&text.into_iter().chain(calls(answer)).collect::<Vec<_>>(), Some("STOP"))
}

/// Builds an answer as a stream of events.
pub(super) fn frames(answer: &Answer) -> Frames {
    let pieces = answer.pieces().into_iter().map(|text| json!({ "text": text }));
    let frame = |parts: &[Value], end| Frame { name: None, data: payload(parts, end).to_string() };
    Frames {
        content: pieces.chain(calls(answer)).map(|part| frame(&[part], None)).collect(),
        ending: vec![frame(&[json!({ "text": "" })], Some("STOP"))],
    }
}

fn calls(answer: &Answer) -> impl Iterator<Item = Value> {
    answer.tools.iter().map(|tool| {
        let id = format!("call{}", fresh());
        json!({ "functionCall": { "id": id, "name": tool.name, "args": tool.input } })
    })
}

fn payload(parts: &[Value], end: Option<&str>) -> Value {
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
pub(super) fn error(refusal: &Refusal) -> Value {
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
pub(super) fn limit() -> Value {
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
