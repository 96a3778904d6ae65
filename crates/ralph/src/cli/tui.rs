//! The options about the full-screen view.
//!
//! Not here: what it shows.

use clap::Args;

use crate::settings::FlagSetting;

/// Options about the full-screen view.
#[derive(Debug, Clone, Args)]
pub(crate) struct TuiArgs {
    /// Show the run on a full screen, with keys to pause, stop, skip tasks and send notes.
    #[arg(long, overrides_with = "no_tui")]
    pub(crate) tui: bool,
    /// Show it line by line; this is the default.
    #[arg(long)]
    pub(crate) no_tui: bool,
}

impl TuiArgs {
    /// Returns the setting of the flags.
    pub(crate) fn to_flag_value(&self) -> Option<FlagSetting> {
        let (name, value) = match (self.tui, self.no_tui) {
            (true, _) => ("--tui", true),
            (false, true) => ("--no-tui", false),
            (false, false) => return None,
        };
        Some(FlagSetting::new(name, "ui.tui", value))
    }
}
