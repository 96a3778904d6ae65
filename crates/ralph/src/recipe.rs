//! Builds a recipe from settings and flags: everything decided, nothing optional left.
//!
//! Not here: reading settings, and checking the machine.

pub(crate) mod gates;
mod sandbox;
mod specs;

use std::collections::BTreeMap;
use std::path::PathBuf;

use ralph_core::asking::prompt::run::describe_commits;
use ralph_model::agent::{
    AgentChoice, AgentKind, AgentOrigin, AgentOutput, Permissions, Selectors, UsageSelectors,
};
use ralph_model::agent_output::UsageScope;
use ralph_model::budget::Budget;
use ralph_model::context::ContextPlan;
use ralph_model::failure::{RateLimitAction, RateLimitPolicy, Retries};
use ralph_model::gate::{Gate, GateCheck, ValidationStrategy};
use ralph_model::glob::Pattern;
use ralph_model::ids::{Role, TaskId};
use ralph_model::memory::{Documentation, MemoryPolicy};
use ralph_model::recipe::{
    BaselinePolicy, CommitPolicy, Completion, FinishNote, IterationCount, LandingPolicy,
    MessageAuthor, OnFailure, PROGRESS, PromptPlan, PromptSource, Recipe, Retry, RunLimits,
    RunPrompt, Scm, ScmTask, TaskWork, Template, TemplatePlace, Uncommitted, Work,
};
use ralph_model::review::ReviewPolicy;
use ralph_model::sandbox::{NetworkMode, SandboxPolicy};
use ralph_model::stuck::StuckPolicy;
use ralph_model::task::{ListForm, ListOwner, TaskList};
use ralph_model::units::{Millis, Tokens, UsdMicros};

use crate::cli_error::CliError;
use crate::settings::types::{agent as agents_in, sections};
use crate::settings::{LoadedSettings, Settings};

pub(crate) use gates::make_names_unique;
pub(crate) use specs::{ITERATIONS as SPECS_ITERATIONS, PLAN_FILE, for_specs, for_template};

/// The limit of iterations of a prompt when neither flags nor settings name one.
pub(crate) const PROMPT_ITERATIONS: u32 = 10;

/// The limit of iterations of `ralph build` on a task list when nothing else sets one.
pub(crate) const TASK_ITERATIONS: u32 = 15;

const ROLES: [Role; 8] = [
    Role::Prompt,
    Role::Plan,
    Role::Build,
    Role::Implement,
    Role::Review,
    Role::Fix,
    Role::Compact,
    Role::Message,
];

/// What differs between the recipes of the workflows, before the settings apply.
struct WorkflowDefaults<'a> {
    workflow: &'static str,
    work: Work,
    /// The role whose agent is the default.
    role: Role,
    /// The limit of iterations when neither flags nor settings name one.
    iterations: u32,
    completion_response: &'static str,
    /// Default for the setting `commit`.
    commit: sections::CommitSetting,
    baseline: BaselinePolicy,
    /// Gates for work whose settings define none.
    gates: &'a [String],
    strategy: Option<ValidationStrategy>,
    memory: Option<MemoryPolicy>,
}

/// Returns the recipe of `ralph run`.
pub(crate) fn for_prompt(
    loaded: &LoadedSettings,
    source: PromptSource,
) -> Result<Recipe, CliError> {
    let mut recipe = build_recipe(
        loaded,
        WorkflowDefaults {
            workflow: "prompt",
            work: Work::Prompt(source),
            role: Role::Prompt,
            iterations: PROMPT_ITERATIONS,
            completion_response: "DONE",
            commit: sections::CommitSetting::None,
            baseline: BaselinePolicy::Off,
            gates: &[],
            strategy: None,
            memory: None,
        },
    )?;
    if loaded.settings.finish_note {
        recipe.prompt.finish = FinishNote::Added;
    }
    Ok(recipe)
}

