//! The environment of Codex on a user's machine.
//!
//! Its state (sessions, history, logs) is not copied.

use crate::agent_env::{AgentDirectory, AgentEnv, Credential};
use crate::configuration::{ConfigFile, ConfigFormat};

/// Variables, directories and files of Codex.
pub(crate) const AGENT_ENV: AgentEnv = AgentEnv {
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
};

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
