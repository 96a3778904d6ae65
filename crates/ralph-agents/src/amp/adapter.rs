//! The row about Amp on a user's machine.
//!
//! No variable moves its directory, so ralph changes HOME for it.

use ralph_model::agent::AgentKind;
use ralph_model::capability::{Capabilities, McpServers, PromptEcho, Support, UsageReport};

use super::call::build_call;
use super::failure::INSTALL_HINT;
use super::translate::AmpTranslator;
use crate::adapter::AgentAdapter;
use crate::adapter::LegacyArgs;
use crate::agent_directory::AgentDirectory;
use crate::agent_env::{AgentEnv, Credential};
use crate::configuration::{ConfigFile, ConfigFormat, build_project_code, build_project_file};

/// Everything about Amp that ralph looks up.
pub(crate) static ADAPTER: AgentAdapter = AgentAdapter {
    install_hint: Some(INSTALL_HINT),
    env: Some(&AGENT_ENV),
    model_hosts: &["ampcode.com", "*.ampcode.com"],
    project_code: &[
        build_project_file(".amp/settings.json", PROJECT_KEYS_WITH_CODE),
        build_project_file(".amp/settings.jsonc", PROJECT_KEYS_WITH_CODE),
        build_project_code(".amp/plugins/*", &[]),
        build_project_code(".amp/tools/*", &[]),
        build_project_code(".agents/toolbox/*", &[]),
    ],
    legacy_args: LegacyArgs {
        switches: &["-x", "--execute", "--stream-json", "--dangerously-allow-all"],
        with_value: &[],
    },
    capabilities: |_| Capabilities {
        usage: UsageReport::Tokens,
        mcp: McpServers::Added,
        stop_hook: Support::Yes,
        resume: Support::Yes,
        echo: PromptEcho::Repeats,
        ..Capabilities::default()
    },
    ..AgentAdapter::new(AgentKind::Amp, build_call, |request, _| {
        Box::new(AmpTranslator::new(request))
    })
};

/// Settings of a project that start programs, allow them, or lead elsewhere.
const PROJECT_KEYS_WITH_CODE: &[&str] = &[
    "amp.mcpServers",
    "amp.hooks",
    "amp.permissions",
    "amp.tools",
    "amp.toolbox.path",
    "amp.commands.allowlist",
    "amp.dangerouslyAllowAll",
    "amp.url",
    "amp.proxy",
];

/// Variables, directories and files of Amp.
static AGENT_ENV: AgentEnv = AgentEnv {
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
    login_probe: None,
};
