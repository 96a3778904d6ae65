//! The view of a run in a terminal, a pipe or a log file, and several views at once.
//!
//! A view never stops a run: it keeps the first write error instead of returning it. Not here:
//! the lines themselves (`lines`, `stream`, `verbose`, `run_summary`).

use std::io::{self, Write};

use ralph_core::agent_output::AgentEvent;
use ralph_core::event::{Event, Recorded};
use ralph_core::ports::{Activity, Ui};
use ralph_core::run::RunState;

use crate::line_writer::LineWriter;
use crate::lines::RunLines;
pub use crate::lines::Verbosity;
use crate::sanitize;
use crate::stream::StreamPrinter;
use crate::style::Style;
use crate::time::WallClock;
use crate::verbose::{self, VerboseLines};

/// Printed at the first signal, before the current operation has ended.
pub const SHUTTING_DOWN: &str = "Received signal, shutting down...";

/// Whether the agent's messages and tool calls are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AgentStream {
    #[default]
    Shown,
    /// Only the summary line of each call.
    Hidden,
}

/// The settings of a view.
#[derive(Debug, Clone)]
pub struct ViewOptions {
    pub style: Style,
    pub verbosity: Verbosity,
    pub agent_stream: AgentStream,
    pub clock: WallClock,
}

/// Shows a run as lines on a writer.
#[derive(Debug)]
pub struct TerminalView<W: Write> {
    writer: LineWriter<W>,
    verbosity: Verbosity,
    agent_stream: AgentStream,
    lines: RunLines,
    stream: StreamPrinter,
    remarks: VerboseLines,
}

impl<W: Write> TerminalView<W> {
    /// Returns a view that writes to `out`.
    pub fn new(out: W, options: ViewOptions) -> Self {
        let ViewOptions { style, verbosity, agent_stream, clock } = options;
        Self {
            writer: LineWriter::new(out, style, clock),
            verbosity,
            agent_stream,
            lines: RunLines::default(),
            stream: StreamPrinter::default(),
            remarks: VerboseLines::default(),
        }
    }

    /// Writes a `[ralph]` line if the view is verbose, such as which settings were loaded.
    pub fn write_remark(&mut self, text: &str) {
        match self.verbosity {
            Verbosity::Quiet | Verbosity::Normal => {}
            Verbosity::Verbose => {
                self.writer.update_time();
                for line in sanitize::sanitize_text(text).lines() {
                    verbose::write_remark(&mut self.writer, line);
                }
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
        if let Event::Asked { .. } | Event::Replied { .. } | Event::RunEnded { .. } = &recorded.event {
            self.stream.end_stream(&mut self.writer);
        }
        match self.verbosity {
            Verbosity::Quiet | Verbosity::Normal => {
                self.lines.print_event(&mut self.writer, self.verbosity, recorded, state);
            }
            Verbosity::Verbose => {
                VerboseLines::print_before(&mut self.writer, recorded, state);
                self.lines.print_event(&mut self.writer, self.verbosity, recorded, state);
                self.remarks.print_after(&mut self.writer, recorded, state);
            }
        }
    }

    fn show_agent_event(&mut self, event: &AgentEvent) {
        match (self.verbosity, self.agent_stream) {
            (Verbosity::Quiet, _) | (_, AgentStream::Hidden) => {}
            (Verbosity::Normal | Verbosity::Verbose, AgentStream::Shown) => {
                self.writer.update_time();
                self.stream.print_event(&mut self.writer, event);
            }
        }
    }

    fn show_activity(&mut self, activity: &Activity<'_>) {
        match self.verbosity {
            Verbosity::Quiet => return,
            Verbosity::Normal => {}
            Verbosity::Verbose => {
                self.writer.update_time();
                verbose::print_activity(&mut self.writer, activity);
            }
        }
        self.writer.update_time();
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
