//! `ralph report`: prints the report of a run as text, Markdown, JSON, or a page.
//!
//! Not here: what it counts (`ralph_core::reporting::report`) and how the page looks (`ralph_ui::report`).

use std::path::Path;

use ralph_core::reporting::report::{Report, Summary};
use ralph_io::store::layout::find_worker_run;
use ralph_io::store::{RunDir, journal};
use ralph_model::outcome::ExitStatus;

use super::log;
use super::pages::{self, AttemptDiffs};
use crate::browser;
use crate::cli::{CommonArgs, DEFAULT_PAGE, ReportArgs};
use crate::cli_error::CliError;
use crate::project::Project;
use crate::screen::{self, OutputStyle};
use crate::settings::types::sections::UiSettings;

/// Prints the report of a run.
pub(crate) fn main(common: &CommonArgs, args: &ReportArgs) -> Result<ExitStatus, CliError> {
    let project = Project::open_nearest(common)?;
    let loaded = project.load_settings(None, Vec::new())?;
    let layout = project.find_layout(&loaded)?;
    let run = log::choose_run(layout.state(), args.run.as_deref())?;
    let (report, summary) = read_report(&layout.run_dir(&run).journal_path())?;
    if let Some(task) = &args.task {
        let root = project.find_state_root(&loaded)?;
        let reports = read_worker_reports(&summary, task.trim(), &root)?;
        print_summaries(common, &reports, args.json, &loaded.settings.ui)?;
    } else if let Some(file) =
        args.html.as_deref().or_else(|| args.open.then(|| Path::new(DEFAULT_PAGE)))
    {
        let place = if file == Path::new(DEFAULT_PAGE) {
            project.directory.join(DEFAULT_PAGE.replace("RUN", &run.0))
        } else {
            // As seen from where the command was called, which may be below the project.
            Project::open(common)?.directory.join(file)
        };
        let mut diffs = AttemptDiffs::for_run(&project, &report);
        let activity = pages::find_activity(layout.state(), &run, &report);
        let page =
            pages::build_document(&report, &summary, &project.directory, activity, &mut diffs);
        if pages::is_stdout(file) {
            screen::print_data(&page);
            return Ok(ExitStatus::Complete);
        }
        if file == Path::new(DEFAULT_PAGE) {
            pages::write_own_result(&place, &page)?;
        } else {
            pages::write_result(&place, &place.display().to_string(), &page)?;
        }
        if !common.quiet {
            let kilobytes = page.len().div_ceil(1024);
            screen::print_line(&format!("{} is written ({kilobytes} KB).", place.display()));
        }
        if args.open
            && let Some(opened) = browser::open_page(&project, &place.to_string_lossy())
        {
            opened.release();
        }
    } else {
        print_summaries(common, &[summary], args.json, &loaded.settings.ui)?;
    }
    Ok(ExitStatus::Complete)
}

/// Prints reports one after the other.
fn print_summaries(
    common: &CommonArgs,
    summaries: &[Summary],
    json: bool,
    settings: &UiSettings,
) -> Result<(), CliError> {
    let style = OutputStyle::for_stdout(common, settings).style;
    for summary in summaries {
        let text = if json {
            serde_json::to_string_pretty(summary).map_err(CliError::from_input_error)? + "\n"
        } else {
            let page = ralph_ui::report::render_report(summary);
            if screen::is_stdout_terminal() {
                ralph_ui::report::render_for_terminal(&page, &style)
            } else {
                page
            }
        };
        screen::print_data(&text);
    }
    Ok(())
}

/// Reads the reports of the workers on a task, the first round first.
fn read_worker_reports(
    summary: &Summary,
    task: &str,
    root: &Path,
) -> Result<Vec<Summary>, CliError> {
    let Some(figures) = &summary.parallel_figures else {
        return Err(CliError::for_input(format!("run {} has no workers", summary.run))
            .with_hint("`ralph report` shows all its tasks; `ralph log --task` shows one"));
    };
    let rounds = figures.tasks.iter().find(|it| it.task.0 == task).ok_or_else(|| {
        CliError::for_input(format!("no worker of run {} worked on `{task}`", summary.run))
    })?;
    let mut reports = Vec::new();
    for worker in &rounds.workers {
        match find_worker_run(root, &worker.worker) {
            Some(known) => {
                let files = RunDir::from_path(known.state.join("runs").join(&worker.worker.0));
                reports.push(read_report(&files.journal_path())?.1);
            }
            None => screen::print_warning(&format!("the run {} is gone", worker.worker)),
        }
    }
    Ok(reports)
}

/// Reads the report and the summary of a journal, also of one that is still being written.
pub(super) fn read_report(path: &Path) -> Result<(Report, Summary), CliError> {
    let mut report = Report::default();
    for recorded in journal::open_for_reading(path).map_err(CliError::from_input_error)? {
        let recorded = recorded.map_err(CliError::from_input_error)?;
        report.apply_event(&recorded).map_err(CliError::from_input_error)?;
    }
    let summary = report.summary().ok_or_else(|| {
        CliError::for_input(format!("`{}` is empty: the run has not begun", path.display()))
    })?;
    Ok((report, summary))
}
