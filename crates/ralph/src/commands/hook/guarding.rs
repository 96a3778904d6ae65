//! `ralph hook pre-tool-use`: the guard in front of an agent's tools.
//!
//! Applies to every session within a run, and fails closed there: a call that cannot be read or
//! looked at in time is denied. Outside of a run it has no opinion. Not here: the rules.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use ralph_core::guard::{self, Decision, Refusal, ToolCall};
use ralph_io::hooks::places;
use serde::Deserialize;
use serde_json::{Value, json};

use super::session::{Around, Run, around};
use crate::screen;

/// The hook's own timeout is longer, and past that the agent lets the call pass.
const DEADLINE: Duration = Duration::from_secs(2);

/// The parser recurses. The pages are only taken where they are needed.
const STACK: usize = 64 * 1024 * 1024;

/// Answers the hook.
pub(super) fn main() -> ExitCode {
    let answer = match around() {
        Around::Nothing => None,
        Around::Unreadable => denied("unresolvable.state", "this call"),
        Around::Run(run) => match super::read_input() {
            Some(input) => in_time(move || judged(&input, &run)),
            None => denied("unresolvable.input", "this call"),
        },
    };
    if let Some(answer) = answer {
        screen::print_data(&format!("{answer}\n"));
    }
    ExitCode::SUCCESS
}

/// Returns what a judge says within the deadline; a denial if it says nothing, or fails.
fn in_time(judge: impl FnOnce() -> Option<Value> + Send + 'static) -> Option<Value> {
    // Whatever went wrong, the agent is told in one line; a backtrace helps nobody here.
    std::panic::set_hook(Box::new(|_| {}));
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        let _ = sender.send(judge());
    });
    if thread.is_err() {
        return denied("unresolvable.failure", "this call");
    }
    match receiver.recv_timeout(DEADLINE) {
        Ok(answer) => answer,
        Err(mpsc::RecvTimeoutError::Timeout) => denied("unresolvable.deadline", "this call"),
        Err(mpsc::RecvTimeoutError::Disconnected) => denied("unresolvable.failure", "this call"),
    }
}

/// Judges a call that is made within a run.
fn judged(input: &[u8], run: &Run) -> Option<Value> {
    #[derive(Deserialize)]
    struct Asked {
        cwd: Option<PathBuf>,
        tool_name: String,
        #[serde(default)]
        tool_input: Value,
    }
    let Ok(asked) = serde_json::from_slice::<Asked>(input) else {
        return denied("unresolvable.input", "this call");
    };
    let call = ToolCall::new(&asked.tool_name, &asked.tool_input);
    if call == ToolCall::Other {
        return None;
    }
    let cwd = asked.cwd.or_else(|| run.active.project.clone()).unwrap_or_else(|| "/".into());
    let around = places::surroundings(&run.active, &run.file, &cwd, |name| std::env::var_os(name));
    match run.active.guard.decide(&guard::look(&call, &around)) {
        Decision::Pass => None,
        Decision::Warn(refusal) => Some(json!({
            "systemMessage": refusal.reason(),
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "additionalContext": format!("Take care: {}", refusal.reason()),
            },
        })),
        Decision::Deny(refusal) => Some(denial(&refusal)),
    }
}

fn denied(id: &'static str, said: &str) -> Option<Value> {
    Refusal::by_hook(id, said).map(|refusal| denial(&refusal))
}

fn denial(refusal: &Refusal) -> Value {
    json!({
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": refusal.reason(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_end_well_is_denied() {
        let reason = |answer: Option<Value>| {
            let answer = answer.expect("an answer");
            answer["hookSpecificOutput"]["permissionDecisionReason"].to_string()
        };
        let failed = in_time(|| {
            let nothing: [u8; 0] = [];
            Some(json!(nothing[nothing.len()]))
        });
        assert!(reason(failed).contains("unresolvable.failure"));
        assert_eq!(in_time(|| None), None);
        let (_keep, never) = mpsc::channel::<()>();
        let late = in_time(move || never.recv().ok().map(|()| json!(1)));
        assert!(reason(late).contains("unresolvable.deadline"));
    }
}
