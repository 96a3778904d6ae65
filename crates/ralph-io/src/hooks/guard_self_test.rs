//! The guard self-test: before a run starts, its hook is given a call that it must deny.
//!
//! A hook that does not start, or prints nothing, silently allows everything. Not here: the hook's
//! command, and what to do if it fails.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::process::{ProcessLimits, Spawn, StdinSource, Watch, capture_output};

/// A hook takes milliseconds; a machine under load some more.
const PATIENCE: Duration = Duration::from_secs(30);

/// Answers are much shorter.
const LONGEST_ANSWER: usize = 64 * 1024;

/// The call that must be denied. It is never run.
const FORBIDDEN_COMMAND: &str = "rm -rf /";

/// Sends a hook a call that it must deny. Fails with a description of what it did instead.
pub fn run_self_test(
    command: &str,
    project: &Path,
    env: Vec<(OsString, OsString)>,
    watch: &Watch,
) -> Result<(), String> {
    let call = json!({
        "session_id": "canary",
        "cwd": project,
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": { "command": FORBIDDEN_COMMAND },
    });
    let spawn = Spawn {
        program: "sh".into(),
        args: vec!["-c".into(), command.into()],
        cwd: project.to_owned(),
        env,
        stdin: StdinSource::Bytes(call.to_string().into_bytes()),
        limits: ProcessLimits {
            hard: Some(PATIENCE),
            grace: Duration::from_millis(500),
            ..ProcessLimits::default()
        },
    };
    let done = capture_output(&spawn, watch, LONGEST_ANSWER);
    let answer: Option<Value> = serde_json::from_slice(&done.stdout).ok();
    let output = answer.as_ref().map(|answer| &answer["hookSpecificOutput"]);
    let is_denied = output.is_some_and(|output| {
        output["permissionDecision"] == "deny"
            && output["permissionDecisionReason"].as_str().is_some_and(|it| it.contains("guard"))
    });
    if is_denied && done.end.ending.is_success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&done.stderr);
    let message = message.trim().lines().last().unwrap_or_default();
    Err(match message {
        "" => format!("{}, and did not deny it", done.end.ending),
        message => format!("{}: {message}", done.end.ending),
    })
}
