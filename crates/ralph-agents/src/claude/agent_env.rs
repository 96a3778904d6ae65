//! The environment of Claude Code on a user's machine.
//!
//! Credentials of Amazon and Google are not among the variables: users who need them list them in
//! `sandbox.env`.

use crate::agent_env::{AgentDirectory, AgentEnv, Credential};
use crate::configuration::{ConfigFile, ConfigFormat};

/// Variables, directories and files of Claude Code.
pub(crate) const AGENT_ENV: AgentEnv = AgentEnv {
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
};
