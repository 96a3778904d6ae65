//! The gates of a recipe: those of the settings, or those of the task list.
//!
//! Not here: running them.

use std::collections::BTreeSet;

use ralph_model::gate::{
    EmptyRun, Gate, GateCheck, GateKind, GatePersistence, GateReuse, Severity,
};
use ralph_model::glob::Pattern;
use ralph_model::ids::Role;
use ralph_model::text::Truncate;

use super::build_agent_choice;
use crate::cli_error::CliError;
use crate::settings::LoadedSettings;
use crate::settings::types::gate as gates_in;

/// Returns the gates of the settings, guardrails first; without any, those of the task list.
pub(crate) fn build_gates(loaded: &LoadedSettings, own: &[String]) -> Result<Vec<Gate>, CliError> {
    let settings = &loaded.settings;
    let factor = settings.timeout_multiplier;
    let limits = settings.timeouts.test;
    let hard = |command: &String| Gate {
        soft_limit: limits.soft.0.scale(factor),
        hard_limit: limits.hard.0.scale(factor),
        // Hard under every strategy. `gates` with `allowEmpty` permits a run without tests.
        ..Gate::for_command(GateKind::Test, command)
    };
    let guardrails = settings.guardrails.iter().map(|guardrail| {
        Ok(Gate {
            fail_action: guardrail.fail_action,
            hint: guardrail.hint.clone().filter(|hint| !hint.is_empty()),
            truncate: Truncate::Head,
            persistence: choose_persistence(guardrail.always),
            ..hard(&guardrail.command)
        })
    });
    let gates = settings.gates.iter().map(|set| build_gate(loaded, set));
    let mut gates = guardrails.chain(gates).collect::<Result<Vec<Gate>, CliError>>()?;
    if gates.is_empty() {
        gates = own.iter().map(hard).collect();
    }
    if settings.run_all_gates {
        for gate in &mut gates {
            gate.persistence = GatePersistence::Always;
        }
    }
    make_names_unique(&mut gates);
    Ok(gates)
}

fn choose_persistence(always: bool) -> GatePersistence {
    if always { GatePersistence::Always } else { GatePersistence::WhenGreen }
}

/// Returns the gate that validates a task file. It is cheap, so it is never cached.
pub(super) fn build_task_file_gate(file: &str, check: String) -> Gate {
    Gate {
        name: "ralph tasks validate".to_owned(),
        hint: Some(format!("Fix `{file}` and change nothing else.")),
        reuse: GateReuse::Never,
        empty: EmptyRun::Allowed,
        // Hard under every strategy.
        ..Gate::for_command(GateKind::Test, check)
    }
}

fn build_gate(loaded: &LoadedSettings, set: &gates_in::GateSetting) -> Result<Gate, CliError> {
    let settings = &loaded.settings;
    let (check, name) = match (&set.command, &set.agent) {
        (Some(command), _) => (GateCheck::Command(command.clone()), command.clone()),
        (None, Some(agent)) => {
            let base = settings.choose_agent_for(Role::Review);
            let servers = settings.mcp.coding.as_ref();
            let choice = build_agent_choice(loaded, agent.with_defaults_from(&base), servers)?;
            let kind = match set.kind {
                GateKind::Quality => "quality review",
                GateKind::Test | GateKind::Lint | GateKind::Spec | GateKind::Custom => {
                    "spec review"
                }
            };
            (GateCheck::Agent(Box::new(choice)), kind.to_owned())
        }
        (None, None) => return Err(CliError::for_input("a gate has no command")),
    };
    let limits = match (&check, set.kind) {
        (GateCheck::Agent(_), GateKind::Quality) => settings.timeouts.quality,
        (GateCheck::Agent(_), _) => settings.timeouts.spec,
        (GateCheck::Command(_), _) => settings.timeouts.test,
    };
    let factor = settings.timeout_multiplier;
    Ok(Gate {
        name: set.name.clone().unwrap_or(name),
        kind: set.kind,
        check,
        severity: if set.is_hard() { Severity::Hard } else { Severity::Soft },
        persistence: choose_persistence(set.always),
        fail_action: set.fail_action,
        hint: set.hint.clone().filter(|hint| !hint.is_empty()),
        truncate: set.truncate.unwrap_or_else(|| set.kind.default_truncation()),
        soft_limit: set.soft_timeout.map_or(limits.soft.0, |span| span.0).scale(factor),
        hard_limit: set.hard_timeout.map_or(limits.hard.0, |span| span.0).scale(factor),
        roles: set.when.roles.clone(),
        reuse: if set.cache { GateReuse::SameTree } else { GateReuse::Never },
        empty: if set.allow_empty { EmptyRun::Allowed } else { EmptyRun::Refused },
        paths: set
            .when
            .paths
            .iter()
            .map(|glob| parse_pattern("when.paths", glob))
            .collect::<Result<_, _>>()?,
    })
}

/// Numbers gates of the same name: two guardrails may run the same command, and results are
/// identified by name.
pub(crate) fn make_names_unique(gates: &mut [Gate]) {
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
pub(super) fn parse_pattern(key: &str, glob: &str) -> Result<Pattern, CliError> {
    Pattern::new(glob).map_err(|error| CliError::for_input(format!("`{key}`: {error}")))
}
