//! `ralph init`: the documents and settings that a workflow needs.
//!
//! The files to write are planned first, as a list of steps, and then shown or written. Not here:
//! the text of the documents.

mod draft;
mod existing;
mod from;
mod gate_trial;
mod prompt;
mod questions;
mod specs;
mod steps;
mod tasks;
mod wizard;

use std::path::Path;

use draft::{SettingsDraft, format_gate, format_review_gate};
use ralph_core::project::detection::ProjectCheck;
use ralph_io::process::Watch;
use ralph_io::store::{LockError, RunLock};
use ralph_model::outcome::ExitStatus;
use ralph_ui::sanitize::sanitize_text;
use serde_json::{Value, json};
use steps::{FilePreview, InitSteps, StepResults};

use crate::cli::{CommonArgs, InitArgs};
use crate::cli_error::CliError;
use crate::detect::{self, InstalledAgent};
use crate::project::Project;
use crate::scaffold::Existing;
use crate::screen;
use crate::settings::types::sections::WorkflowSetting;
use crate::settings::{self, LoadedSettings};
use crate::templates::Feature;
use crate::workflow::WorkflowBasis;

const SETTINGS: &str = ".ralph/settings.json";
const LOCAL: &str = ".ralph/settings.local.json";
const SCHEMA: &str = ".ralph/schema.json";

/// Runs the command.
pub(crate) fn main(common: &CommonArgs, args: &InitArgs) -> Result<ExitStatus, CliError> {
    if args.print_schema {
        screen::print_data(&format_schema());
        return Ok(ExitStatus::Complete);
    }
    if is_wizard(args) {
        return wizard::run_wizard(common, args);
    }
    let project = Project::open_for_work(common)?;
    let loaded = project.load_settings(None, Vec::new())?;
    if !args.dry_run {
        check_no_active_run(&project, &loaded)?;
    }
    check_gates_can_be_set(&project, args)?;
    let mut setup = InitSetup {
        project: &project,
        loaded: &loaded,
        args,
        agents: find_agents(&project, args, &Watch::new_detached())?,
        found: detect::find_gates(&project.directory),
        left_out: Vec::new(),
        has_settings: has_settings(&project),
        sandbox_settings: Vec::new(),
        answered: None,
    };
    let workflow = args.workflow.unwrap_or_else(|| guess_workflow(&project, &loaded));
    gate_trial::try_gates(common, &mut setup, workflow);
    let outline = match &args.from {
        Some(from) => from::plan_migration(&setup, from)?,
        None => plan_workflow(&setup, workflow)?,
    };
    let text = apply_plan(&setup, &outline)?;
    if !common.quiet {
        screen::print_data(&sanitize_text(&text));
    }
    Ok(ExitStatus::Complete)
}

/// Fails if a run is active: it would take what is written for the work of its agent, or lose its
/// task list.
fn check_no_active_run(project: &Project, loaded: &LoadedSettings) -> Result<(), CliError> {
    // Without a place for its state no run can be active.
    let Ok(layout) = project.find_layout(loaded) else { return Ok(()) };
    match RunLock::find_holder(layout.state()) {
        Some(holder) => Err(CliError::new(ExitStatus::Busy, LockError::Busy(holder).to_string())
            .with_hint("`ralph init --dry-run` shows what would be written")),
        None => Ok(()),
    }
}

/// Whether the user is asked.
fn is_wizard(args: &InitArgs) -> bool {
    !args.yes && args.workflow.is_none() && args.from.is_none()
}

/// Finds the installed agents; the one that the user names comes first.
fn find_agents(
    project: &Project,
    args: &InitArgs,
    watch: &Watch,
) -> Result<Vec<InstalledAgent>, CliError> {
    let mut agents = detect::find_agents(project, watch);
    let Some(name) = &args.agent else { return Ok(agents) };
    // The wizard asks what becomes of them.
    if has_settings(project) && !is_wizard(args) {
        return Err(CliError::for_input(format!("{SETTINGS} is there, and is kept"))
            .with_hint(format!("name the agent there: \"agent\": {{ \"command\": \"{name}\" }}")));
    }
    let Some(position) = agents.iter().position(|it| it.command == name) else {
        let installed: Vec<&str> = agents.iter().map(|it| it.command).collect();
        let installed = if installed.is_empty() { "none".into() } else { installed.join(", ") };
        return Err(CliError::for_input(format!(
            "--agent {name}: no agent of this name is installed (found: {installed})"
        ))
        .with_hint(format!("`ralph doctor --agent {name}` says what is missing"))
        .with_hint(format!("any other program is named in {SETTINGS}: see `ralph help agents`")));
    };
    agents[..=position].rotate_right(1);
    Ok(agents)
}

