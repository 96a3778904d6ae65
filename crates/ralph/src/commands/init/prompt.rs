//! What a prompt in a loop needs: settings, and nothing else.
//!
//! Not here: the prompt, which is given on the command line or in a file.

use super::{Account, name_the_agent, write_settings};
use crate::cli::{CommonArgs, InitArgs};
use crate::complaint::Complaint;
use crate::detect;
use crate::project::{Project, complain_of_layout};
use crate::settings::types::sections::Workflow;

/// Writes settings for a prompt, and returns the account of it.
pub(super) fn init(common: &CommonArgs, args: &InitArgs) -> Result<String, Complaint> {
    let given = [("--name", args.name.is_some()), ("--force", args.force)];
    if let Some((flag, _)) = given.iter().find(|(_, is_given)| *is_given) {
        return Err(Complaint::input(format!(
            "`{flag}` is about documents, and a prompt has none"
        ))
        .hint("ralph init --workflow prompt"));
    }
    let project = Project::open(common)?;
    let loaded = project.settings_as_written(None, Vec::new())?;
    let mut account = Account::default();
    let layout = project.layout(&loaded)?;
    layout.prepare_project().map_err(|error| complain_of_layout(&error))?;
    let found = detect::gates(&project.directory);
    write_settings(&project, "prompt", &found, &mut account)?;
    let response = loaded.settings.completion_response.as_deref().unwrap_or("DONE");
    let mut next: Vec<String> = name_the_agent(&loaded).into_iter().collect();
    next.push(format!(
        "ralph run -p \"Do this and that. When all is done, answer <response>{response}</response>.\""
    ));
    let checks = account.gates(&loaded, &found);
    Ok(account.text(&loaded, Workflow::Prompt, &checks, &next))
}
