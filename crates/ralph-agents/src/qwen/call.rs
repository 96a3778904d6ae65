//! How Qwen Code is called: flags, environment, prompt on stdin.
//!
//! Not here: the provider and its key, which the user sets up.

use ralph_core::ports::AgentRequest;
use ralph_model::capability::{McpServers, SchemaOutput, Support};
use ralph_model::failure::Failure;

use crate::call::{AgentCall, CallContext, build_environment, check_argument, deliver_prompt};
use crate::gemini::{MODEL, begin_flags};

/// Hint on how to install the program.
pub(crate) const INSTALL_HINT: &str =
    "install Qwen Code (`npm install -g @qwen-code/qwen-code`), or set `agent.command`";

/// Returns how to call Qwen Code.
pub(crate) fn build_call(
    request: &AgentRequest,
    context: &CallContext,
) -> Result<AgentCall, Failure> {
    let delivery = deliver_prompt(request, context)?;
    let mut flags = begin_flags(request, &delivery.flags)?;
    if let Some(model) = &request.agent.model {
        flags.add_flag(&MODEL, Some(model));
    }
    let can = request.agent.capabilities;
    if let (Some(model), Support::Yes) = (&request.agent.fallback_model, can.fallback_model) {
        flags.add_flag(&["--fallback-model"], Some(model));
    }
    let turns = request.agent.max_turns.filter(|turns| *turns > 0);
    if let (Some(turns), Support::Yes) = (turns, can.turn_limit) {
        flags.add_flag(&["--max-session-turns"], Some(&turns.to_string()));
    }
    if let (Some(servers), McpServers::Added) = (&context.mcp_config, can.mcp) {
        flags.add_flag(&["--mcp-config"], Some(&servers.to_string_lossy()));
    }
    if let (Some(system), Support::Yes) = (&context.system_prompt, can.system_prompt) {
        let text = check_argument(&system.text, "the system prompt")?;
        flags.add_flag(&["--append-system-prompt"], Some(&text));
    }
    if let (Some(_), SchemaOutput::Enforced) = (&request.schema, can.schema) {
        let file = context.schema_file.to_string_lossy();
        flags.add_flag(&["--json-schema"], Some(&format!("@{file}")));
    }
    if let Some(session) = &request.session {
        flags.add_always("--resume", &session.id);
    }
    // Suppresses a warning that would come first on stderr.
    let env = build_environment(request, &[("QWEN_CODE_SUPPRESS_YOLO_WARNING", "1")]);
    Ok(AgentCall { env, ..AgentCall::new(request, flags.append_user_flags(), delivery.stdin) })
}