/// Fails if existing settings are kept that do not get the gates that the user names.
fn check_gates_can_be_set(project: &Project, args: &InitArgs) -> Result<(), CliError> {
    if args.gates.is_empty() || !has_settings(project) {
        return Ok(());
    }
    let gates = args.gates.iter().map(|it| format_review_gate(*it)).collect::<Vec<_>>().join(", ");
    Err(CliError::for_input(format!("{SETTINGS} is there, and is kept"))
        .with_hint(format!("add to the gates there: \"gates\": [{gates}]")))
}

/// The inputs of the plan.
struct InitSetup<'a> {
    project: &'a Project,
    loaded: &'a LoadedSettings,
    args: &'a InitArgs,
    /// The installed agents, best first.
    agents: Vec<InstalledAgent>,
    /// The checks that the project's files name.
    found: Vec<ProjectCheck>,
    /// Detected commands that cannot run here, and so are not written.
    left_out: Vec<String>,
    /// Whether the project had settings before.
    has_settings: bool,
    /// Settings of the sandbox without which gates cannot run.
    sandbox_settings: Vec<Value>,
    /// Settings from the user's answers; they replace existing ones.
    answered: Option<SettingsDraft>,
}

/// Everything to write and print.
struct InitPlan {
    workflow: WorkflowSetting,
    /// What was detected, one line each.
    found: Vec<String>,
    steps: InitSteps,
    /// The checks, as text.
    checks: String,
    /// The next steps for the user.
    next: Vec<String>,
}

fn plan_workflow(setup: &InitSetup<'_>, workflow: WorkflowSetting) -> Result<InitPlan, CliError> {
    match workflow {
        WorkflowSetting::Tasks => tasks::plan_tasks(setup),
        WorkflowSetting::Specs => specs::plan_specs(setup),
        WorkflowSetting::Prompt => prompt::plan_prompt(setup),
    }
}

/// Returns the workflow that the project's files suggest.
fn guess_workflow(project: &Project, loaded: &LoadedSettings) -> WorkflowSetting {
    match WorkflowBasis::detect(project, loaded) {
        WorkflowBasis::Tasks => WorkflowSetting::Tasks,
        WorkflowBasis::Specs => WorkflowSetting::Specs,
        WorkflowBasis::Unknown => WorkflowSetting::Prompt,
    }
}

/// Writes the files, or only shows them, and returns the report.
fn apply_plan(setup: &InitSetup<'_>, outline: &InitPlan) -> Result<String, CliError> {
    let found: Vec<String> = outline.found.iter().map(|line| format!("{line}\n")).collect();
    let found = found.concat();
    if setup.args.dry_run {
        return Ok(format!("{found}{}", outline.steps.format_preview(setup.project)));
    }
    let done = outline.steps.run_steps(setup.project, setup.loaded)?;
    Ok(found + &format_report(setup, outline, &done))
}

/// Returns the report: what was written, the checks of the project, the next steps.
fn format_report(setup: &InitSetup<'_>, outline: &InitPlan, done: &StepResults) -> String {
    let mut text = format!("{}\n", done.lines.join("\n"));
    if done.has_kept {
        text.push_str(
            if setup.args.force {
                "\nSettings and instructions are kept, also with --force; change or remove them yourself.\n"
            } else {
                "\nExisting files are kept; --force replaces the documents and keeps the old ones as .bak.\n"
            },
        );
    }
    let wanted = outline.workflow;
    let loaded = setup.loaded;
    if setup.keeps_settings() && loaded.settings.workflow != wanted {
        text.push_str(&format!("\nSet \"workflow\": {} in {SETTINGS}.\n", json!(wanted)));
    }
    let is_the_projects = |file: &Path| file.ends_with(SETTINGS) || file.ends_with(LOCAL);
    if let Some(user) = loaded.files.first().filter(|file| !is_the_projects(file)) {
        text.push_str(&format!("\nYour own settings apply here too: {}\n", user.display()));
    }
    text.push_str(&format!("\n{}\n\nNext:\n", outline.checks));
    let needs_trust = match &setup.answered {
        Some(answered) => answered.has_sandbox(),
        None => !setup.sandbox_settings.is_empty(),
    };
    let trust =
        needs_trust.then(|| "ralph trust    accepts the settings of the sandbox".to_owned());
    for (number, step) in (1..).zip(trust.iter().chain(&outline.next)) {
        text.push_str(&format!("  {number}. {step}\n"));
    }
    text
}

