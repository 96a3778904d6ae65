//! Plans the files of the prompt workflow: settings, and nothing else.
//!
//! Not here: the prompt, which is given on the command line or in a file.

use super::steps::InitSteps;
use super::{InitPlan, InitSetup};
use crate::cli_error::CliError;
use crate::settings::types::sections::WorkflowSetting;

/// Plans settings for the prompt workflow.
pub(super) fn plan_prompt(setup: &InitSetup<'_>) -> Result<InitPlan, CliError> {
    let args = setup.args;
    let given = [("--name", args.name.is_some()), ("--force", args.force)];
    if let Some((flag, _)) = given.iter().find(|(_, is_given)| *is_given) {
        return Err(CliError::for_input(format!(
            "`{flag}` is about documents, and a prompt has none"
        ))
        .with_hint("ralph init --workflow prompt"));
    }
    let draft = setup.build_draft(WorkflowSetting::Prompt, &setup.found);
    let mut steps = InitSteps::default();
    setup.write_settings(&draft, &mut steps);
    let mut found = setup.describe_found_agent(&draft);
    if setup.answered.is_none() && !setup.keeps_settings() {
        found.extend(setup.describe_found_checks());
    }
    let mut next: Vec<String> = setup.find_agent_hint(&draft).into_iter().collect();
    // The instruction for the completion response is appended to it.
    next.push("ralph run \"Implement X, with tests.\"".to_owned());
    let checks = setup.describe_gates(&draft);
    Ok(InitPlan { workflow: WorkflowSetting::Prompt, found, steps, checks, next })
}
