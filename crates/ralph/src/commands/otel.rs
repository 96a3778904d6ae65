//! `ralph otel export`: sends a run to a collector, after it is over.
//!
//! Not here: what is sent (`ralph_core::reporting::telemetry`).

use ralph_io::telemetry::Shipment;
use ralph_model::outcome::ExitStatus;

use super::log;
use crate::cli::CommonArgs;
use crate::cli::notify::{OtelArgs, OtelCommand};
use crate::cli_error::CliError;
use crate::project::Project;
use crate::screen;
use crate::subscribers::{self, ReplayError};

/// Runs the command.
pub(crate) fn export_run(common: &CommonArgs, args: &OtelArgs) -> Result<ExitStatus, CliError> {
    let OtelCommand::Export(args) = &args.command;
    let project = Project::open_nearest(common)?;
    let loaded = project.load_trusted_settings(args.config.as_deref(), Vec::new())?;
    let layout = project.find_layout(&loaded)?;
    let run = log::choose_run(layout.state(), args.run.as_deref())?;
    let collector = subscribers::build_collector(&project.env, &loaded)?;
    let refused = |why: String| {
        let message = format!("the collector did not accept the run: {why}");
        CliError::new(ExitStatus::Incomplete, message)
            .with_hint("`otel.endpoint` or OTEL_EXPORTER_OTLP_ENDPOINT says where it is")
    };
    let mut shipment = Shipment::new(&collector, layout.root());
    subscribers::replay_journal(&layout.run_dir(&run).journal_path(), |recorded, state| {
        shipment.add_event(recorded, state)
    })
    .map_err(|stopped| match stopped {
        ReplayError::Unreadable(why) => CliError::for_input(why),
        ReplayError::Receiver(why) => refused(why),
    })?;
    let spans = shipment.finish().map_err(refused)?;
    screen::print_data(&format!("Sent run {run}: {spans} spans.\n"));
    Ok(ExitStatus::Complete)
}
