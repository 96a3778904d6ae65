//! How Gemini CLI is called: flags, prompt on stdin.
//!
//! Not here: MCP servers, hooks and the turn limit, which it reads from its settings only.

use ralph_core::ports::AgentRequest;
use ralph_model::agent::Permissions;
use ralph_model::failure::{Failure, FailureClass};
use ralph_model::version::Version;

use crate::call::{AgentCall, CallContext, FlagBuilder, deliver_prompt};

/// Hint on how to install the program.
pub(crate) const INSTALL_HINT: &str =
    "install Gemini CLI (`npm install -g @google/gemini-cli`), or set `agent.command`";

/// The names of the flag for the output.
const OUTPUT: [&str; 2] = ["-o", "--output-format"];

/// The names of the flag for the model.
pub(crate) const MODEL: [&str; 2] = ["-m", "--model"];

/// The format that ralph reads, whatever it displays.
const STREAM: &str = "stream-json";

/// The first version that refuses untrusted folders, and has a flag for it.
const ASKS_FOR_TRUST: Version = Version::new(0, 41, 0);

/// Returns how to call Gemini CLI.
pub(crate) fn build_call(
    request: &AgentRequest,
    context: &CallContext,
) -> Result<AgentCall, Failure> {
    let delivery = deliver_prompt(request, context)?;
    let mut flags = begin_flags(request, &delivery.flags)?;
    match request.agent.permissions {
        // In an untrusted folder it exits, and `--yolo` has no effect.
        Permissions::Skip
            if request.agent.version.is_none_or(|version| version >= ASKS_FOR_TRUST) =>
        {
            flags.add_flag(&["--skip-trust"], None);
        }
        Permissions::Skip | Permissions::Ask => {}
    }
    if let Some(model) = &request.agent.model {
        flags.add_flag(&MODEL, Some(model));
    }
    if let Some(session) = &request.session {
        flags.add_always("--resume", &session.id);
    }
    Ok(AgentCall::new(request, flags.append_user_flags(), delivery.stdin))
}

/// Returns the first flags, for the stream of events and for permissions. Fails if the user's
/// flags select another format.
pub(crate) fn begin_flags<'a>(
    request: &AgentRequest,
    user: &'a [String],
) -> Result<FlagBuilder<'a>, Failure> {
    if let Some(format) = find_output_format(user).filter(|format| *format != STREAM) {
        let command = &request.agent.command;
        return Err(Failure::new(
            FailureClass::BadCall,
            format!("the output format `{format}` of `{command}` does not tell how a call ended"),
        )
        .with_hint(format!("remove `{}` and `{}` from `agent.flags`", OUTPUT[0], OUTPUT[1])));
    }
    let mut flags = FlagBuilder::new(user);
    flags.add_flag(&OUTPUT, Some(STREAM));
    match request.agent.permissions {
        // It refuses to start with both `--yolo` and `--approval-mode`.
        Permissions::Skip => flags.add_flag(&["--yolo", "-y", "--approval-mode"], None),
        Permissions::Ask => {}
    }
    Ok(flags)
}

/// Returns the output format that the user's flags select; the last one counts.
fn find_output_format(flags: &[String]) -> Option<&str> {
    flags.iter().enumerate().rev().find_map(|(at, flag)| match flag.split_once('=') {
        Some((name, value)) => OUTPUT.contains(&name).then_some(value),
        None if OUTPUT.contains(&flag.as_str()) => flags.get(at + 1).map(String::as_str),
        None => None,
    })
}
