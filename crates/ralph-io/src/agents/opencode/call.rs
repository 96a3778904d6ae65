//! How `OpenCode` is called: `run` with its events, prompt on stdin.
//!
//! As an argument the prompt would arrive in quotation marks. Not here: MCP servers, which it
//! takes from its own configuration only.

use ralph_core::failure::Failure;
use ralph_core::ports::Request;
use ralph_core::recipe::Permissions;

use crate::agents::call::{Call, CallContext, IdleWatch, deliver, environment};
use crate::agents::json_events::Flags;
use crate::agents::turn::Hints;

/// How to get the program.
pub(in crate::agents) const INSTALL_HINT: &str =
    "install OpenCode (`npm install -g opencode-ai`), or set `agent.command`";

/// What its user can do.
pub(super) const HINTS: Hints = Hints {
    install: INSTALL_HINT,
    login: "run `opencode auth login`, or check the provider's key",
    // At a usage limit and at server errors it asks again for ever, without a word.
    silence: Some("OpenCode says nothing while it waits for a usage limit or a failing server"),
};

/// Returns how to call `OpenCode`.
pub(in crate::agents) fn call(request: &Request, context: &CallContext) -> Result<Call, Failure> {
    let delivery = deliver(request, context)?;
    let mut flags = Flags::new(&delivery.flags);
    flags.add(&["--format"], Some("json"));
    match request.agent.permissions {
        Permissions::Skip => flags.add(&["--auto", "--yolo"], None),
        Permissions::Ask => {}
    }
    if let Some(model) = &request.agent.model {
        flags.add(&["-m", "--model"], Some(model));
    }
    let mut args = vec!["run".to_owned()];
    args.extend(flags.with_users());
    Ok(Call {
        program: request.agent.command.clone(),
        args,
        stdin: delivery.stdin,
        env_remove: request.agent.env_deny.clone(),
        env: environment(request, &[("OPENCODE_DISABLE_AUTOUPDATE", "1")]),
        idle: IdleWatch::Watch,
    })
}
