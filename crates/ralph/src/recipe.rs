//! From settings and flags to a recipe: everything decided, nothing optional left.
//!
//! Not here: reading settings, and looking at the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use ralph_core::budget::Budget;
use ralph_core::failure::{Patience, RateLimitPolicy, Retries};
use ralph_core::gate::{
    Check, EmptyRun, FailAction, Gate, GateKind, Persistence, Reuse, Severity, ValidationStrategy,
};
use ralph_core::glob::Pattern;
use ralph_core::ids::Role;
use ralph_core::recipe::{
    AgentChoice, AgentKind, AgentOutput, CommitPolicy, IterationCount, LandingPolicy, OnFailure,
    Permissions, PromptPlan, PromptSource, Recipe, RunLimits, Scm, ScmTask, Work,
};
use ralph_core::text::Truncate;
use ralph_core::units::{Millis, Tokens, UsdMicros};

use crate::complaint::Complaint;
use crate::settings::types::{agent as agents_in, gate as gates_in, sandbox, sections};
use crate::settings::{Loaded, Settings};

/// The limits of iterations when neither flags nor settings name one.
const PROMPT_ITERATIONS: u32 = 10;

/// Every role.
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

/// Returns the recipe of `ralph run`.
pub(crate) fn for_prompt(loaded: &Loaded, source: PromptSource) -> Result<Recipe, Complaint> {
    let settings = &loaded.settings;
    refuse_what_is_not_there(loaded)?;
    let factor = settings.timeout_multiplier;
    let agent = agent(loaded, Role::Prompt)?;
    let mut agents = agents(loaded)?;
    agents.retain(|_, choice| *choice != agent);
    Ok(Recipe {
        workflow: "prompt".to_owned(),
        work: Work::Prompt(source),
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
        },
        gates: gates(settings)?,
        strategy: match settings.validation_strategy {
            gates_in::ValidationStrategy::Strict => ValidationStrategy::Strict,
            gates_in::ValidationStrategy::Lenient => ValidationStrategy::Lenient,
            gates_in::ValidationStrategy::TestsOnly => ValidationStrategy::TestsOnly,
        },
        completion_response: settings
            .completion_response
            .clone()
            .unwrap_or_else(|| "DONE".to_owned()),
        landing: landing(settings),
        retries: Retries { max: settings.retries.max, backoff: settings.retries.backoff.0 },
        rate_limit: RateLimitPolicy {
            wait: if settings.rate_limit.wait { Patience::Wait } else { Patience::Stop },
            max_wait: settings.rate_limit.max_wait.0,
        },
        limits: RunLimits {
            iterations: settings.maximum_iterations.unwrap_or(PROMPT_ITERATIONS),
            budget: Budget {
                cost: settings.budget.max_cost_usd.map(UsdMicros::from_dollars),
                tokens: settings.budget.max_tokens.map(Tokens),
                time: settings.budget.max_time.map(|span| span.0),
            },
            ask_soft: settings.timeouts.implement.soft.0.times(factor),
            ask_hard: settings.timeouts.implement.hard.0.times(factor),
            ask_idle: settings.timeouts.idle.0.times(factor),
            delay: Millis::from_secs(u64::from(settings.delay_seconds)),
        },
    })
}

/// Refuses settings that people rely on and that this version does not carry out.
fn refuse_what_is_not_there(loaded: &Loaded) -> Result<(), Complaint> {
    let settings = &loaded.settings;
    let refused = |key: &str, what: &str| {
        let origin = loaded.origin(key);
        Err(Complaint::input(format!("{what} not available yet in this version"))
            .hint(format!("`{key}` is set by {origin}; remove it there")))
    };
    match settings.sandbox.backend {
        sandbox::SandboxBackend::Auto | sandbox::SandboxBackend::None => {}
        backend @ (sandbox::SandboxBackend::Sbx
        | sandbox::SandboxBackend::Native
        | sandbox::SandboxBackend::Bwrap
        | sandbox::SandboxBackend::Container
        | sandbox::SandboxBackend::Landlock
        | sandbox::SandboxBackend::Guard) => {
            return refused(
                "sandbox.backend",
                &format!("the sandbox backend `{backend:?}` is").to_lowercase(),
            );
        }
    }
    if !settings.protect.is_empty() {
        return refused("protect", "protected paths are");
    }
    match settings.baseline {
        None | Some(sections::Baseline::Off) => {}
        Some(sections::Baseline::Note | sections::Baseline::Require) => {
            return refused("baseline", "a baseline of the gates is");
        }
    }
    for (place, gate) in settings.gates.iter().enumerate() {
        if gate.agent.is_some() {
            return refused(&format!("gates[{place}].agent"), "gates by a reviewing agent are");
        }
    }
    Ok(())
}

