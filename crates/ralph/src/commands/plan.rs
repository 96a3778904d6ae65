//! `ralph plan`: makes a valid task list from the requirements document.
//!
//! Not here: the agent's prompt, which is in the core, the validation of a list, and plans from
//! specifications.

use std::collections::BTreeMap;
use std::fs;

use ralph_core::tasks::validation::find_begun_tasks;
use ralph_io::clock;
use ralph_io::formats::TaskFile;
use ralph_io::store::layout::PROJECT_DIRECTORY;
use ralph_model::outcome::ExitStatus;
use ralph_model::recipe::PlanPart;
use ralph_model::task::REQUIREMENTS_FILE;
use ralph_model::text::quote_for_shell;

use super::{run, specs};
use crate::cli::{CommonArgs, PlanArgs};
use crate::cli_error::CliError;
use crate::documents::{Documents, INIT};
use crate::project::{Project, find_own_executable};
use crate::scaffold::{self, Existing};
use crate::settings::LoadedSettings;
use crate::workflow::WorkflowBasis;
use crate::{detect, recipe, screen, task_file};

/// Runs the command.
pub(crate) fn main(common: &CommonArgs, args: &PlanArgs) -> Result<ExitStatus, CliError> {
    let project = Project::open_for_work(common)?;
    let mut flags = run::read_start_flags(&args.start)?;
    flags.extend(run::read_count_flag(args.count, &args.start, "plan")?);
    let loaded = run::load_for_start(&project, &args.start, flags)?;
    match WorkflowBasis::detect(&project, &loaded) {
        WorkflowBasis::Tasks => {}
        WorkflowBasis::Specs if args.force => {
            return Err(CliError::for_input("--force is about a task list")
                .with_hint("a plan from specifications is brought up to date without it"));
        }
        WorkflowBasis::Specs => {
            return specs::main(common, &project, loaded, &args.start, PlanPart::Makes);
        }
        WorkflowBasis::Unknown => {
            let directory = &loaded.settings.specs_dir;
            return Err(CliError::for_input(format!(
                "there is nothing to plan from: neither `{directory}/` nor `ralph/prd.md`"
            ))
            .with_hint("`ralph init --workflow specs` makes a first specification")
            .with_hint(INIT));
        }
    }
    let documents = Documents::for_project(&project, &loaded.settings)?;
    documents.check_prd_is_written()?;
    let known = read_existing_list(&project, &documents, args)?;
    let values = collect_prompt_values(&project, &documents, known.as_ref());
    let kept = known.as_ref().map_or(&[][..], ExistingList::verify_commands);
    let validation = build_validation_command(&documents, kept)?;
    let recipe = recipe::for_plan(&loaded, values, &documents.tasks, validation)?;
    if let (Some(ExistingList::Begun { text, .. }), false) = (&known, args.start.dry_run) {
        back_up_list(&project, &loaded, text)?;
    }
    run::start_or_preview(common, &project, &loaded, recipe, &args.start)
}

/// An existing task file.
enum ExistingList {
    /// No task has begun; it is updated.
    Untouched(Box<TaskFile>),
    /// Work has begun, or the file cannot be read.
    Begun { text: String, verify_commands: Vec<String> },
}

impl ExistingList {
    /// Returns the checks that the user chose, which a plan has to keep.
    fn verify_commands(&self) -> &[String] {
        match self {
            Self::Untouched(file) => &file.list().verify_commands,
            Self::Begun { verify_commands, .. } => verify_commands,
        }
    }
}

/// Reads an existing list. Fails if work on it has begun, unless `--force` is given.
fn read_existing_list(
    project: &Project,
    documents: &Documents,
    args: &PlanArgs,
) -> Result<Option<ExistingList>, CliError> {
    let name = &documents.tasks;
    let place = documents.resolve_path(name);
    if place.symlink_metadata().is_err() {
        return Ok(None);
    }
    task_file::check_link(project, &place)?;
    let read = TaskFile::read(&place);
    let verify_commands =
        read.as_ref().map(|it| it.list().verify_commands.clone()).unwrap_or_default();
    let complaint = match read {
        Ok(file) if find_begun_tasks(file.list()).is_empty() => {
            return Ok(Some(ExistingList::Untouched(Box::new(file))));
        }
        Ok(file) => {
            let progress = file.list().progress();
            let (done, total) = (progress.done, progress.total);
            CliError::for_input(format!(
                "work on `{name}` has begun ({done} of {total} done), and a new plan would discard that"
            ))
            .with_hint("`ralph build` continues it; `ralph archive` archives it")
        }
        Err(problems) => {
            let complaint = task_file::to_problems_error(project, &problems);
            complaint
                .with_hint(format!("it is not clear whether work on `{name}` has begun"))
                .with_hint("`ralph resume` continues an interrupted plan")
        }
    };
    if !args.force {
        return Err(complaint.with_hint("--force keeps it as a backup and plans again"));
    }
    let text = fs::read_to_string(&place)
        .map_err(|error| CliError::for_input(format!("cannot read `{name}`: {error}")))?;
    Ok(Some(ExistingList::Begun { text, verify_commands }))
}

/// Saves a backup of a list that is planned again.
fn back_up_list(project: &Project, loaded: &LoadedSettings, text: &str) -> Result<(), CliError> {
    let layout = project.find_layout(loaded)?;
    layout.prepare_project().map_err(CliError::from_input_error)?;
    let name = format!("{PROJECT_DIRECTORY}/tasks-{}.json.bak", clock::now().to_stamp());
    scaffold::write_file(&project.directory.join(&name), text, Existing::BackUp)?;
    screen::print_line(&format!("The list with what was done is kept as {name}."));
    Ok(())
}

/// Returns the variables of the prompt.
fn collect_prompt_values(
    project: &Project,
    documents: &Documents,
    known: Option<&ExistingList>,
) -> BTreeMap<String, String> {
    let (commands, what) = match known.map_or(&[][..], ExistingList::verify_commands) {
        [] => (detect::verify_commands(&project.directory), "These were found"),
        known => (known.to_vec(), "The list must keep these"),
    };
    let commands: Vec<String> = commands.iter().map(|command| format!("`{command}`")).collect();
    let found = match commands.as_slice() {
        [] => String::new(),
        commands => format!(" {what}: {}.", commands.join(", ")),
    };
    let values = [
        ("PRD_FILE", documents.find_sibling_path(REQUIREMENTS_FILE)),
        ("TASKS_FILE", documents.tasks.clone()),
        ("FOUND", found),
    ];
    values.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Returns the command that validates the list: this program.
fn build_validation_command(documents: &Documents, kept: &[String]) -> Result<String, CliError> {
    let program = find_own_executable()?;
    let mut arguments = [
        &program.to_string_lossy(),
        "tasks",
        "validate",
        "--untouched",
        "--plan",
        &documents.tasks,
    ]
    .map(str::to_owned)
    .to_vec();
    arguments.extend(kept.iter().map(|command| format!("--keeps={command}")));
    Ok(quote_for_shell(&arguments))
}
