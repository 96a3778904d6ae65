//! Builds a recipe from settings and flags: everything decided, nothing optional left.
//!
//! Not here: reading settings, and checking the machine.

mod gates;
mod sandbox;
mod specs;

use std::collections::BTreeMap;
use std::path::PathBuf;

use ralph_core::amend::AmendmentPolicy;
use ralph_core::budget::Budget;
use ralph_core::context::ContextPlan;
use ralph_core::failure::{Patience, RateLimitPolicy, Retries};
use ralph_core::gate::ValidationStrategy;
use ralph_core::glob::Pattern;
use ralph_core::ids::{Role, TaskId};
use ralph_core::memory::{Documentation, MemoryPolicy};
use ralph_core::prompt::run::RunPrompt;
use ralph_core::reading::UsageScope;
use ralph_core::recipe::{
    AgentChoice, AgentKind, AgentOutput, BaselinePolicy, CommitPolicy, Completion, FinishNote,
    IterationCount, LandingPolicy, OnFailure, Permissions, PromptPlan, PromptSource, Recipe, Retry,
    RunLimits, Scm, ScmTask, Selectors, TaskWork, Template, TemplatePlace, Uncommitted,
    UsageSelectors, Work,
};
use ralph_core::review::ReviewPolicy;
use ralph_core::sandbox::Policy;
use ralph_core::stuck::StuckPolicy;
use ralph_core::task::{Keeper, ListForm, TaskList};
use ralph_core::units::{Millis, Tokens, UsdMicros};

use crate::complaint::Complaint;
use crate::documents::PROGRESS;
use crate::settings::types::{agent as agents_in, gate as gates_in, sections};
use crate::settings::{Loaded, Settings};

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
struct Flow<'a> {
    workflow: &'static str,
    work: Work,
    /// The role whose agent is the default.
    role: Role,
    /// The limit of iterations when neither flags nor settings name one.
    iterations: u32,
    completion_response: &'static str,
    /// Default for the setting `commit`.
    commit: sections::Commit,
    baseline: sections::Baseline,
    /// Gates for work whose settings define none.
    gates: &'a [String],
    strategy: Option<ValidationStrategy>,
    memory: Option<MemoryPolicy>,
}

/// Returns the recipe of `ralph run`.
pub(crate) fn for_prompt(loaded: &Loaded, source: PromptSource) -> Result<Recipe, Complaint> {
    let mut recipe = of(
        loaded,
        Flow {
            workflow: "prompt",
            work: Work::Prompt(source),
            role: Role::Prompt,
            iterations: PROMPT_ITERATIONS,
            completion_response: "DONE",
            commit: sections::Commit::None,
            baseline: sections::Baseline::Off,
            gates: &[],
            strategy: None,
            memory: None,
        },
    )?;
    recipe.prompt.finish = FinishNote::Added;
    recipe.limits.unchanged = Some(loaded.settings.stuck.after);
    Ok(recipe)
}

/// Returns the recipe of `ralph build` over a task list.
pub(crate) fn for_tasks(
    loaded: &Loaded,
    (file, form): (PathBuf, ListForm),
    list: &TaskList,
    only: Option<TaskId>,
    retry: Retry,
) -> Result<Recipe, Complaint> {
    let settings = &loaded.settings;
    // The list owner commits it, unless the settings say otherwise.
    let (keeper, commit) = match settings.tasks.keeper {
        sections::Keeper::Ralph => (Keeper::Ralph, sections::Commit::Ralph),
        sections::Keeper::Agent => (Keeper::Agent, sections::Commit::Agent),
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
        amendment_policy: match settings.tasks.amendments {
            sections::Amendments::Add => AmendmentPolicy::Add,
            sections::Amendments::Apply => AmendmentPolicy::Apply,
        },
        review: if settings.review.enabled {
            ReviewPolicy::Fresh { cap: settings.review.cap }
        } else {
            ReviewPolicy::Skip
        },
        stuck: StuckPolicy {
            after: settings.stuck.after,
            strategy_shifts: settings.stuck.strategy_shifts,
        },
        soft_limit: settings.timeouts.global.soft.0.times(factor),
        hard_limit: settings.timeouts.global.hard.0.times(factor),
    };
    of(
        loaded,
        Flow {
            workflow: "tasks",
            work: Work::Tasks(work),
            role: Role::Implement,
            iterations: list.max_iterations.unwrap_or(TASK_ITERATIONS),
            completion_response: "COMPLETE",
            commit,
            baseline: sections::Baseline::Note,
            gates: &list.verify_commands,
            strategy: list.validation_strategy,
            memory: memory(settings),
        },
    )
}

