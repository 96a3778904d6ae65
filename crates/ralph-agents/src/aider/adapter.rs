//! The row about Aider.

use ralph_model::agent::AgentKind;
use ralph_model::capability::{Capabilities, PromptEcho, UsageReport};

use super::call::{INSTALL_HINT, build_call};
use super::translate::AiderTranslator;
use crate::adapter::AgentAdapter;
use crate::adapter::LegacyArgs;
use crate::agent_directory::AgentDirectory;
use crate::agent_env::{AgentEnv, Credential, PROVIDER_KEYS};
use crate::configuration::{ENV_WITH_CODE, build_project_code, build_project_variables};

/// Everything about Aider that ralph looks up. It works with any provider, so it has no hosts.
pub(crate) static ADAPTER: AgentAdapter = AgentAdapter {
    install_hint: Some(INSTALL_HINT),
    env: Some(&AGENT_ENV),
    project_code: &[
        build_project_code(".aider.conf.yml", &[]),
        build_project_code(".aider.model.settings.yml", &[]),
        build_project_variables(".env", ENV_WITH_CODE),
    ],
    legacy_args: LegacyArgs {
        switches: &["--yes-always", "--yes", "--no-stream", "--no-pretty", "--no-auto-commits"],
        with_value: &["--message", "--msg", "-m", "--message-file", "-f"],
    },
    // The cost is printed for models that Aider has a price for.
    capabilities: |_| Capabilities {
        usage: UsageReport::Tokens,
        echo: PromptEcho::None,
        ..Capabilities::default()
    },
    ..AgentAdapter::new(AgentKind::Aider, build_call, |_, _| Box::new(AiderTranslator::default()))
};

/// Variables, directories and files of Aider.
static AGENT_ENV: AgentEnv = AgentEnv {
    login: PROVIDER_KEYS,
    variables: &["AIDER_*", "OPENAI_API_BASE", "OLLAMA_API_BASE", "ANTHROPIC_API_BASE"],
    // No variable moves its directory, so ralph changes HOME for it.
    state_dir: AgentDirectory { variable: "HOME", default: "", subdirectory: ".aider" },
    credentials: &[Credential::for_tokens("oauth-keys.env")],
    configuration: &[],
    cached_programs: &[],
    redirected_dirs: &[],
    enabling_variable: None,
    // Without a key it opens a browser and waits for five minutes.
    missing_login_hint: Some("set the API key of a provider, such as OPENAI_API_KEY"),
    login_probe: None,
};
