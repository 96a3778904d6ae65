//! How GitHub Copilot CLI is called: its events, prompt on stdin.
//!
//! Not here: hooks, which are files in the user's or the project's configuration.

use ralph_core::failure::Failure;
use ralph_core::ports::Request;
use ralph_core::recipe::Permissions;

use crate::call::{Call, CallContext, IdleWatch, deliver, environment};
use crate::json_events::Flags;
use crate::turn::Hints;

/// Hint on how to install the program.
pub(crate) const INSTALL_HINT: &str =
    "install GitHub Copilot CLI (`npm install -g @github/copilot`), or set `agent.command`";

/// Hints for failures of its calls.
pub(super) const HINTS: Hints = Hints {
    install: INSTALL_HINT,
    login: "run `copilot` once and use `/login`, or check the COPILOT_PROVIDER_* variables",
    silence: None,
};

/// Returns how to call GitHub Copilot CLI.
pub(crate) fn call(request: &Request, context: &CallContext) -> Result<Call, Failure> {
    let delivery = deliver(request, context)?;
    let mut flags = Flags::new(&delivery.flags);
    match request.agent.permissions {
        Permissions::Skip => flags.add(&["--allow-all-tools", "--yolo"], None),
        Permissions::Ask => {}
    }
    flags.add(&["--output-format"], Some("json"));
    if let Some(model) = &request.agent.model {
        flags.add(&["--model"], Some(model));
    }
    if let Some(servers) = &context.mcp_config {
        let servers = format!("@{}", servers.to_string_lossy());
        flags.add(&["--additional-mcp-config"], Some(&servers));
    }
    Ok(Call {
        program: request.agent.command.clone(),
        args: flags.with_users(),
        stdin: delivery.stdin,
        env_remove: request.agent.env_deny.clone(),
        env: environment(request, &[]),
        idle: IdleWatch::Watch,
    })
}
