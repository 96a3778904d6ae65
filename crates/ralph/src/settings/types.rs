//! Every setting with its type and default; the JSON Schema is made from these types.
//!
//! A setting is an `Option` where its default depends on something else, mostly the workflow.
//! Not here: where values come from (`layers`) and which of them are mistakes (`check`).

pub(crate) mod agent;
pub(crate) mod gate;
pub(crate) mod guard;
pub(crate) mod limits;
pub(crate) mod notify;
pub(crate) mod quantity;
pub(crate) mod sandbox;
pub(crate) mod sections;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use agent::{Agent, Agents, Role};
use gate::{Gate, Guardrail, ValidationStrategy};
use guard::Guard;
use limits::{Budget, RateLimit, Retries, Stuck, Timeouts};
use notify::{Notify, Otel};
use sandbox::Sandbox;
use sections::{
    Baseline, Commit, Context, Log, Mcp, Memory, OnFailure, Review, Scm, Secrets, Tasks, Ui,
    Workflow,
};

/// Settings of ralph, in `.ralph/settings.json` and `.ralph/settings.local.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(title = "ralph settings")]
pub(crate) struct Settings {
    /// Where editors find the schema of this file.
    #[serde(rename = "$schema", skip_serializing)]
    pub(crate) schema: Option<String>,
    /// What a run works on.
    pub(crate) workflow: Workflow,
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
    pub(crate) agent: Agent,
    /// Other agents, models or flags for single roles.
    pub(crate) agents: Agents,
    /// Commands that must succeed after each iteration.
    pub(crate) guardrails: Vec<Guardrail>,
    /// Checks that ralph runs after the agent.
    pub(crate) gates: Vec<Gate>,
    /// Which gates count.
    pub(crate) validation_strategy: ValidationStrategy,
    /// Commands of the version control system after a passing iteration.
    pub(crate) scm: Scm,
    /// Who commits. Not set: `ralph`; for prompts `none` unless `scm` is set.
    pub(crate) commit: Option<Commit>,
    /// How commit messages of ralph begin.
    pub(crate) commit_prefix: String,
    /// The template of commit messages of ralph, in place of `PREFIX[N]: ID — TITLE`.
    pub(crate) commit_message: Option<String>,
    /// What happens to the changes of a failed attempt.
    pub(crate) on_failure: OnFailure,
    /// The task list.
    pub(crate) tasks: Tasks,
    /// The review of finished tasks by a fresh agent.
    pub(crate) review: Review,
    /// Globs of files that an attempt may not change.
    pub(crate) protect: Vec<String>,
    /// Secrets in what is committed.
    pub(crate) secrets: Secrets,
    /// Whether the hard gates run once before any agent. Not set: `note` for task lists, else `off`.
    pub(crate) baseline: Option<Baseline>,
    /// Whether the machine is kept awake during a run.
    pub(crate) prevent_sleep: bool,
    /// When a task counts as stuck.
    pub(crate) stuck: Stuck,
    /// How long things may take.
    pub(crate) timeouts: Timeouts,
    /// Multiplies every timeout.
    #[schemars(range(min = 0.01, max = 1000.0))]
    pub(crate) timeout_multiplier: f64,
    /// What happens when the agent crashes or answers nothing useful.
    pub(crate) retries: Retries,
    /// Seconds to pause between iterations.
    #[schemars(range(max = 86400))]
    pub(crate) delay_seconds: u32,
    /// What happens at a rate or usage limit of the agent.
    pub(crate) rate_limit: RateLimit,
    /// The budget of a run.
    pub(crate) budget: Budget,
    /// Compaction of what earlier iterations learned.
    pub(crate) memory: Memory,
    /// Token budgets of prompts.
    pub(crate) context: Context,
    /// How many turns an agent gets in one call. Not set: as many as it takes.
    #[schemars(range(min = 1))]
    pub(crate) max_turns: Option<u32>,
    /// MCP server configurations.
    pub(crate) mcp: Mcp,
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
    pub(crate) sandbox: Sandbox,
    /// The command guard in front of an agent's tools.
    pub(crate) guard: Guard,
    /// Notifications.
    pub(crate) notify: Notify,
    /// Where spans and metrics go, if anywhere.
    pub(crate) otel: Otel,
    /// The log.
    pub(crate) log: Log,
    /// What the streaming view shows.
    pub(crate) ui: Ui,
    /// Where trusted state is kept. Not set: a directory of the project under `$XDG_STATE_HOME`.
    #[schemars(length(min = 1))]
    pub(crate) state_dir: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            schema: None,
            workflow: Workflow::default(),
            maximum_iterations: None,
            completion_response: None,
            output_truncate_chars: 5000,
            stream_agent_output: true,
            include_iteration_count_in_prompt: false,
            agent: Agent { skip_permissions: Some(true), ..Agent::default() },
            agents: Agents::default(),
            guardrails: Vec::new(),
            gates: Vec::new(),
            validation_strategy: ValidationStrategy::default(),
            scm: Scm::default(),
            commit: None,
            commit_prefix: "ralph".into(),
            commit_message: None,
            on_failure: OnFailure::default(),
            tasks: Tasks::default(),
            review: Review::default(),
            protect: Vec::new(),
            secrets: Secrets::default(),
            baseline: None,
            prevent_sleep: true,
            stuck: Stuck::default(),
            timeouts: Timeouts::default(),
            timeout_multiplier: 1.0,
            retries: Retries::default(),
            delay_seconds: 0,
            rate_limit: RateLimit::default(),
            budget: Budget::default(),
            memory: Memory::default(),
            context: Context::default(),
            max_turns: None,
            mcp: Mcp::default(),
            skills_dir: ".ralph/skills".into(),
            prompts_dir: ".ralph/prompts".into(),
            specs_dir: "specs".into(),
            vars: BTreeMap::new(),
            sandbox: Sandbox::default(),
            guard: Guard::default(),
            notify: Notify::default(),
            otel: Otel::default(),
            log: Log::default(),
            ui: Ui::default(),
            state_dir: None,
        }
    }
}

impl Settings {
    /// Returns the agent for a role: its own section over `agent`.
    pub(crate) fn agent_for(&self, role: Role) -> Agent {
        self.agents.section(role).over(&self.agent)
    }
}
