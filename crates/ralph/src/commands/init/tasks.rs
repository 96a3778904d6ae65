//! Plans the files of the tasks workflow: requirements, list, notes and project instructions.
//!
//! Not here: the text of the documents.

use std::path::Path;

use ralph_io::process::Watch;
use ralph_model::recipe::PROGRESS;
use ralph_model::task::{REQUIREMENTS_FILE, TaskList};
use ralph_model::text::choose_plural;

use super::draft::SettingsDraft;
use super::steps::{FilePreview, InitSteps, choose_treatment};
use super::{InitPlan, InitSetup};
use crate::cli_error::CliError;
use crate::documents::{self, Documents, PROMPT};
use crate::scaffold::Existing;
use crate::settings::types::sections::WorkflowSetting;
use crate::task_file;
use crate::templates::{self, Feature};

const USAGE: &str = "ralph init --workflow tasks --name FEATURE";

/// Backups of the documents do not belong into the repository.
const IGNORED: &str = "/ralph/*.bak";

/// Plans the files of the tasks workflow.
pub(super) fn plan_tasks(setup: &InitSetup<'_>) -> Result<InitPlan, CliError> {
    let feature = setup.choose_feature(USAGE)?;
    let documents = Documents::for_project(setup.project, &setup.loaded.settings)?;
    let others = task_file::find_other_task_files(setup.project, &documents.tasks);
    if let ([list, ..], false) = (others.as_slice(), has_task_file(&documents)) {
        return Ok(plan_existing_list(setup, list));
    }
    let mut steps = InitSteps::default();
    let is_kept = write_documents(setup, &documents, &feature, &mut steps);
    let draft = setup.build_draft(WorkflowSetting::Tasks, &[]);
    setup.write_settings(&draft, &mut steps);
    ignore_backups(setup, &mut steps)?;
    let mut found = setup.describe_found_agent(&draft);
    if setup.answered.is_none() && !is_kept {
        found.extend(setup.describe_found_checks());
    }
    for other in others {
        let list = &documents.tasks;
        found.push(format!("found   {other}, which is not used: {list} is the task list"));
    }
    let instructions = documents.find_sibling_path(PROMPT);
    let foreign = documents::find_loop_instructions(&setup.project.directory, &instructions);
    found.extend(foreign.map(|warning| format!("note    {warning}")));
    let checks = describe_checks(setup, &documents, &draft, is_kept);
    let mut next: Vec<String> = setup.find_agent_hint(&draft).into_iter().collect();
    if is_kept && count_listed_tasks(setup, &documents) > 0 {
        next.push("ralph tasks    shows the list".to_owned());
        next.push("ralph build    does the tasks, one verified commit at a time".to_owned());
    } else {
        if documents.check_prd_is_written().is_err() {
            let requirements = documents.find_sibling_path(REQUIREMENTS_FILE);
            next.insert(0, format!("Describe in {requirements} what is to be built."));
        }
        next.push("ralph plan     turns it into a task list".to_owned());
        next.push("ralph build    does them, one verified commit at a time".to_owned());
    }
    Ok(InitPlan { workflow: WorkflowSetting::Tasks, found, steps, checks, next })
}

/// Plans the files of a project that has a task list elsewhere: settings only. A fresh list in the
/// default place would hide the existing one.
fn plan_existing_list(setup: &InitSetup<'_>, list: &str) -> InitPlan {
    let mut steps = InitSteps::default();
    steps.add_kept(list);
    let file =
        task_file::read_task_file(setup.project, &setup.loaded.settings, Some(Path::new(list)));
    let (commands, summary) = match &file {
        Ok(file) => {
            let tasks = file.list().tasks.len();
            let plural = choose_plural(tasks);
            (file.list().verify_commands.clone(), format!("{tasks} task{plural}"))
        }
        Err(_) => (Vec::new(), "it has mistakes, see `ralph tasks validate`".to_owned()),
    };
    let gates = if commands.is_empty() { setup.found.as_slice() } else { &[] };
    let draft = setup.build_draft(WorkflowSetting::Tasks, gates);
    setup.write_settings(&draft, &mut steps);
    let mut found = vec![format!("found   {list} as the task list ({summary})")];
    found.extend(setup.describe_found_agent(&draft));
    if commands.is_empty() && setup.answered.is_none() {
        found.extend(setup.describe_found_checks());
    }
    let checks = match commands.as_slice() {
        [] => setup.describe_gates(&draft),
        commands => format!("After every task these must succeed: {}", commands.join(", ")),
    };
    let mut next: Vec<String> = setup.find_agent_hint(&draft).into_iter().collect();
    next.push("ralph tasks    shows the list".to_owned());
    next.push("ralph build    does the tasks, one verified commit at a time".to_owned());
    InitPlan { workflow: WorkflowSetting::Tasks, found, steps, checks, next }
}