/// Returns the recipe of `ralph build` over a task list.
pub(crate) fn for_tasks(
    loaded: &LoadedSettings,
    (file, form): (PathBuf, ListForm),
    list: &TaskList,
    only: Option<TaskId>,
    retry: Retry,
) -> Result<Recipe, CliError> {
    let settings = &loaded.settings;
    // The list owner commits it, unless the settings say otherwise.
    let keeper = settings.tasks.keeper;
    let commit = match keeper {
        ListOwner::Ralph => sections::CommitSetting::Ralph,
        ListOwner::Agent => sections::CommitSetting::Agent,
    };
    let factor = settings.timeout_multiplier;
    let work = TaskWork {
        file,
        keeper,
        form,
        only,
        retry,
        attempts: settings.tasks.max_attempts,
        amendments: settings.tasks.max_amendments,
        amendment_policy: settings.tasks.amendments,
        review: if settings.review.enabled {
            ReviewPolicy::Fresh { cap: settings.review.cap }
        } else {
            ReviewPolicy::Skip
        },
        stuck: StuckPolicy {
            after: settings.stuck.after,
            strategy_shifts: settings.stuck.strategy_shifts,
        },
        soft_limit: settings.timeouts.global.soft.0.scale(factor),
        hard_limit: settings.timeouts.global.hard.0.scale(factor),
        earlier: Vec::new(),
        restored_onto: None,
        restored_conflicts: Vec::new(),
        job: None,
        added: Vec::new(),
    };
    let recipe = build_recipe(
        loaded,
        WorkflowDefaults {
            workflow: "tasks",
            work: Work::Tasks(work),
            role: Role::Implement,
            iterations: list.max_iterations.unwrap_or(TASK_ITERATIONS),
            completion_response: "COMPLETE",
            commit,
            baseline: BaselinePolicy::Note,
            gates: &list.verify_commands,
            strategy: list.validation_strategy,
            memory: build_memory_policy(settings),
        },
    )?;
    let is_alone = recipe.task_work().is_some_and(|work| work.only.is_some());
    let parallel = settings.parallel.build_policy().filter(|_| !is_alone);
    Ok(Recipe { parallel, ..recipe })
}

/// How often an agent may try to write a valid list.
const PLAN_ITERATIONS: u32 = 3;

/// Returns the recipe of `ralph plan` for a task list: the agent writes the file, and a command
/// checks that it is a valid list.
pub(crate) fn for_plan(
    loaded: &LoadedSettings,
    mut values: BTreeMap<String, String>,
    file: &str,
    check: String,
) -> Result<Recipe, CliError> {
    let prompt = RunPrompt::PlanTasks;
    let landing = build_landing_policy(&loaded.settings, sections::CommitSetting::Ralph);
    values.insert("COMMITTING".to_owned(), describe_commits(prompt, &landing.commit, file));
    let template = Template { place: TemplatePlace::Named(prompt), values };
    let flow = WorkflowDefaults {
        workflow: "plan",
        work: Work::Prompt(PromptSource::Template(template)),
        role: Role::Plan,
        iterations: PLAN_ITERATIONS,
        completion_response: "COMPLETE",
        commit: sections::CommitSetting::Ralph,
        baseline: BaselinePolicy::Off,
        gates: &[],
        strategy: None,
        memory: None,
    };
    let mut recipe = build_recipe(loaded, flow)?;
    // The gates of the settings check the code, which does not change here, unless they name the
    // role `plan`. No baseline: before the work there is no list that could pass.
    recipe.gates.retain(|gate| gate.roles.contains(&Role::Plan));
    recipe.gates.insert(0, gates::build_task_file_gate(file, check));
    recipe.baseline = BaselinePolicy::Off;
    // The next iteration fixes a draft with mistakes.
    recipe.landing.on_failure = OnFailure::Keep;
    let progress = std::path::Path::new(file).with_file_name(PROGRESS);
    let scope = [file.to_owned(), progress.to_string_lossy().into_owned()];
    recipe.scope = scope.iter().filter_map(|path| Pattern::for_path(path)).collect();
    recipe.protect = Vec::new();
    recipe.unprotected = Vec::new();
    recipe.draft = Some(file.into());
    recipe.completion = Completion::Gates;
    Ok(recipe)
}

