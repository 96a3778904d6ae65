//! `ralph init`: the documents and settings that a workflow needs.
//!
//! For now without questions: the workflow is named by a flag. Not here: what the documents say.

mod prompt;
mod specs;
mod tasks;

use std::path::Path;

use ralph_core::outcome::ExitStatus;
use serde_json::json;

use crate::cli::{CommonArgs, InitArgs, WorkflowChoice};
use crate::complaint::Complaint;
use crate::detect::Found;
use crate::documents;
use crate::project::Project;
use crate::scaffold::{self, Existing, Written};
use crate::screen;
use crate::settings::types::gate::GateKind;
use crate::settings::{self, Loaded, types::sections::Workflow};
use crate::templates::Feature;

const SETTINGS: &str = ".ralph/settings.json";
const LOCAL: &str = ".ralph/settings.local.json";
const SCHEMA: &str = ".ralph/schema.json";

/// Runs the command.
pub(crate) fn main(common: &CommonArgs, args: &InitArgs) -> Result<ExitStatus, Complaint> {
    if args.print_schema {
        screen::print_data(&schema());
        return Ok(ExitStatus::Complete);
    }
    let text = match args.workflow {
        Some(WorkflowChoice::Tasks) => tasks::init(common, args)?,
        Some(WorkflowChoice::Specs) => specs::init(common, args)?,
        Some(WorkflowChoice::Prompt) => prompt::init(common, args)?,
        None => {
            return Err(Complaint::input(
                "`ralph init` asks no questions yet in this version: name the workflow",
            )
            .hint("ralph init --workflow tasks --name FEATURE: requirements and a task list")
            .hint("ralph init --workflow specs: specifications and a plan that the agent keeps")
            .hint("ralph init --workflow prompt: one prompt, again and again"));
        }
    };
    if !common.quiet {
        screen::print_data(&text);
    }
    Ok(ExitStatus::Complete)
}

/// Returns the feature that is named, or else one that is called like the directory.
fn feature(project: &Project, args: &InitArgs, usage: &str) -> Result<Feature, Complaint> {
    if let Some(name) = &args.name {
        return Feature::named(name, "--name");
    }
    let name = project.directory.file_name().unwrap_or_default().to_string_lossy();
    Feature::named(&name, "--name").map_err(|_| {
        Complaint::input("the feature has no name, and the directory gives it none").hint(usage)
    })
}

/// Returns what becomes of a document that is there already.
fn existing(place: &Path, args: &InitArgs) -> Existing {
    match (args.force, documents::is_fresh(place)) {
        (false, _) => Existing::Keep,
        (true, true) => Existing::Replace,
        (true, false) => Existing::KeepBeside,
    }
}

/// Writes settings where there are none. Those that are there are never replaced.
fn write_settings(
    project: &Project,
    workflow: &str,
    gates: &[Found],
    account: &mut Account,
) -> Result<(), Complaint> {
    let text = settings_text(workflow, gates);
    let written = scaffold::write(&project.directory.join(SETTINGS), &text, Existing::Keep)?;
    if written == Written::New {
        let place = project.directory.join(SCHEMA);
        let written_schema = scaffold::write(&place, &schema(), Existing::Replace)?;
        account.note(project, SETTINGS, &written);
        account.note(project, SCHEMA, &written_schema);
    } else {
        account.lines.push(format!("kept    {SETTINGS}"));
        account.settings_stay = true;
    }
    Ok(())
}

fn settings_text(workflow: &str, gates: &[Found]) -> String {
    let gates: Vec<String> =
        gates.iter().map(|gate| format!("\n    {}", gate_text(gate))).collect();
    let gates = match gates.as_slice() {
        [] => String::new(),
        gates => format!(",\n  \"gates\": [{}\n  ]", gates.join(",")),
    };
    format!(
        "{{\n  \"$schema\": \"./schema.json\",\n  \"workflow\": {}{gates}\n}}\n",
        json!(workflow)
    )
}

/// Returns a gate as settings write it.
fn gate_text(gate: &Found) -> String {
    let command = json!(gate.command);
    // Test runners put the failure last.
    let truncate = match gate.kind {
        GateKind::Test => ", \"truncate\": \"tail\"",
        GateKind::Lint | GateKind::Spec | GateKind::Quality | GateKind::Custom => "",
    };
    format!("{{ \"kind\": {}, \"command\": {command}{truncate} }}", json!(gate.kind))
}

