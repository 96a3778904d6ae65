//! The wizard: asks on a terminal, and writes nothing before the last answer.
//!
//! Ctrl-C and the end of input leave everything as it is. Not here: the questions.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use ralph_io::process::{StopStage, Watch};
use ralph_model::outcome::ExitStatus;
use ralph_ui::sanitize::sanitize_text;

use super::gate_trial::GateTrial;
use super::questions::{self, WizardDefaults};
use super::{
    InitSetup, SETTINGS, apply_plan, check_no_active_run, existing, find_agents, guess_workflow,
    has_settings, plan_workflow,
};
use crate::cli::{CommonArgs, InitArgs};
use crate::cli_error::CliError;
use crate::detect::{self, InstalledAgent};
use crate::project::Project;
use crate::settings::LoadedSettings;
use crate::settings::types::sections::WorkflowSetting;
use crate::{package_hosts, screen};

/// Held while files are written, so that Ctrl-C does not interrupt that.
static WRITING: Mutex<()> = Mutex::new(());

/// Whether a gate is tried, which ends by itself on Ctrl-C, or files were written.
static HANDLES_SIGNALS: AtomicBool = AtomicBool::new(false);

/// Asks, then writes.
pub(super) fn run_wizard(common: &CommonArgs, args: &InitArgs) -> Result<ExitStatus, CliError> {
    let project = Project::open_for_work(common)?;
    if !screen::is_stdin_terminal() {
        return Err(CliError::for_input("`ralph init` asks questions, and there is no terminal")
            .with_hint("`ralph init --yes` asks nothing: it detects the agent and the checks")
            .with_hint("`ralph init --workflow tasks --name FEATURE` names the workflow: prompt, specs or tasks"));
    }
    if let Ok(loaded) = project.load_settings(None, Vec::new()) {
        check_no_active_run(&project, &loaded)?;
    }
    let watch = Watch::install(|_| {
        let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        if HANDLES_SIGNALS.load(Ordering::Relaxed) {
            return;
        }
        print_aborted();
        process::exit(ExitStatus::Interrupted.code().into());
    })
    .map_err(|error| CliError::for_input(format!("cannot listen for Ctrl-C: {error}")))?;
    let loaded = match existing::ask_overwrite(&project, &mut screen::ask_for_line)? {
        existing::OverwriteAnswer::Overwrite(loaded) => *loaded,
        existing::OverwriteAnswer::Keep => return Ok(ExitStatus::Complete),
        existing::OverwriteAnswer::Ended => return Ok(end_of_input()),
    };
    ask_and_write(common, &project, &loaded, args, &watch)
}

fn ask_and_write(
    common: &CommonArgs,
    project: &Project,
    loaded: &LoadedSettings,
    args: &InitArgs,
    watch: &Watch,
) -> Result<ExitStatus, CliError> {
    let agents = find_agents(project, args, watch)?;
    let found = detect::find_gates(&project.directory);
    let directory = project.directory.file_name().unwrap_or_default().to_string_lossy();
    let known = WizardDefaults {
        workflow: guess_workflow(project, loaded),
        name: args.name.as_deref().unwrap_or(&directory),
        agents: &agents.iter().map(InstalledAgent::name_and_version).collect::<Vec<_>>(),
        found: &found,
        has_packages: package_hosts::has_packages(&project.directory),
    };
    let trial = GateTrial::new(common, project, loaded, Some(watch.clone()));
    let mut try_gate = |command: &str| {
        if args.no_try || args.dry_run {
            return None;
        }
        HANDLES_SIGNALS.store(true, Ordering::Relaxed);
        let problem = trial.try_gate(command);
        HANDLES_SIGNALS.store(false, Ordering::Relaxed);
        problem
    };
    let mut read_answer = |question: &str| {
        let is_running = watch.stage() == StopStage::Running;
        if is_running { screen::ask_for_line(question) } else { None }
    };
    let Ok(answers) = questions::ask_all(&known, &mut read_answer, &mut try_gate) else {
        return Ok(end_of_input());
    };
    let workflow = answers.workflow;
    let args = InitArgs {
        workflow: Some(workflow),
        name: answers.name,
        yes: args.yes,
        agent: None,
        from: None,
        force: args.force && workflow != WorkflowSetting::Prompt,
        gates: Vec::new(),
        no_try: args.no_try,
        dry_run: args.dry_run,
        print_schema: false,
    };
    let answered = Some(answers.draft);
    let has_settings = has_settings(project);
    let setup = InitSetup {
        project,
        loaded,
        args: &args,
        agents,
        found,
        left_out: Vec::new(),
        has_settings,
        sandbox_settings: Vec::new(),
        answered,
    };
    let outline = plan_workflow(&setup, workflow)?;
    let writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let text = apply_plan(&setup, &outline)?;
    HANDLES_SIGNALS.store(true, Ordering::Relaxed);
    drop(writing);
    let written =
        if args.dry_run { String::new() } else { format!("Settings written to {SETTINGS}\n") };
    screen::print_data(&sanitize_text(&format!("\n{written}{text}")));
    Ok(ExitStatus::Complete)
}

fn end_of_input() -> ExitStatus {
    print_aborted();
    ExitStatus::Interrupted
}

fn print_aborted() {
    screen::print_data("\nAborted. Nothing was written.\n");
}
