//! `ralph init`: the documents and settings that a workflow needs.
//!
//! The files to write are planned first, as a list of steps, and then shown or written. Not here:
//! the text of the documents.

mod draft;
mod existing;
mod from;
mod prompt;
mod questions;
mod specs;
mod steps;
mod tasks;
mod trial;
mod wizard;

use std::path::Path;

use ralph_core::checks::Found;
use ralph_core::outcome::ExitStatus;
use ralph_io::process::Watch;
use ralph_ui::safe::harmless;
use serde_json::json;

use crate::cli::{CommonArgs, InitArgs, WorkflowChoice};
use crate::complaint::Complaint;
use crate::detect::{self, Installed};
use crate::project::Project;
use crate::scaffold::Existing;
use crate::screen;
use crate::settings::{self, Loaded, types::sections::Workflow};
use crate::templates::Feature;
use crate::workflow::Basis;
use draft::{Draft, gate_text};
use steps::{Done, Shown, Steps};

const SETTINGS: &str = ".ralph/settings.json";
const LOCAL: &str = ".ralph/settings.local.json";
const SCHEMA: &str = ".ralph/schema.json";

/// Runs the command.
pub(crate) fn main(common: &CommonArgs, args: &InitArgs) -> Result<ExitStatus, Complaint> {
    if args.print_schema {
        screen::print_data(&schema());
        return Ok(ExitStatus::Complete);
    }
    if !args.yes && args.workflow.is_none() && args.from.is_none() {
        return wizard::main(common, args);
    }
    let project = Project::open_for_work(common)?;
    let loaded = project.settings_as_written(None, Vec::new())?;
    let setup = Setup {
        project: &project,
        loaded: &loaded,
        args,
        agents: detect::agents(&project, &Watch::detached()),
        found: detect::gates(&project.directory),
        has_settings: has_settings(&project),
        answered: None,
    };
    let outline = match &args.from {
        Some(from) => from::outline(&setup, from)?,
        None => outline(&setup, args.workflow.unwrap_or_else(|| usual(&project, &loaded)))?,
    };
    let text = carry_out(&setup, &outline)?;
    if !common.quiet {
        screen::print_data(&harmless(&text));
    }
    trial::try_gates(common, &setup, outline.workflow, || Watch::install(|_| {}).ok());
    Ok(ExitStatus::Complete)
}

/// The inputs of the plan.
struct Setup<'a> {
    project: &'a Project,
    loaded: &'a Loaded,
    args: &'a InitArgs,
    /// The installed agents, best first.
    agents: Vec<Installed>,
    /// The checks that the project's files name.
    found: Vec<Found>,
    /// Whether the project had settings before.
    has_settings: bool,
    /// Settings from the user's answers; they replace existing ones.
    answered: Option<Draft>,
}

/// Everything to write and print.
struct Outline {
    workflow: WorkflowChoice,
    /// What was detected, one line each.
    found: Vec<String>,
    steps: Steps,
    /// The checks, as text.
    checks: String,
    /// The next steps for the user.
    next: Vec<String>,
}

fn outline(setup: &Setup<'_>, workflow: WorkflowChoice) -> Result<Outline, Complaint> {
    match workflow {
        WorkflowChoice::Tasks => tasks::outline(setup),
        WorkflowChoice::Specs => specs::outline(setup),
        WorkflowChoice::Prompt => prompt::outline(setup),
    }
}

/// Returns the workflow that the project's files suggest.
fn usual(project: &Project, loaded: &Loaded) -> WorkflowChoice {
    match Basis::of(project, loaded) {
        Basis::Tasks => WorkflowChoice::Tasks,
        Basis::Specs => WorkflowChoice::Specs,
        Basis::Unknown => WorkflowChoice::Prompt,
    }
}

/// Writes the files, or only shows them, and returns the report.
fn carry_out(setup: &Setup<'_>, outline: &Outline) -> Result<String, Complaint> {
    let found: Vec<String> = outline.found.iter().map(|line| format!("{line}\n")).collect();
    let found = found.concat();
    if setup.args.dry_run {
        return Ok(format!("{found}{}", outline.steps.preview(setup.project)));
    }
    let done = outline.steps.apply(setup.project, setup.loaded)?;
    Ok(found + &account(setup, outline, &done))
}

/// Returns the report: what was written, the checks of the project, the next steps.
fn account(setup: &Setup<'_>, outline: &Outline, done: &Done) -> String {
    let mut text = format!("{}\n", done.lines.join("\n"));
    if done.has_kept {
        text.push_str(
            "\nExisting files are kept; --force overwrites them and keeps the old ones as .bak.\n",
        );
    }
    let wanted = match outline.workflow {
        WorkflowChoice::Prompt => Workflow::Prompt,
        WorkflowChoice::Specs => Workflow::Specs,
        WorkflowChoice::Tasks => Workflow::Tasks,
    };
    let loaded = setup.loaded;
    if setup.settings_stay() && loaded.settings.workflow != wanted {
        text.push_str(&format!("\nSet \"workflow\": {} in {SETTINGS}.\n", json!(wanted)));
    }
    let is_the_projects = |file: &Path| file.ends_with(SETTINGS) || file.ends_with(LOCAL);
    if let Some(user) = loaded.files.first().filter(|file| !is_the_projects(file)) {
        text.push_str(&format!("\nYour own settings hold here too: {}\n", user.display()));
    }
    text.push_str(&format!("\n{}\n\nNext:\n", outline.checks));
    for (number, step) in (1..).zip(&outline.next) {
        text.push_str(&format!("  {number}. {step}\n"));
    }
    text
}

