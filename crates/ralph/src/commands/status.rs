//! `ralph status`: where the last run of this directory stands.

use ralph_core::outcome::{ExitStatus, Outcome};
use ralph_io::store::{Lock, runs};
use serde_json::json;

use super::report;
use crate::cli::{CommonArgs, StatusArgs};
use crate::complaint::Complaint;
use crate::project::Project;
use crate::screen::{self, Screen};

/// Prints where the last run stands.
pub(crate) fn main(common: &CommonArgs, args: &StatusArgs) -> Result<ExitStatus, Complaint> {
    let project = Project::open(common)?;
    let loaded = project.settings(None, Vec::new())?;
    let layout = project.layout(&loaded)?;
    let Some(last) = runs::runs(layout.state()).into_iter().find(|run| run.started.is_some())
    else {
        let text = if args.json { "{\"run\":null}\n" } else { "No run yet in this directory.\n" };
        screen::print_data(text);
        return Ok(ExitStatus::Complete);
    };
    let (report, summary) = report::read(&layout.run(&last.id).journal())?;
    let holder = Lock::look(layout.state());
    let standing = match (&holder, &summary.ending) {
        (Some(holder), _) => match holder {
            Some(holder) => format!("active (pid {})", holder.pid),
            None => "active".to_owned(),
        },
        (None, Some(ending)) => ending.clone(),
        (None, None) => "cut off; `ralph resume` goes on with it".to_owned(),
    };
    if args.json {
        let facts = json!({
            "run": summary.run,
            "active": holder.is_some(),
            "pid": holder.flatten().map(|holder| holder.pid),
            "outcome": summary.outcome,
            "resumable": summary.outcome.as_ref().is_none_or(Outcome::is_resumable),
            "iteration": summary.total.iterations,
            "maximumIterations": summary.maximum_iterations,
            "totals": report.state().map(|state| state.totals),
            "ranMs": summary.total.ran,
            "lastGates": report.last_gates(),
            "questions": summary.questions,
            "current": summary.current,
            "progress": summary.progress,
            "tasks": summary.tasks,
            "autoApproved": summary.auto_approved,
            "diverging": summary.diverging,
        });
        screen::print_data(&format!("{facts:#}\n"));
    } else {
        let style = Screen::for_stdout(common, &loaded.settings.ui).style;
        screen::print_data(&ralph_ui::status::describe(&summary, &standing, &style));
    }
    Ok(ExitStatus::Complete)
}
