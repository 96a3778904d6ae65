//! A run that died: what it leaves to whoever comes next.
//!
//! Its journal has no end, and its agent may have done anything to the task list or the plan. The next
//! command that uses the list puts it right and writes the end down, once. Not here: going on
//! with the run, which stays possible.

use ralph_core::event::{Event, Recorded};
use ralph_core::outcome::{ExitStatus, Outcome};
use ralph_io::clock;
use ralph_io::store::{self, Journal, Lock, journal, runs};

use crate::complaint::Complaint;
use crate::project::Project;
use crate::settings::Loaded;

/// Puts the task list or the plan right if the last run died, and returns what a person should know.
pub(crate) fn put_right(project: &Project, loaded: &Loaded) -> Result<Vec<String>, Complaint> {
    let layout = project.layout(loaded)?;
    let last = runs::runs(layout.state()).into_iter().find(|run| run.started.is_some());
    let (Some(last), None) = (last, Lock::look(layout.state())) else { return Ok(Vec::new()) };
    let path = layout.run(&last.id).journal();
    // A journal that cannot be read is told about by who needs it.
    let Ok(state) = journal::fold(&path) else { return Ok(Vec::new()) };
    if state.outcome.is_some() || state.project != project.directory {
        return Ok(Vec::new());
    }
    let put_back = store::put_right(&layout, &state)
        .map_err(|error| Complaint::of(ExitStatus::BadInput, &error))?;
    let plan = store::plan::put_right(&layout, &state)
        .transpose()
        .map_err(|error| Complaint::of(ExitStatus::BadInput, &error))?;
    let end = Recorded {
        seq: state.seq + 1,
        at: clock::now(),
        ran: state.ran,
        event: Event::RunEnded { outcome: Outcome::Interrupted },
    };
    // If the end cannot be written down, the next command comes here again.
    let _ = Journal::open_for_append(&path).map(|mut journal| journal.append(&end));
    let run = &state.run;
    let tasks = put_back
        .into_iter()
        .map(|what| format!("run {run} died, and this was put back in the task list: {what}"));
    Ok(tasks.chain(plan.map(|what| format!("run {run} died: {what}"))).collect())
}
