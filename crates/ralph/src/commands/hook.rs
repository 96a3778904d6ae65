//! `ralph hook EVENT`: answers the hooks of an agent's session.
//!
//! This runs inside a session that ralph may not have started, so it never breaks one: unknown input
//! gets no answer, and the exit code is always 0. Only the guard is different: within a run it
//! denies what it cannot understand. Hooks read no settings and start nothing, except git when a
//! session of ralph's wants to stop. Not here: the rules and the texts, which are in the core.

pub(crate) mod explain;
mod guarding;
mod session;
mod stop;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ralph_core::hooks::context_alert::{self, LargeWindows, LeftoverDestination, WindowUsage};
use ralph_core::hooks::session_start_hook;
use ralph_io::hooks::notes::{ResetExtent, SessionNotebook};
use ralph_io::hooks::transcript;
use ralph_io::store::active::WINDOW_VARIABLE;
use ralph_model::units::Tokens;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use self::session::{HookedRun, SessionOwner, find_session_owner};
use crate::screen;

/// Tools may read files of many megabytes, and their output is part of a hook's input. A larger
/// input is ignored.
const MAX_INPUT_BYTES: u64 = 64 * 1024 * 1024;

/// Answers a hook.
pub(crate) fn answer_hook(event: &str) -> ExitCode {
    let answer: fn(&[u8]) -> Option<Value> = match event {
        "session-start" => answer_session_start,
        "pre-tool-use" => return guarding::answer_before_tool(),
        "post-tool-use" | "post-tool-batch" => answer_after_tools,
        "stop" => stop::answer_stop,
        // A plugin may be newer than the binary it finds.
        other => {
            screen::print_line(&format!("ralph hook: there is no event `{other}`"));
            return ExitCode::SUCCESS;
        }
    };
    if let Some(answer) = read_input().and_then(|input| answer(&input)) {
        screen::print_data(&format!("{answer}\n"));
    }
    ExitCode::SUCCESS
}

/// Parses an input like each event does, and lets the guard judge it, for fuzzing.
#[cfg(test)]
pub(crate) fn fuzz_input(bytes: &[u8]) {
    let _ = HookInput::parse(bytes);
    let active = ralph_model::hook_state::HookState::new(
        ralph_model::ids::RunId("20261114-231500-k3f9".to_owned()),
        1,
        ralph_model::units::Timestamp(1),
    );
    let text = serde_json::to_string(&active).expect("it is JSON");
    let active = serde_json::from_str(&text).expect("it reads back");
    let run = HookedRun { file: "/state/p-1/active.json".into(), active };
    guarding::judge_call(bytes, &run);
}

/// Reads the input of the hook; `None` if it is too large.
fn read_input() -> Option<Vec<u8>> {
    let mut input = Vec::new();
    let read = std::io::stdin().lock().take(MAX_INPUT_BYTES + 1).read_to_end(&mut input);
    read.is_ok_and(|length| length as u64 <= MAX_INPUT_BYTES).then_some(input)
}

/// The common input of all hooks.
#[derive(Debug, Deserialize)]
struct HookInput {
    session_id: String,
    transcript_path: Option<PathBuf>,
    /// The subagent it runs in, if any.
    agent_id: Option<IgnoredAny>,
    source: Option<String>,
    #[serde(default)]
    stop_hook_active: bool,
}

impl HookInput {
    fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// Returns the notes of this session.
    fn open_notebook(&self, run: Option<&HookedRun>) -> Option<SessionNotebook> {
        let own = run.and_then(|run| run.file.parent());
        SessionNotebook::for_session(&self.session_id, own, |name| std::env::var_os(name))
    }
}

fn answer_session_start(bytes: &[u8]) -> Option<Value> {
    let input = HookInput::parse(bytes)?;
    let (run, problem) = match find_session_owner(&input.session_id) {
        SessionOwner::Own(run) => (Some(run), None),
        SessionOwner::Foreign => (None, None),
        SessionOwner::Unknown(problem) => (None, Some(problem)),
    };
    if let Some(notebook) = input.open_notebook(run.as_deref()) {
        // A session that restarts after a compaction is otherwise the same session.
        let extent = match input.source.as_deref() {
            Some("compact") => ResetExtent::Alerts,
            Some(_) | None => ResetExtent::Everything,
        };
        notebook.reset(extent);
        notebook.clean_up();
    }
    if let Some(problem) = problem {
        return Some(json!({ "systemMessage": problem }));
    }
    Some(json!({
        "hookSpecificOutput": {
            "hookEventName": "SessionStart",
            "additionalContext": session_start_hook::write_briefing(&run?.active),
        },
    }))
}

/// Answers with a context alert, if one is due. This monitor is always on.
fn answer_after_tools(bytes: &[u8]) -> Option<Value> {
    #[derive(Deserialize)]
    struct ToolHookEvent {
        hook_event_name: Option<String>,
    }
    let input = HookInput::parse(bytes)?;
    // The transcript is the main agent's; a subagent has its own window.
    if input.agent_id.is_some() {
        return None;
    }
    let fill = measure_context_fill(input.transcript_path.as_deref()?)?;
    // Most calls end here, without reading anything else.
    context_alert::find_due_alert(fill, 0)?;
    let run = match find_session_owner(&input.session_id) {
        SessionOwner::Own(run) => Some(run),
        SessionOwner::Foreign | SessionOwner::Unknown(_) => None,
    };
    let alert = input.open_notebook(run.as_deref())?.change_notes(|notes| {
        let alert = context_alert::find_due_alert(fill, notes.alert)?;
        notes.alert = alert.threshold;
        Some(alert)
    })?;
    let destination = run
        .map_or(LeftoverDestination::Nowhere, |run| LeftoverDestination::for_session(&run.active));
    let event: ToolHookEvent = serde_json::from_slice(bytes).ok()?;
    Some(json!({
        "hookSpecificOutput": {
            "hookEventName": event.hook_event_name.as_deref().unwrap_or("PostToolUse"),
            "additionalContext": alert.format_for(destination),
        },
    }))
}

/// Returns how full the context window is. Its size comes from ralph or the user, else from the
/// model's name.
fn measure_context_fill(transcript: &Path) -> Option<WindowUsage> {
    let usage = transcript::read_context_usage(transcript)?;
    let tokens = |name: &str| {
        let value = std::env::var(name).ok()?;
        value.trim().parse().ok().filter(|tokens| *tokens > 0).map(Tokens)
    };
    let large = match std::env::var("CLAUDE_CODE_DISABLE_1M_CONTEXT").as_deref() {
        Ok("" | "0" | "false") | Err(_) => LargeWindows::Allowed,
        Ok(_) => LargeWindows::Off,
    };
    let window = tokens(WINDOW_VARIABLE)
        .or_else(|| tokens("CLAUDE_CONTEXT_WINDOW"))
        .unwrap_or_else(|| context_alert::find_window(usage.model.as_deref(), large));
    Some(WindowUsage { used: usage.tokens, window })
}
