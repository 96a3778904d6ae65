//! `ralph hook explain COMMAND`: how the guard judges a command, and why.
//!
//! It uses the settings of the project, as a run would. Not here: the rules.

use ralph_guard as guard;
use ralph_guard::{
    GuardDecision, GuardFindings, GuardRefusal, GuardedToolCall, LocatedPath, ShellCommand,
    decide_call, find_rule,
};
use ralph_io::hooks::places;
use ralph_model::glob::Pattern;
use ralph_model::hook_state::HookState;
use ralph_model::ids::RunId;
use ralph_model::outcome::ExitStatus;
use ralph_model::units::Timestamp;
use ralph_ui::explanation;
use serde_json::{Value, json};

use crate::cli::{CommonArgs, HookArgs};
use crate::cli_error::CliError;
use crate::project::Project;
use crate::screen::{self, OutputStyle};
use crate::settings::Settings;

/// Explains a command.
pub(crate) fn explain_command(
    common: &CommonArgs,
    args: &HookArgs,
) -> Result<ExitStatus, CliError> {
    let Some(command) = &args.command else {
        return Err(CliError::for_input("there is nothing to explain")
            .with_hint("ralph hook explain 'rm -rf build'"));
    };
    let project = Project::open_nearest(common)?;
    let loaded = project.load_trusted_settings(None, Vec::new())?;
    let layout = project.find_layout(&loaded)?;
    let settings = &loaded.settings;
    let active = build_hook_state(&project, settings);
    let variable = |name: &str| std::env::var_os(name);
    let around =
        places::build_surroundings(&active, &layout.active_path(), &project.directory, variable);
    let findings = guard::inspect_call(&GuardedToolCall::Shell(command.clone()), &around);
    let decision = decide_call(&active.guard, &findings);
    let text = if args.json {
        format!("{:#}\n", convert_findings_to_json(command, &findings, &decision))
    } else {
        let style = OutputStyle::for_stdout(common, &settings.ui).style;
        explanation::explain_command(&findings, &decision, &style)
    };
    screen::print_data(&text);
    Ok(ExitStatus::Complete)
}

/// Returns the hook state that a run in this project would publish.
fn build_hook_state(project: &Project, settings: &Settings) -> HookState {
    let file = settings.tasks.file.clone().unwrap_or_else(|| "ralph/tasks.json".to_owned());
    HookState {
        project: Some(project.directory.clone()),
        tasks_file: Some(project.directory.join(file)),
        keeper: Some(settings.tasks.keeper),
        protect: settings.protect.iter().filter_map(|glob| Pattern::new(glob).ok()).collect(),
        guard: settings.guard.to_policy(),
        ..HookState::new(RunId("explain".into()), std::process::id(), Timestamp(0))
    }
}

fn convert_findings_to_json(
    command: &str,
    findings: &GuardFindings,
    decision: &GuardDecision,
) -> Value {
    let commands = findings.lowered.commands.iter().zip(&findings.placed);
    let (verdict, refusal) = match decision {
        GuardDecision::Pass => ("allow", None),
        GuardDecision::Warn(refusal) => ("warn", Some(refusal)),
        GuardDecision::Deny(refusal) => ("deny", Some(refusal)),
    };
    json!({
        "command": command,
        "verdict": verdict,
        "rule": refusal.map(|it| it.rule),
        "category": refusal.map(|it| it.category.name()),
        "reason": refusal.map(GuardRefusal::reason),
        "refusals": findings.refusals.iter().map(|it| json!({
            "rule": it.rule,
            "category": it.category.name(),
            "said": it.subject,
            "instead": find_rule(it.rule).map(|rule| rule.instead),
        })).collect::<Vec<_>>(),
        "resolved": findings.lowered.error.is_none(),
        "commands": commands.map(|(command, placed)| convert_command_to_json(command, placed)).collect::<Vec<_>>(),
    })
}

fn convert_command_to_json(command: &ShellCommand, placed: &[LocatedPath]) -> Value {
    json!({
        "argv": command.argv.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "dynamic": command.argv.iter().any(|word| !word.is_known()),
        "wrappers": command.wrappers,
        "assigns": command.assigns.iter().map(|(name, value)| json!({
            "name": name,
            "value": value.to_string(),
        })).collect::<Vec<_>>(),
        "cwd": command.cwd,
        "input": command.stdin.as_ref().map(ToString::to_string),
        "paths": placed.iter().map(|placed| json!({
            "said": placed.path.to_string(),
            "mode": placed.mode.name(),
            "places": placed.places(),
        })).collect::<Vec<_>>(),
    })
}
