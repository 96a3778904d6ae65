//! The sources of a prompt, and the plan file.
//!
//! Not here: assembling the prompt.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::context::ContextPlan;

/// Where the base text of a prompt comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptSource {
    Text(String),
    /// A file that is read again for each iteration.
    File(PathBuf),
    /// A template that is read again and filled in for each iteration.
    Template(Template),
}

/// The template of a run's prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    pub place: TemplatePlace,
    /// ralph's own variables, with values for the whole run.
    pub values: BTreeMap<String, String>,
}

/// Where a template is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TemplatePlace {
    /// The project's own template of this name or else the one that ships
    /// with ralph.
    Named(RunPrompt),
    File(PathBuf),
}

/// The plan that the agent maintains: a Markdown checklist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanFile {
    /// The file, from the project directory.
    pub file: PathBuf,
    pub part: PlanPart,
}

/// What a run does with a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanPart {
    /// It writes or rewrites the plan.
    Makes,
    /// It follows the plan.
    Follows,
}

/// How prompts are assembled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptPlan {
    /// Whether the prompt begins with `Iteration X of Y, Z remaining.`
    pub iteration_count: IterationCount,
    /// Characters of a failed gate's output in the next prompt.
    pub output_chars: usize,
    /// Variables for the templates of the roles.
    #[serde(default)]
    pub vars: BTreeMap<String, String>,
    /// Size limits of a prompt for work on a task.
    #[serde(default)]
    pub context: ContextPlan,
    #[serde(default)]
    pub finish: FinishNote,
}

/// Whether ralph appends instructions for finishing to the user's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishNote {
    /// Not appended: the text has its own, or the gates decide completion.
    #[default]
    Omitted,
    /// Appended if the text names no completion tag.
    Added,
}

/// Whether a prompt begins with the count of iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IterationCount {
    Shown,
    Hidden,
}

/// A built-in template of a whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunPrompt {
    /// For making a task list from a requirements document.
    PlanTasks,
    /// For making a plan from specifications.
    PlanSpecs,
    /// For working on such a plan.
    Build,
}

impl RunPrompt {
    pub const ALL: [Self; 3] = [Self::PlanTasks, Self::PlanSpecs, Self::Build];

    /// Returns the name; a project's own template is the file of this name with `.md`.
    pub fn name(self) -> &'static str {
        match self {
            Self::PlanTasks | Self::PlanSpecs => "plan",
            Self::Build => "build",
        }
    }

    /// Returns the name of the template file.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::PlanTasks | Self::PlanSpecs => "plan.md",
            Self::Build => "build.md",
        }
    }
}
