//! How Qwen Code is called: flags, environment, prompt on stdin.
//!
//! Not here: the provider and its key, which the user sets up.

use ralph_core::ports::AgentRequest;
use ralph_model::agent::Permissions;
use ralph_model::capability::{McpServers, SchemaOutput, Support};
use ralph_model::failure::Failure;

use crate::call::{AgentCall, CallContext, check_argument};
use crate::gemini::{Flag, build_call_with_flags};

/// Hint on how to install the program.
pub(crate) const INSTALL_HINT: &str =
    "install Qwen Code (`npm install -g @qwen-code/qwen-code`), or set `agent.command`";

/// Returns how to call Qwen Code.
pub(crate) fn build_call(
    request: &AgentRequest,
    context: &CallContext,
) -> Result<AgentCall, Failure> {
    let mut flags = Vec::new();
    match request.agent.permissions {
        Permissions::Skip => flags.push(Flag::for_switch("--yolo", &["-y", "--approval-mode"])),
        Permissions::Ask => {}
    }
    if let Some(model) = &request.agent.model {
        flags.push(Flag::with_value("-m", &["--model"], model));
    }
    let can = request.agent.capabilities;
    if let (Some(model), Support::Yes) = (&request.agent.fallback_model, can.fallback_model) {
        flags.push(Flag::with_value("--fallback-model", &[], model));
    }
    let turns = request.agent.max_turns.filter(|turns| *turns > 0);
    if let (Some(turns), Support::Yes) = (turns, can.turn_limit) {
        flags.push(Flag::with_value("--max-session-turns", &[], turns.to_string()));
    }
    if let (Some(servers), McpServers::Added) = (&context.mcp_config, can.mcp) {
        flags.push(Flag::with_value("--mcp-config", &[], servers.to_string_lossy()));
    }
    if let (Some(system), Support::Yes) = (&context.system_prompt, can.system_prompt) {
        let text = check_argument(&system.text, "the system prompt")?;
        flags.push(Flag::with_value("--append-system-prompt", &[], text));
    }
    if let (Some(_), SchemaOutput::Enforced) = (&request.schema, can.schema) {
        let file = context.schema_file.to_string_lossy();
        flags.push(Flag::with_value("--json-schema", &[], format!("@{file}")));
    }
    // Suppresses a warning that would come first on stderr.
    build_call_with_flags(request, context, flags, &[("QWEN_CODE_SUPPRESS_YOLO_WARNING", "1")])
}
