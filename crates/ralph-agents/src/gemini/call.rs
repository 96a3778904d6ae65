//! How Gemini CLI is called: flags, prompt on stdin.
//!
//! Not here: MCP servers, hooks and the limit of turns, which it reads from its settings only.

use ralph_core::failure::{Failure, FailureClass};
use ralph_core::ports::Request;
use ralph_core::recipe::Permissions;
use ralph_core::version::Version;

use crate::call::{Call, CallContext, IdleWatch, deliver, environment, has_flag};

/// How to get the program.
pub(crate) const INSTALL_HINT: &str =
    "install Gemini CLI (`npm install -g @google/gemini-cli`), or set `agent.command`";

/// A flag of ours.
pub(crate) struct Flag<'a> {
    /// What it is written as.
    pub(crate) name: &'a str,
    /// Flags of the user's that take its place.
    pub(crate) yields_to: &'a [&'a str],
    /// What follows it.
    pub(crate) value: Option<String>,
}

impl<'a> Flag<'a> {
    /// Returns a flag that stands alone.
    pub(crate) fn switch(name: &'a str, yields_to: &'a [&'a str]) -> Self {
        Self { name, yields_to, value: None }
    }

    /// Returns a flag with its value.
    pub(crate) fn with(name: &'a str, yields_to: &'a [&'a str], value: impl Into<String>) -> Self {
        Self { name, yields_to, value: Some(value.into()) }
    }
}

/// The names of the flag for the output.
const OUTPUT: [&str; 2] = ["-o", "--output-format"];

/// The format that is read, whatever the view shows of it.
const STREAM: &str = "stream-json";

/// The first version that refuses folders it was not told to trust, and has a flag for it.
const ASKS_FOR_TRUST: Version = Version::new(0, 41, 0);

/// Returns how to call Gemini CLI.
pub(crate) fn call(request: &Request, context: &CallContext) -> Result<Call, Failure> {
    let mut flags = Vec::new();
    match request.agent.permissions {
        Permissions::Skip => {
            // It refuses to start with both ways to say it.
            flags.push(Flag::switch("--yolo", &["-y", "--approval-mode"]));
            // In a folder that it was never told to trust it exits, and `--yolo` has no effect.
            if request.agent.version.is_none_or(|version| version >= ASKS_FOR_TRUST) {
                flags.push(Flag::switch("--skip-trust", &[]));
            }
        }
        Permissions::Ask => {}
    }
    if let Some(model) = &request.agent.model {
        flags.push(Flag::with("-m", &["--model"], model));
    }
    with_flags(request, context, flags, &[])
}

/// Returns a call for the stream of events with our flags, then the user's, which win.
pub(crate) fn with_flags(
    request: &Request,
    context: &CallContext,
    flags: Vec<Flag<'_>>,
    variables: &[(&str, &str)],
) -> Result<Call, Failure> {
    let delivery = deliver(request, context)?;
    let user = delivery.flags;
    if let Some(format) = format_of(&user).filter(|format| *format != STREAM) {
        let command = &request.agent.command;
        return Err(Failure::new(
            FailureClass::BadCall,
            format!("the output format `{format}` of `{command}` does not tell how a call ended"),
        )
        .with_hint(format!("remove `{}` and `{}` from `agent.flags`", OUTPUT[0], OUTPUT[1])));
    }
    let mut args = Vec::new();
    for flag in [Flag::with(OUTPUT[0], &OUTPUT[1..], STREAM)].into_iter().chain(flags) {
        if !has_flag(&user, &[flag.name]) && !has_flag(&user, flag.yields_to) {
            args.push(flag.name.to_owned());
            args.extend(flag.value);
        }
    }
    args.extend(user);
    Ok(Call {
        program: request.agent.command.clone(),
        args,
        stdin: delivery.stdin,
        env_remove: request.agent.env_deny.clone(),
        env: environment(request, variables),
        idle: IdleWatch::Watch,
    })
}

/// Returns the output format that the user's flags ask for; the last one counts.
fn format_of(flags: &[String]) -> Option<&str> {
    flags.iter().enumerate().rev().find_map(|(at, flag)| match flag.split_once('=') {
        Some((name, value)) => OUTPUT.contains(&name).then_some(value),
        None if OUTPUT.contains(&flag.as_str()) => flags.get(at + 1).map(String::as_str),
        None => None,
    })
}
