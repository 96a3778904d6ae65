//! The environment of Qwen Code on a user's machine.
//!
//! A setting or a flag may select the kind of login.

use crate::agent_env::{AgentDirectory, AgentEnv, Credential};
use crate::configuration::{ConfigFile, ConfigFormat};

/// Variables, directories and files of Qwen Code.
pub(crate) const AGENT_ENV: AgentEnv = AgentEnv {
    login: &["OPENAI_API_KEY", "DASHSCOPE_API_KEY"],
    variables: &["OPENAI_BASE_URL", "OPENAI_MODEL", "QWEN_MODEL"],
    state_dir: AgentDirectory { variable: "QWEN_HOME", default: ".qwen", subdirectory: "" },
    credentials: &[Credential::for_tokens("oauth_creds.json")],
    configuration: &[
        ConfigFile {
            removed_keys: REMOVED_KEYS,
            ignored_keys: &["telemetry"],
            ..ConfigFile::for_whole_file("settings.json", ConfigFormat::Json)
        },
        ConfigFile::for_whole_file(".env", ConfigFormat::Variables),
        ConfigFile::for_whole_file("QWEN.md", ConfigFormat::Text),
    ],
    cached_programs: &[],
    redirected_dirs: &[],
    enabling_variable: None,
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