/// How often an agent may try to write a valid list.
const PLAN_ITERATIONS: u32 = 3;

/// Returns the recipe of `ralph plan` for a task list: the agent writes the file, and a command
/// checks that it is a valid list.
pub(crate) fn for_plan(
    loaded: &Loaded,
    mut values: BTreeMap<String, String>,
    file: &str,
    check: String,
) -> Result<Recipe, Complaint> {
    let prompt = RunPrompt::PlanTasks;
    let landing = landing(&loaded.settings, sections::Commit::Ralph);
    values.insert("COMMITTING".to_owned(), prompt.committing(&landing.commit, file));
    let template = Template { place: TemplatePlace::Named(prompt), values };
    let flow = Flow {
        workflow: "plan",
        work: Work::Prompt(PromptSource::Template(template)),
        role: Role::Plan,
        iterations: PLAN_ITERATIONS,
        completion_response: "COMPLETE",
        commit: sections::Commit::Ralph,
        baseline: sections::Baseline::Off,
        gates: &[],
        strategy: None,
        memory: None,
    };
    let mut recipe = of(loaded, flow)?;
    // The gates of the settings check the code, which does not change here, unless they name the
    // role `plan`. No baseline: before the work there is no list that could pass.
    recipe.gates.retain(|gate| gate.roles.contains(&Role::Plan));
    recipe.gates.insert(0, gates::of_list(file, check));
    recipe.baseline = BaselinePolicy::Off;
    // The next iteration fixes a draft with mistakes.
    recipe.landing.on_failure = OnFailure::Keep;
    let progress = std::path::Path::new(file).with_file_name(PROGRESS);
    let scope = [file.to_owned(), progress.to_string_lossy().into_owned()];
    recipe.scope = scope.iter().filter_map(|path| Pattern::exactly(path)).collect();
    recipe.protect = Vec::new();
    recipe.unprotected = Vec::new();
    recipe.draft = Some(file.into());
    recipe.completion = Completion::Gates;
    Ok(recipe)
}