fn schema() -> String {
    format!("{:#}\n", settings::json_schema())
}

/// What was done, for the user.
#[derive(Default)]
struct Account {
    lines: Vec<String>,
    has_kept: bool,
    settings_stay: bool,
}

impl Account {
    fn note(&mut self, project: &Project, path: &str, written: &Written) {
        self.lines.push(match written {
            Written::New => format!("wrote   {path}"),
            Written::Kept => {
                self.has_kept = true;
                format!("kept    {path}")
            }
            Written::Beside(backup) => {
                let backup = backup.strip_prefix(&project.directory).unwrap_or(backup);
                format!("wrote   {path}; the old one is {}", backup.display())
            }
        });
    }

    /// Returns the account: what was done, what the project is checked with, what comes next.
    fn text(&self, loaded: &Loaded, workflow: Workflow, checks: &str, next: &[String]) -> String {
        let mut text = format!("{}\n", self.lines.join("\n"));
        if self.has_kept {
            text.push_str(
                "\nWhat was there is kept; --force writes it anew and keeps the old as .bak.\n",
            );
        }
        if self.settings_stay && loaded.settings.workflow != workflow {
            text.push_str(&format!("\nSet \"workflow\": {} in {SETTINGS}.\n", json!(workflow)));
        }
        let is_the_projects = |file: &Path| file.ends_with(SETTINGS) || file.ends_with(LOCAL);
        if let Some(user) = loaded.files.first().filter(|file| !is_the_projects(file)) {
            text.push_str(&format!("\nYour own settings hold here too: {}\n", user.display()));
        }
        text.push_str(&format!("\n{checks}\n\nNext:\n"));
        for (number, step) in (1..).zip(next) {
            text.push_str(&format!("  {number}. {step}\n"));
        }
        text
    }

    /// Returns what is known of the gates, for workflows that have them in the settings.
    fn gates(&self, loaded: &Loaded, found: &[Found]) -> String {
        let settings = &loaded.settings;
        let guardrails = settings.guardrails.iter().map(|it| it.command.clone());
        let hard = settings.gates.iter().filter(|gate| gate.is_hard());
        let named = hard.filter_map(|gate| gate.command.clone().or_else(|| gate.name.clone()));
        let mut commands: Vec<String> = guardrails.chain(named).collect();
        if !self.settings_stay && commands.is_empty() {
            commands = found.iter().map(|it| it.command.clone()).collect();
        }
        if !commands.is_empty() {
            return format!("After every iteration these must succeed: {}", commands.join(", "));
        }
        let example = found.first().map(gate_text);
        let example =
            example.unwrap_or_else(|| "{ \"kind\": \"test\", \"command\": \"…\" }".into());
        format!(
            "Nothing says how this project is checked: name its commands in {SETTINGS}:\n\"gates\": [{example}]"
        )
    }
}

/// Returns the step of naming an agent, unless one is named.
fn name_the_agent(loaded: &Loaded) -> Option<String> {
    let is_missing = loaded.settings.agent.command.is_none();
    is_missing
        .then(|| format!("Name your agent in {SETTINGS}: \"agent\": {{ \"command\": \"claude\" }}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_the_gates_that_were_found() {
        let found = |kind, command: &str| Found { kind, command: command.to_owned() };
        for (gates, expect) in [
            (vec![], "{\n  \"$schema\": \"./schema.json\",\n  \"workflow\": \"specs\"\n}\n"),
            (
                vec![found(GateKind::Test, "make \"test\""), found(GateKind::Lint, "make lint")],
                "{\n  \"$schema\": \"./schema.json\",\n  \"workflow\": \"specs\",\n  \"gates\": [\n    { \"kind\": \"test\", \"command\": \"make \\\"test\\\"\", \"truncate\": \"tail\" },\n    { \"kind\": \"lint\", \"command\": \"make lint\" }\n  ]\n}\n",
            ),
        ] {
            assert_eq!(settings_text("specs", &gates), expect);
        }
    }
}
