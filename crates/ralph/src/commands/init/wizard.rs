//! The wizard: asks on a terminal, and writes nothing before the last answer.
//!
//! Ctrl-C and the end of input leave everything as it is. Not here: the questions.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use ralph_core::outcome::ExitStatus;
use ralph_io::process::Watch;
use ralph_ui::safe::harmless;

use super::questions::{self, Known};
use super::{SETTINGS, Setup, carry_out, existing, has_settings, outline, trial, usual};
use crate::cli::{CommonArgs, InitArgs, WorkflowChoice};
use crate::complaint::Complaint;
use crate::detect::{self, Installed};
use crate::project::Project;
use crate::screen;
use crate::settings::Loaded;

/// Held while files are written, so that Ctrl-C does not interrupt that.
static WRITING: Mutex<()> = Mutex::new(());

/// Whether files were written.
static IS_WRITTEN: AtomicBool = AtomicBool::new(false);

/// Asks, then writes.
pub(super) fn main(common: &CommonArgs, args: &InitArgs) -> Result<ExitStatus, Complaint> {
    let project = Project::open_for_work(common)?;
    if !screen::is_typed() {
        return Err(Complaint::input("`ralph init` asks questions, and there is no terminal")
            .hint("`ralph init --yes` asks nothing: it detects the agent and the checks")
            .hint("`ralph init --workflow tasks --name FEATURE` names the workflow: prompt, specs or tasks"));
    }
    let watch = Watch::install(|_| {
        let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        // After that the gate trial handles signals itself.
        if IS_WRITTEN.load(Ordering::Relaxed) {
            return;
        }
        leave();
        process::exit(ExitStatus::Interrupted.code().into());
    })
    .map_err(|error| Complaint::input(format!("cannot listen for Ctrl-C: {error}")))?;
    let loaded = match existing::look(&project, &mut screen::ask_for_line)? {
        existing::Answer::Overwrite(loaded) => *loaded,
        existing::Answer::Keep => return Ok(ExitStatus::Complete),
        existing::Answer::Ended => return Ok(ended()),
    };
    ask(common, &project, &loaded, args, &watch)
}

fn ask(
    common: &CommonArgs,
    project: &Project,
    loaded: &Loaded,
    args: &InitArgs,
    watch: &Watch,
) -> Result<ExitStatus, Complaint> {
    let agents = detect::agents(project, watch);
    let found = detect::gates(&project.directory);
    let directory = project.directory.file_name().unwrap_or_default().to_string_lossy();
    let known = Known {
        workflow: usual(project, loaded),
        name: args.name.as_deref().unwrap_or(&directory),
        agents: &agents.iter().map(Installed::told).collect::<Vec<_>>(),
        found: &found,
    };
    let Ok(answers) = questions::ask(&known, &mut screen::ask_for_line) else {
        return Ok(ended());
    };
    let workflow = answers.workflow;
    let args = InitArgs {
        workflow: Some(workflow),
        name: answers.name,
        yes: args.yes,
        from: None,
        force: args.force && workflow != WorkflowChoice::Prompt,
        no_try: args.no_try,
        dry_run: args.dry_run,
        print_schema: false,
    };
    let answered = Some(answers.draft);
    let has_settings = has_settings(project);
    let setup = Setup { project, loaded, args: &args, agents, found, has_settings, answered };
    let outline = outline(&setup, workflow)?;
    let writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let text = carry_out(&setup, &outline)?;
    IS_WRITTEN.store(true, Ordering::Relaxed);
    drop(writing);
    let written =
        if args.dry_run { String::new() } else { format!("Settings written to {SETTINGS}\n") };
    screen::print_data(&harmless(&format!("\n{written}{text}")));
    trial::try_gates(common, &setup, workflow, || Some(watch.clone()));
    Ok(ExitStatus::Complete)
}

fn ended() -> ExitStatus {
    leave();
    ExitStatus::Interrupted
}

fn leave() {
    screen::print_data("\nAborted. Nothing was written.\n");
}
