//! The recipes of the specs workflow: making the plan, building by it, and the user's own prompt
//! templates.
//!
//! Not here: reading the specifications, and what is the same for every recipe.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ralph_core::asking::prompt::run::describe_commits;
use ralph_model::glob::Pattern;
use ralph_model::ids::Role;
use ralph_model::recipe::{
    BaselinePolicy, CommitPolicy, PlanFile, PlanPart, PromptSource, Recipe, RunPrompt, Template,
    TemplatePlace, Uncommitted, Work,
};

use super::{WorkflowDefaults, build_recipe, gates};
use crate::cli_error::CliError;
use crate::settings::LoadedSettings;
use crate::settings::types::sections;

/// Path of the plan, relative to the project directory.
pub(crate) const PLAN_FILE: &str = ".ralph/implementation_plan.md";

/// The limit of iterations when neither flags nor settings name one.
pub(crate) const ITERATIONS: u32 = 50;

/// Returns the recipe of `ralph plan` or `ralph build` by specifications.
pub(crate) fn for_specs(loaded: &LoadedSettings, part: PlanPart) -> Result<Recipe, CliError> {
    let (role, prompt) = match part {
        PlanPart::Makes => (Role::Plan, RunPrompt::PlanSpecs),
        PlanPart::Follows => (Role::Build, RunPrompt::Build),
    };
    let values = BTreeMap::from([("PLAN_FILE".to_owned(), PLAN_FILE.to_owned())]);
    let template = Template { place: TemplatePlace::Named(prompt), values };
    let mut recipe = build_recipe(loaded, build_workflow_defaults("specs", role, template))?;
    let committing = describe_commits(prompt, &recipe.landing.commit, PLAN_FILE);
    if let Work::Prompt(PromptSource::Template(template)) = &mut recipe.work {
        template.values.insert("COMMITTING".to_owned(), committing);
    }
    match part {
        PlanPart::Makes => {
            // The gates of the settings check the code, which does not change here, unless they name
            // the role `plan`.
            recipe.gates.retain(|gate| gate.roles.contains(&Role::Plan));
            recipe.scope = Pattern::for_path(PLAN_FILE).into_iter().collect();
            recipe.protect = Vec::new();
        }
        // The user writes the specifications, so they are protected unless `protect` is set.
        PlanPart::Follows
            if !loaded.is_set("protect")
                || recipe.protect.is_empty() && !recipe.unprotected.is_empty() =>
        {
            let specs = loaded.settings.specs_dir.trim_matches('/');
            recipe.protect = vec![gates::parse_pattern("specsDir", &format!("{specs}/**"))?];
        }
        PlanPart::Follows => {}
    }
    recipe.plan = Some(PlanFile { file: PLAN_FILE.into(), part });
    Ok(recipe)
}

/// Returns the recipe of `ralph prompt`.
pub(crate) fn for_template(loaded: &LoadedSettings, file: PathBuf) -> Result<Recipe, CliError> {
    let values = BTreeMap::from([("PLAN_FILE".to_owned(), PLAN_FILE.to_owned())]);
    let template = Template { place: TemplatePlace::File(file), values };
    let mut recipe =
        build_recipe(loaded, build_workflow_defaults("prompt", Role::Prompt, template))?;
    // The template says whether the agent is to commit, unless the settings do.
    if recipe.landing.commit == CommitPolicy::Agent && !loaded.is_set("commit") {
        recipe.landing.uncommitted = Uncommitted::Reported;
    }
    Ok(recipe)
}

fn build_workflow_defaults(
    workflow: &'static str,
    role: Role,
    template: Template,
) -> WorkflowDefaults<'static> {
    WorkflowDefaults {
        workflow,
        work: Work::Prompt(PromptSource::Template(template)),
        role,
        iterations: ITERATIONS,
        completion_response: "COMPLETE",
        commit: sections::CommitSetting::Agent,
        baseline: BaselinePolicy::Off,
        gates: &[],
        strategy: None,
        memory: None,
    }
}
