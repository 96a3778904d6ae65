//! `ralph tasks proposals`: shows and decides changes of the task list that agents proposed.
//!
//! Not here: where they are stored, and what makes an amendment a proposal.

use ralph_core::nearest::find_nearest;
use ralph_core::tasks::amend::accept_proposal;
use ralph_io::clock;
use ralph_io::formats::TaskFile;
use ralph_io::process::Watch;
use ralph_io::store::proposals::{self, ProposalDecision, StoredProposal};
use ralph_io::store::{LockError, ProjectLayout, RunLock};
use ralph_model::handoff::Amendment;
use ralph_model::outcome::ExitStatus;
use ralph_ui::sanitize;
use serde_json::{Value, json};

use super::{TaskCommandContext, print_json};
use crate::cli::ProposalsCommand;
use crate::cli_error::CliError;
use crate::project::Project;
use crate::screen;
use crate::settings::LoadedSettings;

/// Runs the command.
pub(super) fn main(
    context: &TaskCommandContext<'_>,
    file: TaskFile,
    command: Option<&ProposalsCommand>,
) -> Result<(), CliError> {
    let repository = context.project.find_repository(&Watch::new_detached())?;
    let layout = context.project.find_layout_in(context.loaded, repository.as_ref())?;
    match command {
        None => print_open(context, &layout, &file),
        Some(ProposalsCommand::Accept { id }) => {
            decide_proposal(context, &layout, file, id, ProposalDecision::Accepted)
        }
        Some(ProposalsCommand::Reject { id }) => {
            decide_proposal(context, &layout, file, id, ProposalDecision::Rejected)
        }
    }
}

/// Returns how many proposals about the project's task file wait for the user.
pub(crate) fn count_open_proposals(
    project: &Project,
    loaded: &LoadedSettings,
    layout: &ProjectLayout,
) -> usize {
    match crate::task_file::find_task_file(project, &loaded.settings, None) {
        Ok(file) => proposals::count_open(layout.state(), &file),
        Err(_) => 0,
    }
}

/// Returns a line about open proposals; empty if there are none.
pub(crate) fn format_reminder(open: usize) -> String {
    match open {
        0 => String::new(),
        1 => "1 proposal of an agent waits for you: ralph tasks proposals\n".to_owned(),
        open => format!("{open} proposals of agents wait for you: ralph tasks proposals\n"),
    }
}

fn read_open(layout: &ProjectLayout, file: &TaskFile) -> Result<Vec<StoredProposal>, CliError> {
    let all = proposals::read_proposals(layout.state(), file.path())
        .map_err(CliError::from_input_error)?;
    Ok(all.into_iter().filter(|stored| stored.decision == ProposalDecision::Open).collect())
}

fn print_open(
    context: &TaskCommandContext<'_>,
    layout: &ProjectLayout,
    file: &TaskFile,
) -> Result<(), CliError> {
    let open = read_open(layout, file)?;
    if context.json {
        let facts: Vec<Value> =
            open.iter().map(|stored| convert_proposal_to_json(stored, file)).collect();
        print_json(&json!({"file": context.format_path(file.path()), "proposals": facts}));
        return Ok(());
    }
    if open.is_empty() {
        screen::print_data("No proposal waits for you.\n");
        return Ok(());
    }
    let mut text = String::new();
    for stored in &open {
        text.push_str(&format_proposal(stored, file));
        text.push('\n');
    }
    text.push_str(
        "Decide with `ralph tasks proposals accept ID` or `ralph tasks proposals reject ID`.\n",
    );
    screen::print_data(&text);
    Ok(())
}

