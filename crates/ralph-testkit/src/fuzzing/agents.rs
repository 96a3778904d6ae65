//! The streams of agents: whatever they print, and however it is cut, the events are the same.

use std::path::Path;

use jiff::tz::TimeZone;
use ralph_agents::{
    Evidence, check_filter, create_translator, judge_call, rate_limit_text, test_support,
};
use ralph_core::answers::reply_fold::ReplyFold;
use ralph_core::answers::structured_output::Schema;
use ralph_core::ports::AgentRequest;
use ralph_io::process::{OutputLine, OutputLines};
use ralph_model::agent::{AgentKind, AgentOutput, Selectors, UsageSelectors};
use ralph_model::agent_output::{AgentEvent, UsageScope};
use ralph_model::child::{ChildEnd, Ending};
use ralph_model::failure::Failure;
use ralph_model::units::Timestamp;

use super::pieces::pieces;
use super::{FuzzForm, FuzzTarget};

macro_rules! stream {
    ($name:literal, $run:expr, $seeds:expr, $($word:literal),* $(,)?) => {
        FuzzTarget {
            name: $name,
            run: $run,
            form: FuzzForm::JsonLines,
            seeds: $seeds,
            words: &[
                "\n", "\r\n", "\"type\":", "\"text\":", "\"usage\":",
                "<promise>", "</promise>", "resets 3pm", $($word),*
            ],
        }
    };
}

/// The targets of this file.
pub(super) const TARGETS: &[FuzzTarget] = &[
    stream!(
        "claude",
        |it| stream(AgentKind::Claude, it),
        &["crates/ralph-agents/tests/data/claude"],
        "\"system\"",
        "\"init\"",
        "\"assistant\"",
        "\"user\"",
        "\"result\"",
        "\"tool_result\"",
        "\"stream_event\"",
        "\"content\":",
        "\"message\":",
        "\"is_error\":",
        "\"TodoWrite\"",
        "\"todos\":",
        "\"rate_limit_event\"",
        "\"total_cost_usd\":",
        "\"structured_output\":",
        "\"mcp_servers\":",
        "\"subtype\":"
    ),
    stream!(
        "codex",
        |it| stream(AgentKind::Codex, it),
        &["crates/ralph-agents/tests/data/codex"],
        "\"thread.started\"",
        "\"item.started\"",
        "\"item.completed\"",
        "\"turn.completed\"",
        "\"turn.failed\"",
        "\"agent_message\"",
        "\"command_execution\"",
        "\"file_change\"",
        "\"todo_list\"",
        "\"mcp_tool_call\"",
        "\"exit_code\":",
        "\"error\":"
    ),
    stream!(
        "amp",
        |it| stream(AgentKind::Amp, it),
        &["crates/ralph-agents/tests/data/amp"],
        "\"system\"",
        "\"assistant\"",
        "\"result\"",
        "\"session_id\":",
        "\"content\":"
    ),
    stream!(
        "cline",
        |it| stream(AgentKind::Cline, it),
        &["crates/ralph-agents/tests/data/cline"],
        "\"say\"",
        "\"ask\"",
        "\"api_req_started\"",
        "\"completion_result\"",
        "\"partial\":"
    ),
    stream!(
        "gemini",
        |it| stream(AgentKind::Gemini, it),
        &["crates/ralph-agents/tests/data/gemini"],
        "\"init\"",
        "\"message\"",
        "\"tool_result\"",
        "\"result\"",
        "\"stats\":",
        "\"delta\":",
        "\"role\":",
        "\"status\":"
    ),
    stream!(
        "opencode",
        |it| stream(AgentKind::Opencode, it),
        &["crates/ralph-agents/tests/data/opencode"],
        "\"step_start\"",
        "\"step_finish\"",
        "\"part\":",
        "\"tokens\":",
        "\"cache\":"
    ),
    stream!(
        "copilot",
        |it| stream(AgentKind::Copilot, it),
        &["crates/ralph-agents/tests/data/copilot"],
        "\"assistant.message\"",
        "\"tool.execution_start\"",
        "\"data\":",
        "\"result\""
    ),
    stream!(
        "qwen",
        |it| stream(AgentKind::Qwen, it),
        &["crates/ralph-agents/tests/data/qwen"],
        "\"system\"",
        "\"assistant\"",
        "\"result\"",
        "\"content\":",
    ),
    stream!(
        "pi",
        |it| stream(AgentKind::Pi, it),
        &["crates/ralph-agents/tests/data/pi"],
        "\"message_update\"",
        "\"message_end\"",
        "\"tool_execution_start\"",
        "\"agent_end\""
    ),
    stream!(
        "acp",
        |it| stream(AgentKind::Acp, it),
        &["crates/ralph-agents/tests/data/acp"],
        "\"jsonrpc\":\"2.0\"",
        "\"method\":",
        "\"params\":",
        "\"session/update\"",
        "\"id\":",
        "\"session/request_permission\"",
        "\"fs/read_text_file\"",
        "\"sessionUpdate\":",
        "\"agent_message_chunk\"",
        "\"tool_call\"",
        "\"stopReason\":",
        "\"options\":"
    ),
    stream!(
        "text",
        |it| stream(AgentKind::Text, it),
        &["crates/ralph-io/tests/data/sim"],
        "Do it.",
        "COMPLETE",
        "error: "
    ),
    stream!(
        "claude-text",
        |it| plain(AgentKind::Claude, it),
        &["crates/ralph-io/tests/data/sim"],
        "Error: ",
        "API Error: 529"
    ),
    stream!(
        "codex-text",
        |it| plain(AgentKind::Codex, it),
        &["crates/ralph-io/tests/data/sim"],
        "ERROR: ",
        "tokens used"
    ),
    stream!(
        "sim",
        |it| stream(AgentKind::Sim, it),
        &["crates/ralph-io/tests/data/sim"],
        "\"event\":"
    ),
    stream!(
        "custom",
        custom,
        &[],
        ".",
        "[]",
        "|",
        "//",
        "select(",
        ")",
        "if ",
        " then ",
        " else ",
        " end",
        "join(",
        "\\(",
        "tostring",
        "not",
        " and ",
        " or ",
        "==",
        "!=",
        "empty",
        "[0]",
        "[-1]",
        "?"
    ),
    FuzzTarget {
        name: "limit-words",
        run: limits,
        form: FuzzForm::Bytes,
        seeds: &[],
        words: &[
            "usage limit",
            "rate limit",
            "resets ",
            "reset at ",
            "try again ",
            "in ",
            "3pm",
            "2:14 am",
            "17:20",
            "(Europe/Berlin)",
            "(UTC)",
            "Nov 17, ",
            "feb 29",
            "2026",
            "hours",
            "minutes",
            "seconds",
            "days",
            "429",
            "retry-after: ",
            "|1794703710",
            "2026-11-15T00:48:30Z",
            "18446744073709551615",
        ],
    },
];

