//! The environment of pi on a user's machine.
//!
//! Providers that the user adds are in its configuration.

use crate::agent_env::{AgentDirectory, AgentEnv, Credential, PROVIDER_KEYS};
use crate::configuration::{ConfigFile, ConfigFormat};

/// Variables, directories and files of pi.
pub(crate) const AGENT_ENV: AgentEnv = AgentEnv {
    login: PROVIDER_KEYS,
    variables: &["PI_*"],
    state_dir: AgentDirectory {
        variable: "PI_CODING_AGENT_DIR",
        default: ".pi/agent",
        subdirectory: "",
    },
    credentials: &[Credential::for_tokens("auth.json")],
    configuration: &[
        ConfigFile {
            removed_keys: &["packages", "extensions"],
            ignored_keys: &["theme", "themes"],
            ..ConfigFile::for_whole_file("settings.json", ConfigFormat::Json)
        },
        ConfigFile::for_whole_file("models.json", ConfigFormat::Json),
        ConfigFile::for_whole_file("AGENTS.md", ConfigFormat::Text),
        ConfigFile::for_whole_file("SYSTEM.md", ConfigFormat::Text),
        ConfigFile::for_whole_file("APPEND_SYSTEM.md", ConfigFormat::Text),
    ],
    cached_programs: &[],
    redirected_dirs: &[],
    enabling_variable: None,
    missing_login_hint: None,
};
