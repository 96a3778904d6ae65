//! How Claude Code is called: flags, environment, prompt on stdin.
//!
//! Not here: which flags a version supports. The request lists its capabilities, and a flag that
//! is still unknown is named on stderr.

use ralph_core::ports::AgentRequest;
use ralph_model::agent::{AgentChoice, AgentOutput, Permissions};
use ralph_model::capability::{SchemaOutput, Support};
use ralph_model::failure::Failure;
use ralph_model::hook_state::make_session_id;
use ralph_model::units::UsdMicros;

use crate::call::{
    AgentCall, CallContext, FlagBuilder, IdleWatch, Privilege, build_environment, check_argument,
    deliver_prompt, has_flag, split_flags,
};

/// Variables of a Claude session that ralph itself may run in. A child that sees them treats
/// itself as part of that session. Not all of `CLAUDE*`: the login, the provider and the
/// configuration directory belong to the user, and an agent without them is not logged in.
const SESSION_MARKS: [&str; 9] = [
    "CLAUDECODE",
    "CLAUDE_PID",
    "CLAUDE_PROJECT_DIR",
    "CLAUDE_ENV_FILE",
    "CLAUDE_PLUGIN_*",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SESSION*",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_CODE_CHILD*",
];

/// Tools that keep a run open after its result, waiting for a time or an event that may never
/// come. They are disallowed by name; a list of allowed tools would also remove tools that a later
/// version adds, and web search.
const LINGERING_TOOLS: &str = "ScheduleWakeup,Monitor,CronCreate,CronDelete,CronList,RemoteTrigger";

/// User flags that select a session.
const OTHER_SESSIONS: [&str; 5] = ["--resume", "-r", "--continue", "-c", "--from-pr"];

/// Sources of settings and instructions: the same as when a user starts Claude in the project.
/// Without `project` it reads neither `CLAUDE.md` nor the skills, commands and agents of the
/// project.
const SOURCES: &str = "user,project,local";

/// Returns how to call Claude Code.
pub(crate) fn build_call(
    request: &AgentRequest,
    context: &CallContext,
) -> Result<AgentCall, Failure> {
    let delivery = deliver_prompt(request, context)?;
    let user = &delivery.flags;
    let mut args = FlagBuilder::new(user);
    args.add_flag(&["-p", "--print"], None);
    let output = select_output(request);
    match request.agent.output {
        AgentOutput::Events => {
            args.add_flag(&["--output-format"], Some("stream-json"));
            args.add_flag(&["--verbose"], None);
        }
        AgentOutput::Text => args.add_flag(&["--output-format"], Some("text")),
    }
    match request.agent.permissions {
        Permissions::Skip if !has_flag(user, &["--permission-mode"]) => {
            args.add_flag(&["--dangerously-skip-permissions"], None);
        }
        Permissions::Skip | Permissions::Ask => {}
    }
    args.add_flag(&["--setting-sources"], Some(SOURCES));
    // Without a list of its own it starts the servers of the project, which the user trusts.
    if let Some(servers) = context.mcp_config.as_ref().map(|path| path.to_string_lossy()) {
        args.add_flag(&["--strict-mcp-config"], None);
        args.add_flag(&["--mcp-config"], Some(&servers));
    }
    if !has_flag(user, &["--tools"]) {
        args.add_flag(&["--disallowedTools", "--disallowed-tools"], Some(LINGERING_TOOLS));
    }
    if let Some(model) = &request.agent.model {
        args.add_flag(&["--model"], Some(model));
    }
    if let Some(model) = &request.agent.fallback_model {
        args.add_flag(&["--fallback-model"], Some(model));
    }
    // `--max-turns 0` means no limit at all.
    if let Some(turns) = request.agent.max_turns.filter(|turns| *turns > 0) {
        args.add_flag(&["--max-turns"], Some(&turns.to_string()));
    }
    let can = request.agent.capabilities;
    if let (Some(left), Support::Yes) = (request.cost_left, can.cost_limit) {
        args.add_flag(&["--max-budget-usd"], Some(&format_dollars(left)));
    }
    if let (Some(system), Support::Yes) = (&context.system_prompt, can.system_prompt) {
        args.add_flag(&["--append-system-prompt-file"], Some(&system.file.to_string_lossy()));
    }
    if let (Some(schema), SchemaOutput::Enforced) = (&request.schema, can.schema) {
        // It rejects a path; the schema itself must be the argument.
        args.add_flag(
            &["--json-schema"],
            Some(&check_argument(&schema.to_string(), "the schema")?),
        );
    }
    if let Some(session) = &request.session {
        args.add_flag(&OTHER_SESSIONS, Some(&session.id));
    }
    if let Some(plugin) = context.plugin.as_ref().filter(|_| can_use_plugin(&request.agent)) {
        args.add_flag(&["--settings"], Some(&build_hook_settings(request, context)));
        // In addition to the user's plugins: the flag may be given several times.
        args.add_always("--plugin-dir", &plugin.to_string_lossy());
        if has_hook_events(request) {
            args.add_flag(&["--include-hook-events"], None);
        }
        // A hook recognizes ralph's session by this id. A resumed session has its own.
        if request.session.is_none() && !has_flag(user, &OTHER_SESSIONS) {
            let session = make_session_id(&request.run, request.iteration, request.ask);
            args.add_flag(&["--session-id"], Some(&session));
        }
    }
    Ok(AgentCall {
        env_remove: SESSION_MARKS
            .iter()
            .map(|&mark| mark.to_owned())
            .chain(request.agent.env_deny.clone())
            .collect(),
        env: build_environment(
            request,
            &build_variables(request, context, &context.self_exe.to_string_lossy()),
        ),
        idle: match output {
            AgentOutput::Events => IdleWatch::Watch,
            AgentOutput::Text => IdleWatch::Off,
        },
        ..AgentCall::new(request, args.append_user_flags(), delivery.stdin)
    })
}

