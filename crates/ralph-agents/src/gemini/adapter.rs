//! The row about Gemini CLI on a user's machine.
//!
//! It reads a Google login file only if a variable or its settings select it.

use ralph_model::agent::AgentKind;
use ralph_model::capability::{Capabilities, FollowUps, PromptEcho, Support, UsageReport};
use ralph_model::version::Version;

use super::call::{INSTALL_HINT, build_call};
use super::translate::GeminiTranslator;
use crate::adapter::AgentAdapter;
use crate::adapter::LegacyArgs;
use crate::agent_directory::AgentDirectory;
use crate::agent_env::{AgentEnv, Credential};
use crate::configuration::{
    ConfigFile, ConfigFormat, ENV_WITH_CODE, build_project_code, build_project_file,
    build_project_variables,
};

/// Everything about Gemini CLI that ralph looks up.
pub(crate) static ADAPTER: AgentAdapter = AgentAdapter {
    install_hint: Some(INSTALL_HINT),
    env: Some(&AGENT_ENV),
    model_hosts: &[
        "generativelanguage.googleapis.com",
        "cloudcode-pa.googleapis.com",
        "oauth2.googleapis.com",
    ],
    project_code: &[
        build_project_file(".gemini/settings.json", REMOVED_KEYS),
        build_project_variables(".gemini/.env", ENV_WITH_CODE),
        build_project_variables(".env", ENV_WITH_CODE),
        build_project_code(".gemini/extensions/*", &[]),
        build_project_code(".gemini/hooks/*", &[]),
    ],
    billing_variable: Some("GEMINI_API_KEY"),
    oldest_version: Some(Version::new(0, 11, 0)),
    sbx_template: Some("gemini"),
    legacy_args: LEGACY_ARGS,
    capabilities: |_| Capabilities {
        usage: UsageReport::Tokens,
        stop_hook: Support::Yes,
        resume: Support::Yes,
        follow_ups: FollowUps::SameSession,
        echo: PromptEcho::Repeats,
        ..Capabilities::default()
    },
    ..AgentAdapter::new(AgentKind::Gemini, build_call, |request, _| {
        Box::new(GeminiTranslator::new(request))
    })
};

/// Variables, directories and files of Gemini CLI.
static AGENT_ENV: AgentEnv = AgentEnv {
    login: &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"],
    variables: &[
        "GEMINI_MODEL",
        "GOOGLE_GEMINI_BASE_URL",
        "GOOGLE_VERTEX_BASE_URL",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_LOCATION",
        "GOOGLE_GENAI_USE_GCA",
    ],
    state_dir: AgentDirectory { variable: "GEMINI_CLI_HOME", default: "", subdirectory: ".gemini" },
    credentials: &[
        Credential::for_tokens("oauth_creds.json"),
        Credential::for_settings("google_accounts.json"),
    ],
    configuration: &[
        ConfigFile {
            removed_keys: REMOVED_KEYS,
            ignored_keys: &["telemetry"],
            ..ConfigFile::for_whole_file("settings.json", ConfigFormat::Json)
        },
        ConfigFile::for_whole_file(".env", ConfigFormat::Variables),
        ConfigFile::for_whole_file("GEMINI.md", ConfigFormat::Text),
    ],
    cached_programs: &[],
    redirected_dirs: &[],
    enabling_variable: Some(("GOOGLE_GENAI_USE_GCA", "true")),
    missing_login_hint: None,
    login_probe: None,
};

/// Flags that ralph adds by itself.
pub(crate) const LEGACY_ARGS: LegacyArgs = LegacyArgs {
    switches: &["-p", "--prompt", "-y", "--yolo"],
    with_value: &["--output-format", "-o", "--approval-mode"],
};

/// Keys that start programs. Older versions have no sections.
pub(crate) const REMOVED_KEYS: &[&str] = &[
    "hooks",
    "mcpServers",
    "mcp/serverCommand",
    "tools/sandbox",
    "tools/discoveryCommand",
    "tools/callCommand",
    "sandbox",
    "toolDiscoveryCommand",
    "toolCallCommand",
];