fn has_task_file(documents: &Documents) -> bool {
    documents.resolve_path(&documents.tasks).symlink_metadata().is_ok()
}

/// Adds a line for backups to `.gitignore`, if there is a repository.
pub(super) fn ignore_backups(setup: &InitSetup<'_>, steps: &mut InitSteps) -> Result<(), CliError> {
    if setup.project.find_repository(&Watch::new_detached())?.is_some() {
        steps.add_gitignore_line(IGNORED);
    }
    Ok(())
}

/// Adds the documents. Returns whether an existing list is kept.
fn write_documents(
    setup: &InitSetup<'_>,
    documents: &Documents,
    feature: &Feature,
    steps: &mut InitSteps,
) -> bool {
    if let Some(directory) = Path::new(&documents.tasks).parent().and_then(Path::to_str) {
        steps.add_directory(directory);
    }
    let commands = match (read_verify_commands(setup, documents), &setup.answered) {
        // The next feature is checked like the last one.
        (commands, _) if !commands.is_empty() => commands,
        // The user was asked for them; they are in the settings.
        (_, Some(_)) => Vec::new(),
        (_, None) => setup.found.iter().map(|it| it.command.clone()).collect(),
    };
    let fresh = [
        (documents.find_sibling_path(REQUIREMENTS_FILE), templates::render_prd(&feature.name)),
        (
            documents.tasks.clone(),
            templates::render_tasks(&feature.name, Some(&feature.branch()), &commands),
        ),
        (
            documents.find_sibling_path(PROGRESS),
            templates::render_progress(&feature.name, &documents::format_today()),
        ),
    ];
    for (path, text) in fresh {
        steps.add_file(
            &path,
            text,
            choose_treatment(&documents.resolve_path(&path), setup.args),
            FilePreview::Name,
        );
    }
    // The instructions are for all features, so they are kept even with --force.
    let prompt = documents.find_sibling_path(PROMPT);
    steps.add_file(&prompt, templates::PROMPT.to_owned(), Existing::Keep, FilePreview::Name);
    let list = documents.resolve_path(&documents.tasks);
    list.symlink_metadata().is_ok() && choose_treatment(&list, setup.args) == Existing::Keep
}

/// Returns the check commands of an existing list.
fn read_verify_commands(setup: &InitSetup<'_>, documents: &Documents) -> Vec<String> {
    read_list(setup, documents).map(|list| list.verify_commands).unwrap_or_default()
}

fn count_listed_tasks(setup: &InitSetup<'_>, documents: &Documents) -> usize {
    read_list(setup, documents).map_or(0, |list| list.tasks.len())
}

fn read_list(setup: &InitSetup<'_>, documents: &Documents) -> Option<TaskList> {
    let named = Some(Path::new(&documents.tasks));
    let file = task_file::read_task_file(setup.project, &setup.loaded.settings, named).ok()?;
    Some(file.list().clone())
}

fn describe_checks(
    setup: &InitSetup<'_>,
    documents: &Documents,
    draft: &SettingsDraft,
    is_list_kept: bool,
) -> String {
    let listed = read_verify_commands(setup, documents);
    let commands = if is_list_kept || !listed.is_empty() {
        listed
    } else if draft.checked_by.is_empty() && setup.answered.is_none() {
        setup.found.iter().map(|it| it.command.clone()).collect()
    } else {
        draft.checked_by.clone()
    };
    match commands.as_slice() {
        [] => {
            setup.describe_missing_checks(&format!("as\n`verifyCommands` in {}.", documents.tasks))
        }
        commands => format!("After every story these must succeed: {}", commands.join(", ")),
    }
}
