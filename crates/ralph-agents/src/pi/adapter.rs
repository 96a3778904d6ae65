//! The row about pi on a user's machine.
//!
//! Providers that the user adds are in its configuration.

use ralph_model::agent::AgentKind;
use ralph_model::capability::{Capabilities, FollowUps, PromptEcho, Support, UsageReport};

use super::call::{INSTALL_HINT, build_call};
use super::translate::PiTranslator;
use crate::adapter::AgentAdapter;
use crate::agent_directory::AgentDirectory;
use crate::agent_env::{AgentEnv, Credential, PROVIDER_KEYS};
use crate::configuration::{ConfigFile, ConfigFormat, build_project_code, build_project_file};

/// Everything about pi that ralph looks up.
pub(crate) static ADAPTER: AgentAdapter = AgentAdapter {
    install_hint: Some(INSTALL_HINT),
    env: Some(&AGENT_ENV),
    project_code: &[
        build_project_file(".pi/settings.json", &["packages", "extensions"]),
        build_project_code(".pi/extensions/*", &[]),
        build_project_code(".pi/hooks/*", &[]),
        build_project_code(".pi/tools/*", &[]),
    ],
    capabilities: |_| Capabilities {
        usage: UsageReport::Cost,
        system_prompt: Support::Yes,
        resume: Support::Yes,
        follow_ups: FollowUps::SameSession,
        echo: PromptEcho::Repeats,
        ..Capabilities::default()
    },
    ..AgentAdapter::new(AgentKind::Pi, build_call, |request, _| {
        Box::new(PiTranslator::new(request))
    })
};

/// Variables, directories and files of pi.
static AGENT_ENV: AgentEnv = AgentEnv {
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
    login_probe: None,
};
