//! The environment of Cline on a user's machine.
//!
//! Cline keeps its keys in its settings; none of the usual variables is read.

use crate::agent_env::{AgentDirectory, AgentEnv, Credential};

/// Variables, directories and files of Cline.
pub(crate) const AGENT_ENV: AgentEnv = AgentEnv {
    login: &[],
    variables: &["CLINE_API_KEY", "CLINE_HUB_PORT", "CLINE_NO_AUTO_UPDATE"],
    state_dir: AgentDirectory { variable: "CLINE_DIR", default: ".cline", subdirectory: "data" },
    credentials: &[
        Credential::for_settings("secrets.json"),
        Credential::for_settings("settings/providers.json"),
    ],
    configuration: &[],
    cached_programs: &[],
    redirected_dirs: &[],
    enabling_variable: None,
    missing_login_hint: None,
};
