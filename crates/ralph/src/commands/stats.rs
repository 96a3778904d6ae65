//! `ralph stats`: figures over all runs of a project.
//!
//! Not here: counting (`ralph_core::reporting::stats`) and reading (`run_stats`).

use ralph_io::clock;
use ralph_model::outcome::ExitStatus;
use ralph_ui::stats::describe_stats;
use ralph_ui::time::WallClock;

use crate::cli::CommonArgs;
use crate::cli::stats::StatsArgs;
use crate::cli_error::CliError;
use crate::project::Project;
use crate::run_stats::read_project_stats;
use crate::screen;
use crate::since::parse_since;

/// Prints the statistics of the runs of this project.
pub(crate) fn main(common: &CommonArgs, args: &StatsArgs) -> Result<ExitStatus, CliError> {
    let project = Project::open_nearest(common)?;
    let loaded = project.load_settings(None, Vec::new())?;
    let layout = project.find_layout(&loaded)?;
    let since = args.since.as_deref().map(parse_since).transpose()?;
    let stats = read_project_stats(layout.state(), since);
    if args.json {
        let text = serde_json::to_string_pretty(&stats).map_err(CliError::from_input_error)?;
        screen::print_data(&format!("{text}\n"));
    } else {
        let clock = WallClock { zone: clock::find_local_zone(), now: clock::now };
        screen::print_data(&describe_stats(&stats, &clock));
    }
    Ok(ExitStatus::Complete)
}