/// Returns what is set and has no effect in this version, for a warning.
pub(crate) fn without_effect(loaded: &Loaded) -> Vec<String> {
    ["notify", "agent.responseFilter", "agent.displayFilter"]
        .into_iter()
        .filter(|key| loaded.is_set(key))
        .map(|key| format!("`{key}` has no effect yet in this version"))
        .collect()
}

/// Returns the agent of every role.
pub(crate) fn agents(loaded: &Loaded) -> Result<BTreeMap<Role, AgentChoice>, Complaint> {
    ROLES.into_iter().map(|role| Ok((role, agent(loaded, role)?))).collect()
}

/// Returns the agent for attempts after a strategy shift, where one is set.
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

/// Returns an agent of the settings with everything decided but its version.
fn choice(
    loaded: &Loaded,
    chosen: agents_in::Agent,
    servers: Option<&String>,
) -> Result<AgentChoice, Complaint> {
    let settings = &loaded.settings;
    let Some(command) = chosen.command.clone() else {
        return Err(Complaint::input("no agent is set")
            .hint("name one with --agent, or as `agent.command` in .ralph/settings.json")
            .hint("`ralph demo` shows the loop without an agent"));
    };
    let kind = match chosen.kind {
        Some(kind) => known_kind(kind)?,
        None => ralph_io::agents::kind_of(&command),
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
        // The default is meant for task lists, whose tasks are cut to size; a prompt's turns are
        // bounded only where somebody said so.
        max_turns: loaded.is_set("maxTurns").then_some(settings.max_turns),
        mcp_config: servers.map(PathBuf::from),
        system_prompt: chosen.system_prompt_file.map(PathBuf::from),
        capabilities: ralph_io::agents::capabilities(kind, None),
        ..AgentChoice::new(kind, command)
    })
}

fn known_kind(kind: agents_in::AgentKind) -> Result<AgentKind, Complaint> {
    match kind {
        agents_in::AgentKind::Claude => Ok(AgentKind::Claude),
        agents_in::AgentKind::Codex => Ok(AgentKind::Codex),
        agents_in::AgentKind::Amp => Ok(AgentKind::Amp),
        agents_in::AgentKind::Cline => Ok(AgentKind::Cline),
        agents_in::AgentKind::Gemini => Ok(AgentKind::Gemini),
        agents_in::AgentKind::Opencode => Ok(AgentKind::Opencode),
        agents_in::AgentKind::Copilot => Ok(AgentKind::Copilot),
        agents_in::AgentKind::Qwen => Ok(AgentKind::Qwen),
        agents_in::AgentKind::Pi => Ok(AgentKind::Pi),
        agents_in::AgentKind::Text => Ok(AgentKind::Text),
        agents_in::AgentKind::Sim => Ok(AgentKind::Sim),
        agents_in::AgentKind::Acp | agents_in::AgentKind::Custom => {
            Err(not_yet(&format!("{kind:?}").to_lowercase()))
        }
    }
}

