//! What the specs workflow needs: a first specification, and settings.
//!
//! Not here: the plan, which `ralph plan` makes, and what a specification says.

use std::fs;
use std::path::Path;

use ralph_io::process::Watch;

use super::{Account, existing, feature, name_the_agent, write_settings};
use crate::cli::{CommonArgs, InitArgs};
use crate::complaint::Complaint;
use crate::detect;
use crate::documents::{self, OVERVIEW};
use crate::project::{Project, complain_of_layout};
use crate::scaffold::{self, Written};
use crate::settings::types::sections::Workflow;
use crate::templates::{self, Feature};

const USAGE: &str = "ralph init --workflow specs --name FEATURE";

/// Writes what the specs workflow needs, and returns the account of it.
pub(super) fn init(common: &CommonArgs, args: &InitArgs) -> Result<String, Complaint> {
    let project = Project::open(common)?;
    let loaded = project.settings_as_written(None, Vec::new())?;
    let feature = feature(&project, args, USAGE)?;
    let named = &loaded.settings.specs_dir;
    let directory = documents::inside(&project, named, "specsDir")?;
    let mut account = Account::default();
    let layout = project.layout(&loaded)?;
    layout.prepare_project().map_err(|error| complain_of_layout(&error))?;
    let specification = write_specification(&project, &directory, &feature, args, &mut account)?;
    let found = detect::gates(&project.directory);
    write_settings(&project, "specs", &found, &mut account)?;
    let is_repository = project.repository(&Watch::detached())?.is_some();
    let begin = if is_repository { "" } else { "git init && " };
    let mut next = vec![format!("Write down in {specification} what is to be there.")];
    next.extend(name_the_agent(&loaded));
    next.extend([
        format!("{begin}git add {directory} .ralph && git commit -m \"Say what is to be there\""),
        "ralph plan     compares it with the code, and plans what is missing".to_owned(),
        "ralph build    does the plan, one item an iteration".to_owned(),
    ]);
    let checks = account.gates(&loaded, &found);
    Ok(account.text(&loaded, Workflow::Specs, &checks, &next))
}

/// Writes a first specification, unless there are others. Returns where people are to write.
fn write_specification(
    project: &Project,
    directory: &str,
    feature: &Feature,
    args: &InitArgs,
    account: &mut Account,
) -> Result<String, Complaint> {
    let mut place = project.directory.clone();
    for part in Path::new(directory) {
        place.push(part);
        scaffold::directory(&place)?;
    }
    let path = format!("{directory}/{OVERVIEW}");
    if has_others(&place) && !place.join(OVERVIEW).exists() {
        account.lines.push(format!("kept    {directory}/"));
        return Ok(format!("{directory}/"));
    }
    place.push(OVERVIEW);
    let text = templates::spec(&feature.name);
    let written = scaffold::write(&place, &text, existing(&place, args))?;
    account.note(project, &path, &written);
    if let Written::Beside(_) = written {
        // It would be in the way of the next run as something that nobody committed.
        let ignored = format!("/{directory}/*.bak");
        scaffold::add_line(&project.directory.join(".gitignore"), &ignored)?;
        account.lines.push(format!("added   {ignored} to .gitignore"));
    }
    Ok(path)
}

/// Returns whether a directory holds anything but hidden files and the first specification.
fn has_others(directory: &Path) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).any(|name| {
        let name = name.to_string_lossy();
        !name.starts_with('.') && name != OVERVIEW
    })
}
