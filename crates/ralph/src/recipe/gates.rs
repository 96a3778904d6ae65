//! The gates of a recipe: those of the settings, or those of the task list.
//!
//! Not here: running them.

use std::collections::BTreeSet;

use ralph_core::gate::{Check, EmptyRun, FailAction, Gate, GateKind, Persistence, Reuse, Severity};
use ralph_core::glob::Pattern;
use ralph_core::ids::Role;
use ralph_core::text::Truncate;

use super::choice;
use crate::complaint::Complaint;
use crate::settings::Loaded;
use crate::settings::types::{agent as agents_in, gate as gates_in};

/// Returns the gates of the settings, guardrails first; without any, those of the task list.
pub(super) fn gates(loaded: &Loaded, own: &[String]) -> Result<Vec<Gate>, Complaint> {
    let settings = &loaded.settings;
    let factor = settings.timeout_multiplier;
    let limits = settings.timeouts.test;
    let hard = |command: &String| Gate {
        soft_limit: limits.soft.0.times(factor),
        hard_limit: limits.hard.0.times(factor),
        // Hard under every strategy. `gates` with `allowEmpty` permits a run without tests.
        ..Gate::command(GateKind::Test, command)
    };
    let guardrails = settings.guardrails.iter().map(|guardrail| {
        Ok(Gate {
            fail_action: fail_action(guardrail.fail_action),
            hint: guardrail.hint.clone().filter(|hint| !hint.is_empty()),
            truncate: Truncate::Head,
            ..hard(&guardrail.command)
        })
    });
    let gates = settings.gates.iter().map(|set| gate(loaded, set));
    let mut gates = guardrails.chain(gates).collect::<Result<Vec<Gate>, Complaint>>()?;
    if gates.is_empty() {
        gates = own.iter().map(hard).collect();
    }
    make_names_unique(&mut gates);
    Ok(gates)
}

/// Returns the gate that validates a task file. It is cheap, so it is never cached.
pub(super) fn of_list(file: &str, check: String) -> Gate {
    Gate {
        name: "ralph tasks validate".to_owned(),
        hint: Some(format!("Fix `{file}` and change nothing else.")),
        reuse: Reuse::Never,
        empty: EmptyRun::Allowed,
        // Hard under every strategy.
        ..Gate::command(GateKind::Test, check)
    }
}

fn gate(loaded: &Loaded, set: &gates_in::Gate) -> Result<Gate, Complaint> {
    let settings = &loaded.settings;
    let (check, name) = match (&set.command, &set.agent) {
        (Some(command), _) => (Check::Command(command.clone()), command.clone()),
        (None, Some(agent)) => {
            let base = settings.agent_for(agents_in::Role::Review);
            let servers = settings.mcp.coding.as_ref();
            let choice = choice(loaded, agent.over(&base), servers)?;
            let kind = match set.kind {
                gates_in::GateKind::Quality => "quality review",
                gates_in::GateKind::Test
                | gates_in::GateKind::Lint
                | gates_in::GateKind::Spec
                | gates_in::GateKind::Custom => "spec review",
            };
            (Check::Agent(Box::new(choice)), kind.to_owned())
        }
        (None, None) => return Err(Complaint::input("a gate has no command")),
    };
    let limits = match (&check, set.kind) {
        (Check::Agent(_), gates_in::GateKind::Quality) => settings.timeouts.quality,
        (Check::Agent(_), _) => settings.timeouts.spec,
        (Check::Command(_), _) => settings.timeouts.test,
    };
    let factor = settings.timeout_multiplier;
    Ok(Gate {
        name: set.name.clone().unwrap_or(name),
        kind: gate_kind(set.kind),
        check,
        severity: if set.is_hard() { Severity::Hard } else { Severity::Soft },
        persistence: if set.always { Persistence::Always } else { Persistence::WhenGreen },
        fail_action: fail_action(set.fail_action),
        hint: set.hint.clone().filter(|hint| !hint.is_empty()),
        truncate: match set.truncate {
            None => gate_kind(set.kind).default_truncation(),
            Some(gates_in::Truncate::Head) => Truncate::Head,
            Some(gates_in::Truncate::Tail) => Truncate::Tail,
            Some(gates_in::Truncate::Both) => Truncate::Both,
        },
        soft_limit: set.soft_timeout.map_or(limits.soft.0, |span| span.0).times(factor),
        hard_limit: set.hard_timeout.map_or(limits.hard.0, |span| span.0).times(factor),
        roles: set.when.roles.iter().map(|role| core_role(*role)).collect(),
        reuse: if set.cache { Reuse::SameTree } else { Reuse::Never },
        empty: if set.allow_empty { EmptyRun::Allowed } else { EmptyRun::Refused },
        paths: set
            .when
            .paths
            .iter()
            .map(|glob| pattern("when.paths", glob))
            .collect::<Result<_, _>>()?,
    })
}

/// Numbers gates of the same name: two guardrails may run the same command, and results are
/// identified by name.
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

/// Parses a glob. The settings check reports bad ones with their location; this catches the rest.
pub(super) fn pattern(key: &str, glob: &str) -> Result<Pattern, Complaint> {
    Pattern::new(glob).map_err(|error| Complaint::input(format!("`{key}`: {error}")))
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
