//! How Cline is called: flags, then the prompt as an argument, because `--json` requires one.
//!
//! Not here: `--yolo`. That mode prompts a model that just answers again, without end; approving
//! everything is the default without it.

use ralph_core::ports::AgentRequest;
use ralph_model::agent::Permissions;
use ralph_model::failure::Failure;

use crate::call::{AgentCall, CallContext, FlagBuilder, LONGEST_ARGUMENT, deliver_prompt};

/// The argument if the prompt cannot be one. Cline appends stdin to it.
const SEE_STDIN: &str = "Do what the following text asks.";

/// Returns how to call Cline.
pub(crate) fn build_call(
    request: &AgentRequest,
    context: &CallContext,
) -> Result<AgentCall, Failure> {
    let delivery = deliver_prompt(request, context)?;
    let mut flags = FlagBuilder::new(&delivery.flags);
    flags.add_flag(&["--json"], None);
    match request.agent.permissions {
        Permissions::Ask => flags.add_flag(&["--auto-approve"], Some("false")),
        Permissions::Skip => {}
    }
    if let Some(model) = &request.agent.model {
        flags.add_flag(&["-m", "--model"], Some(model));
    }
    let mut args = flags.append_user_flags();
    let mut stdin = delivery.stdin;
    if !stdin.is_empty() {
        if can_be_argument(&request.prompt) {
            args.push(request.prompt.clone());
            stdin.clear();
        } else {
            args.push(SEE_STDIN.to_owned());
        }
    }
    Ok(AgentCall::new(request, args, stdin))
}

/// Returns whether Cline accepts a text as prompt argument. It treats a single word as a command,
/// and a leading dash as a flag.
fn can_be_argument(prompt: &str) -> bool {
    prompt.len() <= LONGEST_ARGUMENT
        && prompt.trim().contains(' ')
        && !prompt.trim_start().starts_with('-')
        && !prompt.contains('\0')
}
