//! The documents of the workflows: where they are, and whether the user has filled them in.
//!
//! Not here: what fresh ones look like, and the forms of task files.

use std::path::{Component, Path, PathBuf};

use ralph_core::project::import_loops::is_loop_prompt;
use ralph_io::clock;
use ralph_io::formats::TaskFile;
use ralph_io::store::files::read_prompt;
use ralph_model::task::REQUIREMENTS_FILE;

pub(crate) use ralph_core::asking::prompt::role::PROJECT_PROMPT as PROMPT;
use ralph_model::recipe::PROGRESS;

use crate::cli_error::CliError;
use crate::project::Project;
use crate::settings::Settings;
use crate::templates;

/// The directory of the documents, where the settings name no other task file.
pub(crate) const DIRECTORY: &str = "ralph";
pub(crate) const TASKS: &str = "tasks.json";

/// The first specification, in the directory of the specifications.
pub(crate) const OVERVIEW: &str = "overview.md";

/// Documents in the same directory as the task file.
pub(crate) const DOCUMENTS: [&str; 3] = [REQUIREMENTS_FILE, PROGRESS, PROMPT];

/// Hint for a project without documents.
pub(crate) const INIT: &str =
    "`ralph init --workflow tasks --name FEATURE` creates ralph/prd.md and a task list";

/// The documents of a project, as paths from its directory.
#[derive(Debug)]
pub(crate) struct Documents {
    pub(crate) tasks: String,
    project: PathBuf,
}

impl Documents {
    /// Returns the documents next to the task file of the settings, or else in `ralph/`.
    pub(crate) fn for_project(project: &Project, settings: &Settings) -> Result<Self, CliError> {
        let usual = || format!("{DIRECTORY}/{TASKS}");
        let named = settings.tasks.file.clone().unwrap_or_else(usual);
        let tasks = make_relative_to_project(project, &named, "tasks.file")?;
        Ok(Self { tasks, project: project.directory.clone() })
    }

    /// Returns the path of a document in the directory of the task file.
    pub(crate) fn find_sibling_path(&self, name: &str) -> String {
        Path::new(&self.tasks).with_file_name(name).to_string_lossy().into_owned()
    }

    /// Returns the absolute path for one relative to the project directory.
    pub(crate) fn resolve_path(&self, path: &str) -> PathBuf {
        self.project.join(path)
    }

    /// Fails if the requirements document is missing or still the bare template.
    pub(crate) fn check_prd_is_written(&self) -> Result<(), CliError> {
        let prd = self.find_sibling_path(REQUIREMENTS_FILE);
        let place = self.resolve_path(&prd);
        if place.symlink_metadata().is_err() {
            return Err(
                CliError::for_input(format!("there is no `{prd}` to plan from")).with_hint(INIT)
            );
        }
        let text = read_prompt(&self.project, &place).map_err(|error| {
            CliError::for_input(error.message.replace("the prompt file ", ""))
                .with_hint("write down in it what is to be built")
        })?;
        if templates::is_bare(&text, templates::PRD_TEMPLATE) {
            return Err(CliError::for_input(format!("`{prd}` is still the bare template"))
                .with_hint("write down in it what is to be built, then run `ralph plan` again"));
        }
        Ok(())
    }
}

/// Returns a path from the settings relative to the project directory. Fails if it leads out of it.
pub(crate) fn make_relative_to_project(
    project: &Project,
    named: &str,
    setting: &str,
) -> Result<String, CliError> {
    let within = Path::new(named).strip_prefix(&project.directory).unwrap_or(named.as_ref());
    let is_outside =
        within.is_absolute() || within.components().any(|it| it == Component::ParentDir);
    match within.to_str().filter(|_| !is_outside) {
        Some(path) => Ok(path.trim_start_matches("./").trim_end_matches('/').to_owned()),
        None => Err(CliError::for_input(format!("`{named}` is not in the project directory"))
            .with_hint(format!("the setting `{setting}` names it"))),
    }
}

/// Returns today's date, such as `2026-11-15`.
pub(crate) fn format_today() -> String {
    let now = jiff::Timestamp::from_millisecond(clock::now().0).unwrap_or_default();
    now.to_zoned(clock::find_local_zone()).strftime("%Y-%m-%d").to_string()
}

/// Feature name in fresh documents without a name.
pub(crate) const UNNAMED: &str = "The next feature";

/// Returns whether a fresh document has no feature name yet.
pub(crate) fn is_unnamed(place: &Path) -> bool {
    let text = read_prompt(Path::new("/"), place).unwrap_or_default();
    text.contains(UNNAMED) || text.contains("\"project\": \"\"")
}

/// Returns a warning if project instructions tell the agent how to loop, as those of another loop do.
pub(crate) fn find_loop_instructions(project: &Path, path: &str) -> Option<String> {
    let text = read_prompt(project, &project.join(path)).ok()?;
    is_loop_prompt(&text).then(|| {
        format!(
            "`{path}` is part of every prompt, and it tells the agent how to loop, which ralph does; keep in it only what is about the project"
        )
    })
}

/// Returns whether a document holds only template text.
pub(crate) fn is_fresh(place: &Path) -> bool {
    if place.metadata().is_ok_and(|it| it.is_file() && it.len() == 0) {
        return true;
    }
    let Ok(text) = read_prompt(Path::new("/"), place) else { return false };
    match place.file_name().and_then(|name| name.to_str()) {
        Some(REQUIREMENTS_FILE) => templates::is_bare(&text, templates::PRD_TEMPLATE),
        Some(PROGRESS) => templates::is_bare(&text, templates::PROGRESS),
        Some(PROMPT) => templates::is_bare(&text, templates::PROMPT),
        Some(OVERVIEW) => templates::is_bare(&text, templates::SPEC),
        Some(_) | None => TaskFile::read(place).is_ok_and(|file| file.list().tasks.is_empty()),
    }
}
