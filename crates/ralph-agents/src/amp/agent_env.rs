//! The environment of Amp on a user's machine.
//!
//! No variable moves its directory, so ralph changes HOME for it.

use crate::agent_env::{AgentDirectory, AgentEnv, Credential};
use crate::configuration::{ConfigFile, ConfigFormat};

/// Variables, directories and files of Amp.
pub(crate) const AGENT_ENV: AgentEnv = AgentEnv {
    login: &["AMP_API_KEY"],
    variables: &["AMP_URL"],
    state_dir: AgentDirectory { variable: "HOME", default: "", subdirectory: ".local/share/amp" },
    credentials: &[Credential::for_tokens("secrets.json")],
    configuration: &[ConfigFile {
        directory: Some(AgentDirectory {
            variable: "XDG_CONFIG_HOME",
            default: ".config",
            subdirectory: "amp",
        }),
        removed_keys: &["amp.mcpServers", "amp.hooks"],
        ..ConfigFile::for_whole_file("settings.json", ConfigFormat::Json)
    }],
    cached_programs: &[],
    redirected_dirs: &[],
    enabling_variable: None,
    // Without a key Amp prompts on its terminal, which has no reader, and waits.
    missing_login_hint: Some("set AMP_API_KEY, or run `amp login`"),
};
