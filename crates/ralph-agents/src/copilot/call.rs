//! How GitHub Copilot CLI is called: its events, prompt on stdin.
//!
//! Not here: hooks, which are files in the user's or the project's configuration.

use ralph_core::ports::AgentRequest;
use ralph_model::agent::Permissions;
use ralph_model::failure::Failure;

use crate::call::{AgentCall, CallContext, FlagBuilder, deliver_prompt};
use crate::turn_status::FailureHints;

/// Hint on how to install the program.
pub(crate) const INSTALL_HINT: &str =
    "install GitHub Copilot CLI (`npm install -g @github/copilot`), or set `agent.command`";

/// Hints for failures of its calls.
pub(super) const HINTS: FailureHints = FailureHints {
    install: INSTALL_HINT,
    login: "run `copilot` once and use `/login`, or check the COPILOT_PROVIDER_* variables",
    silence: None,
};

/// Returns how to call GitHub Copilot CLI.
pub(crate) fn build_call(
    request: &AgentRequest,
    context: &CallContext,
) -> Result<AgentCall, Failure> {
    let delivery = deliver_prompt(request, context)?;
    let mut flags = FlagBuilder::new(&delivery.flags);
    match request.agent.permissions {
        Permissions::Skip => flags.add_flag(&["--allow-all-tools", "--yolo"], None),
        Permissions::Ask => {}
    }
    flags.add_flag(&["--output-format"], Some("json"));
    if let Some(model) = &request.agent.model {
        flags.add_flag(&["--model"], Some(model));
    }
    if let Some(servers) = &context.mcp_config {
        let servers = format!("@{}", servers.to_string_lossy());
        flags.add_flag(&["--additional-mcp-config"], Some(&servers));
    }
    if let Some(session) = &request.session {
        // The value is optional: as an argument of its own it would be a prompt.
        flags.add_flag(&[&format!("--resume={}", session.id)], None);
    }
    Ok(AgentCall::new(request, flags.append_user_flags(), delivery.stdin))
}
