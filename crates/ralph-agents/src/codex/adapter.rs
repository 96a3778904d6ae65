//! The row about Codex on a user's machine.
//!
//! Its state (sessions, history, logs) is not copied.

use std::path::Path;

use ralph_core::ports::AgentRequest;
use ralph_model::agent::{AgentKind, AgentOutput};
use ralph_model::capability::{
    Capabilities, FollowUps, McpServers, PromptEcho, SchemaOutput, Support, TextMode, UsageReport,
};
use ralph_model::version::Version;

use super::call::{build_call, select_output};
use super::failure::INSTALL_HINT;
use super::text_mode::CodexTextTranslator;
use super::translate::CodexTranslator;
use crate::adapter::LegacyArgs;
use crate::adapter::{AgentAdapter, TextRequest};
use crate::agent_directory::AgentDirectory;
use crate::agent_env::{AgentEnv, Credential, LoginProbe, LoginScope};
use crate::capabilities::{check_support_since, select_schema_output};
use crate::configuration::{ConfigFile, ConfigFormat, build_project_code};
use crate::deprecated_flags::DeprecatedFlag;
use crate::translator::Translate;

/// Everything about Codex that ralph looks up.
pub(crate) static ADAPTER: AgentAdapter = AgentAdapter {
    install_hint: Some(INSTALL_HINT),
    env: Some(&AGENT_ENV),
    project_code: &[
        ConfigFile {
            removed_keys: PROJECT_KEYS_WITH_CODE,
            ..ConfigFile::for_whole_file(".codex/config.toml", ConfigFormat::Toml)
        },
        build_project_code(".codex/hooks.json", &[]),
        build_project_code(".codex/hooks/*", &[]),
    ],
    model_hosts: &["api.openai.com", "chatgpt.com", "auth.openai.com"],
    billing_variable: Some("OPENAI_API_KEY"),
    sbx_template: Some("codex"),
    text_request: TextRequest::Setting,
    legacy_args: LegacyArgs {
        switches: &[
            "exec",
            "e",
            "-",
            "--json",
            "--full-auto",
            "--yolo",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
        ],
        with_value: &["--sandbox", "-s", "--ask-for-approval", "-a"],
    },
    deprecated_flags: DEPRECATED_FLAGS,
    capabilities: |version| Capabilities {
        schema: select_schema_output(
            check_support_since(version, Version::new(0, 41, 0)),
            SchemaOutput::Unchecked,
        ),
        usage: UsageReport::Tokens,
        mcp: McpServers::Added,
        system_prompt: Support::Yes,
        stop_hook: Support::Yes,
        resume: Support::Yes,
        follow_ups: FollowUps::SameSessionTotal,
        echo: PromptEcho::None,
        text_mode: TextMode::Plain,
        reset_times: Support::Yes,
        ..Capabilities::default()
    },
    has_answer_file: |request| select_output(request) == AgentOutput::Text,
    // The API takes a strict schema.
    render_schema: |schema| schema.to_strict().to_string(),
    strip_call_args,
    ..AgentAdapter::new(AgentKind::Codex, build_call, create_translator)
};

/// Flags that Codex no longer accepts.
pub(super) const DEPRECATED_FLAGS: &[DeprecatedFlag] = &[
    // From 0.126 it is parsed and has no effect; 0.147 refuses it.
    DeprecatedFlag {
        flag: "--full-auto",
        removed_in: Some(Version::new(0, 126, 0)),
        advice: "use `-s workspace-write` instead",
        successor: &["-s", "workspace-write"],
    },
];

fn create_translator(request: &AgentRequest, _directory: &Path) -> Box<dyn Translate> {
    match select_output(request) {
        AgentOutput::Events => Box::new(CodexTranslator::new(request)),
        AgentOutput::Text => Box::new(CodexTextTranslator::default()),
    }
}

/// Removes the subcommand, and the dash for stdin.
fn strip_call_args(mut args: Vec<String>) -> Vec<String> {
    if args.first().is_some_and(|word| word == "exec" || word == "e") {
        args.remove(0);
    }
    if args.last().is_some_and(|word| word == "-") {
        args.pop();
    }
    args
}

/// Variables, directories and files of Codex.
static AGENT_ENV: AgentEnv = AgentEnv {
    login: &["CODEX_API_KEY"],
    variables: &[
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "OPENAI_ORGANIZATION",
        "OPENAI_PROJECT",
        "CODEX_CA_CERTIFICATE",
    ],
    state_dir: AgentDirectory { variable: "CODEX_HOME", default: ".codex", subdirectory: "" },
    credentials: &[Credential::for_tokens("auth.json")],
    configuration: &[
        ConfigFile {
            removed_keys: REMOVED_KEYS,
            ignored_keys: IGNORED_KEYS,
            ..ConfigFile::for_whole_file("config.toml", ConfigFormat::Toml)
        },
        // Profiles.
        ConfigFile {
            removed_keys: REMOVED_KEYS,
            ignored_keys: IGNORED_KEYS,
            ..ConfigFile::for_whole_file("*.config.toml", ConfigFormat::Toml)
        },
        ConfigFile::for_whole_file("AGENTS.md", ConfigFormat::Text),
        ConfigFile::for_whole_file("AGENTS.override.md", ConfigFormat::Text),
    ],
    cached_programs: &[],
    redirected_dirs: &[],
    enabling_variable: None,
    missing_login_hint: None,
    login_probe: Some(LoginProbe {
        args: &["login", "status"],
        since: Version::new(0, 40, 0),
        denial: "Notloggedin",
        hint: "run `codex login`, unless another provider is configured",
        scope: LoginScope::OwnProvider,
    }),
};

/// Keys of a project's configuration that start programs or change where the key is sent.
const PROJECT_KEYS_WITH_CODE: &[&str] =
    &["mcp_servers", "hooks", "plugins", "notify", "model_providers", "chatgpt_base_url"];

/// Keys that start programs, or name files that the sandbox does not contain.
const REMOVED_KEYS: &[&str] = &[
    "mcp_servers",
    "hooks",
    "plugins",
    "otel",
    "model_instructions_file",
    "experimental_instructions_file",
    "model_catalog_json",
];

/// Keys for the terminal, and for where Codex keeps its files.
const IGNORED_KEYS: &[&str] = &["notify", "tui", "log_dir", "sqlite_home", "file_opener"];
