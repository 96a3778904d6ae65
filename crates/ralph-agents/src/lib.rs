//! Agent CLIs: how ralph calls each one, how its lines become common events, how its end is
//! judged.
//!
//! Everything here is pure. Not here: starting processes, reading pipes, writing files. The caller
//! of [`build_call`] and [`create_translator`] does that.

#![expect(clippy::wildcard_enum_match_arm, reason = "an adapter picks what it knows of")]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "recorded streams are files"))]

mod acp;
mod adapter;
mod agent_directory;
mod agent_env;
mod aider;
mod amp;
mod call;
mod capabilities;
mod claude;
mod cline;
mod codex;
pub mod configuration;
mod copilot;
mod custom;
mod deprecated_flags;
mod error_patterns;
mod exit_failure;
mod final_answer;
mod gemini;
mod install_hints;
mod json_events;
mod json_salvage;
mod kilo;
mod legacy_args;
mod lenient_json;
mod list_tools;
mod login;
mod mcp;
mod opencode;
mod pi;
mod project_paths;
mod qwen;
pub mod rate_limit_text;
mod registry;
mod sim;
#[doc(hidden)]
pub mod test_support;
#[cfg(test)]
mod tests;
mod text;
mod translator;
mod turn_status;
mod usage_error;

pub use adapter::{AgentAdapter, TextRequest};
pub use agent_directory::AgentDirectory;
pub use agent_env::{AgentEnv, Credential, CredentialSync, EACH_VERSION, LoginProbe, LoginScope};
pub use call::{
    AgentCall, CallContext, IdleWatch, OuterSandbox, Privilege, StdinMode, SystemPrompt,
    has_only_model_flags,
};
pub use claude::OLDEST_PLUGIN_VERSION;
pub use claude::plugin_commands as claude_plugins;
pub use custom::{FilterError, check_filter};
pub use install_hints::{find_billing_warning, find_install_hint};
pub use legacy_args::{request_text_output, split_adapter_args, strip_call_args};
pub use login::{Login, find_login, find_login_probe};
pub use mcp::{McpError, McpServerSpec, McpTransport, parse_mcp_servers};
pub use registry::{
    ADAPTERS, build_call, can_call_hooks, create_translator, detect_capabilities,
    detect_program_kind, find_adapter, infer_agent_kind, judge_call, judge_imposed_ending,
    list_products, list_version_warnings, render_schema, select_answer_file,
};
pub use translator::{
    Evidence, LineActivity, LineDisplay, LineResult, ParsedLine, StdinReply, StdinState, Translator,
};
