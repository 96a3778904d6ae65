//! What a prompt is made from, and the plan that it may be about.
//!
//! Not here: putting it together.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::context::ContextPlan;
use crate::prompt::run::RunPrompt;

/// Where the base text of a prompt comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptSource {
    /// A text given once.
    Text(String),
    /// A file that is read anew for each iteration.
    File(PathBuf),
    /// A template that is read anew and filled in for each iteration.
    Template(Template),
}

/// A template of a whole run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    /// Where it is.
    pub place: TemplatePlace,
    /// Variables of ralph's own whose values hold for the whole run.
    pub values: BTreeMap<String, String>,
}

/// Where a template is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TemplatePlace {
    /// The project's own of this name or, where it has none, the one that ships with ralph.
    Named(RunPrompt),
    /// A file.
    File(PathBuf),
}

/// A plan that the agent keeps: a text with check boxes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanFile {
    /// The file, from the project directory.
    pub file: PathBuf,
    /// What the run has to do with it.
    pub part: PlanPart,
}

/// What a run has to do with a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanPart {
    /// It makes the plan, or makes it anew.
    Makes,
    /// It does what the plan says.
    Follows,
}

/// How prompts are put together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptPlan {
    /// Whether `Iteration X of Y, Z remaining.` stands on top.
    pub iteration_count: IterationCount,
    /// How much output of a failed gate joins the next prompt.
    pub output_chars: usize,
    /// Variables for the templates of the roles.
    #[serde(default)]
    pub vars: BTreeMap<String, String>,
    /// How much a prompt for work on a task may hold.
    #[serde(default)]
    pub context: ContextPlan,
    /// Whether ralph adds to the user's text how to finish.
    #[serde(default)]
    pub finish: FinishNote,
}

/// Whether ralph adds to the user's text how to finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishNote {
    /// It does not: the text says so itself, or is complete by the gates.
    #[default]
    Omitted,
    /// It does where the text names no completion tag.
    Added,
}

/// Whether a prompt begins with the count of iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IterationCount {
    /// It does.
    Shown,
    /// It does not.
    Hidden,
}
