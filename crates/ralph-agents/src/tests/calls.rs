//! How each agent is called: options and flags of the user, and the call in `calls.txt`.
//!
//! `UPDATE_EXPECT=1` writes the file. Read it before you commit.

use std::path::PathBuf;

use expect_test::expect_file;
use ralph_core::answers::structured_output::Schema;
use ralph_core::ports::AgentRequest;
use ralph_model::agent::{AgentKind, AgentOutput, Permissions};
use ralph_model::agent_call_state::OpenSession;
use ralph_model::units::UsdMicros;
use ralph_model::version::Version;

use super::recorded::show_call;
use super::table::read_rows;
use crate::call::tests::{context, full_context};
use crate::test_support::build_request;
use crate::{ADAPTERS, CallContext, Privilege, detect_capabilities, parse_mcp_servers};

/// Agents, the options of the request, and the user's flags.
const CALLS: &str = r#"
    all      |
    all      | ask
    all      | text
    # Everything that a call can be given, except for secrets in arguments.
    all but sim | full fallback=small turns=7 budget=2.5 schema
    claude   | full fallback=small turns=7 budget=2.5 schema version=2.0.20
    codex    | full fallback=small turns=7 budget=2.5 schema version=0.40.0
    qwen     | full fallback=small turns=7 budget=2.5 schema version=0.12.0
    gemini   | full fallback=small turns=7 budget=2.5 schema version=0.40.0
    claude   | model=opus fallback=sonnet turns=40 deny=AWS_* budget=1.25 root mcp
    claude   | ask text root
    codex    | model=gpt-5.5 deny=AWS_* env=CODEX_HOME:/state/codex | --skip-git-repo-check
    qwen     | model=qwen3 fallback=qwen2 turns=40 mcp              | --auth-type openai; -y
    gemini   | model=gemini-2.5-pro
    opencode | model=anthropic/claude ask text deny=SECRET_*        | --agent build
    copilot  | model=gpt ask env=COPILOT_OFFLINE:true               | --allow-tool write
    pi       | model=openrouter/some/model                          | --no-session
    acp      | command=gemini deny=SECRET_*                         | --acp; --model x
    text     |                                                      | --yes
    amp      | model=high ask deny=AWS_*                            | --settings-file a b
    # Cline treats a single word as a command.
    cline    | model=a ask prompt=continue
    cline    |                                                      | Read {prompt_file} and do it.
    # The user's flags win.
    claude   | model=opus turns=0 budget=0                          | --model haiku; --output-format=json; --permission-mode; plan; --tools Read
    gemini   | model=gemini-2.5-pro deny=AWS_*                      | --model=x; --approval-mode plan; -o stream-json
    gemini   | ask                                                  | -p; {prompt}
    cline    | model=a ask deny=AWS_*                               | --json; -P openai; --model=b; --auto-approve true
    amp      | model=high                                           | --mode low; --dangerously-allow-all; -x {prompt}
    opencode | model=anthropic/claude                               | --model=x/y; --yolo
    copilot  | model=gpt                                            | --yolo; --model=own
    pi       | model=some/model                                     | --provider fake
    codex    | model=m                                              | --yolo
    codex    | model=m                                              | -s read-only
    codex    | model=m                                              | --sandbox=read-only; --json; --model; n
    codex    | model=m                                              | -c model="n"; -csandbox_mode="read-only"; --config=model_provider="x"
    codex    | model=m                                              | -c features.unbounded_connection_retries=true
    codex    | model=m                                              | -sread-only; -mn
    # Codex takes all following arguments as files. A prompt in an argument leaves nothing for stdin.
    codex    | model=m                                              | --yolo; -i a.png
    codex    | model=m                                              | {prompt}
    # A flag that newer versions have no more.
    codex    |                                                      | --full-auto
    codex    | version=0.125.0                                      | --full-auto
    # A follow-up question continues the session, also where the user's flags are about sessions.
    all but sim | session
    pi       | session                                              | --no-session
    codex    | writable
    codex    | writable                                             | -s; workspace-write
    codex    | writable                                             | -c; sandbox_workspace_write.writable_roots=[]
"#;

#[test]
fn options_and_flags_are_passed() {
    let mut shown = String::new();
    for [agents, options, flags] in read_rows(CALLS) {
        let flags: Vec<&str> = flags.split("; ").filter(|flag| !flag.is_empty()).collect();
        let kinds = ADAPTERS.iter().map(|adapter| adapter.kind).filter(|kind| match agents {
            "all" => true,
            "all but sim" => *kind != AgentKind::Sim,
            name => kind.name() == name,
        });
        for kind in kinds {
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
    }
    let shown = shown.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    expect_file!["../../tests/data/calls.txt"].assert_eq(&shown);
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
            if agent.kind == AgentKind::Amp {
                // The other agents can take secrets without arguments.
                let server = r#"{"mcpServers": {"memory": {"command": "ralph"}}}"#;
                context.mcp_servers = parse_mcp_servers(server).expect("no secrets");
            }
        }
        _ => panic!("an unknown option: {option}"),
    }
}
