//! Every setting with its type and default; the JSON Schema is made from these types.
//!
//! A setting is an `Option` where its default depends on something else, mostly the workflow.
//! Not here: where values come from (`layers`) and which of them are mistakes (`check`).

pub(crate) mod agent;
pub(crate) mod gate;
pub(crate) mod guard;
pub(crate) mod limits;
pub(crate) mod notify;
pub(crate) mod parallel;
pub(crate) mod quantity;
pub(crate) mod sandbox;
pub(crate) mod sections;

use std::collections::BTreeMap;

use agent::{AgentSettings, RoleAgentSettings};
use gate::{GateSetting, GuardrailSetting};
use guard::GuardSettings;
use limits::{BudgetSettings, RateLimitSettings, RetrySettings, StuckSettings, TimeoutSettings};
use notify::{NotifySettings, OtelSettings};
use parallel::ParallelSettings;
use ralph_model::gate::ValidationStrategy;
use ralph_model::ids::Role;
use ralph_model::recipe::{BaselinePolicy, OnFailure};
use sandbox::SandboxSettings;
use schemars::JsonSchema;
use sections::{
    CommitSetting, ContextSettings, LogSettings, McpSettings, MemorySettings, ReviewSettings,
    ScmSettings, SecretsSettings, TaskSettings, UiSettings, WorkflowSetting,
};
use serde::{Deserialize, Serialize};

