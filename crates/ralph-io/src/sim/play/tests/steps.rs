//! Every step that prints, as the adapters of Amp, Cline and Codex read it back.

use std::fmt::Write as _;

use expect_test::expect_file;
use ralph_model::agent_output::{ResultStatus, Speaker, UsageScope};

use super::*;

/// Steps that print, each played alone.
fn scripts() -> Vec<serde_json::Value> {
    let tool = |name: &str, summary: &str, outcome: &str| json!([{"tool": {"name": name, "summary": summary, "output": "out", "outcome": outcome}}]);
    vec![
        json!([{"text": "Fine."}]),
        json!([{"claim": "DONE"}]),
        json!([{"delta": ["All <resp", "onse>DONE</response>"]}]),
        json!([{"subagentText": "Found it."}]),
        json!([{"reasoning": "Hm."}]),
        json!([{"notice": "Careful."}]),
        tool("Bash", "cargo test", "ok"),
        tool("Bash", "echo 'it' \"$HOME\"", "error"),
        tool("Read", "a.rs", "ok"),
        tool("Read", "a.rs", "error"),
        tool("Write", "a.rs", "ok"),
        tool("Edit", "a.rs", "ok"),
        tool("Edit", "a.rs", "error"),
        tool("Search", "loops", "ok"),
        tool("mcp__docs__find", "loops", "error"),
        json!([{"run": {"command": "echo hi; exit 3", "show": "tool"}}]),
        json!([{"permission": "rm -r x"}]),
        json!([
            {"todo": [{"text": "a", "state": "active"}, {"text": "b", "state": "pending"}]},
            {"todo": [{"text": "a", "state": "done"}, {"text": "b", "state": "active"}]},
        ]),
        json!([
            {"usage": {"input": 10, "output": 5, "cost": 0.25}},
            {"text": "Fine."},
            {"usage": {"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4, "cost": 0.5}},
        ]),
        json!([{"structured": {"summary": "x"}}]),
        json!([{"text": "Fine."}, {"result": "success"}]),
        json!([{"rateLimit": {"status": "warning"}}]),
        json!([{"rateLimit": {"status": "rejected"}}]),
        json!(["echoPrompt"]),
        json!([{"garbage": {"text": "{oops\n"}}]),
        json!([{"result": {"error": {"class": "overloaded", "words": "no luck"}}}]),
        json!([{"result": {"error": {"class": "malformed", "words": "no luck"}}}]),
        json!([{"text": "Fine."}, "noResult"]),
    ]
}

fn show(event: &AgentEvent) -> String {
    let here = std::env::current_dir().expect("there is one").display().to_string();
    let whose = |speaker: &Speaker| match speaker {
        Speaker::Agent => "",
        Speaker::Subagent => "other's ",
    };
    match event {
        AgentEvent::Session { .. } => String::new(),
        AgentEvent::Text { text, speaker, form } => {
            format!("{}{form:?} {text:?}", whose(speaker))
        }
        AgentEvent::Reasoning { text } => format!("Reasoning {text:?}"),
        AgentEvent::ToolStarted { name, summary, speaker, .. } => {
            format!("{}{name}({})", whose(speaker), summary.replace(&here, "$PWD"))
        }
        AgentEvent::ToolEnded { outcome, output, .. } => format!("{outcome:?} {output:?}"),
        AgentEvent::Todo { items } => {
            let items: Vec<String> =
                items.iter().map(|item| format!("{} {:?}", item.text, item.state)).collect();
            format!("Todo [{}]", items.join(", "))
        }
        AgentEvent::FileEdited { path, .. } => format!("Edited {path}"),
        AgentEvent::FileChanged { path } => format!("File {}", path.replace(&here, "$PWD")),
        AgentEvent::Usage { usage, scope } => {
            let scope = match scope {
                UsageScope::Step => '+',
                UsageScope::Total => '=',
            };
            let cost = usage.cost.map(|cost| format!(" ${}", cost.0)).unwrap_or_default();
            let Usage { input, output, cache_read, cache_write, cost: _, turns: _ } = usage;
            format!("{scope}{}/{}/{}/{}{cost}", input.0, output.0, cache_read.0, cache_write.0)
        }
        AgentEvent::RateLimit { status, .. } => format!("Limit {status:?}"),
        AgentEvent::Notice { text } => format!("Notice {text:?}"),
        AgentEvent::Result { status: ResultStatus::Success, text, .. } => {
            format!("Success {:?}", text.as_deref().unwrap_or("-"))
        }
        AgentEvent::Result { status: ResultStatus::Failed(message), .. } => {
            format!("Failed {message:?}")
        }
        AgentEvent::Unparsed { line } => format!("Unparsed {line:?}"),
        AgentEvent::SoftLimitPassed => "SoftLimitPassed".to_owned(),
        AgentEvent::StillRunning { ran } => format!("StillRunning {ran}"),
    }
}

#[test]
fn every_step_is_read_back() {
    let mut shown = String::new();
    for script in scripts() {
        let _ = writeln!(shown, "{script}");
        for dialect in [SimDialect::Amp, SimDialect::Cline, SimDialect::Codex] {
            let (output, ending) = output_of(dialect, "the prompt", "", script.clone());
            let request = build_request(kind_of(dialect), &[], "the prompt");
            let (lines, reply) =
                test_support::read_stream(&request, &output, "", ending, Timestamp(0));
            let events: Vec<String> = lines
                .iter()
                .flat_map(|line| &line.events)
                .map(show)
                // Usage of zero adds nothing.
                .filter(|event| !event.is_empty() && !event.ends_with("0/0/0/0"))
                .collect();
            let class = reply.failure.map(|failure| format!("  ! {}", failure.class.name()));
            let name = kind_of(dialect).name();
            let class = class.unwrap_or_default();
            let _ = writeln!(shown, "  {name:5} {}{class}", events.join(" · "));
        }
    }
    expect_file!["../../../../tests/data/sim/steps.txt"].assert_eq(&shown);
}