/// Formats a proposal in full: the user accepts exactly what is shown.
fn format_proposal(stored: &StoredProposal, file: &TaskFile) -> String {
    let StoredProposal { proposal, iteration, .. } = stored;
    let (summary, reason) = (proposal.summary(), proposal.reason());
    let mut lines = vec![format!("{}  {summary}", proposal.id)];
    if !reason.is_empty() {
        lines.push(format!("  reason (iteration {iteration}): {reason}"));
    }
    match &proposal.amendment {
        Amendment::Add { task, .. } => {
            let fields = task.as_object().into_iter().flatten();
            lines.extend(fields.map(|(key, value)| format!("  {key}: {}", format_value(value))));
        }
        Amendment::Modify { changes, task_id, .. } => {
            let done = super::collect_done_ids(file.list());
            let now =
                file.list().find_task(task_id).map(|task| super::convert_task_to_json(task, &done));
            for (key, value) in changes.as_object().into_iter().flatten() {
                let old = now.as_ref().and_then(|now| now.get(to_camel_case(key)));
                let old = old.map(format_value).unwrap_or_default();
                lines.push(format!("  {key}: {old} → {}", format_value(value)));
            }
        }
        Amendment::Remove { task_id, .. } => {
            let title = file.list().find_task(task_id).map(|task| task.title.clone());
            lines.extend(title.map(|title| format!("  title: {title}")));
        }
        Amendment::Unreadable { .. } => {}
    }
    if let Err(why) = accept_proposal(proposal, file.list()) {
        lines.push(format!("  cannot be accepted now: {why}"));
    }
    let lines =
        lines.iter().map(|line| format!("{}\n", sanitize::sanitize_text(&line.replace('\n', " "))));
    lines.collect()
}

fn format_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(entries) => entries.iter().map(format_value).collect::<Vec<_>>().join("; "),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// Returns the name of a field in the JSON output of a task.
fn to_camel_case(key: &str) -> String {
    let mut words = key.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let mut letters = word.chars();
        let head = letters.next().map(|letter| letter.to_ascii_uppercase());
        head.into_iter().chain(letters).fold(name, |mut name, letter| {
            name.push(letter);
            name
        })
    })
}

fn convert_proposal_to_json(stored: &StoredProposal, file: &TaskFile) -> Value {
    let StoredProposal { proposal, iteration, .. } = stored;
    json!({
        "id": proposal.id,
        "summary": proposal.summary(),
        "reason": proposal.reason(),
        "iteration": iteration,
        "amendment": proposal.amendment,
        "conflict": accept_proposal(proposal, file.list()).err(),
    })
}

fn decide_proposal(
    context: &TaskCommandContext<'_>,
    layout: &ProjectLayout,
    mut file: TaskFile,
    id: &str,
    decision: ProposalDecision,
) -> Result<(), CliError> {
    layout.prepare_state().map_err(CliError::from_input_error)?;
    let _lock = RunLock::acquire(layout.state(), clock::now()).map_err(|error| match &error {
        LockError::Busy(_) => CliError::new(ExitStatus::Busy, error.to_string())
            .with_hint("proposals are decided while no run is active: `ralph stop` first, `ralph resume` afterwards"),
        LockError::Refused { .. } => CliError::from_error(ExitStatus::BadInput, &error),
    })?;
    let open = read_open(layout, &file)?;
    let ids: Vec<&str> = open.iter().map(|stored| stored.proposal.id.as_str()).collect();
    let Some(stored) = open.iter().find(|stored| stored.proposal.id.eq_ignore_ascii_case(id))
    else {
        let near =
            find_nearest(id, ids.iter().copied()).map(|near| format!("did you mean `{near}`?"));
        return Err(CliError::for_input(format!("no open proposal `{id}`"))
            .with_hint(near.unwrap_or_else(|| "`ralph tasks proposals` lists them".to_owned())));
    };
    let (id, summary) = (&stored.proposal.id, stored.proposal.summary());
    if decision == ProposalDecision::Accepted {
        let change = accept_proposal(&stored.proposal, file.list()).map_err(|why| {
            CliError::for_input(format!("proposal `{id}` cannot be accepted: {why}"))
        })?;
        context.write_changes(&mut file, &[change])?;
    }
    proposals::save_decision(layout.state(), file.path(), id, decision)
        .map_err(CliError::from_input_error)?;
    let word = if decision == ProposalDecision::Accepted { "accepted" } else { "rejected" };
    if context.json {
        print_json(&json!({"id": id, "decision": word, "summary": summary}));
    } else {
        screen::print_data(&sanitize::sanitize_text(&format!("{word} {id}: {summary}\n")));
    }
    Ok(())
}
