//! `ralph hook pre-tool-use`: the guard in front of an agent's tools.
//!
//! Applies to every session within a run, and fails closed there: a call that cannot be read or
//! judged in time is denied. Outside of a run it gives no answer. Not here: the rules.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ralph_core::guard::{self, Decision, Refusal, ToolCall};
use ralph_io::hooks::places;
use serde::Deserialize;
use serde_json::{Value, json};

use super::session::{Around, Run, around};
use crate::screen;

/// The hook's own timeout is longer; after that the agent would let the call pass.
const DEADLINE: Duration = Duration::from_secs(2);

/// Answers the hook.
pub(super) fn main() -> ExitCode {
    let answer = match around() {
        Around::Nothing => None,
        Around::Unreadable => denied("unresolvable.state", "this call"),
        Around::Run(run) => match super::read_input() {
            Some(input) => match in_time(DEADLINE, || judged(&input, &run), deny_and_end) {
                Judged::Answer(answer) => answer,
                // The other thread answers and ends the process.
                Judged::TooLate => loop {
                    std::thread::park();
                },
            },
            None => denied("unresolvable.input", "this call"),
        },
    };
    if let Some(answer) = answer {
        screen::print_data(&format!("{answer}\n"));
    }
    ExitCode::SUCCESS
}

/// The result of judging.
#[derive(Debug, PartialEq)]
enum Judged {
    /// The answer, if any.
    Answer(Option<Value>),
    /// The deadline has passed; the other thread has answered.
    TooLate,
}

/// Judges on this thread, while another one waits for the deadline. The other way round the
/// answer would wait for a thread to be scheduled, which on a busy machine takes longer than
/// everything else. The parser limits its depth, so the stack of the main thread is enough; if it
/// were not, a signal would end the process and the call would be denied.
fn in_time(
    deadline: Duration,
    judge: impl FnOnce() -> Option<Value>,
    late: impl FnOnce() + Send + 'static,
) -> Judged {
    // The agent gets one line about any failure; a backtrace does not help it.
    std::panic::set_hook(Box::new(|_| {}));
    let answered = Arc::new(AtomicBool::new(false));
    let watched = Arc::clone(&answered);
    let watch = std::thread::Builder::new().spawn(move || {
        std::thread::sleep(deadline);
        if !watched.swap(true, Ordering::SeqCst) {
            late();
        }
    });
    if watch.is_err() {
        return Judged::Answer(denied("unresolvable.failure", "this call"));
    }
    let answer = catch_unwind(AssertUnwindSafe(judge))
        .unwrap_or_else(|_panic| denied("unresolvable.failure", "this call"));
    if answered.swap(true, Ordering::SeqCst) { Judged::TooLate } else { Judged::Answer(answer) }
}

/// Denies a call that takes too long to judge, and ends the process.
fn deny_and_end() {
    if let Some(answer) = denied("unresolvable.deadline", "this call") {
        screen::print_data(&format!("{answer}\n"));
    }
    std::process::exit(0);
}

/// Judges a tool call within a run.
pub(super) fn judged(input: &[u8], run: &Run) -> Option<Value> {
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

fn denied(id: &'static str, call: &str) -> Option<Value> {
    Refusal::by_hook(id, call).map(|refusal| denial(&refusal))
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
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_panicking_judge_denies_the_call() {
        let long = Duration::from_secs(600);
        let failed = in_time(
            long,
            || {
                let nothing: [u8; 0] = [];
                Some(json!(nothing[nothing.len()]))
            },
            || {},
        );
        let Judged::Answer(Some(answer)) = failed else { panic!("an answer: {failed:?}") };
        let reason = answer["hookSpecificOutput"]["permissionDecisionReason"].to_string();
        assert!(reason.contains("unresolvable.failure"), "{reason}");
        assert_eq!(in_time(long, || None, || {}), Judged::Answer(None));
    }

    #[test]
    fn a_late_judge_is_answered_once_by_the_other_thread() {
        let (sender, receiver) = mpsc::channel();
        let judge = move || receiver.recv().ok().map(|()| json!(1));
        let late = in_time(Duration::ZERO, judge, move || sender.send(()).expect("a judge"));
        assert_eq!(late, Judged::TooLate);
    }
}
