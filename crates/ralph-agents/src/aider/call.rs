//! How Aider is called: one message from a file, no terminal, no commits of its own.
//!
//! Not here: the repository map, which Aider caches in `.aider.tags.cache.v4` and excludes in
//! `.gitignore` by itself.

use ralph_core::ports::AgentRequest;
use ralph_model::agent::Permissions;
use ralph_model::failure::Failure;

use crate::call::{AgentCall, CallContext, FlagBuilder, IdleWatch, deliver_prompt};
use crate::turn_status::FailureHints;

/// Hint on how to install the program.
pub(super) const INSTALL_HINT: &str =
    "install Aider (`python -m pip install aider-chat`), or set `agent.command`";

/// Hints for failures of its calls.
pub(super) const HINTS: FailureHints = FailureHints {
    install: INSTALL_HINT,
    login: "set the API key of the model's provider, such as OPENAI_API_KEY",
    silence: None,
};

/// Flags of every call. Without them Aider asks for updates, sends analytics, rewraps its output,
/// fetches pages named in the prompt, and writes its history into the project.
const SWITCHES: [&str; 9] = [
    "--no-auto-commits",
    "--no-check-update",
    "--no-analytics",
    "--no-pretty",
    "--no-stream",
    "--no-show-release-notes",
    "--no-show-model-warnings",
    "--no-detect-urls",
    "--no-suggest-shell-commands",
];

/// Returns how to call Aider.
pub(super) fn build_call(
    request: &AgentRequest,
    context: &CallContext,
) -> Result<AgentCall, Failure> {
    let delivery = deliver_prompt(request, context)?;
    let mut flags = FlagBuilder::new(&delivery.flags);
    match request.agent.permissions {
        Permissions::Skip => flags.add_flag(&["--yes-always"], None),
        Permissions::Ask => {}
    }
    for switch in SWITCHES {
        flags.add_flag(&[switch], None);
    }
    for history in ["--chat-history-file", "--input-history-file"] {
        flags.add_flag(&[history], Some("/dev/null"));
    }
    if let Some(model) = &request.agent.model {
        flags.add_flag(&["--model"], Some(model));
    }
    // The prompt is in the arguments only where the user's flags put it there.
    if !delivery.stdin.is_empty() {
        let file = context.prompt_file.to_string_lossy();
        flags.add_flag(&["--message-file", "-f"], Some(&file));
    }
    // It prints nothing while the model works.
    let idle = IdleWatch::Off;
    Ok(AgentCall { idle, ..AgentCall::new(request, flags.append_user_flags(), Vec::new()) })
}
