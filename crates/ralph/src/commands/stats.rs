//! `ralph stats`: figures over all runs of a project.
//!
//! Not here: counting (`ralph_core::reporting::stats`) and reading (`run_stats`).

use ralph_io::clock;
use ralph_model::outcome::ExitStatus;
use ralph_model::units::{Millis, Timestamp};
use ralph_ui::stats::describe_stats;
use ralph_ui::time::WallClock;

use crate::cli::CommonArgs;
use crate::cli::stats::StatsArgs;
use crate::cli_error::CliError;
use crate::project::Project;
use crate::run_stats::read_project_stats;
use crate::screen;

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

/// Reads `7d`, `12h`, `2w` or a date such as `2026-11-01`.
fn parse_since(text: &str) -> Result<Timestamp, CliError> {
    const HOUR: u64 = 60 * 60 * 1000;
    let span = |suffix: char, hours: u64| {
        let count: u64 = text.strip_suffix(suffix)?.parse().ok()?;
        Some(Millis(count.saturating_mul(hours * HOUR)))
    };
    let span = span('h', 1).or_else(|| span('d', 24)).or_else(|| span('w', 7 * 24));
    if let Some(span) = span {
        let back = i64::try_from(span.0).unwrap_or(i64::MAX);
        return Ok(Timestamp(clock::now().0.saturating_sub(back)));
    }
    let day = text.parse::<jiff::civil::Date>().ok();
    let start = day.and_then(|day| day.to_zoned(clock::find_local_zone()).ok());
    start.map(|start| Timestamp(start.timestamp().as_millisecond())).ok_or_else(|| {
        CliError::for_input(format!("`{text}` is not a start time"))
            .with_hint("write 12h, 7d, 2w or a date such as 2026-11-01")
    })
}