impl Setup<'_> {
    /// Returns whether existing settings are kept.
    fn settings_stay(&self) -> bool {
        self.answered.is_none() && self.has_settings
    }

    /// Returns the settings of a workflow: from the answers, or else the first installed agent
    /// and the gates.
    fn draft(&self, workflow: WorkflowChoice, gates: &[Found]) -> Draft {
        if let Some(answered) = &self.answered {
            return answered.clone();
        }
        let mut draft = Draft::new(workflow);
        if let Some(agent) = self.agent() {
            draft.agent(agent.command, &[]);
        }
        draft.gates(gates);
        draft
    }

    /// Returns the agent for new settings, unless other settings name one already.
    fn agent(&self) -> Option<&Installed> {
        let is_set = self.loaded.settings.agent.command.is_some();
        self.agents.first().filter(|_| !is_set)
    }

    /// Adds the settings file to the steps. Existing settings are replaced only if the user was
    /// asked.
    fn write_settings(&self, draft: &Draft, steps: &mut Steps) {
        if self.settings_stay() {
            return steps.stays(SETTINGS);
        }
        steps.file(SETTINGS, draft.text(), Existing::KeepBeside, Shown::Whole);
        steps.file(SCHEMA, schema(), Existing::Replace, Shown::Name);
    }

    /// Describes the detected agent, if it goes into the settings.
    fn found_lines(&self, draft: &Draft) -> Vec<String> {
        if self.answered.is_some() {
            return Vec::new();
        }
        let mut lines = Vec::new();
        if let Some(agent) = self.agent().filter(|_| !self.settings_stay() && draft.has_agent) {
            let others: Vec<String> = self.agents.iter().skip(1).map(Installed::told).collect();
            let others = match others.as_slice() {
                [] => String::new(),
                others => format!("; also installed: {}", others.join(", ")),
            };
            let (name, path) = (agent.told(), agent.path.display());
            lines.push(format!("found   {name} as the agent ({path}){others}"));
        }
        lines
    }

    /// Describes the detected commands.
    fn found_checks(&self) -> impl Iterator<Item = String> {
        self.found.iter().map(|it| format!("found   {} ({})", it.command, it.place))
    }

    /// Describes the gates, for workflows that have them in the settings.
    fn gates_in_words(&self, draft: &Draft) -> String {
        let settings = &self.loaded.settings;
        let guardrails = settings.guardrails.iter().map(|it| it.command.clone());
        let hard = settings.gates.iter().filter(|gate| gate.is_hard());
        let named = hard.filter_map(|gate| gate.command.clone().or_else(|| gate.name.clone()));
        let mut commands: Vec<String> = guardrails.chain(named).collect();
        if self.answered.is_some() || (!self.settings_stay() && commands.is_empty()) {
            commands.clone_from(&draft.checked_by);
        }
        if !commands.is_empty() {
            return format!("After every iteration these must succeed: {}", commands.join(", "));
        }
        let example = self.found.first().map(gate_text);
        let example =
            example.unwrap_or_else(|| "{ \"kind\": \"test\", \"command\": \"…\" }".into());
        format!(
            "Nothing says how this project is checked: name its commands in {SETTINGS}:\n\"gates\": [{example}]"
        )
    }

    /// Returns the next step "name your agent", unless one is named.
    fn name_the_agent(&self, draft: &Draft) -> Option<String> {
        let is_written = draft.has_agent && !self.settings_stay();
        let is_missing = self.loaded.settings.agent.command.is_none() && !is_written;
        let command = self.agents.first().map_or("claude", |it| it.command);
        is_missing.then(|| {
            format!("Name your agent in {SETTINGS}: \"agent\": {{ \"command\": \"{command}\" }}")
        })
    }

    /// Returns the named feature, or else one named after the directory.
    fn feature(&self, usage: &str) -> Result<Feature, Complaint> {
        if let Some(name) = &self.args.name {
            return Feature::named(name, "--name");
        }
        let name = self.project.directory.file_name().unwrap_or_default().to_string_lossy();
        Feature::named(&name, "--name").map_err(|_| {
            Complaint::input("the feature has no name, and the directory gives it none").hint(usage)
        })
    }
}

fn has_settings(project: &Project) -> bool {
    project.directory.join(SETTINGS).symlink_metadata().is_ok()
}

fn schema() -> String {
    format!("{:#}\n", settings::json_schema())
}
