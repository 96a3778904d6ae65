//! The row about GitHub Copilot CLI on a user's machine.
//!
//! It keeps its login in its settings. The cache holds its own program, 200 MB of it, so what the
//! user has of it is shared read-only with the agents of all projects.

use ralph_model::agent::AgentKind;
use ralph_model::capability::{Capabilities, FollowUps, McpServers, PromptEcho, Support};

use super::call::{INSTALL_HINT, build_call};
use super::translate::CopilotTranslator;
use crate::adapter::AgentAdapter;
use crate::adapter::LegacyArgs;
use crate::agent_directory::AgentDirectory;
use crate::agent_env::{AgentEnv, Credential};
use crate::configuration::{ConfigFile, ConfigFormat, build_project_code, build_project_file};

/// Everything about GitHub Copilot CLI that ralph looks up.
pub(crate) static ADAPTER: AgentAdapter = AgentAdapter {
    install_hint: Some(INSTALL_HINT),
    env: Some(&AGENT_ENV),
    // From the vendor's firewall documentation.
    model_hosts: &["*.githubcopilot.com", "api.github.com"],
    project_code: &[
        build_project_code(".github/hooks/*", &[]),
        build_project_code(".copilot/*", &[]),
        build_project_file(".mcp.json", &["mcpServers"]),
        build_project_file(".vscode/mcp.json", &["servers"]),
    ],
    sbx_template: Some("copilot"),
    legacy_args: LegacyArgs {
        switches: &["-p", "--prompt", "--allow-all-tools", "--yolo"],
        with_value: &[],
    },
    capabilities: |_| Capabilities {
        mcp: McpServers::Added,
        stop_hook: Support::Yes,
        resume: Support::Yes,
        follow_ups: FollowUps::SameSession,
        echo: PromptEcho::Repeats,
        ..Capabilities::default()
    },
    ..AgentAdapter::new(AgentKind::Copilot, build_call, |request, _| {
        Box::new(CopilotTranslator::new(request))
    })
};

/// Variables, directories and files of GitHub Copilot CLI.
static AGENT_ENV: AgentEnv = AgentEnv {
    login: &["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL"],
    variables: &["COPILOT_*", "GH_HOST"],
    state_dir: AgentDirectory { variable: "COPILOT_HOME", default: ".copilot", subdirectory: "" },
    credentials: &[Credential::for_settings("config.json")],
    configuration: &[ConfigFile::for_whole_file("copilot-instructions.md", ConfigFormat::Text)],
    cached_programs: &[(
        AgentDirectory {
            variable: "XDG_CACHE_HOME",
            default: ".cache",
            subdirectory: "copilot/pkg",
        },
        "cache/pkg/*/*",
    )],
    redirected_dirs: &[("COPILOT_CACHE_HOME", "cache")],
    enabling_variable: None,
    missing_login_hint: None,
    login_probe: None,
};
