//! How Amp is called: flags first, `-x` last, prompt on stdin.
//!
//! Not here: a system prompt. Amp reads instructions from `AGENTS.md` only.

use ralph_core::checking::secret::is_secret_name;
use ralph_core::ports::AgentRequest;
use ralph_model::agent::Permissions;
use ralph_model::failure::{Failure, FailureClass};
use serde_json::{Map, Value, json};

use crate::call::{AgentCall, CallContext, FlagBuilder, check_argument, deliver_prompt, has_flag};
use crate::mcp::{McpServerSpec, McpTransport};

/// Returns how to call Amp.
pub(crate) fn build_call(
    request: &AgentRequest,
    context: &CallContext,
) -> Result<AgentCall, Failure> {
    let delivery = deliver_prompt(request, context)?;
    let user = &delivery.flags;
    let mut flags = FlagBuilder::new(user);
    flags.add_flag(&["--stream-json"], None);
    match request.agent.permissions {
        // No longer in its help, but still the only flag for it.
        Permissions::Skip => flags.add_flag(&["--dangerously-allow-all"], None),
        Permissions::Ask => {}
    }
    // Amp has modes instead of models.
    if let Some(mode) = &request.agent.model {
        flags.add_flag(&["-m", "--mode"], Some(mode));
    }
    if !context.mcp_servers.is_empty() && !has_flag(user, &["--mcp-config"]) {
        let servers =
            check_argument(&encode_servers(&context.mcp_servers)?, "the list of MCP servers")?;
        flags.add_flag(&["--mcp-config"], Some(&servers));
    }
    let mut args = flags.append_user_flags();
    // The message follows `-x` directly, so `-x` without one must be last.
    if !has_flag(user, &["-x", "--execute"]) {
        args.push("-x".to_owned());
    }
    Ok(AgentCall::new(request, args, delivery.stdin))
}

/// Returns servers in the form that Amp takes: as an argument, not as a file. All users of the
/// machine can read arguments, so fails if one looks secret.
fn encode_servers(servers: &[McpServerSpec]) -> Result<String, Failure> {
    let mut entries = Map::new();
    for server in servers {
        let (entry, hidden) = match &server.transport {
            McpTransport::Stdio { command, args, env } => {
                (json!({ "command": command, "args": args, "env": env }), env)
            }
            McpTransport::Remote { url, headers } => {
                (json!({ "url": url, "headers": headers }), headers)
            }
        };
        if let Some(name) = hidden.keys().find(|name| is_secret_name(name)) {
            let server = &server.name;
            let message =
                format!("`{name}` of the MCP server `{server}` would be visible to anybody");
            return Err(Failure::new(FailureClass::BadCall, message)
                .with_hint("put this server into the settings file of Amp instead"));
        }
        entries.insert(server.name.clone(), entry);
    }
    Ok(Value::from(entries).to_string())
}
