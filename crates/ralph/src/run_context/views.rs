//! The views of a run: the terminal, plain or full, and the logs in the project.

use ralph_core::ports::Ui;
use ralph_io::clock;
use ralph_io::mask::{MaskWriter, Masker};
use ralph_io::store::files;
use ralph_model::ids::RunId;
use ralph_model::outcome::ExitStatus;
use ralph_ui::session::SessionLog;
use ralph_ui::style::Style;
use ralph_ui::time::WallClock;
use ralph_ui::tui::{FullScreen, FullScreenSetup};
use ralph_ui::view::{Fanout, TerminalView, Verbosity, ViewOptions};
use ralph_ui::writer::NonBlocking;

use super::RunContext;
use crate::settings::types::sections::LogLevelSetting;
use crate::{full_screen, recording, screen};

impl RunContext {
    /// Returns the views of a run: the terminal and the logs in the project.
    pub(crate) fn build_views(
        &self,
        run: &RunId,
        incomplete: ExitStatus,
        masker: &Masker,
    ) -> Fanout<'static> {
        let options = |style: Style, verbosity, shows_agent| ViewOptions {
            style,
            verbosity,
            shows_agent,
            clock: WallClock { zone: clock::find_local_zone(), now: clock::now },
            columns: screen::count_terminal_columns,
        };
        let style = self.screen.style.clone();
        let options_here = options(style, self.screen.verbosity, self.shows_agent);
        let mut terminal =
            TerminalView::new(MaskWriter::new(masker, self.out.clone()), options_here.clone());
        for remark in &self.remarks {
            terminal.write_remark(remark);
        }
        let mut views = vec![self.build_terminal_view(run, masker, options_here, terminal)];
        // A missing log is no reason to stop; the journal has everything.
        if let Ok(log) = files::open_log(&self.layout) {
            let style = self.screen.style.for_log();
            let verbosity = match self.log_level {
                LogLevelSetting::Debug => Verbosity::Verbose,
                LogLevelSetting::Info => Verbosity::Normal,
                LogLevelSetting::Warn | LogLevelSetting::Error => Verbosity::Quiet,
            };
            let options = options(style, verbosity, false);
            let log = MaskWriter::new(masker, log);
            views.push(Box::new(TerminalView::new(log, options)));
        }
        if let Ok(log) = files::open_session_log(&self.layout, clock::now(), run) {
            let log = SessionLog::new(
                MaskWriter::new(masker, log),
                WallClock { zone: clock::find_local_zone(), now: clock::now },
            );
            views.push(Box::new(log.with_incomplete_status(incomplete)));
        }
        Fanout::new(views)
    }

    /// Returns the terminal view: plain lines, or the full screen with the plain view as fallback.
    fn build_terminal_view(
        &self,
        run: &RunId,
        masker: &Masker,
        options: ViewOptions,
        plain: TerminalView<MaskWriter<NonBlocking>>,
    ) -> Box<dyn Ui> {
        if !self.wants_tui {
            return Box::new(plain);
        }
        let device = match full_screen::open_device(screen::open_stderr()) {
            Ok(device) => device,
            Err(why) => {
                self.out.write_line(&format!(
                    "warning: no full screen: {why}; continuing with plain lines"
                ));
                return Box::new(plain);
            }
        };
        let files = self.layout.run_dir(run);
        let send = full_screen::request_sender(files.path());
        let plan_masker = masker.clone();
        let read_plan = Box::new(move || recording::read_masked_plan(&files, &plan_masker));
        let screen = self.full_screen.clone();
        let setup = FullScreenSetup { device, send, read_plan, screen, options };
        Box::new(FullScreen::start(setup, |screen| MaskWriter::new(masker, screen), plain))
    }
}
