//! What a task list needs: requirements, the list, notes and standing orders.
//!
//! Not here: what the documents say.

use std::path::Path;

use ralph_io::process::Watch;

use super::{Account, existing, feature, name_the_agent, write_settings};
use crate::cli::{CommonArgs, InitArgs};
use crate::complaint::Complaint;
use crate::detect;
use crate::documents::{self, Documents, PRD, PROGRESS, PROMPT};
use crate::project::{Project, complain_of_layout};
use crate::scaffold::{self, Written};
use crate::settings::{Loaded, types::sections::Workflow};
use crate::task_file;
use crate::templates::{self, Feature};

const USAGE: &str = "ralph init --workflow tasks --name FEATURE";

/// Backups of the documents are nobody's history.
const IGNORED: &str = "/ralph/*.bak";

/// Writes what a task list needs, and returns the account of it.
pub(super) fn init(common: &CommonArgs, args: &InitArgs) -> Result<String, Complaint> {
    let project = Project::open(common)?;
    let loaded = project.settings_as_written(None, Vec::new())?;
    let feature = feature(&project, args, USAGE)?;
    let mut account = Account::default();
    let layout = project.layout(&loaded)?;
    layout.prepare_project().map_err(|error| complain_of_layout(&error))?;
    let documents = Documents::of(&project, &loaded.settings)?;
    write_documents(&project, &documents, &feature, args, &mut account)?;
    write_settings(&project, "tasks", &[], &mut account)?;
    if project.repository(&Watch::detached())?.is_some() {
        let written = scaffold::add_line(&project.directory.join(".gitignore"), IGNORED)?;
        if written == Written::New {
            account.lines.push(format!("added   {IGNORED} to .gitignore"));
        }
    }
    let checks = checks(&project, &loaded, &documents);
    let mut next = vec![format!("Write down in {} what is to be built.", documents.beside(PRD))];
    next.extend(name_the_agent(&loaded));
    next.push("ralph plan     cuts it into stories".to_owned());
    next.push("ralph build    does them, one verified commit at a time".to_owned());
    Ok(account.text(&loaded, Workflow::Tasks, &checks, &next))
}

fn write_documents(
    project: &Project,
    documents: &Documents,
    feature: &Feature,
    args: &InitArgs,
    account: &mut Account,
) -> Result<(), Complaint> {
    if let Some(directory) = documents.place(&documents.tasks).parent() {
        scaffold::directory(directory)?;
    }
    let commands = detect::verify_commands(&project.directory);
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
        let place = documents.place(&path);
        let written = scaffold::write(&place, &text, existing(&place, args))?;
        account.note(project, &path, &written);
    }
    Ok(())
}

fn checks(project: &Project, loaded: &Loaded, documents: &Documents) -> String {
    let file = task_file::open(project, &loaded.settings, Some(Path::new(&documents.tasks)));
    let commands = file.map(|file| file.list().verify_commands.clone()).unwrap_or_default();
    match commands.as_slice() {
        [] => format!(
            "Nothing says how this project is checked: name its commands as\n`verifyCommands` in {}.",
            documents.tasks
        ),
        commands => format!("After every story these must succeed: {}", commands.join(", ")),
    }
}
