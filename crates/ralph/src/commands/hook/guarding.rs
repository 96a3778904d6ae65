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

use ralph_guard as guard;
use ralph_guard::{GuardDecision, GuardRefusal, GuardedToolCall, decide_call};
use ralph_io::hooks::places;
use serde::Deserialize;
use serde_json::{Value, json};

use super::session::{HookedRun, SurroundingRun, find_surrounding_run};
use crate::screen;

/// The hook's own timeout is longer; after that the agent would let the call pass.
const DEADLINE: Duration = Duration::from_secs(2);

/// Answers the hook.
pub(super) fn answer_before_tool() -> ExitCode {
    let answer = match find_surrounding_run() {
        SurroundingRun::Nothing => None,
        SurroundingRun::Unreadable => deny_by_rule("unresolvable.state", "this call"),
        SurroundingRun::Run(run) => match super::read_input() {
            Some(input) => match judge_in_time(DEADLINE, || judge_call(&input, &run), deny_and_end)
            {
                GuardResult::Answer(answer) => answer,
                // The other thread answers and ends the process.
                GuardResult::TooLate => loop {
                    std::thread::park();
                },
            },
            None => deny_by_rule("unresolvable.input", "this call"),
        },
    };
    if let Some(answer) = answer {
        screen::print_data(&format!("{answer}\n"));
    }
    ExitCode::SUCCESS
}

/// The result of judging.
#[derive(Debug, PartialEq)]
enum GuardResult {
    /// The answer, if any.
    Answer(Option<Value>),
    /// The deadline has passed; the other thread has answered.
    TooLate,
}

/// Judges on this thread, while another one waits for the deadline. The other way round the
/// answer would wait for a thread to be scheduled, which on a busy machine takes longer than
/// everything else. The parser limits its depth, so the stack of the main thread is enough; if it
/// were not, a signal would end the process and the call would be denied.
fn judge_in_time(
    deadline: Duration,
    judge: impl FnOnce() -> Option<Value>,
    late: impl FnOnce() + Send + 'static,
) -> GuardResult {
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
        return GuardResult::Answer(deny_by_rule("unresolvable.failure", "this call"));
    }
    let answer = catch_unwind(AssertUnwindSafe(judge))
        .unwrap_or_else(|_panic| deny_by_rule("unresolvable.failure", "this call"));
    if answered.swap(true, Ordering::SeqCst) {
        GuardResult::TooLate
    } else {
        GuardResult::Answer(answer)
    }
}

/// Denies a call that takes too long to judge, and ends the process.
fn deny_and_end() {
    if let Some(answer) = deny_by_rule("unresolvable.deadline", "this call") {
        screen::print_data(&format!("{answer}\n"));
    }
    std::process::exit(0);
}

/// Judges a tool call within a run.
pub(super) fn judge_call(input: &[u8], run: &HookedRun) -> Option<Value> {
    #[derive(Deserialize)]
    struct GuardHookInput {
        cwd: Option<PathBuf>,
        tool_name: String,
        #[serde(default)]
        tool_input: Value,
    }
    let Ok(asked) = serde_json::from_slice::<GuardHookInput>(input) else {
        return deny_by_rule("unresolvable.input", "this call");
    };
    let call = GuardedToolCall::new(&asked.tool_name, &asked.tool_input);
    if call == GuardedToolCall::Other {
        return None;
    }
    let cwd = asked.cwd.or_else(|| run.active.project.clone()).unwrap_or_else(|| "/".into());
    let around =
        places::build_surroundings(&run.active, &run.file, &cwd, |name| std::env::var_os(name));
    match decide_call(&run.active.guard, &guard::inspect_call(&call, &around)) {
        GuardDecision::Pass => None,
        GuardDecision::Warn(refusal) => Some(json!({
            "systemMessage": refusal.reason(),
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "additionalContext": format!("Take care: {}", refusal.reason()),
            },
        })),
        GuardDecision::Deny(refusal) => Some(build_denial(&refusal)),
    }
}

fn deny_by_rule(id: &'static str, call: &str) -> Option<Value> {
    GuardRefusal::from_hook_rule(id, call).map(|refusal| build_denial(&refusal))
}

fn build_denial(refusal: &GuardRefusal) -> Value {
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
        let failed = judge_in_time(
            long,
            || {
                let nothing: [u8; 0] = [];
                Some(json!(nothing[nothing.len()]))
            },
            || {},
        );
        let GuardResult::Answer(Some(answer)) = failed else { panic!("an answer: {failed:?}") };
        let reason = answer["hookSpecificOutput"]["permissionDecisionReason"].to_string();
        assert!(reason.contains("unresolvable.failure"), "{reason}");
        assert_eq!(judge_in_time(long, || None, || {}), GuardResult::Answer(None));
    }

    #[test]
    fn a_late_judge_is_answered_once_by_the_other_thread() {
        let (sender, receiver) = mpsc::channel();
        let judge = move || receiver.recv().ok().map(|()| json!(1));
        let late = judge_in_time(Duration::ZERO, judge, move || sender.send(()).expect("a judge"));
        assert_eq!(late, GuardResult::TooLate);
    }
}
