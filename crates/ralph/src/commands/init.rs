//! `ralph init --print-schema`: what settings files may contain.

use ralph_core::outcome::ExitStatus;

use crate::cli::InitArgs;
use crate::screen;
use crate::settings;

/// Prints the JSON Schema of the settings.
pub(crate) fn main(args: &InitArgs) -> ExitStatus {
    if args.print_schema {
        screen::print_data(&format!("{:#}\n", settings::json_schema()));
    }
    ExitStatus::Complete
}
