//! How Kilo Code is called: as `OpenCode`, with its own variables and a limit of repeated requests.
//!
//! Not here: the provider and its key, which the user sets up.

use ralph_core::ports::AgentRequest;
use ralph_model::failure::Failure;

use crate::call::{AgentCall, CallContext};
use crate::opencode::{RunVariables, build_run_call};
use crate::turn_status::FailureHints;

/// Hints for failures of its calls.
pub(super) static HINTS: FailureHints = FailureHints {
    install: "install Kilo Code (`npm install -g @kilocode/cli`), or set `agent.command`",
    login: "run `kilo auth login`, or check the provider's key",
    silence: None,
};

/// How often it repeats a failed request before it reports the failure, after about 15 seconds. By
/// itself it repeats them forever without a message.
const RETRIES: &str = "3";

/// Returns how to call Kilo Code.
pub(super) fn build_call(
    request: &AgentRequest,
    context: &CallContext,
) -> Result<AgentCall, Failure> {
    let variables =
        RunVariables { configuration: "KILO_CONFIG_CONTENT", no_update: "KILO_DISABLE_AUTOUPDATE" };
    let mut call = build_run_call(request, context, &variables)?;
    let limit = call.env.entry("KILO_SESSION_RETRY_LIMIT".to_owned());
    limit.or_insert_with(|| RETRIES.to_owned());
    Ok(call)
}
