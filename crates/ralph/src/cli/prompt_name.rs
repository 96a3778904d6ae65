//! The names of prompts on the command line.

use clap::ValueEnum;
use ralph_core::asking::prompt::role::RolePrompt;
use ralph_core::asking::prompt::run::find_run_template;
use ralph_model::recipe::RunPrompt;

/// A prompt that is made from a template.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum PromptName {
    Implement,
    Fix,
    Review,
    Quality,
    Compact,
    PlanTasks,
    PlanSpecs,
    Build,
}

impl PromptName {
    /// Returns the template that ships with ralph.
    pub(crate) fn template(self) -> &'static str {
        match self {
            Self::Implement => RolePrompt::Implement.template(),
            Self::Fix => RolePrompt::Fix.template(),
            Self::Review => RolePrompt::Review.template(),
            Self::Quality => RolePrompt::Quality.template(),
            Self::Compact => RolePrompt::Compact.template(),
            Self::PlanTasks => find_run_template(RunPrompt::PlanTasks),
            Self::PlanSpecs => find_run_template(RunPrompt::PlanSpecs),
            Self::Build => find_run_template(RunPrompt::Build),
        }
    }
}
