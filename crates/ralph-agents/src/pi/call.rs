//! How pi is called: its events, prompt on stdin.
//!
//! Not here: permissions and MCP servers, which pi does not support.

use ralph_core::failure::Failure;
use ralph_core::ports::Request;

use crate::call::{Call, CallContext, IdleWatch, argument, deliver, environment, has_flag};
use crate::json_events::Flags;
use crate::turn::Hints;

/// Hint on how to install the program.
pub(crate) const INSTALL_HINT: &str =
    "install pi (`npm install -g @mariozechner/pi-coding-agent`), or set `agent.command`";

/// Hints for failures of its calls.
pub(super) const HINTS: Hints = Hints {
    install: INSTALL_HINT,
    login: "run `pi` once and use `/login`, or check the provider's key",
    silence: None,
};

/// Returns how to call pi.
pub(crate) fn call(request: &Request, context: &CallContext) -> Result<Call, Failure> {
    let delivery = deliver(request, context)?;
    let mut flags = Flags::new(&delivery.flags);
    flags.add(&["-p", "--print"], None);
    flags.add(&["--mode"], Some("json"));
    if let Some(model) = &request.agent.model {
        // A model name has two parts; `--provider` among the user's flags replaces the first.
        let names = model.split_once('/').filter(|_| !has_flag(&delivery.flags, &["--provider"]));
        if let Some((provider, _)) = names
            && !has_flag(&delivery.flags, &["--model"])
        {
            flags.add(&["--provider"], Some(provider));
        }
        flags.add(&["--model"], Some(names.map_or(model.as_str(), |(_, name)| name)));
    }
    if let Some(system) = &context.system_prompt {
        let text = argument(&system.text, "the system prompt")?;
        flags.add(&["--append-system-prompt"], Some(&text));
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
