//! `ralph plan`: makes a valid task list from the requirements document.
//!
//! Not here: the agent's prompt, which is in the core, the validation of a list, and plans from
//! specifications.

use std::collections::BTreeMap;
use std::fs;

use ralph_core::outcome::ExitStatus;
use ralph_core::recipe::PlanPart;
use ralph_io::clock;
use ralph_io::formats::TaskFile;
use ralph_io::store::layout::PROJECT_DIRECTORY;

use super::{dry_run, run, specs};
use crate::calls::quoted;
use crate::cli::{CommonArgs, PlanArgs};
use crate::complaint::Complaint;
use crate::detect;
use crate::documents::{Documents, INIT, PRD};
use crate::equip::{Asking, equipped};
use crate::project::{Project, complain_of_layout};
use crate::recipe;
use crate::scaffold::{self, Existing};
use crate::screen;
use crate::session;
use crate::settings::Loaded;
use crate::task_file;
use crate::workflow::Basis;

/// Runs the command.
pub(crate) fn main(common: &CommonArgs, args: &PlanArgs) -> Result<ExitStatus, Complaint> {
    let project = Project::open_for_work(common)?;
    let mut flags = run::start_flags(&args.start)?;
    flags.extend(run::count_flag(args.count, &args.start, "plan")?);
    let loaded = run::load(&project, &args.start, flags)?;
    match Basis::of(&project, &loaded) {
        Basis::Tasks => {}
        Basis::Specs if args.force => {
            return Err(Complaint::input("--force is about a task list")
                .hint("a plan from specifications is brought up to date without it"));
        }
        Basis::Specs => {
            return specs::main(common, &project, loaded, &args.start, PlanPart::Makes);
        }
        Basis::Unknown => {
            let directory = &loaded.settings.specs_dir;
            return Err(Complaint::input(format!(
                "there is nothing to plan from: neither `{directory}/` nor `ralph/prd.md`"
            ))
            .hint("`ralph init --workflow specs` makes a first specification")
            .hint(INIT));
        }
    }
    let documents = Documents::of(&project, &loaded.settings)?;
    documents.prd_is_written()?;
    let known = known(&project, &documents, args)?;
    let values = values(&project, &documents, known.as_ref());
    let recipe = recipe::for_plan(&loaded, values, &documents.tasks, check(&documents)?)?;
    if args.start.dry_run {
        let recipe = equipped(&project, recipe, Asking::Memory);
        return dry_run::main(&project, &loaded, &recipe);
    }
    if let Some(Known::Begun { text }) = &known {
        keep(&project, &loaded, text)?;
    }
    session::start(common, &project, &loaded, recipe, &run::wishes(&args.start))
}

/// An existing task file.
enum Known {
    /// No task has begun; it is updated.
    Untouched(Box<TaskFile>),
    /// Work has begun, or the file cannot be read.
    Begun { text: String },
}

/// Reads an existing list. Fails if work on it has begun, unless `--force` is given.
fn known(
    project: &Project,
    documents: &Documents,
    args: &PlanArgs,
) -> Result<Option<Known>, Complaint> {
    let name = &documents.tasks;
    let place = documents.place(name);
    if place.symlink_metadata().is_err() {
        return Ok(None);
    }
    let read = TaskFile::read(&place);
    let complaint = match read {
        Ok(file) if file.list().begun_problems().is_empty() => {
            return Ok(Some(Known::Untouched(Box::new(file))));
        }
        Ok(file) => {
            let progress = file.list().progress();
            let (done, total) = (progress.done, progress.total);
            Complaint::input(format!(
                "work on `{name}` has begun ({done} of {total} done), and a new plan would forget it"
            ))
            .hint("`ralph build` continues it; `ralph archive` archives it")
        }
        Err(problems) => {
            let complaint = task_file::complain(project, &problems);
            complaint
                .hint(format!("it is not clear whether work on `{name}` has begun"))
                .hint("`ralph resume` continues an interrupted plan")
        }
    };
    if !args.force {
        return Err(complaint.hint("--force keeps it as a backup and plans again"));
    }
    let text = fs::read_to_string(&place)
        .map_err(|error| Complaint::input(format!("cannot read `{name}`: {error}")))?;
    Ok(Some(Known::Begun { text }))
}

/// Saves a backup of a list that is planned again.
fn keep(project: &Project, loaded: &Loaded, text: &str) -> Result<(), Complaint> {
    let layout = project.layout(loaded)?;
    layout.prepare_project().map_err(|error| complain_of_layout(&error))?;
    let name = format!("{PROJECT_DIRECTORY}/tasks-{}.json.bak", clock::now().stamp());
    scaffold::write(&project.directory.join(&name), text, Existing::KeepBeside)?;
    screen::say(&format!("The list with what was done is kept as {name}."));
    Ok(())
}

/// Returns the variables of the prompt.
fn values(
    project: &Project,
    documents: &Documents,
    known: Option<&Known>,
) -> BTreeMap<String, String> {
    let commands = match known {
        Some(Known::Untouched(file)) if !file.list().verify_commands.is_empty() => {
            file.list().verify_commands.clone()
        }
        Some(Known::Untouched(_) | Known::Begun { .. }) | None => {
            detect::verify_commands(&project.directory)
        }
    };
    let commands: Vec<String> = commands.iter().map(|command| format!("`{command}`")).collect();
    let found = match commands.as_slice() {
        [] => String::new(),
        commands => format!(" These were found: {}.", commands.join(", ")),
    };
    let values = [
        ("PRD_FILE", documents.beside(PRD)),
        ("TASKS_FILE", documents.tasks.clone()),
        ("FOUND", found),
    ];
    values.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Returns the command that validates the list: this program.
fn check(documents: &Documents) -> Result<String, Complaint> {
    let program = std::env::current_exe().map_err(|error| {
        Complaint::new(
            ExitStatus::Incomplete,
            format!("cannot find ralph's own executable: {error}"),
        )
    })?;
    let arguments = [
        &program.to_string_lossy(),
        "tasks",
        "validate",
        "--untouched",
        "--plan",
        &documents.tasks,
    ];
    Ok(quoted(&arguments.map(str::to_owned)))
}