/// 2026-11-15T00:48:30Z.
const NOW: Timestamp = Timestamp(1_794_703_710_000);

fn request(kind: AgentKind) -> AgentRequest {
    let prompt = "Do it. Then print <promise>COMPLETE</promise>.";
    let schema = Some(Schema::new(serde_json::json!({"type": "object"})));
    AgentRequest { schema, ..test_support::build_request(kind, &[], prompt) }
}

fn stream(kind: AgentKind, bytes: &[u8]) {
    same_however_cut(&request(kind), bytes);
}

fn plain(kind: AgentKind, bytes: &[u8]) {
    let mut request = request(kind);
    request.agent.output = AgentOutput::Text;
    same_however_cut(&request, bytes);
}

fn same_however_cut(request: &AgentRequest, bytes: &[u8]) {
    let whole = read(request, &[bytes], bytes);
    assert_eq!(whole, read(request, &pieces(bytes), bytes), "however it is cut");
}

/// Reads a stream as it comes, and judges the call.
fn read(
    request: &AgentRequest,
    pieces: &[&[u8]],
    all: &[u8],
) -> (Vec<AgentEvent>, Option<Failure>) {
    // Shorter than in earnest, so that lines beyond it are seen.
    let mut lines = OutputLines::with_cap(8 * 1024);
    let mut translator = create_translator(request, Path::new("/project"));
    let mut reading = ReplyFold::with_schema(request.schema.as_deref());
    let mut events = Vec::new();
    let mut each = |line: OutputLine<'_>| match line {
        OutputLine::Whole(line) => events.extend(translator.push_line(&line).parsed.events),
        OutputLine::TooLong { start, bytes } => {
            events.extend(translator.push_long_line(&start, bytes).events);
        }
    };
    for piece in pieces {
        lines.push_bytes(piece, &mut each);
    }
    lines.finish(&mut each);
    events.extend(translator.finish().events);
    let tail = String::from_utf8_lossy(all);
    events.extend(translator.push_answer_file(tail.to_string()).events);
    for event in &events {
        reading.apply_event(event);
    }
    for event in &events {
        let written = serde_json::to_string(event).expect("events are JSON");
        let again: AgentEvent = serde_json::from_str(&written).expect("events read back");
        assert_eq!(*event, again, "an event is read as it was written");
    }
    let mut failure = None;
    for ending in [Ending::Exited { code: 0 }, Ending::Exited { code: 1 }] {
        let evidence = Evidence {
            reading: &reading,
            end: &ChildEnd::from_ending(ending),
            stderr_tail: &tail,
            stdout_tail: &tail,
            now: NOW,
            zone: &TimeZone::UTC,
        };
        failure = judge_call(&translator, &request.agent, &evidence);
    }
    (events, failure)
}

/// The first line is a filter, the others are what it selects from.
fn custom(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let filter = String::from_utf8_lossy(&bytes[..end]).into_owned();
    if check_filter(&filter).is_err() {
        return;
    }
    let some = || Some(filter.clone());
    let mut request = request(AgentKind::Custom);
    request.agent.selectors = Some(Box::new(Selectors {
        response: some(),
        delta: some(),
        display: some(),
        session: some(),
        usage: UsageSelectors {
            input: some(),
            output: some(),
            cache_read: some(),
            cache_write: some(),
            cost: some(),
            scope: UsageScope::Step,
        },
    }));
    same_however_cut(&request, bytes.get(end + 1..).unwrap_or_default());
}

fn limits(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    rate_limit_text::is_rate_limit_text(&text);
    for zone in ["UTC", "Europe/Berlin", "Pacific/Apia"] {
        let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
        for now in [NOW, Timestamp(0), Timestamp(i64::MAX), Timestamp(i64::MIN)] {
            rate_limit_text::parse_reset_time(&text, now, &zone);
        }
    }
}
