//! The row about Kilo Code on a user's machine.
//!
//! It reads its own configuration of a project and that of `OpenCode`.

use ralph_model::agent::AgentKind;
use ralph_model::capability::{
    Capabilities, FollowUps, McpServers, PromptEcho, Support, UsageReport,
};

use super::call::{HINTS, build_call};
use crate::adapter::AgentAdapter;
use crate::agent_directory::AgentDirectory;
use crate::agent_env::{AgentEnv, Credential, PROVIDER_KEYS};
use crate::configuration::{ConfigFile, ConfigFormat, build_project_code, build_project_file};
use crate::opencode::OpencodeTranslator;

/// Everything about Kilo Code that ralph looks up.
pub(crate) static ADAPTER: AgentAdapter = AgentAdapter {
    install_hint: Some(HINTS.install),
    env: Some(&AGENT_ENV),
    project_code: &[
        build_project_file("kilo.json", PROJECT_KEYS_WITH_CODE),
        build_project_file("kilo.jsonc", PROJECT_KEYS_WITH_CODE),
        build_project_file("opencode.json", PROJECT_KEYS_WITH_CODE),
        build_project_file("opencode.jsonc", PROJECT_KEYS_WITH_CODE),
        build_project_file(".kilo/kilo.json", PROJECT_KEYS_WITH_CODE),
        build_project_file(".kilo/kilo.jsonc", PROJECT_KEYS_WITH_CODE),
        build_project_file(".kilo/opencode.json", PROJECT_KEYS_WITH_CODE),
        build_project_file(".kilo/opencode.jsonc", PROJECT_KEYS_WITH_CODE),
        build_project_code(".kilo/plugin/*", &[]),
        build_project_code(".kilo/plugins/*", &[]),
        build_project_code(".kilo/tool/*", &[]),
        build_project_code(".kilo/tools/*", &[]),
        build_project_file(".kilocode/kilo.json", PROJECT_KEYS_WITH_CODE),
        build_project_file(".kilocode/kilo.jsonc", PROJECT_KEYS_WITH_CODE),
        build_project_file(".kilocode/opencode.json", PROJECT_KEYS_WITH_CODE),
        build_project_file(".kilocode/opencode.jsonc", PROJECT_KEYS_WITH_CODE),
        build_project_code(".kilocode/plugin/*", &[]),
        build_project_code(".kilocode/plugins/*", &[]),
        build_project_code(".kilocode/tool/*", &[]),
        build_project_code(".kilocode/tools/*", &[]),
    ],
    model_hosts: &["api.kilo.ai", "models.dev"],
    capabilities: |_| Capabilities {
        usage: UsageReport::Cost,
        mcp: McpServers::Added,
        system_prompt: Support::Yes,
        resume: Support::Yes,
        follow_ups: FollowUps::SameSession,
        echo: PromptEcho::None,
        ..Capabilities::default()
    },
    ..AgentAdapter::new(AgentKind::Kilo, build_call, |request, _| {
        Box::new(OpencodeTranslator::new(request, &HINTS))
    })
};

/// Variables, directories and files of Kilo Code.
static AGENT_ENV: AgentEnv = AgentEnv {
    login: PROVIDER_KEYS,
    variables: &["KILO_*"],
    state_dir: AgentDirectory {
        variable: "XDG_DATA_HOME",
        default: ".local/share",
        subdirectory: "kilo",
    },
    credentials: &[Credential::for_tokens("auth.json")],
    configuration: &[
        ConfigFile { path_variable: Some("KILO_CONFIG"), ..build_config_file("kilo.json") },
        ConfigFile { path_variable: Some("KILO_CONFIG"), ..build_config_file("kilo.jsonc") },
    ],
    // The `rg` program that its tools run.
    cached_programs: &[(
        AgentDirectory { variable: "XDG_CACHE_HOME", default: ".cache", subdirectory: "kilo/bin" },
        "cache/kilo/bin",
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
            subdirectory: "kilo",
        }),
        removed_keys: &["mcp", "plugin"],
        ignored_keys: &["theme", "keybinds", "tui"],
        ..ConfigFile::for_whole_file(file, ConfigFormat::Json)
    }
}