fn build_recipe(loaded: &LoadedSettings, flow: WorkflowDefaults<'_>) -> Result<Recipe, CliError> {
    let settings = &loaded.settings;
    let agent = choose_agent(loaded, flow.role)?;
    let mut agents = choose_agents(loaded)?;
    if let (Some(_), Some(turns), Some(agent)) =
        (&flow.memory, settings.memory.max_turns, agents.get_mut(&Role::Compact))
        && agent.capabilities.turn_limit.is_supported()
    {
        agent.max_turns = Some(turns);
    }
    agents.retain(|_, choice| *choice != agent);
    let landing = build_landing_policy(settings, flow.commit);
    // A task list counts attempts instead.
    let unchanged = match flow.work {
        Work::Prompt(_) => Some(settings.stuck.after),
        Work::Tasks(_) => None,
    };
    let is_strategy_set = loaded.is_set("validationStrategy");
    Ok(Recipe {
        workflow: flow.workflow.to_owned(),
        role: flow.role,
        agents,
        escalate: choose_escalation(loaded)?,
        prompt: PromptPlan {
            iteration_count: if settings.include_iteration_count_in_prompt {
                IterationCount::Shown
            } else {
                IterationCount::Hidden
            },
            output_chars: settings.output_truncate_chars as usize,
            vars: collect_prompt_vars(settings),
            context: build_context_plan(settings),
            finish: FinishNote::Omitted,
        },
        gates: gates::build_gates(loaded, flow.gates)?,
        strategy: flow
            .strategy
            .filter(|_| !is_strategy_set)
            .unwrap_or(settings.validation_strategy),
        baseline: settings.baseline.unwrap_or(flow.baseline),
        protect: settings
            .protect
            .iter()
            .filter(|glob| !glob.starts_with('!'))
            .map(|glob| gates::parse_pattern("protect", glob))
            .collect::<Result<_, _>>()?,
        unprotected: settings
            .protect
            .iter()
            .filter_map(|glob| glob.strip_prefix('!'))
            .map(|glob| gates::parse_pattern("protect", glob))
            .collect::<Result<_, _>>()?,
        secrets_allowed: settings
            .secrets
            .allow
            .iter()
            .map(|glob| gates::parse_pattern("secrets.allow", glob))
            .collect::<Result<_, _>>()?,
        guard: settings.guard.to_policy(),
        memory: flow.memory,
        completion_response: settings
            .completion_response
            .clone()
            .unwrap_or_else(|| flow.completion_response.to_owned()),
        sandbox: sandbox::build_policy(&settings.sandbox, &landing.commit),
        landing,
        retries: Retries { max: settings.retries.max, backoff: settings.retries.backoff.0 },
        rate_limit: RateLimitPolicy {
            wait: if settings.rate_limit.wait {
                RateLimitAction::Wait
            } else {
                RateLimitAction::Stop
            },
            max_wait: settings.rate_limit.max_wait.0,
        },
        limits: RunLimits { unchanged, ..build_run_limits(settings, flow.iterations) },
        ..Recipe::new(flow.work, agent)
    })
}

/// The variable that names the directory of the specifications.
pub(crate) const SPECS_DIR: &str = "SPECS_DIR";

/// Returns when handoffs are compacted, if they are. The MCP servers for it are known once there
/// is a run.
fn build_memory_policy(settings: &Settings) -> Option<MemoryPolicy> {
    let memory = &settings.memory;
    let policy = MemoryPolicy {
        every_iterations: memory.every_iterations,
        threshold_bytes: memory.threshold_bytes,
        documentation: Documentation::Unknown,
        known: None,
    };
    memory.enabled.unwrap_or(true).then_some(policy)
}