fn of(loaded: &Loaded, flow: Flow<'_>) -> Result<Recipe, Complaint> {
    let settings = &loaded.settings;
    let agent = agent(loaded, flow.role)?;
    let mut agents = agents(loaded)?;
    // The turn limit of compactions is a default: no warning for an agent without such a limit.
    if let (Some(_), Some(agent)) = (&flow.memory, agents.get_mut(&Role::Compact))
        && agent.capabilities.turn_limit.is_there()
    {
        agent.max_turns = Some(settings.memory.max_turns);
    }
    agents.retain(|_, choice| *choice != agent);
    let set_strategy = match settings.validation_strategy {
        gates_in::ValidationStrategy::Strict => ValidationStrategy::Strict,
        gates_in::ValidationStrategy::Lenient => ValidationStrategy::Lenient,
        gates_in::ValidationStrategy::TestsOnly => ValidationStrategy::TestsOnly,
    };
    let landing = landing(settings, flow.commit);
    let is_strategy_set = loaded.is_set("validationStrategy");
    Ok(Recipe {
        workflow: flow.workflow.to_owned(),
        work: flow.work,
        role: flow.role,
        agent,
        agents,
        escalate: escalation(loaded)?,
        prompt: PromptPlan {
            iteration_count: if settings.include_iteration_count_in_prompt {
                IterationCount::Shown
            } else {
                IterationCount::Hidden
            },
            output_chars: settings.output_truncate_chars as usize,
            vars: vars(settings),
            context: context(settings),
            finish: FinishNote::Omitted,
        },
        gates: gates::gates(loaded, flow.gates)?,
        strategy: flow.strategy.filter(|_| !is_strategy_set).unwrap_or(set_strategy),
        baseline: match settings.baseline.unwrap_or(flow.baseline) {
            sections::Baseline::Off => BaselinePolicy::Off,
            sections::Baseline::Note => BaselinePolicy::Note,
            sections::Baseline::Require => BaselinePolicy::Require,
        },
        protect: settings
            .protect
            .iter()
            .filter(|glob| !glob.starts_with('!'))
            .map(|glob| gates::pattern("protect", glob))
            .collect::<Result<_, _>>()?,
        unprotected: settings
            .protect
            .iter()
            .filter_map(|glob| glob.strip_prefix('!'))
            .map(|glob| gates::pattern("protect", glob))
            .collect::<Result<_, _>>()?,
        locked: Vec::new(),
        gate_scripts: Vec::new(),
        secrets_allowed: settings
            .secrets
            .allow
            .iter()
            .map(|glob| gates::pattern("secrets.allow", glob))
            .collect::<Result<_, _>>()?,
        scope: Vec::new(),
        guard: settings.guard.policy(),
        draft: None,
        plan: None,
        memory: flow.memory,
        completion: Completion::Signal,
        completion_response: settings
            .completion_response
            .clone()
            .unwrap_or_else(|| flow.completion_response.to_owned()),
        sandbox: sandbox::policy(&settings.sandbox, &landing.commit),
        landing,
        retries: Retries { max: settings.retries.max, backoff: settings.retries.backoff.0 },
        rate_limit: RateLimitPolicy {
            wait: if settings.rate_limit.wait { Patience::Wait } else { Patience::Stop },
            max_wait: settings.rate_limit.max_wait.0,
        },
        limits: limits(settings, flow.iterations),
    })
}

/// The variable that names the directory of the specifications.
pub(crate) const SPECS_DIR: &str = "SPECS_DIR";

