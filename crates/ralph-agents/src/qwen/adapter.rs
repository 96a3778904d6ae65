//! The row about Qwen Code on a user's machine.
//!
//! A setting or a flag may select the kind of login.

use ralph_model::agent::AgentKind;
use ralph_model::capability::{
    Capabilities, FollowUps, McpServers, PromptEcho, SchemaOutput, Support, UsageReport,
};
use ralph_model::version::Version;

use super::call::{INSTALL_HINT, build_call};
use super::translate::QwenTranslator;
use crate::adapter::AgentAdapter;
use crate::agent_directory::AgentDirectory;
use crate::agent_env::{AgentEnv, Credential};
use crate::capabilities::{check_support_since, select_schema_output};
use crate::configuration::{
    ConfigFile, ConfigFormat, ENV_WITH_CODE, build_project_code, build_project_file,
    build_project_variables,
};
use crate::gemini::{LEGACY_ARGS, REMOVED_KEYS};

/// Everything about Qwen Code that ralph looks up.
pub(crate) static ADAPTER: AgentAdapter = AgentAdapter {
    install_hint: Some(INSTALL_HINT),
    env: Some(&AGENT_ENV),
    project_code: &[
        build_project_file(".qwen/settings.json", REMOVED_KEYS),
        build_project_variables(".qwen/.env", ENV_WITH_CODE),
        build_project_variables(".env", ENV_WITH_CODE),
        build_project_code(".qwen/extensions/*", &[]),
        build_project_code(".qwen/hooks/*", &[]),
    ],
    model_hosts: &[
        "portal.qwen.ai",
        "chat.qwen.ai",
        "dashscope.aliyuncs.com",
        "dashscope-intl.aliyuncs.com",
    ],
    legacy_args: LEGACY_ARGS,
    capabilities: |version| Capabilities {
        schema: select_schema_output(
            check_support_since(version, Version::new(0, 15, 10)),
            SchemaOutput::Enforced,
        ),
        usage: UsageReport::Tokens,
        turn_limit: check_support_since(version, Version::new(0, 4, 0)),
        fallback_model: check_support_since(version, Version::new(0, 19, 7)),
        mcp: match check_support_since(version, Version::new(0, 15, 5)) {
            Support::Yes => McpServers::Added,
            Support::No => McpServers::None,
        },
        system_prompt: check_support_since(version, Version::new(0, 13, 0)),
        stop_hook: Support::Yes,
        resume: Support::Yes,
        follow_ups: FollowUps::SameSessionTotal,
        echo: PromptEcho::None,
        ..Capabilities::default()
    },
    ..AgentAdapter::new(AgentKind::Qwen, build_call, |request, _| {
        Box::new(QwenTranslator::new(request))
    })
};

/// Variables, directories and files of Qwen Code.
static AGENT_ENV: AgentEnv = AgentEnv {
    login: &["OPENAI_API_KEY", "DASHSCOPE_API_KEY"],
    variables: &["OPENAI_BASE_URL", "OPENAI_MODEL", "QWEN_MODEL"],
    state_dir: AgentDirectory { variable: "QWEN_HOME", default: ".qwen", subdirectory: "" },
    credentials: &[Credential::for_tokens("oauth_creds.json")],
    configuration: &[
        ConfigFile {
            removed_keys: REMOVED_KEYS,
            ignored_keys: &["telemetry"],
            ..ConfigFile::for_whole_file("settings.json", ConfigFormat::Json)
        },
        ConfigFile::for_whole_file(".env", ConfigFormat::Variables),
        ConfigFile::for_whole_file("QWEN.md", ConfigFormat::Text),
    ],
    cached_programs: &[],
    redirected_dirs: &[],
    enabling_variable: None,
    missing_login_hint: None,
    login_probe: None,
};