/// Returns the user's variables for prompts.
fn collect_prompt_vars(settings: &Settings) -> BTreeMap<String, String> {
    let mut vars = settings.vars.clone();
    vars.insert(SPECS_DIR.to_owned(), settings.specs_dir.clone());
    vars
}

/// Returns the token budgets of a prompt.
fn build_context_plan(settings: &Settings) -> ContextPlan {
    let sections = &settings.context.sections;
    ContextPlan {
        budget: Tokens(settings.context.budget_tokens),
        task: Tokens(sections.task),
        output: Tokens(sections.output),
        skills: Tokens(sections.skills),
        previous: Tokens(sections.previous),
        memory: Tokens(sections.memory),
        earlier: Tokens(sections.earlier),
    }
}

/// Returns the limits of a run.
pub(crate) fn build_run_limits(settings: &Settings, iterations: u32) -> RunLimits {
    let factor = settings.timeout_multiplier;
    RunLimits {
        iterations: settings.maximum_iterations.unwrap_or(iterations),
        budget: Budget {
            cost: settings.budget.max_cost_usd.map(UsdMicros::from_dollars),
            tokens: settings.budget.max_tokens.map(Tokens),
            time: settings.budget.max_time.map(|span| span.0),
        },
        ask_soft: settings.timeouts.implement.soft.0.scale(factor),
        ask_hard: settings.timeouts.implement.hard.0.scale(factor),
        ask_idle: settings.timeouts.idle.0.scale(factor),
        delay: Millis::from_secs(u64::from(settings.delay_seconds)),
        unchanged: None,
    }
}

/// Returns the sandbox policy for commands without a workflow.
pub(crate) fn build_sandbox_policy(loaded: &LoadedSettings) -> SandboxPolicy {
    let landing = build_landing_policy(&loaded.settings, sections::CommitSetting::Ralph);
    sandbox::build_policy(&loaded.settings.sandbox, &landing.commit)
}

/// Returns warnings about settings that have no effect.
pub(crate) fn find_ineffective_settings(loaded: &LoadedSettings, recipe: &Recipe) -> Vec<String> {
    let mut warnings = Vec::new();
    if loaded.settings.memory.enabled == Some(true) && recipe.memory.is_none() {
        warnings.push("`memory.enabled` has no effect: only task lists have a memory".to_owned());
    }
    let is_set = |key: &str| loaded.is_set(key);
    let has_commands = recipe.gates.iter().any(|gate| matches!(gate.check, GateCheck::Command(_)));
    if is_set("sandbox.network.allow")
        && !is_set("sandbox.gates.network")
        && recipe.sandbox.gates.effective_network() == NetworkMode::None
        && has_commands
    {
        warnings.push(
            "`sandbox.network.allow` is for agents only: gates have no network; \
             `sandbox.gates.allow` names theirs, `sandbox.gates.network` \"proxy\" gives them the same hosts, \
             \"none\" turns this warning off"
                .to_owned(),
        );
    }
    let is_counted = |gate: &Gate| recipe.strategy.find_severity(gate) == Some(gate.severity);
    let is_without_effect = recipe.strategy != ValidationStrategy::Strict
        && has_commands
        && recipe.gates.iter().all(is_counted);
    if is_without_effect {
        warnings.push(
            "`validationStrategy` has no effect here: guardrails, plain commands and commands of the task list \
             count as tests, and all of them must pass; \
             `gates` with `\"kind\": \"lint\"` says which ones it may ignore"
                .to_owned(),
        );
    }
    let kind = recipe.agent.kind;
    let adapter = ralph_agents::find_adapter(kind);
    if !adapter.has_filters {
        for (key, _) in loaded.settings.agent.set_filters() {
            let kind = kind.name();
            warnings.push(format!("`agent.{key}` has no effect on an agent of kind `{kind}`"));
        }
    }
    if !adapter.takes_model && recipe.agent.model.is_some() {
        let kind = kind.name();
        warnings.push(format!(
            "the model has no effect on an agent of kind `{kind}`: name it in `agent.flags`, as its command wants it"
        ));
    }
    warnings
}