impl InitSetup<'_> {
    /// Returns whether existing settings are kept.
    fn keeps_settings(&self) -> bool {
        self.answered.is_none() && self.has_settings
    }

    /// Returns the settings of a workflow: from the answers, or else the first installed agent
    /// and the gates.
    fn build_draft(&self, workflow: WorkflowSetting, gates: &[ProjectCheck]) -> SettingsDraft {
        if let Some(answered) = &self.answered {
            return answered.clone();
        }
        let mut draft = SettingsDraft::new(workflow);
        if let Some(agent) = self.find_agent_to_name() {
            draft.add_agent(agent.command, &[]);
        }
        let reviews = &self.args.gates;
        // Gates in the settings replace the commands of a task list.
        draft.add_gates(if reviews.is_empty() { gates } else { &self.found }, reviews);
        draft
    }

    /// Returns the agent for new settings, unless other settings name one already.
    fn find_agent_to_name(&self) -> Option<&InstalledAgent> {
        let is_set = self.loaded.settings.agent.command.is_some();
        self.agents.first().filter(|_| !is_set || self.args.agent.is_some())
    }

    /// Adds the settings file to the steps. Existing settings are replaced only if the user was
    /// asked.
    fn write_settings(&self, draft: &SettingsDraft, steps: &mut InitSteps) {
        if self.keeps_settings() {
            return steps.add_kept(SETTINGS);
        }
        let mut draft = draft.clone();
        for settings in &self.sandbox_settings {
            draft.add_sandbox(&settings["sandbox"]);
        }
        steps.add_file(SETTINGS, draft.to_text(), Existing::BackUp, FilePreview::Whole);
        steps.add_file(SCHEMA, format_schema(), Existing::Replace, FilePreview::Name);
    }

    /// Describes the detected agent, if it goes into the settings.
    fn describe_found_agent(&self, draft: &SettingsDraft) -> Vec<String> {
        if self.answered.is_some() {
            return Vec::new();
        }
        let mut lines = Vec::new();
        if let Some(agent) =
            self.find_agent_to_name().filter(|_| !self.keeps_settings() && draft.has_agent)
        {
            let others: Vec<String> =
                self.agents.iter().skip(1).map(InstalledAgent::name_and_version).collect();
            let others = match others.as_slice() {
                [] => String::new(),
                others => format!("; also installed: {}", others.join(", ")),
            };
            let (name, path) = (agent.name_and_version(), agent.path.display());
            lines.push(format!("found   {name} as the agent ({path}){others}"));
        }
        lines
    }

    /// Describes the detected commands.
    fn describe_found_checks(&self) -> impl Iterator<Item = String> {
        self.found.iter().map(|it| format!("found   {} ({})", it.command, it.place))
    }

    /// Describes the gates, for workflows that have them in the settings.
    fn describe_gates(&self, draft: &SettingsDraft) -> String {
        let settings = &self.loaded.settings;
        let guardrails = settings.guardrails.iter().map(|it| it.command.clone());
        let hard = settings.gates.iter().filter(|gate| gate.is_hard());
        let named = hard.filter_map(|gate| gate.command.clone().or_else(|| gate.name.clone()));
        let mut commands: Vec<String> = guardrails.chain(named).collect();
        if self.answered.is_some() || (!self.keeps_settings() && commands.is_empty()) {
            commands.clone_from(&draft.checked_by);
        }
        if !commands.is_empty() {
            return format!("After every iteration these must succeed: {}", commands.join(", "));
        }
        let example = self.found.first().map(|it| format_gate(it.kind, &it.command, "APPEND", ""));
        let example =
            example.unwrap_or_else(|| "{ \"kind\": \"test\", \"command\": \"…\" }".into());
        self.describe_missing_checks(&format!("in {SETTINGS}:\n\"gates\": [{example}]"))
    }

    /// Says that nothing checks the project, and where to name commands.
    fn describe_missing_checks(&self, place: &str) -> String {
        match self.left_out.as_slice() {
            [] => {
                format!("No command that tests or checks this project was found: name one {place}")
            }
            left_out => format!(
                "Nothing checks this project yet, because {} cannot run here (see above). When this is \
                 fixed, name it {place}",
                left_out.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ")
            ),
        }
    }

    /// Returns the next step "name your agent", unless one is named.
    fn find_agent_hint(&self, draft: &SettingsDraft) -> Option<String> {
        let is_written = draft.has_agent && !self.keeps_settings();
        let is_missing = self.loaded.settings.agent.command.is_none() && !is_written;
        let command = self.agents.first().map_or("claude", |it| it.command);
        is_missing.then(|| {
            format!("Name your agent in {SETTINGS}: \"agent\": {{ \"command\": \"{command}\" }}")
        })
    }

    /// Returns the named feature, or else one named after the directory.
    fn choose_feature(&self, usage: &str) -> Result<Feature, CliError> {
        if let Some(name) = &self.args.name {
            return Feature::parse(name, "--name");
        }
        let name = self.project.directory.file_name().unwrap_or_default().to_string_lossy();
        Feature::parse(&name, "--name").map_err(|_| {
            CliError::for_input(
                "the feature has no name, and the name of the directory cannot be used",
            )
            .with_hint(usage)
        })
    }
}

fn has_settings(project: &Project) -> bool {
    project.directory.join(SETTINGS).symlink_metadata().is_ok()
}

fn format_schema() -> String {
    format!("{:#}\n", settings::build_json_schema())
}
