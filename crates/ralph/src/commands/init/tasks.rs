//! What a task list needs: requirements, the list, notes and standing orders.
//!
//! Not here: what the documents say.

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

/// Backups of the documents are nobody's history.
const IGNORED: &str = "/ralph/*.bak";

/// Makes up what a task list needs.
pub(super) fn outline(setup: &Setup<'_>) -> Result<Outline, Complaint> {
    let feature = setup.feature(USAGE)?;
    let documents = Documents::of(setup.project, &setup.loaded.settings)?;
    let mut steps = Steps::default();
    let list = write_documents(setup, &documents, &feature, &mut steps);
    let draft = setup.draft(WorkflowChoice::Tasks, &[]);
    setup.write_settings(&draft, &mut steps);
    ignore_backups(setup, &mut steps)?;
    let mut found = setup.found_lines(&draft);
    if setup.answered.is_none() && list == List::Fresh {
        found.extend(setup.found_checks());
    }
    let checks = checks(setup, &documents, &draft, list);
    let mut next = vec![format!("Write down in {} what is to be built.", documents.beside(PRD))];
    next.extend(setup.name_the_agent(&draft));
    next.push("ralph plan     cuts it into stories".to_owned());
    next.push("ralph build    does them, one verified commit at a time".to_owned());
    Ok(Outline { workflow: WorkflowChoice::Tasks, found, steps, checks, next })
}

/// Whether the list is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    Fresh,
    Kept,
}

/// Adds a line for backups to `.gitignore`, where there is a repository.
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
    let commands: Vec<String> = match setup.answered {
        // Who was asked has named them, and they are in the settings.
        Some(_) => Vec::new(),
        None => setup.found.iter().map(|it| it.command.clone()).collect(),
    };
    let fresh = [
        (documents.beside(PRD), templates::prd(&feature.name)),
        (
            documents.tasks.clone(),
            templates::tasks(&feature.name, Some(&feature.branch()), &commands),
        ),
        (documents.beside(PROGRESS), templates::progress(&feature.name, &documents::today())),
        (documents.beside(PROMPT), templates::PROMPT.to_owned()),
    ];
    for (path, text) in fresh {
        steps.file(&path, text, existing(&documents.place(&path), setup.args), Shown::Name);
    }
    let list = documents.place(&documents.tasks);
    let is_there = list.symlink_metadata().is_ok();
    if is_there && existing(&list, setup.args) == Existing::Keep { List::Kept } else { List::Fresh }
}

fn checks(setup: &Setup<'_>, documents: &Documents, draft: &Draft, list: List) -> String {
    let commands = match list {
        List::Fresh if draft.checked_by.is_empty() && setup.answered.is_none() => {
            setup.found.iter().map(|it| it.command.clone()).collect()
        }
        List::Fresh => draft.checked_by.clone(),
        List::Kept => {
            let named = Some(Path::new(&documents.tasks));
            let file = task_file::open(setup.project, &setup.loaded.settings, named);
            file.map(|file| file.list().verify_commands.clone()).unwrap_or_default()
        }
    };
    match commands.as_slice() {
        [] => format!(
            "Nothing says how this project is checked: name its commands as\n`verifyCommands` in {}.",
            documents.tasks
        ),
        commands => format!("After every story these must succeed: {}", commands.join(", ")),
    }
}