/// Returns the agent of every role.
pub(crate) fn choose_agents(
    loaded: &LoadedSettings,
) -> Result<BTreeMap<Role, AgentChoice>, CliError> {
    ROLES.into_iter().map(|role| Ok((role, choose_agent(loaded, role)?))).collect()
}

/// Returns the agent for attempts after a strategy shift, if one is set.
pub(crate) fn choose_escalation(loaded: &LoadedSettings) -> Result<Option<AgentChoice>, CliError> {
    let settings = &loaded.settings;
    let section = &settings.agents.escalate;
    if *section == agents_in::AgentSettings::default() {
        return Ok(None);
    }
    let servers = settings.mcp.coding.as_ref();
    build_agent_choice(loaded, section.with_defaults_from(&settings.agent), servers).map(Some)
}

/// Returns the agent for a role.
pub(crate) fn choose_agent(loaded: &LoadedSettings, role: Role) -> Result<AgentChoice, CliError> {
    let settings = &loaded.settings;
    let servers = match role {
        Role::Prompt | Role::Plan | Role::Build | Role::Implement | Role::Review | Role::Fix => {
            settings.mcp.coding.as_ref()
        }
        Role::Compact => settings.mcp.memory.as_ref(),
        // One sentence needs no servers.
        Role::Message | Role::Merge => None,
    };
    build_agent_choice(loaded, settings.choose_agent_for(role), servers)
}

/// Returns an agent of the settings with everything decided except its version.
fn build_agent_choice(
    loaded: &LoadedSettings,
    chosen: agents_in::AgentSettings,
    servers: Option<&String>,
) -> Result<AgentChoice, CliError> {
    let settings = &loaded.settings;
    let needs_scenario = || {
        CliError::for_input("the scripted agent `sim` needs a scenario file")
            .with_hint("`\"agent\": { \"kind\": \"sim\", \"command\": \"scenario.json\" }` in the settings names it")
    };
    let Some(command) = chosen.command.clone() else {
        if chosen.kind == Some(AgentKind::Sim) {
            return Err(needs_scenario());
        }
        return Err(CliError::for_input("no agent is set")
            .with_hint("`ralph init` finds an installed one; --agent or `agent.command` names it")
            .with_hint("`ralph doctor --agent claude` reports how to install one")
            .with_hint("`ralph demo` shows the loop without an agent"));
    };
    let kind = infer_kind(&chosen, &command);
    let has_filters = ralph_agents::find_adapter(kind).has_filters;
    let selectors = if has_filters { Some(Box::new(build_selectors(&chosen)?)) } else { None };
    let mut flags = chosen.flags.unwrap_or_default();
    let command = match (kind.origin(), command.as_str()) {
        (AgentOrigin::BuiltIn, "sim") if flags.is_empty() => {
            return Err(needs_scenario());
        }
        (AgentOrigin::BuiltIn, "sim") => flags.remove(0),
        // Every other agent is named by its program.
        (_, _) => command,
    };
    Ok(AgentChoice {
        flags,
        model: chosen.model,
        fallback_model: chosen.fallback_model,
        env: chosen.env,
        env_deny: chosen.env_deny.unwrap_or_default(),
        permissions: if chosen.skip_permissions.unwrap_or(true) {
            Permissions::Skip
        } else {
            Permissions::Ask
        },
        output: if settings.stream_agent_output { AgentOutput::Events } else { AgentOutput::Text },
        max_turns: settings.max_turns,
        mcp_config: servers.map(PathBuf::from),
        system_prompt: chosen.system_prompt_file.map(PathBuf::from),
        capabilities: ralph_agents::detect_capabilities(kind, None),
        selectors,
        ..AgentChoice::new(kind, command)
    })
}

