//! How Codex is called: `codex exec`, flags, prompt on stdin.
//!
//! Settings without a flag are configuration keys. Not here: limits of turns or cost, which Codex
//! does not have.

use ralph_core::checking::secret::is_secret_name;
use ralph_core::ports::AgentRequest;
use ralph_model::agent::{AgentOutput, Permissions};
use ralph_model::capability::SchemaOutput;
use ralph_model::failure::Failure;

use super::adapter::DEPRECATED_FLAGS;
use crate::call::{
    AgentCall, CallContext, IdleWatch, OuterSandbox, build_environment, check_argument,
    deliver_prompt, has_flag, split_flags,
};
use crate::deprecated_flags::replace_deprecated_flags;
use crate::mcp::McpTransport;

/// Without this key Codex waits for a network forever. A key, not `--disable`: versions that do
/// not know the key ignore it.
const BOUNDED_RETRIES: &str = "features.unbounded_connection_retries";

/// Codex's sandbox does not allow writing `.git` unless it is listed here.
const WRITABLE: &str = "sandbox_workspace_write.writable_roots";

/// Disables Codex's own sandbox, which does not work inside ralph's.
const BYPASS: &str = "--dangerously-bypass-approvals-and-sandbox";

/// User flags that set what Codex may do. Without any of them Codex cannot write, and the agent
/// reports changes that it did not make.
const AUTONOMY_FLAGS: [&str; 5] =
    ["--sandbox", BYPASS, "--yolo", "--approve-for-me", "--full-auto"];

/// Returns how to call Codex.
pub(crate) fn build_call(
    request: &AgentRequest,
    context: &CallContext,
) -> Result<AgentCall, Failure> {
    let delivery = deliver_prompt(request, context)?;
    let user = replace_deprecated_flags(DEPRECATED_FLAGS, &request.agent, delivery.flags);
    let mut args = vec!["exec".to_owned()];
    let output = select_output(request);
    match output {
        // A flag given twice is a usage error.
        AgentOutput::Events if !has_flag(&user, &JSON_FLAGS) => args.push("--json".to_owned()),
        AgentOutput::Events => {}
        // Codex writes the file only when the turn is complete, so its presence means success.
        AgentOutput::Text => {
            let file = context.answer_file.to_string_lossy().into_owned();
            args.extend(["-o".to_owned(), file]);
        }
    }
    match (request.agent.permissions, context.outer_sandbox) {
        (Permissions::Skip, _) if has_autonomy_flag(&user) => {}
        (Permissions::Skip, OuterSandbox::Absent) => {
            args.extend(["-s", "workspace-write"].map(str::to_owned));
        }
        (Permissions::Skip, OuterSandbox::Present) => args.push(BYPASS.to_owned()),
        (Permissions::Ask, _) => {}
    }
    if !request.agent.writable.is_empty()
        && context.outer_sandbox == OuterSandbox::Absent
        && !has_config_key(&user, WRITABLE)
    {
        let roots = request.agent.writable.iter().map(|path| quote_toml(&path.to_string_lossy()));
        let roots = roots.collect::<Vec<_>>().join(",");
        args.extend(["-c".to_owned(), format!("{WRITABLE}=[{roots}]")]);
    }
    if !has_config_key(&user, BOUNDED_RETRIES) {
        args.extend(["-c".to_owned(), format!("{BOUNDED_RETRIES}=false")]);
    }
    if let Some(model) = &request.agent.model
        && !has_flag(&user, &["--model"])
        && !has_short_flag(&user, "-m")
        && !has_config_key(&user, "model")
    {
        args.extend(["-m".to_owned(), model.clone()]);
    }
    if let (Some(_), SchemaOutput::Unchecked) = (&request.schema, request.agent.capabilities.schema)
        && !has_flag(&user, &["--output-schema"])
    {
        let file = context.schema_file.to_string_lossy().into_owned();
        args.extend(["--output-schema".to_owned(), file]);
    }
    let mut variables = Vec::new();
    for (key, value) in build_configuration(context, &mut variables)? {
        if !has_config_key(&user, &key) {
            args.extend(["-c".to_owned(), format!("{key}={value}")]);
        }
    }
    // `--image` takes all following arguments, also the `-`; without a `-`, stdin is the prompt,
    // too.
    let has_image = has_flag(&user, &["--image"]) || has_short_flag(&user, "-i");
    args.extend(user);
    if let Some(session) = &request.session {
        args.extend(["resume".to_owned(), session.id.clone()]);
    }
    // If the user's flags contain the prompt, stdin is empty, and `-` would be a second prompt.
    if !delivery.stdin.is_empty() && !has_image {
        args.push("-".to_owned());
    }
    Ok(AgentCall {
        env: build_environment(
            request,
            &variables.iter().map(|(name, value)| (name.as_str(), *value)).collect::<Vec<_>>(),
        ),
        idle: match output {
            AgentOutput::Events => IdleWatch::Watch,
            AgentOutput::Text => IdleWatch::Off,
        },
        ..AgentCall::new(request, args, delivery.stdin)
    })
}

