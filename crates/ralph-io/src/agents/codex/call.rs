//! How Codex is called: `codex exec`, flags, prompt on stdin.
//!
//! Not here: MCP servers, which Codex takes from its own configuration and not from a file, and
//! limits of turns or money, which it does not have.

use ralph_core::failure::Failure;
use ralph_core::ports::Request;
use ralph_core::recipe::Permissions;

use crate::agents::call::{Call, CallContext, IdleWatch, deliver, environment, has_flag};

/// Without it Codex waits for a network without end. A key, not `--disable`: a version that does
/// not know the key ignores it.
const BOUNDED_RETRIES: &str = "features.unbounded_connection_retries";

/// The user's ways to say what Codex may do. Without any of them nothing can be written, and the
/// agent claims to have written it.
const AUTONOMY: [&str; 5] = [
    "--sandbox",
    "--dangerously-bypass-approvals-and-sandbox",
    "--yolo",
    "--approve-for-me",
    "--full-auto",
];

/// Returns how to call Codex.
pub(in crate::agents) fn call(request: &Request, context: &CallContext) -> Result<Call, Failure> {
    let delivery = deliver(request, context)?;
    let user = delivery.flags;
    let mut args = vec!["exec".to_owned()];
    // A flag given twice is a usage error.
    if !has_flag(&user, &["--json", "--experimental-json"]) {
        args.push("--json".to_owned());
    }
    match request.agent.permissions {
        Permissions::Skip if !has_autonomy(&user) => {
            args.extend(["-s", "workspace-write"].map(str::to_owned));
        }
        Permissions::Skip | Permissions::Ask => {}
    }
    if !sets(&user, BOUNDED_RETRIES) {
        args.extend(["-c".to_owned(), format!("{BOUNDED_RETRIES}=false")]);
    }
    if let Some(model) = &request.agent.model
        && !has_flag(&user, &["--model"])
        && !has_short(&user, "-m")
        && !sets(&user, "model")
    {
        args.extend(["-m".to_owned(), model.clone()]);
    }
    // `--image` takes every word behind it, also the `-`; without one stdin is the prompt, too.
    let has_image = has_flag(&user, &["--image"]) || has_short(&user, "-i");
    args.extend(user);
    // Where the user's flags hold the prompt, stdin is empty, and `-` would be a second prompt.
    if !delivery.stdin.is_empty() && !has_image {
        args.push("-".to_owned());
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

fn has_autonomy(user: &[String]) -> bool {
    has_flag(user, &AUTONOMY) || has_short(user, "-s") || sets(user, "sandbox_mode")
}

/// Returns whether the user's flags give a short flag, with its value behind it or joined to it.
fn has_short(user: &[String], name: &str) -> bool {
    user.iter().any(|flag| flag.starts_with(name))
}

/// Returns whether the user's flags set a key of the configuration: `-c key=value` in any of its
/// spellings.
fn sets(user: &[String], key: &str) -> bool {
    user.iter().any(|flag| {
        let setting = ["--config=", "-c="]
            .iter()
            .find_map(|name| flag.strip_prefix(name))
            .or_else(|| flag.strip_prefix("-c"))
            .unwrap_or(flag);
        setting.split_once('=').is_some_and(|(name, _)| name.trim() == key)
    })
}
