//! How Cline is called: flags, then the prompt as an argument, because `--json` requires one.
//!
//! Not here: `--yolo`. That mode prompts a model that just answers again, without end; approving
//! everything is the default without it.

use ralph_core::ports::AgentRequest;
use ralph_model::agent::Permissions;
use ralph_model::failure::Failure;

use crate::call::{AgentCall, CallContext, IdleWatch, build_environment, deliver_prompt, has_flag};

/// The longest prompt in an argument. Linux allows 128 KiB for one.
const LONGEST_ARGUMENT: usize = 100_000;

/// The argument if the prompt cannot be one. Cline appends stdin to it.
const SEE_STDIN: &str = "Do what the following text asks.";

/// Returns how to call Cline.
pub(crate) fn build_call(
    request: &AgentRequest,
    context: &CallContext,
) -> Result<AgentCall, Failure> {
    let delivery = deliver_prompt(request, context)?;
    let user = delivery.flags;
    let mut args = Vec::new();
    if !has_flag(&user, &["--json"]) {
        args.push("--json".to_owned());
    }
    match request.agent.permissions {
        Permissions::Ask if !has_flag(&user, &["--auto-approve"]) => {
            args.extend(["--auto-approve", "false"].map(str::to_owned));
        }
        Permissions::Ask | Permissions::Skip => {}
    }
    if let Some(model) = &request.agent.model
        && !has_flag(&user, &["-m", "--model"])
    {
        args.extend(["-m".to_owned(), model.clone()]);
    }
    args.extend(user);
    let mut stdin = delivery.stdin;
    if !stdin.is_empty() {
        if can_be_argument(&request.prompt) {
            args.push(request.prompt.clone());
            stdin.clear();
        } else {
            args.push(SEE_STDIN.to_owned());
        }
    }
    Ok(AgentCall {
        program: request.agent.command.clone(),
        args,
        stdin,
        env_remove: request.agent.env_deny.clone(),
        env: build_environment(request, &[]),
        idle: IdleWatch::Watch,
    })
}

/// Returns whether Cline accepts a text as prompt argument. It treats a single word as a command,
/// and a leading dash as a flag.
fn can_be_argument(prompt: &str) -> bool {
    prompt.len() <= LONGEST_ARGUMENT
        && prompt.trim().contains(' ')
        && !prompt.trim_start().starts_with('-')
        && !prompt.contains('\0')
}
