//! The environment of GitHub Copilot CLI on a user's machine.
//!
//! It keeps its login in its settings. The cache holds its own program, 200 MB of it.

use crate::agent_env::{AgentDirectory, AgentEnv, Credential};
use crate::configuration::{ConfigFile, ConfigFormat};

/// Variables, directories and files of GitHub Copilot CLI.
pub(crate) const AGENT_ENV: AgentEnv = AgentEnv {
    login: &["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL"],
    variables: &["COPILOT_*", "GH_HOST"],
    state_dir: AgentDirectory { variable: "COPILOT_HOME", default: ".copilot", subdirectory: "" },
    credentials: &[Credential::for_settings("config.json")],
    configuration: &[ConfigFile::for_whole_file("copilot-instructions.md", ConfigFormat::Text)],
    cached_programs: &[],
    redirected_dirs: &[("COPILOT_CACHE_HOME", "cache")],
    enabling_variable: None,
    missing_login_hint: None,
};
