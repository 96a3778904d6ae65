//! Finds and reads the task file of a project, and reports its mistakes.
//!
//! Not here: its formats, which are in `ralph-io`.

use std::path::{Path, PathBuf};

use ralph_io::formats::{FileProblem, TaskFile};

use crate::complaint::Complaint;
use crate::project::Project;
use crate::settings::Settings;

/// Where a task file is looked for, in this order.
const USUAL: [&str; 3] = ["ralph/tasks.json", "plan.json", "prd.json"];

/// A thousand mistakes have one cause; the first screen shows it.
const TOLD: usize = 50;

/// Returns the path of the task file: from the flag, the settings, or the first default path that
/// exists.
pub(crate) fn find(
    project: &Project,
    settings: &Settings,
    flag: Option<&Path>,
) -> Result<PathBuf, Complaint> {
    let named = flag.or(settings.tasks.file.as_deref().map(Path::new));
    if let Some(named) = named {
        return Ok(project.directory.join(named));
    }
    let usual = USUAL.map(|path| project.directory.join(path));
    usual.into_iter().find(|path| path.exists()).ok_or_else(|| {
        Complaint::input("there is no task file").hint(format!(
            "ralph looks for {}; --plan or the setting `tasks.file` names another",
            USUAL.join(", ")
        ))
    })
}

/// Returns the other task files in default places.
pub(crate) fn others(project: &Project, list: &str) -> Vec<&'static str> {
    let is_other = |path: &&str| *path != list && project.directory.join(path).is_file();
    USUAL.into_iter().filter(is_other).collect()
}

/// Reads the task file.
pub(crate) fn open(
    project: &Project,
    settings: &Settings,
    flag: Option<&Path>,
) -> Result<TaskFile, Complaint> {
    TaskFile::read(&find(project, settings, flag)?).map_err(|problems| complain(project, &problems))
}

/// Returns the error for a file with mistakes, with paths relative to the project directory.
pub(crate) fn complain(project: &Project, problems: &[FileProblem]) -> Complaint {
    let here = format!("{}/", project.directory.display());
    let mut lines: Vec<String> = problems
        .iter()
        .take(TOLD)
        .map(|problem| problem.to_string().replace(&here, "").replace('\n', " "))
        .collect();
    if problems.len() > TOLD {
        lines.push(format!("… and {} more", problems.len() - TOLD));
    }
    let mistakes = lines.join("\n");
    Complaint::input(match problems.len() {
        1 => format!("there is a mistake in the task file:\n{mistakes}"),
        count => format!("there are {count} mistakes in the task file:\n{mistakes}"),
    })
}
