//! How Qwen Code is called: flags, environment, prompt on stdin.
//!
//! Not here: the provider and its key, which the user sets up.

use ralph_core::capability::{McpServers, SchemaOutput, Support};
use ralph_core::failure::Failure;
use ralph_core::ports::Request;
use ralph_core::recipe::Permissions;

use crate::call::{Call, CallContext, argument};
use crate::gemini::{Flag, with_flags};

/// Hint on how to install the program.
pub(crate) const INSTALL_HINT: &str =
    "install Qwen Code (`npm install -g @qwen-code/qwen-code`), or set `agent.command`";

/// Returns how to call Qwen Code.
pub(crate) fn call(request: &Request, context: &CallContext) -> Result<Call, Failure> {
    let mut flags = Vec::new();
    match request.agent.permissions {
        Permissions::Skip => flags.push(Flag::switch("--yolo", &["-y", "--approval-mode"])),
        Permissions::Ask => {}
    }
    if let Some(model) = &request.agent.model {
        flags.push(Flag::with("-m", &["--model"], model));
    }
    let can = request.agent.capabilities;
    if let (Some(model), Support::Yes) = (&request.agent.fallback_model, can.fallback_model) {
        flags.push(Flag::with("--fallback-model", &[], model));
    }
    let turns = request.agent.max_turns.filter(|turns| *turns > 0);
    if let (Some(turns), Support::Yes) = (turns, can.turn_limit) {
        flags.push(Flag::with("--max-session-turns", &[], turns.to_string()));
    }
    if let (Some(servers), McpServers::Added) = (&context.mcp_config, can.mcp) {
        flags.push(Flag::with("--mcp-config", &[], servers.to_string_lossy()));
    }
    if let (Some(system), Support::Yes) = (&context.system_prompt, can.system_prompt) {
        let text = argument(&system.text, "the system prompt")?;
        flags.push(Flag::with("--append-system-prompt", &[], text));
    }
    if let (Some(_), SchemaOutput::Enforced) = (&request.schema, can.schema) {
        let file = context.schema_file.to_string_lossy();
        flags.push(Flag::with("--json-schema", &[], format!("@{file}")));
    }
    // Suppresses a warning that would come first on stderr.
    with_flags(request, context, flags, &[("QWEN_CODE_SUPPRESS_YOLO_WARNING", "1")])
}
