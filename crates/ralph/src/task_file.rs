//! Finds and reads the task file of a project, and reports its mistakes.
//!
//! Not here: its formats, which are in `ralph-io`.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ralph_io::formats::{FileProblem, TaskFile};

use crate::cli_error::CliError;
use crate::project::Project;
use crate::settings::Settings;

/// Where a task file is looked for, in this order.
const DEFAULT_PATHS: [&str; 3] = ["ralph/tasks.json", "plan.json", "prd.json"];

/// A thousand mistakes have one cause; the first screen shows it.
const MAX_SHOWN_PROBLEMS: usize = 50;

/// Returns the path of the task file: from the flag, the settings, or the first default path that
/// exists.
pub(crate) fn find_task_file(
    project: &Project,
    settings: &Settings,
    flag: Option<&Path>,
) -> Result<PathBuf, CliError> {
    let named = flag.or(settings.tasks.file.as_deref().map(Path::new));
    if let Some(named) = named {
        return Ok(project.directory.join(named));
    }
    let usual = DEFAULT_PATHS.map(|path| project.directory.join(path));
    // A link that leads nowhere is a mistake, not a missing list.
    usual.into_iter().find(|path| path.symlink_metadata().is_ok()).ok_or_else(|| {
        CliError::for_input("there is no task file").with_hint(format!(
            "ralph looks for {}; --plan or the setting `tasks.file` names another",
            DEFAULT_PATHS.join(", ")
        ))
    })
}

/// Returns the other task files in default places.
pub(crate) fn find_other_task_files(project: &Project, list: &str) -> Vec<&'static str> {
    let is_other = |path: &&str| *path != list && project.directory.join(path).is_file();
    DEFAULT_PATHS.into_iter().filter(is_other).collect()
}

/// Reads the task file.
pub(crate) fn read_task_file(
    project: &Project,
    settings: &Settings,
    flag: Option<&Path>,
) -> Result<TaskFile, CliError> {
    let path = find_task_file(project, settings, flag)?;
    check_link(project, &path)?;
    TaskFile::read(&path).map_err(|problems| {
        if is_markdown(&path) {
            build_markdown_error(project, &path)
        } else {
            to_problems_error(project, &problems)
        }
    })
}

fn is_markdown(path: &Path) -> bool {
    let extension = path.extension().and_then(OsStr::to_str);
    extension.is_some_and(|it| ["md", "markdown"].contains(&it.to_ascii_lowercase().as_str()))
}

fn build_markdown_error(project: &Project, path: &Path) -> CliError {
    let shown = path.strip_prefix(&project.directory).unwrap_or(path).display();
    CliError::for_input(format!("`{shown}` is Markdown, and a task list is a JSON file"))
        .with_hint(format!("`ralph init --from {shown}` makes a task list of it"))
}

/// Fails if the task file is a link that leads to no file.
pub(crate) fn check_link(project: &Project, path: &Path) -> Result<(), CliError> {
    let (Ok(target), Err(error)) = (path.read_link(), path.metadata()) else { return Ok(()) };
    let shown = path.strip_prefix(&project.directory).unwrap_or(path).display();
    let target = target.display();
    let why = if error.kind() == ErrorKind::NotFound {
        "does not exist".to_owned()
    } else {
        format!("cannot be followed: {error}")
    };
    Err(CliError::for_input(format!("`{shown}` is a link to `{target}`, which {why}"))
        .with_hint("remove the link, or create the file that it names"))
}

/// Returns the error for a file with mistakes, with paths relative to the project directory.
pub(crate) fn to_problems_error(project: &Project, problems: &[FileProblem]) -> CliError {
    let here = format!("{}/", project.directory.display());
    let mut lines: Vec<String> = problems
        .iter()
        .take(MAX_SHOWN_PROBLEMS)
        .map(|problem| problem.to_string().replace(&here, "").replace('\n', " "))
        .collect();
    if problems.len() > MAX_SHOWN_PROBLEMS {
        lines.push(format!("… and {} more", problems.len() - MAX_SHOWN_PROBLEMS));
    }
    let mistakes = lines.join("\n");
    CliError::for_input(match problems.len() {
        1 => format!("there is a mistake in the task file:\n{mistakes}"),
        count => format!("there are {count} mistakes in the task file:\n{mistakes}"),
    })
}
