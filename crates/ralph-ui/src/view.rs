//! The view of a run in a terminal, a pipe or a log file, and several views at once.
//!
//! A view never stops a run: it keeps the first write error instead of returning it. Not here:
//! the lines themselves (`lines`, `stream`, `verbose`, `run_summary`).

use std::io::{self, Write};

use ralph_core::ports::{Activity, Ui};
use ralph_core::reporting::current_action::ActionTracker;
use ralph_model::agent_output::AgentEvent;
use ralph_model::event::{Event, Recorded};
use ralph_model::run::RunState;
use ralph_model::units::Millis;

use crate::action_line::{format_action, format_figures};
use crate::line_writer::LineWriter;
use crate::lines::RunLines;
pub use crate::lines::Verbosity;
use crate::sanitize;
use crate::stream::StreamPrinter;
use crate::style::{LineMark, Style};
use crate::time::WallClock;
use crate::verbose::{self, VerboseLines};

/// Printed at the first signal, before the current operation has ended.
pub const SHUTTING_DOWN: &str = "Received signal, shutting down...";

/// The settings of a view.
#[derive(Debug, Clone)]
pub struct ViewOptions {
    pub style: Style,
    pub verbosity: Verbosity,
    /// Whether the agent's messages and tool calls are shown, or only a summary of each call.
    pub shows_agent: bool,
    pub clock: WallClock,
    /// Returns the columns of the terminal, which may have been resized; `None` elsewhere.
    pub columns: fn() -> Option<usize>,
}

/// Shows a run as lines on a writer.
#[derive(Debug)]
pub struct TerminalView<W: Write> {
    writer: LineWriter<W>,
    verbosity: Verbosity,
    shows_agent: bool,
    lines: RunLines,
    stream: StreamPrinter,
    remarks: VerboseLines,
    tracker: ActionTracker,
}

impl<W: Write> TerminalView<W> {
    /// Returns a view that writes to `out`.
    pub fn new(out: W, options: ViewOptions) -> Self {
        let ViewOptions { style, verbosity, shows_agent, clock, columns } = options;
        let mut writer = LineWriter::new(out, style, clock);
        writer.set_columns(columns);
        Self {
            writer,
            verbosity,
            shows_agent,
            lines: RunLines::default(),
            stream: StreamPrinter::default(),
            remarks: VerboseLines::default(),
            tracker: ActionTracker::default(),
        }
    }

    /// Shows in the last line what the agent is doing and for how long, if the line can be rewritten.
    fn show_live_line(&mut self, ran: Millis) {
        if let Some(current) = self.tracker.current() {
            let text = format!("{} {}", format_figures(current, ran), format_action(current));
            self.writer.write_live(LineMark::Busy, &text);
        }
    }

    /// Writes a `[ralph]` line if the view is verbose, such as which settings were loaded.
    pub fn write_remark(&mut self, text: &str) {
        if self.verbosity == Verbosity::Verbose {
            self.writer.update_time();
            for line in sanitize::sanitize_text(text).lines() {
                verbose::write_remark(&mut self.writer, line);
            }
        }
    }

    /// Returns the first error of the writer, if there was one.
    pub fn first_error(&self) -> Option<&io::Error> {
        self.writer.first_error()
    }
}

impl<W: Write> Ui for TerminalView<W> {
    fn show_event(&mut self, recorded: &Recorded, state: &RunState) {
        self.writer.set_time(recorded.at);
        self.tracker.apply_event(recorded, state);
        if let Event::Asked { .. } | Event::Replied { .. } | Event::RunEnded { .. } =
            &recorded.event
        {
            self.stream.end_stream(&mut self.writer);
        }
        let is_verbose = self.verbosity == Verbosity::Verbose;
        if is_verbose {
            VerboseLines::print_before(&mut self.writer, recorded, state);
        }
        self.lines.print_event(&mut self.writer, self.verbosity, recorded, state);
        if is_verbose {
            self.remarks.print_after(&mut self.writer, recorded, state);
        }
    }

    fn show_agent_event(&mut self, event: &AgentEvent) {
        if self.verbosity == Verbosity::Quiet {
            return;
        }
        self.tracker.apply_agent_event(event);
        if let AgentEvent::StillRunning { ran } = event {
            self.show_live_line(*ran);
        } else if self.shows_agent {
            self.writer.update_time();
            self.stream.print_event(&mut self.writer, event);
        }
    }

    fn show_activity(&mut self, activity: &Activity<'_>) {
        if self.verbosity == Verbosity::Quiet {
            return;
        }
        self.writer.update_time();
        if let (Verbosity::Verbose, Activity::Gate(gate)) = (self.verbosity, activity) {
            verbose::print_gate_start(&mut self.writer, gate);
        }
        self.lines.show_activity(&mut self.writer, activity);
    }
}

/// Forwards every event to several views.
#[derive(Default)]
pub struct Fanout<'a> {
    views: Vec<Box<dyn Ui + 'a>>,
}

impl<'a> Fanout<'a> {
    /// Returns a fanout to these views.
    pub fn new(views: Vec<Box<dyn Ui + 'a>>) -> Self {
        Self { views }
    }
}

impl Ui for Fanout<'_> {
    fn show_event(&mut self, recorded: &Recorded, state: &RunState) {
        for view in &mut self.views {
            view.show_event(recorded, state);
        }
    }

    fn show_agent_event(&mut self, event: &AgentEvent) {
        for view in &mut self.views {
            view.show_agent_event(event);
        }
    }

    fn show_activity(&mut self, activity: &Activity<'_>) {
        for view in &mut self.views {
            view.show_activity(activity);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
