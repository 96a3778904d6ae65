//! The view of a run in a terminal, a pipe or a log file, and several views at once.
//!
//! A view never stops a run: it keeps the first write error instead of returning it. Not here:
//! the lines themselves (`lines`, `stream`, `verbose`, `run_summary`).

use std::io::{self, Write};

use ralph_core::event::{Event, Recorded};
use ralph_core::ports::{Activity, Ui};
use ralph_core::reading::AgentEvent;
use ralph_core::run::RunState;

use crate::lines::Lines;
use crate::page::Page;
use crate::safe;
use crate::stream::Stream;
use crate::style::Style;
use crate::time::WallClock;
use crate::verbose::{self, Remarks};

/// Printed at the first signal, before the current operation has ended.
pub const SHUTTING_DOWN: &str = "Received signal, shutting down...";

/// How much a view shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verbosity {
    /// Only warnings, agent failures and the outcome of the run.
    Quiet,
    /// Also progress.
    #[default]
    Normal,
    /// Also details for debugging, in `[ralph]` lines.
    Verbose,
}

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
    page: Page<W>,
    verbosity: Verbosity,
    agent_stream: AgentStream,
    lines: Lines,
    stream: Stream,
    remarks: Remarks,
}

impl<W: Write> TerminalView<W> {
    /// Returns a view that writes to `out`.
    pub fn new(out: W, options: ViewOptions) -> Self {
        let ViewOptions { style, verbosity, agent_stream, clock } = options;
        Self {
            page: Page::new(out, style, clock),
            verbosity,
            agent_stream,
            lines: Lines::default(),
            stream: Stream::default(),
            remarks: Remarks::default(),
        }
    }

    /// Writes a `[ralph]` line if the view is verbose, such as which settings were loaded.
    pub fn remark(&mut self, text: &str) {
        match self.verbosity {
            Verbosity::Quiet | Verbosity::Normal => {}
            Verbosity::Verbose => {
                self.page.look_at_clock();
                for line in safe::harmless(text).lines() {
                    verbose::remark(&mut self.page, line);
                }
            }
        }
    }

    /// Returns the first error of the writer, if there was one.
    pub fn first_error(&self) -> Option<&io::Error> {
        self.page.first_error()
    }
}

impl<W: Write> Ui for TerminalView<W> {
    fn tell(&mut self, recorded: &Recorded, state: &RunState) {
        self.page.set_time(recorded.at);
        match &recorded.event {
            Event::Asked { .. } | Event::Replied { .. } | Event::RunEnded { .. } => {
                self.stream.end(&mut self.page);
            }
            Event::RunStarted { .. }
            | Event::RunResumed { .. }
            | Event::IterationStarted { .. }
            | Event::Checkpointed { .. }
            | Event::Waiting { .. }
            | Event::TasksRead { .. }
            | Event::TasksWritten
            | Event::PlanSeen { .. }
            | Event::Claimed { .. }
            | Event::BaselineStarted { .. }
            | Event::BaselineChecked { .. }
            | Event::Observed { .. }
            | Event::GateChecked { .. }
            | Event::Judged { .. }
            | Event::Landed { .. }
            | Event::IterationEnded { .. }
            | Event::Wished { .. }
            | Event::Paused
            | Event::TaskSkipped { .. }
            | Event::Warned { .. } => {}
        }
        match self.verbosity {
            Verbosity::Quiet | Verbosity::Normal => {
                self.lines.tell(&mut self.page, self.verbosity, recorded, state);
            }
            Verbosity::Verbose => {
                Remarks::before(&mut self.page, recorded, state);
                self.lines.tell(&mut self.page, self.verbosity, recorded, state);
                self.remarks.after(&mut self.page, recorded, state);
            }
        }
    }

    fn hear(&mut self, event: &AgentEvent) {
        match (self.verbosity, self.agent_stream) {
            (Verbosity::Quiet, _) | (_, AgentStream::Hidden) => {}
            (Verbosity::Normal | Verbosity::Verbose, AgentStream::Shown) => {
                self.page.look_at_clock();
                self.stream.hear(&mut self.page, event);
            }
        }
    }

    fn doing(&mut self, activity: &Activity<'_>) {
        match self.verbosity {
            Verbosity::Quiet => return,
            Verbosity::Normal => {}
            Verbosity::Verbose => {
                self.page.look_at_clock();
                verbose::doing(&mut self.page, activity);
            }
        }
        self.page.look_at_clock();
        self.lines.doing(&mut self.page, activity);
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
    fn tell(&mut self, recorded: &Recorded, state: &RunState) {
        for view in &mut self.views {
            view.tell(recorded, state);
        }
    }

    fn hear(&mut self, event: &AgentEvent) {
        for view in &mut self.views {
            view.hear(event);
        }
    }

    fn doing(&mut self, activity: &Activity<'_>) {
        for view in &mut self.views {
            view.doing(activity);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