/// Returns when handoffs are compacted, if they are. The MCP servers for it are known once there
/// is a run.
fn memory(settings: &Settings) -> Option<MemoryPolicy> {
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
fn vars(settings: &Settings) -> BTreeMap<String, String> {
    let mut vars = settings.vars.clone();
    vars.insert(SPECS_DIR.to_owned(), settings.specs_dir.clone());
    vars
}

/// Returns the token budgets of a prompt.
fn context(settings: &Settings) -> ContextPlan {
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
pub(crate) fn limits(settings: &Settings, iterations: u32) -> RunLimits {
    let factor = settings.timeout_multiplier;
    RunLimits {
        iterations: settings.maximum_iterations.unwrap_or(iterations),
        budget: Budget {
            cost: settings.budget.max_cost_usd.map(UsdMicros::from_dollars),
            tokens: settings.budget.max_tokens.map(Tokens),
            time: settings.budget.max_time.map(|span| span.0),
        },
        ask_soft: settings.timeouts.implement.soft.0.times(factor),
        ask_hard: settings.timeouts.implement.hard.0.times(factor),
        ask_idle: settings.timeouts.idle.0.times(factor),
        delay: Millis::from_secs(u64::from(settings.delay_seconds)),
        unchanged: None,
    }
}

/// Returns the sandbox policy for commands without a workflow.
pub(crate) fn isolation(loaded: &Loaded) -> Policy {
    let landing = landing(&loaded.settings, sections::Commit::Ralph);
    sandbox::policy(&loaded.settings.sandbox, &landing.commit)
}

/// Returns warnings about settings that have no effect.
pub(crate) fn without_effect(loaded: &Loaded, recipe: &Recipe) -> Vec<String> {
    let mut warnings = Vec::new();
    if loaded.settings.memory.enabled == Some(true) && recipe.memory.is_none() {
        warnings.push("`memory.enabled` has no effect: only task lists have a memory".to_owned());
    }
    let kind = recipe.agent.kind;
    if kind != AgentKind::Custom {
        for (key, _) in loaded.settings.agent.filters() {
            let kind = kind.name();
            warnings.push(format!("`agent.{key}` has no effect on an agent of kind `{kind}`"));
        }
    }
    if kind == AgentKind::Acp && recipe.agent.model.is_some() {
        warnings.push(
            "the model has no effect on an agent of kind `acp`: name it in `agent.flags`, as its command wants it".to_owned(),
        );
    }
    warnings
}

/// Returns the agent of every role.
pub(crate) fn agents(loaded: &Loaded) -> Result<BTreeMap<Role, AgentChoice>, Complaint> {
    ROLES.into_iter().map(|role| Ok((role, agent(loaded, role)?))).collect()
}

/// Returns the agent for attempts after a strategy shift, if one is set.
pub(crate) fn escalation(loaded: &Loaded) -> Result<Option<AgentChoice>, Complaint> {
    let settings = &loaded.settings;
    let section = &settings.agents.escalate;
    if *section == agents_in::Agent::default() {
        return Ok(None);
    }
    let servers = settings.mcp.coding.as_ref();
    choice(loaded, section.over(&settings.agent), servers).map(Some)
}

/// Returns the agent for a role.
pub(crate) fn agent(loaded: &Loaded, role: Role) -> Result<AgentChoice, Complaint> {
    let settings = &loaded.settings;
    let servers = match role {
        Role::Prompt | Role::Plan | Role::Build | Role::Implement | Role::Review | Role::Fix => {
            settings.mcp.coding.as_ref()
        }
        Role::Compact => settings.mcp.memory.as_ref(),
        // One sentence needs no servers.
        Role::Message => None,
    };
    choice(loaded, settings.agent_for(settings_role(role)), servers)
}

/// Returns an agent of the settings with everything decided except its version.
fn choice(
    loaded: &Loaded,
    chosen: agents_in::Agent,
    servers: Option<&String>,
) -> Result<AgentChoice, Complaint> {
    let settings = &loaded.settings;
    let Some(command) = chosen.command.clone() else {
        return Err(Complaint::input("no agent is set")
            .hint("`ralph init` finds one that is installed; --agent or `agent.command` names another")
            .hint("`ralph demo` shows the loop without an agent"));
    };
    let kind = infer_kind(&chosen, &command);
    let selectors = match kind {
        AgentKind::Custom => Some(Box::new(selectors(&chosen)?)),
        AgentKind::Claude
        | AgentKind::Codex
        | AgentKind::Amp
        | AgentKind::Cline
        | AgentKind::Gemini
        | AgentKind::Opencode
        | AgentKind::Copilot
        | AgentKind::Qwen
        | AgentKind::Pi
        | AgentKind::Acp
        | AgentKind::Text
        | AgentKind::Sim => None,
    };
    let mut flags = chosen.flags.unwrap_or_default();
    let command = match (kind, command.as_str()) {
        (AgentKind::Sim, "sim") if flags.is_empty() => {
            return Err(Complaint::input("the scripted agent `sim` needs a scenario file")
                .hint("name it as the first of `agent.flags`"));
        }
        (AgentKind::Sim, "sim") => flags.remove(0),
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
        capabilities: ralph_agents::capabilities(kind, None),
        selectors,
        ..AgentChoice::new(kind, command)
    })
}

/// Returns the kind of an agent whose command is known.
pub(crate) fn find_kind(agent: &agents_in::Agent) -> Option<AgentKind> {
    Some(infer_kind(agent, agent.command.as_deref()?))
}

fn infer_kind(agent: &agents_in::Agent, command: &str) -> AgentKind {
    match (agent.kind, ralph_agents::kind_of(command)) {
        (Some(kind), _) => core_kind(kind),
        // With filters, any command's output can be read.
        (None, AgentKind::Text) if !agent.filters().is_empty() => AgentKind::Custom,
        (None, kind) => kind,
    }
}

/// Returns the output filters of a custom agent.
fn selectors(agent: &agents_in::Agent) -> Result<Selectors, Complaint> {
    if agent.response_filter.is_none() && agent.delta_filter.is_none() {
        return Err(Complaint::input(
            "an agent of kind `custom` needs a filter that selects its answer",
        )
        .hint(
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
            scope: match usage.scope {
                Some(agents_in::UsageScope::Step) => UsageScope::Step,
                Some(agents_in::UsageScope::Total) | None => UsageScope::Total,
            },
        },
    })
}

fn core_kind(kind: agents_in::AgentKind) -> AgentKind {
    match kind {
        agents_in::AgentKind::Claude => AgentKind::Claude,
        agents_in::AgentKind::Codex => AgentKind::Codex,
        agents_in::AgentKind::Amp => AgentKind::Amp,
        agents_in::AgentKind::Cline => AgentKind::Cline,
        agents_in::AgentKind::Gemini => AgentKind::Gemini,
        agents_in::AgentKind::Opencode => AgentKind::Opencode,
        agents_in::AgentKind::Copilot => AgentKind::Copilot,
        agents_in::AgentKind::Qwen => AgentKind::Qwen,
        agents_in::AgentKind::Pi => AgentKind::Pi,
        agents_in::AgentKind::Acp => AgentKind::Acp,
        agents_in::AgentKind::Text => AgentKind::Text,
        agents_in::AgentKind::Sim => AgentKind::Sim,
        agents_in::AgentKind::Custom => AgentKind::Custom,
    }
}

fn settings_role(role: Role) -> agents_in::Role {
    match role {
        Role::Prompt => agents_in::Role::Prompt,
        Role::Plan => agents_in::Role::Plan,
        Role::Build => agents_in::Role::Build,
        Role::Implement => agents_in::Role::Implement,
        Role::Review => agents_in::Role::Review,
        Role::Fix => agents_in::Role::Fix,
        Role::Compact => agents_in::Role::Compact,
        Role::Message => agents_in::Role::Message,
    }
}

/// Returns the landing policy: work is committed by the `scm` tasks, or as `commit` says.
fn landing(settings: &Settings, usual: sections::Commit) -> LandingPolicy {
    let scm = settings.scm.command.as_ref().map(|command| Scm {
        command: command.clone(),
        tasks: settings.scm.tasks.iter().map(|task| scm_task(task)).collect(),
    });
    LandingPolicy {
        commit: match (scm, settings.commit.unwrap_or(usual)) {
            (Some(scm), _) => CommitPolicy::Scm(scm),
            (None, sections::Commit::Ralph) => CommitPolicy::Ralph,
            (None, sections::Commit::Agent) => CommitPolicy::Agent,
            (None, sections::Commit::None) => CommitPolicy::Nobody,
        },
        commit_prefix: settings.commit_prefix.clone(),
        commit_message: settings.commit_message.clone(),
        on_failure: match settings.on_failure {
            sections::OnFailure::Keep => OnFailure::Keep,
            sections::OnFailure::Rollback => OnFailure::Rollback,
        },
        uncommitted: Uncommitted::Refused,
    }
}

fn scm_task(task: &str) -> ScmTask {
    match task.trim() {
        "commit" => ScmTask::Commit,
        arguments => ScmTask::Run(arguments.split_whitespace().map(str::to_owned).collect()),
    }
}

/// Returns where the base text of a prompt comes from.
pub(crate) fn prompt_source(
    prompt: Option<String>,
    file: Option<PathBuf>,
) -> Result<PromptSource, Complaint> {
    let usage = "ralph run -p \"TEXT\" or ralph run -f FILE";
    match (prompt, file) {
        (Some(_), Some(_)) => {
            Err(Complaint::input("--prompt and --prompt-file exclude each other").hint(usage))
        }
        (None, None) => Err(Complaint::input("there is no prompt").hint(usage)),
        (Some(text), None) if text.trim().is_empty() => {
            Err(Complaint::input("the prompt is empty").hint(usage))
        }
        (Some(text), None) => Ok(PromptSource::Text(text)),
        (None, Some(path)) => Ok(PromptSource::File(path)),
    }
}
