//! How `OpenCode` is called: `run` with its events, prompt on stdin.
//!
//! As an argument the prompt would arrive in quotation marks. MCP servers and the system prompt
//! are merged into its configuration through a variable, so no file of the user is changed. Not
//! here: the provider and its key, which the user sets up.

use ralph_core::ports::AgentRequest;
use ralph_model::agent::Permissions;
use ralph_model::failure::Failure;
use serde_json::{Map, Value, json};

use crate::call::{AgentCall, CallContext, FlagBuilder, build_environment, deliver_prompt};
use crate::mcp::McpTransport;
use crate::turn_status::FailureHints;

/// Hints for failures of its calls.
pub(super) static HINTS: FailureHints = FailureHints {
    install: "install OpenCode (`npm install -g opencode-ai`), or set `agent.command`",
    login: "run `opencode auth login`, or check the provider's key",
    // At a usage limit and at server errors it retries forever without a message.
    silence: Some("OpenCode says nothing while it waits for a usage limit or a failing server"),
};

/// The names of variables that differ between `OpenCode` and its forks.
#[derive(Debug)]
pub(crate) struct RunVariables {
    /// Settings that are merged with the user's files.
    pub(crate) configuration: &'static str,
    /// Switches updates off.
    pub(crate) no_update: &'static str,
}

/// Returns how to call `OpenCode`.
pub(super) fn build_call(
    request: &AgentRequest,
    context: &CallContext,
) -> Result<AgentCall, Failure> {
    let variables = RunVariables {
        configuration: "OPENCODE_CONFIG_CONTENT",
        no_update: "OPENCODE_DISABLE_AUTOUPDATE",
    };
    build_run_call(request, context, &variables)
}

/// Returns how to call `OpenCode` or a fork.
pub(crate) fn build_run_call(
    request: &AgentRequest,
    context: &CallContext,
    names: &RunVariables,
) -> Result<AgentCall, Failure> {
    let delivery = deliver_prompt(request, context)?;
    let mut flags = FlagBuilder::new(&delivery.flags);
    flags.add_flag(&["--format"], Some("json"));
    match request.agent.permissions {
        Permissions::Skip => flags.add_flag(&["--auto", "--yolo"], None),
        Permissions::Ask => {}
    }
    if let Some(model) = &request.agent.model {
        flags.add_flag(&["-m", "--model"], Some(model));
    }
    if let Some(session) = &request.session {
        flags.add_always("--session", &session.id);
    }
    let mut args = vec!["run".to_owned()];
    args.extend(flags.append_user_flags());
    let joined = build_configuration(context).map(|text| (names.configuration, text));
    let mut variables = vec![(names.no_update, "1")];
    variables.extend(joined.iter().map(|(name, text)| (*name, text.as_str())));
    Ok(AgentCall {
        env: build_environment(request, &variables),
        ..AgentCall::new(request, args, delivery.stdin)
    })
}

/// Returns what a call adds to the configuration, if anything.
fn build_configuration(context: &CallContext) -> Option<String> {
    let mut settings = Map::new();
    if !context.mcp_servers.is_empty() {
        let servers = context.mcp_servers.iter();
        let servers: Map<String, Value> = servers
            .map(|server| (server.name.clone(), build_server_entry(&server.transport)))
            .collect();
        settings.insert("mcp".to_owned(), servers.into());
    }
    if let Some(system) = &context.system_prompt {
        settings.insert("instructions".to_owned(), json!([system.file.to_string_lossy()]));
    }
    (!settings.is_empty()).then(|| Value::from(settings).to_string())
}

fn build_server_entry(transport: &McpTransport) -> Value {
    match transport {
        McpTransport::Stdio { command, args, env } => {
            let command_line: Vec<&String> = std::iter::once(command).chain(args).collect();
            json!({ "type": "local", "command": command_line, "environment": env, "enabled": true })
        }
        McpTransport::Remote { url, headers } => {
            json!({ "type": "remote", "url": url, "headers": headers, "enabled": true })
        }
    }
}
