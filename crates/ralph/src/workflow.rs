//! Which workflow a project has where `ralph plan` and `ralph build` have to know.
//!
//! Not here: what each of them does.

use crate::documents::{DIRECTORY, PRD};
use crate::project::Project;
use crate::recipe::PLAN_FILE;
use crate::settings::Loaded;
use crate::settings::types::sections::Workflow;
use crate::task_file;

/// What plan and build go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Basis {
    /// A task list.
    Tasks,
    /// Specifications, and a plan that the agent keeps.
    Specs,
    /// Nobody can tell: there is nothing of either.
    Unknown,
}

impl Basis {
    /// Returns what the settings say or, where they do not, what the project holds.
    pub(crate) fn of(project: &Project, loaded: &Loaded) -> Self {
        match loaded.settings.workflow {
            Workflow::Tasks => return Self::Tasks,
            Workflow::Specs => return Self::Specs,
            Workflow::Prompt => {}
        }
        let is_there = |path: &str| project.directory.join(path).exists();
        if task_file::find(project, &loaded.settings, None).is_ok()
            || is_there(&format!("{DIRECTORY}/{PRD}"))
        {
            Self::Tasks
        } else if is_there(PLAN_FILE) || is_there(&loaded.settings.specs_dir) {
            Self::Specs
        } else {
            Self::Unknown
        }
    }
}
