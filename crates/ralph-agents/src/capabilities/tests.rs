//! What each agent can do, and what an older version cannot.

use std::fmt::Write as _;

use ralph_model::agent::{AgentKind, AgentOrigin};
use ralph_model::capability::McpServers;

use super::*;
use crate::call::tests::full_context;
use crate::test_support::build_request;
use crate::{ADAPTERS, build_call, detect_capabilities};

#[test]
fn an_old_version_can_do_less() {
    let claude = |version| detect_capabilities(AgentKind::Claude, version);
    let old = claude(Some(Version::new(2, 0, 20)));
    assert_eq!((old.schema, old.cost_limit), (SchemaOutput::None, Support::No));
    assert_eq!(old.system_prompt, Support::No);
    assert_eq!(claude(Some(Version::new(2, 1, 22))).schema, SchemaOutput::Enforced);
    assert_eq!(claude(Some(Version::new(2, 1, 144))).plugin, Support::No);
    assert_eq!(claude(Some(Version::new(2, 1, 145))), claude(None));
    let qwen =
        |minor, patch| detect_capabilities(AgentKind::Qwen, Some(Version::new(0, minor, patch)));
    assert_eq!(qwen(15, 4).mcp, McpServers::None);
    assert_eq!(qwen(15, 5).mcp, McpServers::Added);
    assert_eq!(qwen(24, 4), detect_capabilities(AgentKind::Qwen, None));
    let codex = detect_capabilities(AgentKind::Codex, Some(Version::new(0, 40, 0)));
    assert_eq!(codex.schema, SchemaOutput::None);
}

/// Returns every kind but the scripted agent, which is part of ralph.
fn list_kinds() -> Vec<AgentKind> {
    let kinds = ADAPTERS.iter().map(|adapter| adapter.kind);
    kinds.filter(|kind| kind.origin() != AgentOrigin::BuiltIn).collect()
}

#[test]
fn no_secret_becomes_an_argument() {
    for kind in list_kinds() {
        match build_call(&build_request(kind, &[], "Do it."), &full_context()) {
            Ok(call) => {
                let words = call.args.join(" ");
                assert!(!words.contains("Bearer") && !words.contains("\"k\""), "{words}");
            }
            Err(failure) => {
                let secret = "`API_KEY` of the MCP server `memory`";
                assert!(failure.message.contains(secret), "{}", failure.message);
            }
        }
    }
}

/// Returns a table of everything that agents can do.
fn table() -> String {
    let names = detect_capabilities(AgentKind::Claude, None).describe_all().map(|(name, _)| name);
    let mut shown = format!("| | {} |\n", names.join(" | "));
    let _ = writeln!(shown, "|---{}|", "|---".repeat(names.len()));
    for kind in list_kinds() {
        let cells = detect_capabilities(kind, None).describe_all().map(|(_, value)| value);
        let _ = writeln!(shown, "| {} | {} |", kind.name(), cells.join(" | "));
    }
    shown
}

#[test]
fn documentation_contains_the_capability_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/agents.md");
    let text = std::fs::read_to_string(path).expect("the documentation is there");
    assert!(text.contains(&table()), "docs/agents.md should hold\n{}", table());
}