/// Returns the kind of an agent whose command is known.
pub(crate) fn find_kind(agent: &agents_in::AgentSettings) -> Option<AgentKind> {
    Some(infer_kind(agent, agent.command.as_deref()?))
}

fn infer_kind(agent: &agents_in::AgentSettings, command: &str) -> AgentKind {
    match (agent.kind, ralph_agents::infer_agent_kind(command)) {
        // With filters, any command's output can be read.
        (None, AgentKind::Text) if !agent.set_filters().is_empty() => AgentKind::Custom,
        (Some(kind), _) | (None, kind) => kind,
    }
}

/// Returns the output filters of a custom agent.
fn build_selectors(agent: &agents_in::AgentSettings) -> Result<Selectors, CliError> {
    if agent.response_filter.is_none() && agent.delta_filter.is_none() {
        return Err(CliError::for_input(
            "an agent of kind `custom` needs a filter that selects its answer",
        )
        .with_hint(
            "set `agent.responseFilter`, such as \"select(.type == \\\"assistant\\\") | .text\"",
        ));
    }
    let usage = &agent.usage_filters;
    Ok(Selectors {
        response: agent.response_filter.clone(),
        delta: agent.delta_filter.clone(),
        display: agent.display_filter.clone(),
        session: agent.session_filter.clone(),
        usage: UsageSelectors {
            input: usage.input.clone(),
            output: usage.output.clone(),
            cache_read: usage.cache_read.clone(),
            cache_write: usage.cache_write.clone(),
            cost: usage.cost.clone(),
            scope: usage.scope.unwrap_or(UsageScope::Total),
        },
    })
}

/// Returns the landing policy: work is committed by the `scm` tasks, or as `commit` says.
fn build_landing_policy(settings: &Settings, usual: sections::CommitSetting) -> LandingPolicy {
    let scm = settings.scm.command.as_ref().map(|command| Scm {
        command: command.clone(),
        tasks: settings.scm.tasks.iter().map(|task| parse_scm_task(task)).collect(),
        message: match settings.commit {
            Some(sections::CommitSetting::Ralph) => MessageAuthor::Ralph,
            Some(sections::CommitSetting::Agent | sections::CommitSetting::None) | None => {
                MessageAuthor::Agent
            }
        },
    });
    LandingPolicy {
        commit: match (scm, settings.commit.unwrap_or(usual)) {
            (Some(scm), _) => CommitPolicy::Scm(scm),
            (None, sections::CommitSetting::Ralph) => CommitPolicy::Ralph,
            (None, sections::CommitSetting::Agent) => CommitPolicy::Agent,
            (None, sections::CommitSetting::None) => CommitPolicy::NoCommit,
        },
        commit_prefix: settings.commit_prefix.clone(),
        commit_message: settings.commit_message.clone(),
        on_failure: settings.on_failure,
        uncommitted: Uncommitted::Refused,
    }
}

fn parse_scm_task(task: &str) -> ScmTask {
    match task.trim() {
        "commit" => ScmTask::Commit,
        arguments => ScmTask::Run(arguments.split_whitespace().map(str::to_owned).collect()),
    }
}

/// Returns where the base text of a prompt comes from.
pub(crate) fn choose_prompt_source(
    prompt: Option<String>,
    file: Option<PathBuf>,
) -> Result<PromptSource, CliError> {
    let usage = "`ralph run \"TEXT\"` or `ralph run -f FILE`";
    match (prompt, file) {
        (Some(_), Some(_)) => {
            Err(CliError::for_input("--prompt and --prompt-file exclude each other")
                .with_hint(usage))
        }
        (None, None) => Err(CliError::for_input("there is no prompt").with_hint(usage)),
        (Some(text), None) if text.trim().is_empty() => {
            Err(CliError::for_input("the prompt is empty").with_hint(usage))
        }
        (Some(text), None) => Ok(PromptSource::Text(text)),
        (None, Some(path)) => Ok(PromptSource::File(path)),
    }
}