/// Settings of ralph, in `.ralph/settings.json` and `.ralph/settings.local.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(title = "ralph settings")]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub(crate) struct Settings {
    /// Where editors find the schema of this file.
    #[serde(rename = "$schema", skip_serializing)]
    pub(crate) schema: Option<String>,
    /// What a run works on.
    pub(crate) workflow: WorkflowSetting,
    /// How many iterations a run may take. Not set: 10 for `run`, 15 for task lists, else 50.
    #[schemars(range(min = 1))]
    pub(crate) maximum_iterations: Option<u32>,
    /// What the agent answers when everything is done. Not set: `DONE` for `run`, else `COMPLETE`.
    #[schemars(length(min = 1))]
    pub(crate) completion_response: Option<String>,
    /// How many characters of a failed gate's output join the prompt.
    pub(crate) output_truncate_chars: u32,
    /// Whether to show the agent's work as it happens.
    pub(crate) stream_agent_output: bool,
    /// Whether prompts begin with the iteration count.
    pub(crate) include_iteration_count_in_prompt: bool,
    /// The agent.
    pub(crate) agent: AgentSettings,
    /// Other agents, models or flags for single roles.
    pub(crate) agents: RoleAgentSettings,
    /// Commands that must succeed after each iteration.
    pub(crate) guardrails: Vec<GuardrailSetting>,
    /// Whether a prompt of `ralph run` that never mentions the completion tag gets a line that says
    /// how to finish.
    pub(crate) finish_note: bool,
    /// Checks that ralph runs after the agent.
    pub(crate) gates: Vec<GateSetting>,
    /// Whether all gates run when one has failed, as with `always` in each.
    pub(crate) run_all_gates: bool,
    /// Which gates count.
    pub(crate) validation_strategy: ValidationStrategy,
    /// Commands of the version control system after a passing iteration.
    pub(crate) scm: ScmSettings,
    /// Who commits. Not set: `ralph`; for prompts `none` unless `scm` is set.
    pub(crate) commit: Option<CommitSetting>,
    /// How commit messages of ralph begin.
    pub(crate) commit_prefix: String,
    /// The template of commit messages of ralph, in place of `PREFIX[N]: ID — TITLE`.
    pub(crate) commit_message: Option<String>,
    /// What happens to the changes of a failed attempt.
    pub(crate) on_failure: OnFailure,
    /// The task list.
    pub(crate) tasks: TaskSettings,
    /// Work on several tasks at once.
    pub(crate) parallel: ParallelSettings,
    /// The review of finished tasks by a fresh agent.
    pub(crate) review: ReviewSettings,
    /// Globs of files that an attempt may not change.
    pub(crate) protect: Vec<String>,
    /// Secrets in what is committed.
    pub(crate) secrets: SecretsSettings,
    /// Whether the hard gates run once before any agent. Not set: `note` for task lists, else `off`.
    pub(crate) baseline: Option<BaselinePolicy>,
    /// Whether the machine is kept awake during a run.
    pub(crate) prevent_sleep: bool,
    /// When a task counts as stuck.
    pub(crate) stuck: StuckSettings,
    /// How long things may take.
    pub(crate) timeouts: TimeoutSettings,
    /// Multiplies every timeout.
    #[schemars(range(min = 0.01, max = 1000.0))]
    pub(crate) timeout_multiplier: f64,
    /// What happens when the agent crashes or answers nothing useful.
    pub(crate) retries: RetrySettings,
    /// Seconds to pause between iterations.
    #[schemars(range(max = 86400))]
    pub(crate) delay_seconds: u32,
    /// What happens at a rate or usage limit of the agent.
    pub(crate) rate_limit: RateLimitSettings,
    /// The budget of a run.
    pub(crate) budget: BudgetSettings,
    /// Compaction of what earlier iterations learned.
    pub(crate) memory: MemorySettings,
    /// Token budgets of prompts.
    pub(crate) context: ContextSettings,
    /// How many turns an agent gets in one call. Not set: as many as it takes.
    #[schemars(range(min = 1))]
    pub(crate) max_turns: Option<u32>,
    /// MCP server configurations.
    pub(crate) mcp: McpSettings,
    /// The project's skills.
    #[schemars(length(min = 1))]
    pub(crate) skills_dir: String,
    /// The project's own prompt templates.
    #[schemars(length(min = 1))]
    pub(crate) prompts_dir: String,
    /// The project's specs.
    #[schemars(length(min = 1))]
    pub(crate) specs_dir: String,
    /// Variables for prompt templates.
    pub(crate) vars: BTreeMap<String, String>,
    /// What agents and gates can reach.
    pub(crate) sandbox: SandboxSettings,
    /// The command guard in front of an agent's tools.
    pub(crate) guard: GuardSettings,
    /// Notifications.
    pub(crate) notify: NotifySettings,
    /// Where spans and metrics go, if anywhere.
    pub(crate) otel: OtelSettings,
    /// The log.
    pub(crate) log: LogSettings,
    /// What the streaming view shows.
    pub(crate) ui: UiSettings,
    /// Where trusted state is kept. Not set: a directory of the project under `$XDG_STATE_HOME`.
    #[schemars(length(min = 1))]
    pub(crate) state_dir: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            schema: None,
            workflow: WorkflowSetting::default(),
            maximum_iterations: None,
            completion_response: None,
            output_truncate_chars: 5000,
            stream_agent_output: true,
            include_iteration_count_in_prompt: false,
            agent: AgentSettings { skip_permissions: Some(true), ..AgentSettings::default() },
            agents: RoleAgentSettings::default(),
            guardrails: Vec::new(),
            finish_note: true,
            gates: Vec::new(),
            run_all_gates: false,
            validation_strategy: ValidationStrategy::default(),
            scm: ScmSettings::default(),
            commit: None,
            commit_prefix: "ralph".into(),
            commit_message: None,
            on_failure: OnFailure::default(),
            tasks: TaskSettings::default(),
            parallel: ParallelSettings::default(),
            review: ReviewSettings::default(),
            protect: Vec::new(),
            secrets: SecretsSettings::default(),
            baseline: None,
            prevent_sleep: true,
            stuck: StuckSettings::default(),
            timeouts: TimeoutSettings::default(),
            timeout_multiplier: 1.0,
            retries: RetrySettings::default(),
            delay_seconds: 0,
            rate_limit: RateLimitSettings::default(),
            budget: BudgetSettings::default(),
            memory: MemorySettings::default(),
            context: ContextSettings::default(),
            max_turns: None,
            mcp: McpSettings::default(),
            skills_dir: ".ralph/skills".into(),
            prompts_dir: ".ralph/prompts".into(),
            specs_dir: "specs".into(),
            vars: BTreeMap::new(),
            sandbox: SandboxSettings::default(),
            guard: GuardSettings::default(),
            notify: NotifySettings::default(),
            otel: OtelSettings::default(),
            log: LogSettings::default(),
            ui: UiSettings::default(),
            state_dir: None,
        }
    }
}

impl Settings {
    /// Returns the agent for a role: its own section over `agent`.
    pub(crate) fn choose_agent_for(&self, role: Role) -> AgentSettings {
        self.agents.find_section(role).with_defaults_from(&self.agent)
    }
}
