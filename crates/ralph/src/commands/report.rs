//! `ralph report`: the account of a run, as Markdown or as JSON.
//!
//! Not here: what it counts (`ralph_core::report`) and how the page looks (`ralph_ui::report`).

use std::path::Path;

use ralph_core::outcome::ExitStatus;
use ralph_core::report::{Report, Summary};
use ralph_io::store::journal;

use super::log;
use crate::cli::{CommonArgs, ReportArgs};
use crate::complaint::Complaint;
use crate::project::Project;
use crate::screen;

/// Prints the account of a run.
pub(crate) fn main(common: &CommonArgs, args: &ReportArgs) -> Result<ExitStatus, Complaint> {
    let project = Project::open(common)?;
    let loaded = project.settings_as_written(None, Vec::new())?;
    let layout = project.layout(&loaded)?;
    let run = log::choose(layout.state(), args.run.as_deref())?;
    let (_, summary) = read(&layout.run(&run).journal())?;
    if args.json {
        let text = serde_json::to_string_pretty(&summary)
            .map_err(|error| Complaint::of(ExitStatus::BadInput, &error))?;
        screen::print_data(&format!("{text}\n"));
    } else {
        screen::print_data(&ralph_ui::report::markdown(&summary));
    }
    Ok(ExitStatus::Complete)
}

/// Returns the account of a journal, and what it comes to. One that is being written is read as far as it goes.
pub(super) fn read(path: &Path) -> Result<(Report, Summary), Complaint> {
    let unreadable = |error: &dyn std::error::Error| Complaint::of(ExitStatus::BadInput, error);
    let mut report = Report::default();
    for recorded in journal::read(path).map_err(|error| unreadable(&error))? {
        let recorded = recorded.map_err(|error| unreadable(&error))?;
        report.apply(&recorded).map_err(|error| unreadable(&error))?;
    }
    let summary = report.summary().ok_or_else(|| {
        Complaint::input(format!("`{}` is empty: the run has not begun", path.display()))
    })?;
    Ok((report, summary))
}
