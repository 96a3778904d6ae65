//! The row about Claude Code on a user's machine.
//!
//! Credentials of Amazon and Google are not among the variables: users who need them list them in
//! `sandbox.env`.

use std::path::Path;

use ralph_core::ports::AgentRequest;
use ralph_model::agent::{AgentKind, AgentOutput};
use ralph_model::capability::{
    Capabilities, FollowUps, McpServers, PromptEcho, SchemaOutput, Support, TextMode, UsageReport,
};
use ralph_model::version::Version;

use super::call::{build_call, can_use_plugin, select_output};
use super::failure::{ClaudeTextTranslator, INSTALL_HINT};
use super::translate::ClaudeTranslator;
use crate::adapter::LegacyArgs;
use crate::adapter::{AgentAdapter, TextRequest};
use crate::agent_directory::AgentDirectory;
use crate::agent_env::{AgentEnv, Credential, LoginProbe, LoginScope};
use crate::capabilities::{check_support_since, select_schema_output};
use crate::configuration::{ConfigFile, ConfigFormat, build_project_code, build_project_file};
use crate::deprecated_flags::DeprecatedFlag;
use crate::text::TextTranslator;
use crate::translator::Translate;

/// Everything about Claude Code that ralph looks up.
pub(crate) static ADAPTER: AgentAdapter = AgentAdapter {
    install_hint: Some(INSTALL_HINT),
    env: Some(&AGENT_ENV),
    // From the vendor's firewall documentation.
    model_hosts: &["api.anthropic.com", "claude.ai", "platform.claude.com"],
    project_code: &[
        build_project_file(".claude/settings.json", SETTINGS_WITH_CODE),
        build_project_file(".claude/settings.local.json", SETTINGS_WITH_CODE),
        build_project_file(".mcp.json", &["mcpServers"]),
        build_project_code(".claude/agents/*", &["hooks", "mcpServers"]),
    ],
    billing_variable: Some("ANTHROPIC_API_KEY"),
    sbx_template: Some("claude"),
    // `streamAgentOutput` for all agents would hide its text.
    text_request: TextRequest::Flag("--output-format", "text"),
    legacy_args: LegacyArgs {
        switches: &[
            "-p",
            "--print",
            "--verbose",
            "--dangerously-skip-permissions",
            "--include-partial-messages",
        ],
        with_value: &["--output-format", "--input-format", "--permission-mode"],
    },
    deprecated_flags: &[
        DeprecatedFlag {
            flag: "--no-auto-compact",
            removed_in: None,
            advice: "set DISABLE_AUTO_COMPACT=1 in `agent.env` instead",
            successor: &[],
        },
        DeprecatedFlag {
            flag: "--mcp-debug",
            removed_in: None,
            advice: "use `--debug-file` instead",
            successor: &[],
        },
        DeprecatedFlag {
            flag: "--json-schema-file",
            removed_in: None,
            advice: "`--json-schema` takes the schema itself",
            successor: &[],
        },
    ],
    capabilities: |version| Capabilities {
        // Earlier versions have the flag, but no structured output in print mode.
        schema: select_schema_output(
            check_support_since(version, Version::new(2, 1, 22)),
            SchemaOutput::Enforced,
        ),
        usage: UsageReport::Cost,
        turn_limit: Support::Yes,
        cost_limit: check_support_since(version, Version::new(2, 0, 28)),
        fallback_model: Support::Yes,
        mcp: McpServers::Only,
        system_prompt: check_support_since(version, Version::new(2, 0, 34)),
        stop_hook: Support::Yes,
        resume: Support::Yes,
        follow_ups: FollowUps::SameSessionTotal,
        echo: PromptEcho::None,
        text_mode: TextMode::Plain,
        reset_times: Support::Yes,
        plugin: check_support_since(version, OLDEST_PLUGIN_VERSION),
    },
    can_use_plugin,
    ..AgentAdapter::new(AgentKind::Claude, build_call, create_translator)
};

/// The oldest version of Claude Code that accepts ralph's plugin for one call.
///
/// Earlier ones lack the event after a batch of tools, and one unknown event may disable all hooks
/// of a plugin.
pub const OLDEST_PLUGIN_VERSION: Version = Version::new(2, 1, 145);

/// Keys of a project's settings that start programs or change where the key is sent.
const SETTINGS_WITH_CODE: &[&str] = &[
    "hooks",
    "env",
    "enabledPlugins",
    "extraKnownMarketplaces",
    "apiKeyHelper",
    "awsAuthRefresh",
    "awsCredentialExport",
    "otelHeadersHelper",
    "statusLine",
];

fn create_translator(request: &AgentRequest, _directory: &Path) -> Box<dyn Translate> {
    match select_output(request) {
        AgentOutput::Events => Box::new(ClaudeTranslator::for_run(&request.run)),
        AgentOutput::Text => Box::new(ClaudeTextTranslator(TextTranslator::new(request))),
    }
}

/// Variables, directories and files of Claude Code.
static AGENT_ENV: AgentEnv = AgentEnv {
    login: &[
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX",
    ],
    variables: &[
        "ANTHROPIC_*",
        "CLAUDE_CODE_*",
        "AWS_BEARER_TOKEN_BEDROCK",
        "AWS_REGION",
        "CLOUD_ML_REGION",
        "API_TIMEOUT_MS",
        "DISABLE_TELEMETRY",
        "DISABLE_AUTOUPDATER",
        "MAX_THINKING_TOKENS",
        "BASH_DEFAULT_TIMEOUT_MS",
        "BASH_MAX_TIMEOUT_MS",
    ],
    state_dir: AgentDirectory {
        variable: "CLAUDE_CONFIG_DIR",
        default: ".claude",
        subdirectory: "",
    },
    credentials: &[Credential::for_tokens(".credentials.json")],
    configuration: &[
        ConfigFile {
            removed_keys: &[
                "hooks",
                "enabledPlugins",
                // Claude's own sandbox would not work inside ralph's.
                "sandbox",
                // The agent must use ralph's proxy.
                "env/HTTP_PROXY",
                "env/HTTPS_PROXY",
                "env/ALL_PROXY",
                "env/http_proxy",
                "env/https_proxy",
                "env/all_proxy",
            ],
            ignored_keys: &[
                "statusLine",
                "subagentStatusLine",
                "fileSuggestion",
                "extraKnownMarketplaces",
                "otelHeadersHelper",
                "env/NO_PROXY",
                "env/no_proxy",
                "env/CLAUDE_CONFIG_DIR",
            ],
            ..ConfigFile::for_whole_file("settings.json", ConfigFormat::Json)
        },
        ConfigFile::for_whole_file("CLAUDE.md", ConfigFormat::Text),
    ],
    cached_programs: &[],
    redirected_dirs: &[],
    enabling_variable: None,
    missing_login_hint: None,
    login_probe: Some(LoginProbe {
        args: &["auth", "status"],
        // Earlier versions would take the words for a prompt.
        since: Version::new(2, 1, 100),
        denial: "\"loggedIn\":false",
        hint: "run `claude auth login`, or set ANTHROPIC_API_KEY",
        scope: LoginScope::AllProviders,
    }),
};
