//! The messages that ralph sends to an agent: the call with the first request, and every later
//! message.
//!
//! Not here: when they are sent (`conversation`).

use std::path::Path;

use ralph_core::ports::AgentRequest;
use ralph_model::agent::Permissions;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::wire;
use crate::call::{AgentCall, split_flags};

/// The version of the protocol.
pub(super) const VERSION: u64 = 1;

/// Returns how to call an agent. The prompt is not part of the call: ralph sends it when the agent
/// has opened a session.
pub(crate) fn build_call(request: &AgentRequest) -> AgentCall {
    AgentCall::new(request, split_flags(&request.agent.flags), build_greeting())
}

/// ralph's requests, with their JSON-RPC ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AcpRequest {
    Greeting = 1,
    Session = 2,
    Prompt = 3,
}

fn build_greeting() -> Vec<u8> {
    let capabilities =
        json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false});
    build_request(
        AcpRequest::Greeting,
        "initialize",
        &json!({
            "protocolVersion": VERSION, "clientCapabilities": capabilities,
            "clientInfo": {"name": "ralph", "version": env!("CARGO_PKG_VERSION")},
        }),
    )
}

/// Returns the request for a session in a directory, without MCP servers.
pub(super) fn build_session_request(directory: &Path) -> Vec<u8> {
    let params = json!({"cwd": directory.to_string_lossy(), "mcpServers": []});
    build_request(AcpRequest::Session, "session/new", &params)
}

/// Returns the request with the prompt.
pub(super) fn build_prompt(session: &str, text: &str) -> Vec<u8> {
    let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
    build_request(AcpRequest::Prompt, "session/prompt", &params)
}

/// Returns the answer to a permission request: the widest option that the permissions allow.
pub(super) fn build_permission(
    id: &RawValue,
    options: &[wire::PermissionOption],
    permissions: Permissions,
) -> Vec<u8> {
    let kinds = match permissions {
        Permissions::Skip => ["allow_always", "allow_once"],
        Permissions::Ask => ["reject_once", "reject_always"],
    };
    let chosen = kinds
        .into_iter()
        .find_map(|kind| options.iter().find(|option| option.kind.as_deref() == Some(kind)))
        .and_then(|option| option.id.as_deref());
    let outcome = match chosen {
        Some(id) => json!({"outcome": "selected", "optionId": id}),
        None => json!({"outcome": "cancelled"}),
    };
    encode_message(&json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": outcome}}))
}

/// Returns the answer to a request that ralph does not support.
pub(super) fn build_refusal(id: &RawValue, method: &str) -> Vec<u8> {
    let message_text = format!("ralph does not offer {method}");
    encode_message(
        &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": message_text}}),
    )
}

fn build_request(kind: AcpRequest, method: &str, params: &Value) -> Vec<u8> {
    encode_message(&json!({"jsonrpc": "2.0", "id": kind as u8, "method": method, "params": params}))
}

fn encode_message(body: &Value) -> Vec<u8> {
    let mut bytes = body.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}
