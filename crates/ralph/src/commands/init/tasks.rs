//! Plans the files of the tasks workflow: requirements, list, notes and project instructions.
//!
//! Not here: the text of the documents.

use std::path::Path;

use ralph_io::process::Watch;

use super::draft::Draft;
use super::steps::{Shown, Steps, existing};
use super::{Outline, Setup};
use crate::cli::WorkflowChoice;
use crate::complaint::Complaint;
use crate::documents::{self, Documents, PRD, PROGRESS, PROMPT};
use crate::scaffold::Existing;
use crate::task_file;
use crate::templates::{self, Feature};

const USAGE: &str = "ralph init --workflow tasks --name FEATURE";

/// Backups of the documents do not belong into the repository.
const IGNORED: &str = "/ralph/*.bak";

/// Plans the files of the tasks workflow.
pub(super) fn outline(setup: &Setup<'_>) -> Result<Outline, Complaint> {
    let feature = setup.feature(USAGE)?;
    let documents = Documents::of(setup.project, &setup.loaded.settings)?;
    let others = task_file::others(setup.project, &documents.tasks);
    if let ([list, ..], false) = (others.as_slice(), is_there(&documents)) {
        return Ok(outline_of_list(setup, list));
    }
    let mut steps = Steps::default();
    let list = write_documents(setup, &documents, &feature, &mut steps);
    let draft = setup.draft(WorkflowChoice::Tasks, &[]);
    setup.write_settings(&draft, &mut steps);
    ignore_backups(setup, &mut steps)?;
    let mut found = setup.found_lines(&draft);
    if setup.answered.is_none() && list == List::Fresh {
        found.extend(setup.found_checks());
    }
    for other in others {
        let list = &documents.tasks;
        found.push(format!("found   {other}, which is not used: {list} is the task list"));
    }
    let checks = checks(setup, &documents, &draft, list);
    let mut next = vec![format!("Write down in {} what is to be built.", documents.beside(PRD))];
    next.extend(setup.name_the_agent(&draft));
    next.push("ralph plan     cuts it into stories".to_owned());
    next.push("ralph build    does them, one verified commit at a time".to_owned());
    Ok(Outline { workflow: WorkflowChoice::Tasks, found, steps, checks, next })
}

/// Plans the files of a project that has a task list elsewhere: settings only. A fresh list in the
/// default place would hide the existing one.
fn outline_of_list(setup: &Setup<'_>, list: &str) -> Outline {
    let mut steps = Steps::default();
    steps.stays(list);
    let file = task_file::open(setup.project, &setup.loaded.settings, Some(Path::new(list)));
    let (commands, summary) = match &file {
        Ok(file) => {
            let tasks = file.list().tasks.len();
            let plural = if tasks == 1 { "" } else { "s" };
            (file.list().verify_commands.clone(), format!("{tasks} task{plural}"))
        }
        Err(_) => (Vec::new(), "it has mistakes, see `ralph tasks validate`".to_owned()),
    };
    let gates = if commands.is_empty() { setup.found.as_slice() } else { &[] };
    let draft = setup.draft(WorkflowChoice::Tasks, gates);
    setup.write_settings(&draft, &mut steps);
    let mut found = vec![format!("found   {list} as the task list ({summary})")];
    found.extend(setup.found_lines(&draft));
    if commands.is_empty() && setup.answered.is_none() {
        found.extend(setup.found_checks());
    }
    let checks = match commands.as_slice() {
        [] => setup.gates_in_words(&draft),
        commands => format!("After every task these must succeed: {}", commands.join(", ")),
    };
    let mut next: Vec<String> = setup.name_the_agent(&draft).into_iter().collect();
    next.push("ralph tasks    shows the list".to_owned());
    next.push("ralph build    does the tasks, one verified commit at a time".to_owned());
    Outline { workflow: WorkflowChoice::Tasks, found, steps, checks, next }
}

fn is_there(documents: &Documents) -> bool {
    documents.place(&documents.tasks).symlink_metadata().is_ok()
}

/// Whether the list is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    Fresh,
    Kept,
}

/// Adds a line for backups to `.gitignore`, if there is a repository.
pub(super) fn ignore_backups(setup: &Setup<'_>, steps: &mut Steps) -> Result<(), Complaint> {
    if setup.project.repository(&Watch::detached())?.is_some() {
        steps.ignored(IGNORED);
    }
    Ok(())
}

fn write_documents(
    setup: &Setup<'_>,
    documents: &Documents,
    feature: &Feature,
    steps: &mut Steps,
) -> List {
    if let Some(directory) = Path::new(&documents.tasks).parent().and_then(Path::to_str) {
        steps.directory(directory);
    }
    let commands = match (verify_commands(setup, documents), &setup.answered) {
        // The next feature is checked like the last one.
        (commands, _) if !commands.is_empty() => commands,
        // The user was asked for them; they are in the settings.
        (_, Some(_)) => Vec::new(),
        (_, None) => setup.found.iter().map(|it| it.command.clone()).collect(),
    };
    let fresh = [
        (documents.beside(PRD), templates::prd(&feature.name)),
        (
            documents.tasks.clone(),
            templates::tasks(&feature.name, Some(&feature.branch()), &commands),
        ),
        (documents.beside(PROGRESS), templates::progress(&feature.name, &documents::today())),
    ];
    for (path, text) in fresh {
        steps.file(&path, text, existing(&documents.place(&path), setup.args), Shown::Name);
    }
    // The instructions are for all features, so they are kept even with --force.
    let prompt = documents.beside(PROMPT);
    steps.file(&prompt, templates::PROMPT.to_owned(), Existing::Keep, Shown::Name);
    let list = documents.place(&documents.tasks);
    let is_there = list.symlink_metadata().is_ok();
    if is_there && existing(&list, setup.args) == Existing::Keep { List::Kept } else { List::Fresh }
}

/// Returns the check commands of an existing list.
fn verify_commands(setup: &Setup<'_>, documents: &Documents) -> Vec<String> {
    let named = Some(Path::new(&documents.tasks));
    let file = task_file::open(setup.project, &setup.loaded.settings, named);
    file.map(|file| file.list().verify_commands.clone()).unwrap_or_default()
}

fn checks(setup: &Setup<'_>, documents: &Documents, draft: &Draft, list: List) -> String {
    let commands = match list {
        List::Fresh | List::Kept if !verify_commands(setup, documents).is_empty() => {
            verify_commands(setup, documents)
        }
        List::Fresh if draft.checked_by.is_empty() && setup.answered.is_none() => {
            setup.found.iter().map(|it| it.command.clone()).collect()
        }
        List::Fresh => draft.checked_by.clone(),
        List::Kept => Vec::new(),
    };
    match commands.as_slice() {
        [] => format!(
            "Nothing says how this project is checked: name its commands as\n`verifyCommands` in {}.",
            documents.tasks
        ),
        commands => format!("After every story these must succeed: {}", commands.join(", ")),
    }
}
