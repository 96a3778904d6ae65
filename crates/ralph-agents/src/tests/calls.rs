//! How each agent is called: options and flags of the user, and the calls in its `calls.txt`.
//!
//! `UPDATE_EXPECT=1` writes the files. Read them before you commit.

use std::path::PathBuf;

use expect_test::expect_file;
use ralph_core::answers::structured_output::Schema;
use ralph_core::ports::AgentRequest;
use ralph_model::agent::{AgentKind, AgentOutput, Permissions};
use ralph_model::agent_call_state::OpenSession;
use ralph_model::units::UsdMicros;
use ralph_model::version::Version;

use super::conformance::SUITES;
use super::recorded::show_call;
use super::table::read_rows;
use crate::call::tests::{context, full_context};
use crate::test_support::build_request;
use crate::{CallContext, Privilege, build_call, detect_capabilities, parse_mcp_servers};

/// The options of the request, and the user's flags, for every agent.
const CALLS: &str = r"
       |
    ask
    text
    # Everything that a call can be given, except for secrets in arguments.
    full fallback=small turns=7 budget=2.5 schema
    # A follow-up question continues the session, also where the user's flags are about sessions.
    session
";

#[test]
fn options_and_flags_are_passed() {
    for suite in SUITES {
        let shown = show_calls(suite.kind, suite.calls);
        expect_file![suite.directory().join("calls.txt")].assert_eq(&shown);
    }
    let others = [(AgentKind::Text, "   | --yes"), (AgentKind::Custom, ""), (AgentKind::Sim, "")];
    let shown: String = others.map(|(kind, calls)| show_calls(kind, calls)).concat();
    expect_file!["../../tests/data/calls.txt"].assert_eq(&shown);
}

/// Shows an agent's calls by the rows for all agents and its own.
fn show_calls(kind: AgentKind, own: &str) -> String {
    let mut shown = String::new();
    for [options, flags] in [CALLS, own].into_iter().flat_map(read_rows) {
        let flags: Vec<&str> = flags.split("; ").filter(|flag| !flag.is_empty()).collect();
        let mut request = build_request(kind, &flags, "Do it.");
        let mut context = context();
        for option in options.split_whitespace() {
            apply_option(option, &mut request, &mut context);
        }
        let row = format!("# {} | {options} | {}", kind.name(), flags.join("; "));
        shown.push_str(row.trim_end_matches([' ', '|']));
        shown.push('\n');
        shown.push_str(&show_call(&request, &context));
    }
    shown.replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

fn apply_option(option: &str, request: &mut AgentRequest, context: &mut CallContext) {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    let agent = &mut request.agent;
    match name {
        "ask" => agent.permissions = Permissions::Ask,
        "text" => agent.output = AgentOutput::Text,
        "model" => agent.model = Some(value.to_owned()),
        "fallback" => agent.fallback_model = Some(value.to_owned()),
        "turns" => agent.max_turns = value.parse().ok(),
        "command" => value.clone_into(&mut agent.command),
        "deny" => agent.env_deny = vec![value.to_owned()],
        "writable" => agent.writable = vec!["/p/.git".into(), "/main/\".git".into()],
        "version" => {
            agent.version = Version::find_in(value);
            agent.capabilities = detect_capabilities(agent.kind, agent.version);
        }
        "env" => {
            let (name, value) = value.split_once(':').expect("a variable");
            agent.env.insert(name.to_owned(), value.to_owned());
        }
        "budget" => request.cost_left = value.parse().ok().map(UsdMicros::from_dollars),
        "schema" => request.schema = Some(Schema::new(serde_json::json!({ "type": "object" }))),
        "prompt" => value.clone_into(&mut request.prompt),
        "session" => {
            request.session = Some(OpenSession {
                id: "s-1".to_owned(),
                usage: ralph_model::agent_output::Usage::default(),
            });
        }
        "root" => context.privilege = Privilege::Root,
        "mcp" => context.mcp_config = Some(PathBuf::from("/state/mcp.json")),
        "full" => {
            *context = full_context();
            if build_call(request, context).is_err() {
                // It takes servers in an argument, which must have no secrets.
                let server = r#"{"mcpServers": {"memory": {"command": "ralph"}}}"#;
                context.mcp_servers = parse_mcp_servers(server).expect("no secrets");
            }
        }
        _ => panic!("an unknown option: {option}"),
    }
}
