//! The environment of Gemini CLI on a user's machine.
//!
//! It reads a Google login file only if a variable or its settings select it.

use crate::agent_env::{AgentDirectory, AgentEnv, Credential};
use crate::configuration::{ConfigFile, ConfigFormat};

/// Variables, directories and files of Gemini CLI.
pub(crate) const AGENT_ENV: AgentEnv = AgentEnv {
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
};

/// Keys that start programs. Older versions have no sections.
const REMOVED_KEYS: &[&str] = &[
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
