//! How Amp is called: flags first, `-x` last, prompt on stdin.
//!
//! Not here: a system prompt. Amp reads instructions from `AGENTS.md` only.

use ralph_core::checking::secret::is_secret_name;
use ralph_core::ports::AgentRequest;
use ralph_model::agent::Permissions;
use ralph_model::failure::{Failure, FailureClass};
use serde_json::{Map, Value, json};

use crate::call::{
    AgentCall, CallContext, IdleWatch, build_environment, check_argument, deliver_prompt, has_flag,
};
use crate::mcp::{McpServerSpec, McpTransport};

/// Returns how to call Amp.
pub(crate) fn build_call(
    request: &AgentRequest,
    context: &CallContext,
) -> Result<AgentCall, Failure> {
    let delivery = deliver_prompt(request, context)?;
    let user = delivery.flags;
    let mut args = Vec::new();
    if !has_flag(&user, &["--stream-json"]) {
        args.push("--stream-json".to_owned());
    }
    match request.agent.permissions {
        // No longer in its help, but still the only flag for it.
        Permissions::Skip if !has_flag(&user, &["--dangerously-allow-all"]) => {
            args.push("--dangerously-allow-all".to_owned());
        }
        Permissions::Skip | Permissions::Ask => {}
    }
    // Amp has modes instead of models.
    if let Some(mode) = &request.agent.model
        && !has_flag(&user, &["-m", "--mode"])
    {
        args.extend(["-m".to_owned(), mode.clone()]);
    }
    if !context.mcp_servers.is_empty() && !has_flag(&user, &["--mcp-config"]) {
        let servers =
            check_argument(&encode_servers(&context.mcp_servers)?, "the list of MCP servers")?;
        args.extend(["--mcp-config".to_owned(), servers]);
    }
    // The message follows `-x` directly, so `-x` without one must be last.
    let is_executed = has_flag(&user, &["-x", "--execute"]);
    args.extend(user);
    if !is_executed {
        args.push("-x".to_owned());
    }
    Ok(AgentCall {
        program: request.agent.command.clone(),
        args,
        stdin: delivery.stdin,
        env_remove: request.agent.env_deny.clone(),
        env: build_environment(request, &[]),
        idle: IdleWatch::Watch,
    })
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