/// Returns the complaint about an agent whose adapter is still to come.
fn not_yet(name: &str) -> Complaint {
    Complaint::input(format!("agents of kind `{name}` are not available yet in this version")).hint(
        "with `\"kind\": \"text\"` any command works that takes a prompt and prints its answer",
    )
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

/// Returns the gates: guardrails first, in the order of the settings.
fn gates(settings: &Settings) -> Result<Vec<Gate>, Complaint> {
    let factor = settings.timeout_multiplier;
    let limits = settings.timeouts.test;
    let guardrails = settings.guardrails.iter().map(|guardrail| {
        Ok(Gate {
            name: guardrail.command.clone(),
            // A guardrail is always hard, whatever the strategy weighs.
            kind: GateKind::Test,
            check: Check::Command(guardrail.command.clone()),
            severity: Severity::Hard,
            persistence: Persistence::WhenGreen,
            fail_action: fail_action(guardrail.fail_action),
            hint: guardrail.hint.clone().filter(|hint| !hint.is_empty()),
            truncate: Truncate::Head,
            soft_limit: limits.soft.0.times(factor),
            hard_limit: limits.hard.0.times(factor),
            roles: vec![Role::Prompt],
            reuse: Reuse::SameTree,
            // Where a run without tests is right, `gates` can say so.
            empty: EmptyRun::Refused,
            paths: Vec::new(),
        })
    });
    let gates = settings.gates.iter().map(|gate| {
        let command =
            gate.command.clone().ok_or_else(|| Complaint::input("a gate has no command"))?;
        Ok(Gate {
            name: gate.name.clone().unwrap_or_else(|| command.clone()),
            kind: gate_kind(gate.kind),
            check: Check::Command(command),
            severity: if gate.is_hard() { Severity::Hard } else { Severity::Soft },
            persistence: if gate.always { Persistence::Always } else { Persistence::WhenGreen },
            fail_action: fail_action(gate.fail_action),
            hint: gate.hint.clone().filter(|hint| !hint.is_empty()),
            truncate: match gate.truncate {
                gates_in::Truncate::Head => Truncate::Head,
                gates_in::Truncate::Tail => Truncate::Tail,
                gates_in::Truncate::Both => Truncate::Both,
            },
            soft_limit: gate.soft_timeout.map_or(limits.soft.0, |span| span.0).times(factor),
            hard_limit: gate.hard_timeout.map_or(limits.hard.0, |span| span.0).times(factor),
            roles: gate.when.roles.iter().map(|role| core_role(*role)).collect(),
            reuse: if gate.cache { Reuse::SameTree } else { Reuse::Never },
            empty: if gate.allow_empty { EmptyRun::Allowed } else { EmptyRun::Refused },
            paths: gate.when.paths.iter().map(|glob| pattern(glob)).collect::<Result<_, _>>()?,
        })
    });
    let mut gates = guardrails.chain(gates).collect::<Result<Vec<Gate>, Complaint>>()?;
    make_names_unique(&mut gates);
    Ok(gates)
}

/// Two guardrails may run the same command; results are told apart by name.
fn make_names_unique(gates: &mut [Gate]) {
    let mut taken = BTreeSet::new();
    for gate in gates {
        let name = gate.name.clone();
        let mut count = 1;
        while !taken.insert(gate.name.clone()) {
            count += 1;
            gate.name = format!("{name} ({count})");
        }
    }
}

/// The settings check has found bad globs, with their places; this is for what comes otherwise.
fn pattern(glob: &str) -> Result<Pattern, Complaint> {
    Pattern::new(glob).map_err(|error| Complaint::input(format!("`when.paths`: {error}")))
}

fn gate_kind(kind: gates_in::GateKind) -> GateKind {
    match kind {
        gates_in::GateKind::Test => GateKind::Test,
        gates_in::GateKind::Lint => GateKind::Lint,
        gates_in::GateKind::Spec => GateKind::Spec,
        gates_in::GateKind::Quality => GateKind::Quality,
        gates_in::GateKind::Custom => GateKind::Custom,
    }
}

fn fail_action(action: gates_in::FailAction) -> FailAction {
    match action {
        gates_in::FailAction::Append => FailAction::Append,
        gates_in::FailAction::Prepend => FailAction::Prepend,
        gates_in::FailAction::Replace => FailAction::Replace,
    }
}

fn core_role(role: agents_in::Role) -> Role {
    match role {
        agents_in::Role::Prompt => Role::Prompt,
        agents_in::Role::Plan => Role::Plan,
        agents_in::Role::Build => Role::Build,
        agents_in::Role::Implement => Role::Implement,
        agents_in::Role::Review => Role::Review,
        agents_in::Role::Fix => Role::Fix,
        agents_in::Role::Compact => Role::Compact,
        agents_in::Role::Message => Role::Message,
    }
}

/// A prompt's work is committed by the source-control tasks, or by whom the settings name.
fn landing(settings: &Settings) -> LandingPolicy {
    let scm = settings.scm.command.as_ref().map(|command| Scm {
        command: command.clone(),
        tasks: settings.scm.tasks.iter().map(|task| scm_task(task)).collect(),
    });
    LandingPolicy {
        commit: match (scm, settings.commit) {
            (Some(scm), _) => CommitPolicy::Scm(scm),
            (None, Some(sections::Commit::Ralph)) => CommitPolicy::Ralph,
            (None, Some(sections::Commit::Agent)) => CommitPolicy::Agent,
            (None, Some(sections::Commit::None) | None) => CommitPolicy::Nobody,
        },
        commit_prefix: settings.commit_prefix.clone(),
        on_failure: match settings.on_failure {
            sections::OnFailure::Keep => OnFailure::Keep,
            sections::OnFailure::Rollback => OnFailure::Rollback,
        },
    }
}

fn scm_task(task: &str) -> ScmTask {
    match task.trim() {
        "commit" => ScmTask::Commit,
        words => ScmTask::Run(words.split_whitespace().map(str::to_owned).collect()),
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
