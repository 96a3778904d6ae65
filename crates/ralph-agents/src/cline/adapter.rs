//! The row about Cline on a user's machine.
//!
//! Cline keeps its keys in its settings; none of the usual variables is read.

use ralph_model::agent::AgentKind;
use ralph_model::capability::{Capabilities, PromptEcho, Support, UsageReport};

use super::call::build_call;
use super::failure::INSTALL_HINT;
use super::translate::ClineTranslator;
use crate::adapter::AgentAdapter;
use crate::agent_directory::AgentDirectory;
use crate::agent_env::{AgentEnv, Credential};
use crate::configuration::build_project_code;
use crate::deprecated_flags::DeprecatedFlag;

/// Everything about Cline that ralph looks up.
pub(crate) static ADAPTER: AgentAdapter = AgentAdapter {
    install_hint: Some(INSTALL_HINT),
    env: Some(&AGENT_ENV),
    model_hosts: &["api.cline.bot"],
    project_code: &[
        build_project_code(".cline/*", &[]),
        build_project_code(".clinerules/hooks/*", &[]),
    ],
    deprecated_flags: &[DeprecatedFlag {
        flag: "--yolo",
        removed_in: None,
        advice: "Cline never exits by itself in that mode; everything is approved without it",
        successor: &[],
    }],
    capabilities: |_| Capabilities {
        usage: UsageReport::Cost,
        resume: Support::Yes,
        echo: PromptEcho::None,
        ..Capabilities::default()
    },
    ..AgentAdapter::new(AgentKind::Cline, build_call, |request, _| {
        Box::new(ClineTranslator::new(request))
    })
};

/// Variables, directories and files of Cline.
static AGENT_ENV: AgentEnv = AgentEnv {
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
    login_probe: None,
};
