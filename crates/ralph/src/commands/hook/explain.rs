//! `ralph hook explain COMMAND`: how the guard judges a command, and why.
//!
//! It uses the settings of the project, as a run would. Not here: the rules.

use ralph_core::active::Active;
use ralph_core::glob::Pattern;
use ralph_core::guard::{self, Command, Decision, Findings, Placed, Refusal, ToolCall, rule};
use ralph_core::ids::RunId;
use ralph_core::outcome::ExitStatus;
use ralph_core::task::Keeper;
use ralph_core::units::Timestamp;
use ralph_io::hooks::places;
use ralph_ui::explanation;
use serde_json::{Value, json};

use crate::cli::{CommonArgs, HookArgs};
use crate::complaint::Complaint;
use crate::project::Project;
use crate::screen::{self, Screen};
use crate::settings::Settings;
use crate::settings::types::sections;

/// Explains a command.
pub(crate) fn main(common: &CommonArgs, args: &HookArgs) -> Result<ExitStatus, Complaint> {
    let Some(command) = &args.command else {
        return Err(Complaint::input("there is nothing to explain")
            .hint("ralph hook explain 'rm -rf build'"));
    };
    let project = Project::open(common)?;
    let loaded = project.settings(None, Vec::new())?;
    let layout = project.layout(&loaded)?;
    let settings = &loaded.settings;
    let active = as_in_a_run(&project, settings);
    let variable = |name: &str| std::env::var_os(name);
    let around = places::surroundings(&active, &layout.active(), &project.directory, variable);
    let findings = guard::look(&ToolCall::Shell(command.clone()), &around);
    let decision = active.guard.decide(&findings);
    let text = if args.json {
        format!("{:#}\n", facts(command, &findings, &decision))
    } else {
        let style = Screen::for_stdout(common, &settings.ui).style;
        explanation::explain(&findings, &decision, &style)
    };
    screen::print_data(&text);
    Ok(ExitStatus::Complete)
}

/// Returns the hook state that a run in this project would publish.
fn as_in_a_run(project: &Project, settings: &Settings) -> Active {
    let file = settings.tasks.file.clone().unwrap_or_else(|| "ralph/tasks.json".to_owned());
    let keeper = match settings.tasks.keeper {
        sections::Keeper::Ralph => Keeper::Ralph,
        sections::Keeper::Agent => Keeper::Agent,
    };
    Active {
        project: Some(project.directory.clone()),
        tasks_file: Some(project.directory.join(file)),
        keeper: Some(keeper),
        protect: settings.protect.iter().filter_map(|glob| Pattern::new(glob).ok()).collect(),
        guard: settings.guard.policy(),
        ..Active::new(RunId("explain".into()), std::process::id(), Timestamp(0))
    }
}

fn facts(command: &str, findings: &Findings, decision: &Decision) -> Value {
    let commands = findings.lowered.commands.iter().zip(&findings.placed);
    let (verdict, refusal) = match decision {
        Decision::Pass => ("allow", None),
        Decision::Warn(refusal) => ("warn", Some(refusal)),
        Decision::Deny(refusal) => ("deny", Some(refusal)),
    };
    json!({
        "command": command,
        "verdict": verdict,
        "rule": refusal.map(|it| it.rule),
        "category": refusal.map(|it| it.category.name()),
        "reason": refusal.map(Refusal::reason),
        "refusals": findings.refusals.iter().map(|it| json!({
            "rule": it.rule,
            "category": it.category.name(),
            "said": it.said,
            "instead": rule(it.rule).map(|rule| rule.instead),
        })).collect::<Vec<_>>(),
        "resolved": findings.lowered.trouble.is_none(),
        "commands": commands.map(|(command, placed)| one(command, placed)).collect::<Vec<_>>(),
    })
}

fn one(command: &Command, placed: &[Placed]) -> Value {
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
            "said": placed.said.to_string(),
            "mode": placed.mode.name(),
            "places": placed.places(),
        })).collect::<Vec<_>>(),
    })
}
