//! How Gemini CLI is called: flags, prompt on stdin.
//!
//! Not here: MCP servers, hooks and the turn limit, which it reads from its settings only.

use ralph_core::ports::AgentRequest;
use ralph_model::agent::Permissions;
use ralph_model::failure::{Failure, FailureClass};
use ralph_model::version::Version;

use crate::call::{AgentCall, CallContext, IdleWatch, build_environment, deliver_prompt, has_flag};

/// Hint on how to install the program.
pub(crate) const INSTALL_HINT: &str =
    "install Gemini CLI (`npm install -g @google/gemini-cli`), or set `agent.command`";

/// A flag that ralph adds.
pub(crate) struct Flag<'a> {
    /// Name of the flag.
    pub(crate) name: &'a str,
    /// User flags that replace it.
    pub(crate) yields_to: &'a [&'a str],
    pub(crate) value: Option<String>,
}

impl<'a> Flag<'a> {
    /// Returns a flag without a value.
    pub(crate) fn for_switch(name: &'a str, yields_to: &'a [&'a str]) -> Self {
        Self { name, yields_to, value: None }
    }

    /// Returns a flag with its value.
    pub(crate) fn with_value(
        name: &'a str,
        yields_to: &'a [&'a str],
        value: impl Into<String>,
    ) -> Self {
        Self { name, yields_to, value: Some(value.into()) }
    }
}

/// The names of the flag for the output.
const OUTPUT: [&str; 2] = ["-o", "--output-format"];

/// The format that ralph reads, whatever it displays.
const STREAM: &str = "stream-json";

/// The first version that refuses untrusted folders, and has a flag for it.
const ASKS_FOR_TRUST: Version = Version::new(0, 41, 0);

/// Returns how to call Gemini CLI.
pub(crate) fn build_call(
    request: &AgentRequest,
    context: &CallContext,
) -> Result<AgentCall, Failure> {
    let mut flags = Vec::new();
    match request.agent.permissions {
        Permissions::Skip => {
            // It refuses to start with both flags.
            flags.push(Flag::for_switch("--yolo", &["-y", "--approval-mode"]));
            // In an untrusted folder it exits, and `--yolo` has no effect.
            if request.agent.version.is_none_or(|version| version >= ASKS_FOR_TRUST) {
                flags.push(Flag::for_switch("--skip-trust", &[]));
            }
        }
        Permissions::Ask => {}
    }
    if let Some(model) = &request.agent.model {
        flags.push(Flag::with_value("-m", &["--model"], model));
    }
    build_call_with_flags(request, context, flags, &[])
}

/// Returns a call for the stream of events with ralph's flags, then the user's, which win.
pub(crate) fn build_call_with_flags(
    request: &AgentRequest,
    context: &CallContext,
    flags: Vec<Flag<'_>>,
    variables: &[(&str, &str)],
) -> Result<AgentCall, Failure> {
    let delivery = deliver_prompt(request, context)?;
    let user = delivery.flags;
    if let Some(format) = find_output_format(&user).filter(|format| *format != STREAM) {
        let command = &request.agent.command;
        return Err(Failure::new(
            FailureClass::BadCall,
            format!("the output format `{format}` of `{command}` does not tell how a call ended"),
        )
        .with_hint(format!("remove `{}` and `{}` from `agent.flags`", OUTPUT[0], OUTPUT[1])));
    }
    let mut args = Vec::new();
    for flag in [Flag::with_value(OUTPUT[0], &OUTPUT[1..], STREAM)].into_iter().chain(flags) {
        if !has_flag(&user, &[flag.name]) && !has_flag(&user, flag.yields_to) {
            args.push(flag.name.to_owned());
            args.extend(flag.value);
        }
    }
    args.extend(user);
    Ok(AgentCall {
        program: request.agent.command.clone(),
        args,
        stdin: delivery.stdin,
        env_remove: request.agent.env_deny.clone(),
        env: build_environment(request, variables),
        idle: IdleWatch::Watch,
    })
}

/// Returns the output format that the user's flags select; the last one counts.
fn find_output_format(flags: &[String]) -> Option<&str> {
    flags.iter().enumerate().rev().find_map(|(at, flag)| match flag.split_once('=') {
        Some((name, value)) => OUTPUT.contains(&name).then_some(value),
        None if OUTPUT.contains(&flag.as_str()) => flags.get(at + 1).map(String::as_str),
        None => None,
    })
}
