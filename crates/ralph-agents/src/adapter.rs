//! One row about an agent: every fact and every function that ralph needs to call it, read it and
//! describe it.
//!
//! Not here: the rows. Each is in its agent's folder, and `registry` lists them.

use std::path::Path;

use ralph_core::answers::structured_output::Schema;
use ralph_core::ports::AgentRequest;
use ralph_model::agent::{AgentChoice, AgentKind, AgentOrigin};
use ralph_model::capability::Capabilities;
use ralph_model::failure::Failure;
use ralph_model::version::Version;

use super::agent_env::AgentEnv;
use super::call::{AgentCall, CallContext, StdinMode};
use super::configuration::ConfigFile;
use super::deprecated_flags::DeprecatedFlag;
use super::translator::Translate;

/// Flags that an adapter adds by itself: without and with a value.
#[derive(Debug)]
pub(crate) struct LegacyArgs {
    pub(crate) switches: &'static [&'static str],
    pub(crate) with_value: &'static [&'static str],
}

/// An agent that ralph can call.
#[derive(Debug)]
pub struct AgentAdapter {
    pub kind: AgentKind,
    /// How to install its program; `None` if that is any command of the user.
    pub install_hint: Option<&'static str>,
    /// Variables, directories and files on the user's machine; `None` if ralph does not know the
    /// program.
    pub env: Option<&'static AgentEnv>,
    /// Hosts of its model and of its sign-in, and nothing beyond: no telemetry, updates or
    /// package registries. Empty if it works with any provider: the user names the provider.
    pub model_hosts: &'static [&'static str],
    /// Files of a project in which it finds programs to start or addresses to send its key to;
    /// `removed_keys` names them. Files of the format text are code themselves.
    pub project_code: &'static [ConfigFile],
    /// A variable that makes it bill an API key, not a subscription.
    pub billing_variable: Option<&'static str>,
    /// The oldest version that prints a stream of events, if earlier ones did not.
    pub oldest_version: Option<Version>,
    /// The template of Docker Sandboxes that has it installed.
    pub sbx_template: Option<&'static str>,
    /// Whether its stdin stays open for replies while it works.
    pub stdin_mode: StdinMode,
    /// How to request plain text instead of events.
    pub text_request: TextRequest,
    /// Whether its output is read with the filters of the settings.
    pub has_filters: bool,
    /// Whether `model` reaches it.
    pub takes_model: bool,
    /// The program of `AGENT_TYPE` in a settings file of the form `KEY=VALUE`.
    pub default_program: Option<&'static str>,
    /// Arguments of a user's script that the adapter adds by itself.
    pub(crate) legacy_args: LegacyArgs,
    /// User flags that it no longer accepts, or never did.
    pub(crate) deprecated_flags: &'static [DeprecatedFlag],
    /// Returns what a version can do. An unknown version counts as the newest.
    pub(crate) capabilities: fn(Option<Version>) -> Capabilities,
    pub(crate) build_call: fn(&AgentRequest, &CallContext) -> Result<AgentCall, Failure>,
    /// Returns a translator for a call in a directory.
    pub(crate) create_translator: fn(&AgentRequest, &Path) -> Box<dyn Translate>,
    /// Whether it writes its answer to a file.
    pub(crate) has_answer_file: fn(&AgentRequest) -> bool,
    /// Returns a schema in the form that the API behind the agent accepts.
    pub(crate) render_schema: fn(&Schema) -> String,
    /// Whether a call passes ralph's plugin.
    pub(crate) can_use_plugin: fn(&AgentChoice) -> bool,
    /// Removes arguments that the adapter adds in any case and that would be prompts if repeated.
    pub(crate) strip_call_args: fn(Vec<String>) -> Vec<String>,
}

/// How plain text is requested instead of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextRequest {
    /// By a flag with its value.
    Flag(&'static str, &'static str),
    /// By `streamAgentOutput`.
    Setting,
    /// It prints no events.
    NotNeeded,
    /// Not at all: its events are read, and shown as text.
    Unsupported,
}

impl AgentAdapter {
    /// Returns a row with the usual facts, for an agent that is called and read like this.
    pub(crate) const fn new(
        kind: AgentKind,
        build_call: fn(&AgentRequest, &CallContext) -> Result<AgentCall, Failure>,
        create_translator: fn(&AgentRequest, &Path) -> Box<dyn Translate>,
    ) -> Self {
        let (text_request, default_program) = match kind.origin() {
            AgentOrigin::Product => (TextRequest::Unsupported, Some(kind.name())),
            AgentOrigin::Command | AgentOrigin::BuiltIn => (TextRequest::NotNeeded, None),
        };
        Self {
            kind,
            install_hint: None,
            env: None,
            model_hosts: &[],
            project_code: &[],
            billing_variable: None,
            oldest_version: None,
            sbx_template: None,
            stdin_mode: StdinMode::OneWay,
            text_request,
            has_filters: false,
            takes_model: true,
            default_program,
            legacy_args: LegacyArgs { switches: &[], with_value: &[] },
            deprecated_flags: &[],
            capabilities: |_| Capabilities::default(),
            build_call,
            create_translator,
            has_answer_file: |_| false,
            render_schema: |schema| schema.to_string(),
            can_use_plugin: |_| false,
            strip_call_args: |args| args,
        }
    }
}