/// The names of the flag for events.
const JSON_FLAGS: [&str; 2] = ["--json", "--experimental-json"];

/// Names of the flag for a file with the answer. If the user gives one, ralph reads the events.
const ANSWER_FLAGS: [&str; 2] = ["-o", "--output-last-message"];

/// Returns what the CLI will print: the user's flags win over the settings.
pub(crate) fn select_output(request: &AgentRequest) -> AgentOutput {
    let flags = split_flags(&request.agent.flags);
    if has_flag(&flags, &JSON_FLAGS) || has_flag(&flags, &ANSWER_FLAGS) {
        return AgentOutput::Events;
    }
    request.agent.output
}

/// Returns configuration keys with their values in TOML: the system prompt and MCP servers.
///
/// Values that may be secret go into the environment, since all users of the machine can read
/// arguments.
fn build_configuration<'a>(
    context: &'a CallContext,
    variables: &mut Vec<(String, &'a str)>,
) -> Result<Vec<(String, String)>, Failure> {
    let mut keys = Vec::new();
    if let Some(system) = &context.system_prompt {
        let text = check_argument(&quote_toml(&system.text), "the system prompt")?;
        keys.push(("developer_instructions".to_owned(), text));
    }
    for server in &context.mcp_servers {
        let lead = format!("mcp_servers.{}", sanitize_key(&server.name));
        match &server.transport {
            McpTransport::Stdio { command, args, env } => {
                let (secret, plain): (Vec<_>, Vec<_>) =
                    env.iter().partition(|(name, _)| is_secret_name(name));
                keys.push((format!("{lead}.command"), quote_toml(command)));
                keys.push((format!("{lead}.args"), format_list(args.iter())));
                if !plain.is_empty() {
                    let table = plain.into_iter().map(|(name, value)| (name, value.as_str()));
                    keys.push((format!("{lead}.env"), format_inline_table(table)));
                }
                if !secret.is_empty() {
                    let names = secret.iter().map(|(name, _)| *name);
                    keys.push((format!("{lead}.env_vars"), format_list(names)));
                    variables.extend(
                        secret.into_iter().map(|(name, value)| (name.clone(), value.as_str())),
                    );
                }
            }
            McpTransport::Remote { url, headers } => {
                keys.push((format!("{lead}.url"), quote_toml(url)));
                let mut names = Vec::new();
                for (header, value) in headers {
                    let name = format!("RALPH_MCP_HEADER_{}", variables.len());
                    variables.push((name.clone(), value));
                    names.push((header, name));
                }
                if !names.is_empty() {
                    let table = names.iter().map(|(header, name)| (*header, name.as_str()));
                    keys.push((format!("{lead}.env_http_headers"), format_inline_table(table)));
                }
            }
        }
    }
    Ok(keys)
}

/// Returns a name that can be part of a dotted key; Codex accepts no other server names.
fn sanitize_key(name: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '_';
    name.chars().map(|it| if is_plain(it) { it } else { '_' }).collect()
}

/// Returns a text as a TOML string. JSON strings are valid TOML, except for one character.
fn quote_toml(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

fn format_list<'a>(items: impl Iterator<Item = &'a String>) -> String {
    format!("[{}]", items.map(|item| quote_toml(item)).collect::<Vec<_>>().join(","))
}

fn format_inline_table<'a>(entries: impl Iterator<Item = (&'a String, &'a str)>) -> String {
    let entry =
        |(name, value): (&String, &str)| format!("{}={}", quote_toml(name), quote_toml(value));
    format!("{{{}}}", entries.map(entry).collect::<Vec<_>>().join(","))
}

fn has_autonomy_flag(user: &[String]) -> bool {
    has_flag(user, &AUTONOMY_FLAGS)
        || has_short_flag(user, "-s")
        || has_config_key(user, "sandbox_mode")
}

/// Returns whether the user's flags contain a short flag, with its value after it or joined to it.
fn has_short_flag(user: &[String], name: &str) -> bool {
    user.iter().any(|flag| flag.starts_with(name))
}

/// Returns whether the user's flags set a configuration key: `-c key=value` in any spelling.
fn has_config_key(user: &[String], key: &str) -> bool {
    user.iter().any(|flag| {
        let setting = ["--config=", "-c="]
            .iter()
            .find_map(|name| flag.strip_prefix(name))
            .or_else(|| flag.strip_prefix("-c"))
            .unwrap_or(flag);
        setting.split_once('=').is_some_and(|(name, _)| name.trim() == key)
    })
}
