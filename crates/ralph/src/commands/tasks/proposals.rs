//! `ralph tasks proposals`: shows and decides changes of the task list that agents proposed.
//!
//! Not here: where they are stored, and what makes an amendment a proposal.

use ralph_core::handoff::Amendment;
use ralph_core::nearest::nearest;
use ralph_core::outcome::ExitStatus;
use ralph_io::clock;
use ralph_io::formats::TaskFile;
use ralph_io::process::Watch;
use ralph_io::store::proposals::{self, Decision, StoredProposal};
use ralph_io::store::{Layout, Lock, LockError};
use ralph_ui::safe;
use serde_json::{Value, json};

use super::{Desk, print, write};
use crate::cli::ProposalsCommand;
use crate::complaint::Complaint;
use crate::project::{Project, complain_of_layout};
use crate::screen;
use crate::settings::Loaded;

/// Runs the command.
pub(super) fn main(
    context: &Desk<'_>,
    loaded: &Loaded,
    file: TaskFile,
    command: Option<&ProposalsCommand>,
) -> Result<(), Complaint> {
    let repository = context.project.repository(&Watch::detached())?;
    let layout = context.project.layout_in(loaded, repository.as_ref())?;
    match command {
        None => list(context, &layout, &file),
        Some(ProposalsCommand::Accept { id }) => {
            decide(context, &layout, file, id, Decision::Accepted)
        }
        Some(ProposalsCommand::Reject { id }) => {
            decide(context, &layout, file, id, Decision::Rejected)
        }
    }
}

/// Returns how many proposals about the project's task file wait for the user.
pub(crate) fn count_open(project: &Project, loaded: &Loaded, layout: &Layout) -> usize {
    match crate::task_file::find(project, &loaded.settings, None) {
        Ok(file) => proposals::count_open(layout.state(), &file),
        Err(_) => 0,
    }
}

/// Returns a line about open proposals; empty if there are none.
pub(crate) fn remind(open: usize) -> String {
    match open {
        0 => String::new(),
        1 => "1 proposal of an agent waits for you: ralph tasks proposals\n".to_owned(),
        open => format!("{open} proposals of agents wait for you: ralph tasks proposals\n"),
    }
}

fn open_ones(layout: &Layout, file: &TaskFile) -> Result<Vec<StoredProposal>, Complaint> {
    let all = proposals::read(layout.state(), file.path())
        .map_err(|error| Complaint::of(ExitStatus::BadInput, &error))?;
    Ok(all.into_iter().filter(|stored| stored.decision == Decision::Open).collect())
}

fn list(context: &Desk<'_>, layout: &Layout, file: &TaskFile) -> Result<(), Complaint> {
    let open = open_ones(layout, file)?;
    if context.json {
        let facts: Vec<Value> = open.iter().map(|stored| facts(stored, file)).collect();
        print(&json!({"file": context.name(file.path()), "proposals": facts}));
        return Ok(());
    }
    if open.is_empty() {
        screen::print_data("No proposal waits for you.\n");
        return Ok(());
    }
    let mut text = String::new();
    for stored in &open {
        text.push_str(&show(stored, file));
        text.push('\n');
    }
    text.push_str(
        "Decide with `ralph tasks proposals accept ID` or `ralph tasks proposals reject ID`.\n",
    );
    screen::print_data(&text);
    Ok(())
}

/// Formats a proposal in full: the user accepts exactly what is shown.
fn show(stored: &StoredProposal, file: &TaskFile) -> String {
    let StoredProposal { proposal, iteration, .. } = stored;
    let (summary, reason) = (proposal.summary(), proposal.reason());
    let mut lines = vec![format!("{}  {summary}", proposal.id)];
    if !reason.is_empty() {
        lines.push(format!("  reason (iteration {iteration}): {reason}"));
    }
    match &proposal.amendment {
        Amendment::Add { task, .. } => {
            let fields = task.as_object().into_iter().flatten();
            lines.extend(fields.map(|(key, value)| format!("  {key}: {}", plain(value))));
        }
        Amendment::Modify { changes, task_id, .. } => {
            let done = super::done_ids(file.list());
            let now = file.list().task(task_id).map(|task| super::facts(task, &done));
            for (key, value) in changes.as_object().into_iter().flatten() {
                let old = now.as_ref().and_then(|now| now.get(camel_case(key)));
                let old = old.map(plain).unwrap_or_default();
                lines.push(format!("  {key}: {old} → {}", plain(value)));
            }
        }
        Amendment::Remove { task_id, .. } => {
            let title = file.list().task(task_id).map(|task| task.title.clone());
            lines.extend(title.map(|title| format!("  title: {title}")));
        }
        Amendment::Unreadable { .. } => {}
    }
    if let Err(why) = proposal.accept(file.list()) {
        lines.push(format!("  cannot be accepted now: {why}"));
    }
    let lines = lines.iter().map(|line| format!("{}\n", safe::harmless(&line.replace('\n', " "))));
    lines.collect()
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(entries) => entries.iter().map(plain).collect::<Vec<_>>().join("; "),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// Returns the name of a field in the JSON output of a task.
fn camel_case(key: &str) -> String {
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

fn facts(stored: &StoredProposal, file: &TaskFile) -> Value {
    let StoredProposal { proposal, iteration, .. } = stored;
    json!({
        "id": proposal.id,
        "summary": proposal.summary(),
        "reason": proposal.reason(),
        "iteration": iteration,
        "amendment": proposal.amendment,
        "conflict": proposal.accept(file.list()).err(),
    })
}

fn decide(
    context: &Desk<'_>,
    layout: &Layout,
    mut file: TaskFile,
    id: &str,
    decision: Decision,
) -> Result<(), Complaint> {
    layout.prepare_state().map_err(|error| complain_of_layout(&error))?;
    let _lock = Lock::acquire(layout.state(), clock::now()).map_err(|error| match &error {
        LockError::Busy(_) => Complaint::new(ExitStatus::Busy, error.to_string())
            .hint("proposals are decided while no run is active: `ralph stop` first, `ralph resume` afterwards"),
        LockError::Refused { .. } => Complaint::of(ExitStatus::BadInput, &error),
    })?;
    let open = open_ones(layout, &file)?;
    let ids: Vec<&str> = open.iter().map(|stored| stored.proposal.id.as_str()).collect();
    let Some(stored) = open.iter().find(|stored| stored.proposal.id.eq_ignore_ascii_case(id))
    else {
        let near = nearest(id, ids.iter().copied()).map(|near| format!("did you mean `{near}`?"));
        return Err(Complaint::input(format!("no open proposal `{id}`"))
            .hint(near.unwrap_or_else(|| "`ralph tasks proposals` lists them".to_owned())));
    };
    let (id, summary) = (&stored.proposal.id, stored.proposal.summary());
    if decision == Decision::Accepted {
        let change = stored.proposal.accept(file.list()).map_err(|why| {
            Complaint::input(format!("proposal `{id}` cannot be accepted: {why}"))
        })?;
        write(&mut file, &[change])?;
    }
    proposals::decide(layout.state(), file.path(), id, decision)
        .map_err(|error| Complaint::of(ExitStatus::BadInput, &error))?;
    let word = if decision == Decision::Accepted { "accepted" } else { "rejected" };
    if context.json {
        print(&json!({"id": id, "decision": word, "summary": summary}));
    } else {
        screen::print_data(&safe::harmless(&format!("{word} {id}: {summary}\n")));
    }
    Ok(())
}
