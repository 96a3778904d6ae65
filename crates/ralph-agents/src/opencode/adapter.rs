//! The row about `OpenCode` on a user's machine.
//!
//! Its directories follow the XDG variables.

use ralph_model::agent::AgentKind;
use ralph_model::capability::{
    Capabilities, FollowUps, McpServers, PromptEcho, Support, UsageReport,
};

use super::call::{HINTS, build_call};
use super::translate::OpencodeTranslator;
use crate::adapter::AgentAdapter;
use crate::agent_directory::AgentDirectory;
use crate::agent_env::{AgentEnv, Credential, PROVIDER_KEYS};
use crate::configuration::{ConfigFile, ConfigFormat, build_project_code, build_project_file};

/// Everything about `OpenCode` that ralph looks up.
pub(crate) static ADAPTER: AgentAdapter = AgentAdapter {
    install_hint: Some(HINTS.install),
    env: Some(&AGENT_ENV),
    project_code: &[
        build_project_file("opencode.json", PROJECT_KEYS_WITH_CODE),
        build_project_file("opencode.jsonc", PROJECT_KEYS_WITH_CODE),
        build_project_file(".opencode/opencode.json", PROJECT_KEYS_WITH_CODE),
        build_project_file(".opencode/opencode.jsonc", PROJECT_KEYS_WITH_CODE),
        build_project_code(".opencode/plugin/*", &[]),
        build_project_code(".opencode/plugins/*", &[]),
        build_project_code(".opencode/tool/*", &[]),
        build_project_code(".opencode/tools/*", &[]),
    ],
    model_hosts: &["opencode.ai", "models.dev"],
    sbx_template: Some("opencode"),
    capabilities: |_| Capabilities {
        usage: UsageReport::Cost,
        mcp: McpServers::Added,
        system_prompt: Support::Yes,
        resume: Support::Yes,
        follow_ups: FollowUps::SameSession,
        echo: PromptEcho::None,
        ..Capabilities::default()
    },
    ..AgentAdapter::new(AgentKind::Opencode, build_call, |request, _| {
        Box::new(OpencodeTranslator::new(request, &HINTS))
    })
};

/// Variables, directories and files of `OpenCode`.
static AGENT_ENV: AgentEnv = AgentEnv {
    login: PROVIDER_KEYS,
    variables: &["OPENCODE_*"],
    state_dir: AgentDirectory {
        variable: "XDG_DATA_HOME",
        default: ".local/share",
        subdirectory: "opencode",
    },
    credentials: &[Credential::for_tokens("auth.json")],
    configuration: &[
        ConfigFile { path_variable: Some("OPENCODE_CONFIG"), ..build_config_file("opencode.json") },
        ConfigFile {
            path_variable: Some("OPENCODE_CONFIG"),
            ..build_config_file("opencode.jsonc")
        },
    ],
    // The `rg` program that its tools `grep`, `glob` and `skill` run.
    cached_programs: &[(
        AgentDirectory {
            variable: "XDG_CACHE_HOME",
            default: ".cache",
            subdirectory: "opencode/bin",
        },
        "cache/opencode/bin",
    )],
    redirected_dirs: &[("XDG_STATE_HOME", "state"), ("XDG_CACHE_HOME", "cache")],
    enabling_variable: None,
    missing_login_hint: None,
    login_probe: None,
};

/// Keys of a project's configuration that start programs or change where the key is sent.
const PROJECT_KEYS_WITH_CODE: &[&str] = &["mcp", "plugin", "provider", "formatter", "lsp"];

const fn build_config_file(file: &'static str) -> ConfigFile {
    ConfigFile {
        directory: Some(AgentDirectory {
            variable: "XDG_CONFIG_HOME",
            default: ".config",
            subdirectory: "opencode",
        }),
        removed_keys: &["mcp", "plugin"],
        ignored_keys: &["theme", "keybinds", "tui"],
        ..ConfigFile::for_whole_file(file, ConfigFormat::Json)
    }
}
