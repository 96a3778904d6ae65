//! How Amp is called: flags first, `-x` last, prompt on stdin.
//!
//! Not here: MCP servers. Amp wants their configuration as text, not as a file.

use ralph_core::failure::Failure;
use ralph_core::ports::Request;
use ralph_core::recipe::Permissions;

use crate::agents::call::{Call, CallContext, IdleWatch, deliver, environment, has_flag};

/// Returns how to call Amp.
pub(in crate::agents) fn call(request: &Request, context: &CallContext) -> Result<Call, Failure> {
    let delivery = deliver(request, context)?;
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
    // The message follows `-x` directly, so a bare one must stand last.
    let is_executed = has_flag(&user, &["-x", "--execute"]);
    args.extend(user);
    if !is_executed {
        args.push("-x".to_owned());
    }
    Ok(Call {
        program: request.agent.command.clone(),
        args,
        stdin: delivery.stdin,
        env_remove: request.agent.env_deny.clone(),
        env: environment(request, &[]),
        idle: IdleWatch::Watch,
    })
}
