//! `ralph report`: prints the report of a run as Markdown, JSON, or a page.
//!
//! Not here: what it counts (`ralph_core::report`) and how the page looks (`ralph_ui::report`).

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use ralph_core::outcome::ExitStatus;
use ralph_core::report::{Report, Summary};
use ralph_io::store::{atomic, journal};

use super::pages::{Diffs, Look};
use super::{log, pages};
use crate::cli::{CommonArgs, ReportArgs};
use crate::complaint::Complaint;
use crate::project::Project;
use crate::screen;

/// Prints the report of a run.
pub(crate) fn main(common: &CommonArgs, args: &ReportArgs) -> Result<ExitStatus, Complaint> {
    let project = Project::open(common)?;
    let loaded = project.settings_as_written(None, Vec::new())?;
    let layout = project.layout(&loaded)?;
    let run = log::choose(layout.state(), args.run.as_deref())?;
    let (report, summary) = read(&layout.run(&run).journal())?;
    if let Some(path) = &args.html {
        let mut diffs = Diffs::of(&project, &report);
        let look = Look::at(layout.state(), &run, &report);
        let page = pages::document(&report, &summary, &project.directory, look, &mut diffs);
        write_page(common, &project, path, &page)?;
    } else if args.json {
        let text = serde_json::to_string_pretty(&summary)
            .map_err(|error| Complaint::of(ExitStatus::BadInput, &error))?;
        screen::print_data(&format!("{text}\n"));
    } else {
        screen::print_data(&ralph_ui::report::markdown(&summary));
    }
    Ok(ExitStatus::Complete)
}

/// Writes a page that everyone with access to the project may read, or prints it.
fn write_page(
    common: &CommonArgs,
    project: &Project,
    path: &Path,
    page: &str,
) -> Result<(), Complaint> {
    if path == Path::new("-") {
        screen::print_data(page);
        return Ok(());
    }
    let place = project.directory.join(path);
    atomic::replace_with(&place, page.as_bytes(), Permissions::from_mode(0o644))
        .map_err(|error| Complaint::input(format!("cannot write `{}`: {error}", path.display())))?;
    if !common.quiet {
        screen::say(&format!("{} is written ({} KB).", path.display(), page.len().div_ceil(1024)));
    }
    Ok(())
}

/// Reads the report and the summary of a journal, also of one that is still being written.
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
