//! `ralph init`: the documents and settings that a workflow needs.
//!
//! For now without questions: the workflow is named by a flag. Not here: what the documents say.

use std::path::Path;

use ralph_core::outcome::ExitStatus;
use ralph_io::process::Watch;

use crate::cli::{CommonArgs, InitArgs, WorkflowChoice};
use crate::complaint::Complaint;
use crate::detect;
use crate::documents::{self, Documents, PRD, PROGRESS, PROMPT};
use crate::project::{Project, complain_of_layout};
use crate::scaffold::{self, Existing, Written};
use crate::screen;
use crate::settings::{self, Loaded, types::sections::Workflow};
use crate::task_file;
use crate::templates::{self, Feature};

/// Backups of the documents are nobody's history.
const IGNORED: &str = "/ralph/*.bak";

/// Runs the command.
pub(crate) fn main(common: &CommonArgs, args: &InitArgs) -> Result<ExitStatus, Complaint> {
    if args.print_schema {
        screen::print_data(&schema());
        return Ok(ExitStatus::Complete);
    }
    let usage = "ralph init --workflow tasks --name FEATURE";
    match args.workflow {
        Some(WorkflowChoice::Tasks) => tasks(common, args),
        Some(WorkflowChoice::Prompt | WorkflowChoice::Specs) => {
            Err(Complaint::input("only `--workflow tasks` is available yet in this version")
                .hint(format!("for a task list: {usage}"))
                .hint("a prompt needs no more than `ralph run -p TEXT --agent NAME`"))
        }
        None => Err(Complaint::input(
            "`ralph init` asks no questions yet in this version: name the workflow",
        )
        .hint(usage)),
    }
}

/// Writes what a task list needs.
fn tasks(common: &CommonArgs, args: &InitArgs) -> Result<ExitStatus, Complaint> {
    let project = Project::open(common)?;
    let loaded = project.settings(None, Vec::new())?;
    let feature = feature(&project, args)?;
    let mut account = Account::default();
    let layout = project.layout(&loaded)?;
    layout.prepare_project().map_err(|error| complain_of_layout(&error))?;
    write_documents(&project, &loaded, &feature, args, &mut account)?;
    write_settings(&project, &mut account)?;
    if project.repository(&Watch::detached())?.is_some() {
        let written = scaffold::add_line(&project.directory.join(".gitignore"), IGNORED)?;
        if written == Written::New {
            account.lines.push(format!("added   {IGNORED} to .gitignore"));
        }
    }
    if !common.quiet {
        screen::print_data(&account.text(&project, &loaded)?);
    }
    Ok(ExitStatus::Complete)
}

/// Returns the feature that is named, or else one that is called like the directory.
fn feature(project: &Project, args: &InitArgs) -> Result<Feature, Complaint> {
    if let Some(name) = &args.name {
        return Feature::named(name, "--name");
    }
    let name = project.directory.file_name().unwrap_or_default().to_string_lossy();
    Feature::named(&name, "--name").map_err(|_| {
        Complaint::input("the feature has no name, and the directory gives it none")
            .hint("ralph init --workflow tasks --name FEATURE")
    })
}

fn write_documents(
    project: &Project,
    loaded: &Loaded,
    feature: &Feature,
    args: &InitArgs,
    account: &mut Account,
) -> Result<(), Complaint> {
    let documents = Documents::of(project, &loaded.settings)?;
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
        let existing = match (args.force, documents::is_fresh(&place)) {
            (false, _) => Existing::Keep,
            (true, true) => Existing::Replace,
            (true, false) => Existing::KeepBeside,
        };
        let written = scaffold::write(&place, &text, existing)?;
        account.note(project, &path, &written);
    }
    Ok(())
}

/// Writes settings where there are none. Those that are there are never replaced.
fn write_settings(project: &Project, account: &mut Account) -> Result<(), Complaint> {
    let path = ".ralph/settings.json";
    let text = "{\n  \"$schema\": \"./schema.json\",\n  \"workflow\": \"tasks\"\n}\n";
    let written = scaffold::write(&project.directory.join(path), text, Existing::Keep)?;
    if written == Written::New {
        let schema_path = ".ralph/schema.json";
        let place = project.directory.join(schema_path);
        let written_schema = scaffold::write(&place, &schema(), Existing::Replace)?;
        account.note(project, path, &written);
        account.note(project, schema_path, &written_schema);
    } else {
        account.lines.push(format!("kept    {path}"));
        account.settings_stay = true;
    }
    Ok(())
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

    fn text(&self, project: &Project, loaded: &Loaded) -> Result<String, Complaint> {
        let documents = Documents::of(project, &loaded.settings)?;
        let mut text = format!("{}\n", self.lines.join("\n"));
        if self.has_kept {
            text.push_str(
                "\nWhat was there is kept; --force writes it anew and keeps the old as .bak.\n",
            );
        }
        if self.settings_stay && loaded.settings.workflow != Workflow::Tasks {
            text.push_str("\nSet \"workflow\": \"tasks\" in .ralph/settings.json.\n");
        }
        let file = task_file::open(project, &loaded.settings, Some(Path::new(&documents.tasks)));
        let commands = file.map(|file| file.list().verify_commands.clone()).unwrap_or_default();
        text.push_str(&match commands.as_slice() {
            [] => format!("\nNothing says how this project is checked: name its commands as\n`verifyCommands` in {}.\n", documents.tasks),
            commands => format!("\nAfter every story these must succeed: {}\n", commands.join(", ")),
        });
        text.push_str(&format!(
            "\nNext:\n  1. Write down in {} what is to be built.\n",
            documents.beside(PRD)
        ));
        let mut step = 2;
        if loaded.settings.agent.command.is_none() {
            text.push_str("  2. Name your agent in .ralph/settings.json: \"agent\": { \"command\": \"claude\" }\n");
            step = 3;
        }
        text.push_str(&format!(
            "  {step}. ralph plan     cuts it into stories\n  {}. ralph build    does them, one verified commit at a time\n",
            step + 1
        ));
        Ok(text)
    }
}
