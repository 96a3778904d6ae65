//! Finds the workflow of a project, for `ralph plan` and `ralph build`.
//!
//! Not here: what the workflows do.

use ralph_model::task::REQUIREMENTS_FILE;

use crate::documents::DIRECTORY;
use crate::project::Project;
use crate::recipe::PLAN_FILE;
use crate::settings::LoadedSettings;
use crate::settings::types::sections::WorkflowSetting;
use crate::task_file;

/// What `ralph plan` and `ralph build` work from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkflowBasis {
    Tasks,
    /// Specifications, and a plan that the agent maintains.
    Specs,
    /// The project has neither.
    Unknown,
}

impl WorkflowBasis {
    /// Returns the workflow of the settings or, if not set, the one that the project's files suggest.
    pub(crate) fn detect(project: &Project, loaded: &LoadedSettings) -> Self {
        match loaded.settings.workflow {
            WorkflowSetting::Tasks => return Self::Tasks,
            WorkflowSetting::Specs => return Self::Specs,
            WorkflowSetting::Prompt => {}
        }
        let is_there = |path: &str| project.directory.join(path).exists();
        if task_file::find_task_file(project, &loaded.settings, None).is_ok()
            || is_there(&format!("{DIRECTORY}/{REQUIREMENTS_FILE}"))
        {
            Self::Tasks
        } else if is_there(PLAN_FILE) || is_there(&loaded.settings.specs_dir) {
            Self::Specs
        } else {
            Self::Unknown
        }
    }
}