/// Returns settings that keep ralph's hooks enabled. They take precedence over those of the user
/// and of the project, also over changes that the agent makes to these during the call: neither
/// `disableAllHooks` nor an `env` that points the hooks elsewhere has an effect there.
fn build_hook_settings(request: &AgentRequest, context: &CallContext) -> String {
    let mut env = serde_json::Map::new();
    env.insert("RALPH_EXE".to_owned(), context.self_exe.to_string_lossy().into());
    env.insert("RALPH_RUN_ID".to_owned(), request.run.to_string().into());
    let active = context.active_file.as_ref().map(|file| file.to_string_lossy().into());
    env.extend(active.map(|file| ("RALPH_ACTIVE".to_owned(), file)));
    serde_json::json!({ "disableAllHooks": false, "env": env }).to_string()
}

/// Returns what the CLI will print: a format among the user's flags wins over the settings.
///
/// The `json` format is the last line of the stream, and is read the same way.
pub(crate) fn select_output(request: &AgentRequest) -> AgentOutput {
    let flags = split_flags(&request.agent.flags);
    let format = flags.iter().enumerate().rev().find_map(|(at, flag)| {
        let value = flag.strip_prefix("--output-format")?;
        value.strip_prefix('=').or_else(|| flags.get(at + 1).map(String::as_str))
    });
    match format {
        Some("text") => AgentOutput::Text,
        Some(_) => AgentOutput::Events,
        None => request.agent.output,
    }
}

/// Returns whether a call passes ralph's plugin. With `--bare` or `--safe-mode` among the user's
/// flags it does not.
pub(crate) fn can_use_plugin(agent: &AgentChoice) -> bool {
    let is_bare = has_flag(&split_flags(&agent.flags), &["--bare", "--safe-mode"]);
    agent.capabilities.plugin.is_supported() && !is_bare
}

/// Returns whether the stream of a call reports hooks. The other formats cannot.
fn has_hook_events(request: &AgentRequest) -> bool {
    let is_users = has_flag(&split_flags(&request.agent.flags), &["--output-format"]);
    request.agent.output == AgentOutput::Events && !is_users
}

fn build_variables<'a>(
    request: &AgentRequest,
    context: &CallContext,
    exe: &'a str,
) -> Vec<(&'static str, &'a str)> {
    let mut variables = vec![
        // Hooks are run by the same binary that drives the run.
        ("RALPH_EXE", exe),
        ("DISABLE_AUTOUPDATER", "1"),
        // Ensures one result, and no shell that outlives it.
        ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
        // A fresh context must not read the auto-memory of the last one.
        ("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1"),
    ];
    match (context.privilege, request.agent.permissions) {
        // As root it refuses to skip permissions without this.
        (Privilege::Root, Permissions::Skip) => variables.push(("IS_SANDBOX", "1")),
        (Privilege::Root, Permissions::Ask) | (Privilege::User, _) => {}
    }
    if context.mcp_config.is_some() {
        // Otherwise the model sees only the names of MCP tools.
        variables.push(("ENABLE_TOOL_SEARCH", "false"));
    }
    variables
}

/// Writes an amount for `--max-budget-usd`, which must be more than zero.
fn format_dollars(amount: UsdMicros) -> String {
    let micros = amount.0.max(1);
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
