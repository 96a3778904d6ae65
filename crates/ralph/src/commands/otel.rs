//! `ralph otel export`: sends a run to a collector, after it is over.
//!
//! Not here: what is sent (`ralph_core::telemetry`).

use ralph_core::outcome::ExitStatus;
use ralph_io::telemetry::Shipment;

use super::log;
use crate::cli::CommonArgs;
use crate::cli::notify::{OtelArgs, OtelCommand};
use crate::complaint::Complaint;
use crate::project::Project;
use crate::screen;
use crate::telling::{self, Stopped};

/// Runs the command.
pub(crate) fn main(common: &CommonArgs, args: &OtelArgs) -> Result<ExitStatus, Complaint> {
    let OtelCommand::Export(args) = &args.command;
    let project = Project::open(common)?;
    let loaded = project.settings(args.config.as_deref(), Vec::new())?;
    let layout = project.layout(&loaded)?;
    let run = log::choose(layout.state(), args.run.as_deref())?;
    let collector = telling::collector(&project.env, &loaded)?;
    let refused = |why: String| {
        let message = format!("the collector did not take the run: {why}");
        Complaint::new(ExitStatus::Incomplete, message)
            .hint("`otel.endpoint` or OTEL_EXPORTER_OTLP_ENDPOINT says where it is")
    };
    let mut shipment = Shipment::new(&collector);
    telling::each_event(&layout.run(&run).journal(), |recorded, state| {
        shipment.add(recorded, state)
    })
    .map_err(|stopped| match stopped {
        Stopped::Unreadable(why) => Complaint::input(why),
        Stopped::Told(why) => refused(why),
    })?;
    let spans = shipment.finish().map_err(refused)?;
    screen::print_data(&format!("Sent run {run}: {spans} spans.\n"));
    Ok(ExitStatus::Complete)
}
