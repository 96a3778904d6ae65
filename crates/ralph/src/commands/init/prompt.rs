//! Plans the files of the prompt workflow: settings, and nothing else.
//!
//! Not here: the prompt, which is given on the command line or in a file.

use super::steps::Steps;
use super::{Outline, Setup};
use crate::cli::WorkflowChoice;
use crate::complaint::Complaint;

/// Plans settings for the prompt workflow.
pub(super) fn outline(setup: &Setup<'_>) -> Result<Outline, Complaint> {
    let args = setup.args;
    let given = [("--name", args.name.is_some()), ("--force", args.force)];
    if let Some((flag, _)) = given.iter().find(|(_, is_given)| *is_given) {
        return Err(Complaint::input(format!(
            "`{flag}` is about documents, and a prompt has none"
        ))
        .hint("ralph init --workflow prompt"));
    }
    let draft = setup.draft(WorkflowChoice::Prompt, &setup.found);
    let mut steps = Steps::default();
    setup.write_settings(&draft, &mut steps);
    let mut found = setup.found_lines(&draft);
    if setup.answered.is_none() && !setup.settings_stay() {
        found.extend(setup.found_checks());
    }
    let response = setup.loaded.settings.completion_response.as_deref().unwrap_or("DONE");
    let mut next: Vec<String> = setup.name_the_agent(&draft).into_iter().collect();
    next.push(format!(
        "ralph run -p \"Do this and that. When all is done, answer <response>{response}</response>.\""
    ));
    let checks = setup.gates_in_words(&draft);
    Ok(Outline { workflow: WorkflowChoice::Prompt, found, steps, checks, next })
}
