//! How pi is called: its events, prompt on stdin.
//!
//! Not here: permissions and MCP servers, which pi does not support.

use ralph_core::ports::AgentRequest;
use ralph_model::failure::Failure;

use crate::call::{AgentCall, CallContext, FlagBuilder, check_argument, deliver_prompt, has_flag};
use crate::turn_status::FailureHints;

/// Hint on how to install the program.
pub(crate) const INSTALL_HINT: &str =
    "install pi (`npm install -g @mariozechner/pi-coding-agent`), or set `agent.command`";

/// Hints for failures of its calls.
pub(super) const HINTS: FailureHints = FailureHints {
    install: INSTALL_HINT,
    login: "run `pi` once and use `/login`, or check the provider's key",
    silence: None,
};

/// Returns how to call pi.
pub(crate) fn build_call(
    request: &AgentRequest,
    context: &CallContext,
) -> Result<AgentCall, Failure> {
    let delivery = deliver_prompt(request, context)?;
    let mut flags = FlagBuilder::new(&delivery.flags);
    flags.add_flag(&["-p", "--print"], None);
    flags.add_flag(&["--mode"], Some("json"));
    if let Some(model) = &request.agent.model {
        // A model name has two parts; `--provider` among the user's flags replaces the first.
        let names = model.split_once('/').filter(|_| !has_flag(&delivery.flags, &["--provider"]));
        if let Some((provider, _)) = names
            && !has_flag(&delivery.flags, &["--model"])
        {
            flags.add_flag(&["--provider"], Some(provider));
        }
        flags.add_flag(&["--model"], Some(names.map_or(model.as_str(), |(_, name)| name)));
    }
    if let Some(system) = &context.system_prompt {
        let text = check_argument(&system.text, "the system prompt")?;
        flags.add_flag(&["--append-system-prompt"], Some(&text));
    }
    if let Some(session) = &request.session {
        flags.add_always("--session", &session.id);
    }
    Ok(AgentCall::new(request, flags.append_user_flags(), delivery.stdin))
}
