//! The view of a run in a terminal, a pipe or a log file, and several views at once.
//!
//! A view never stops a run: what cannot be written is remembered, not returned. Not here: the
//! lines themselves (`lines`, `stream`, `verbose`, `ending`).

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

/// What is said at the first signal, before the current operation has ended.
pub const SHUTTING_DOWN: &str = "Received signal, shutting down...";

/// How much a view shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verbosity {
    /// Only warnings, failures of the agent and how the run ended.
    Quiet,
    /// What happens.
    #[default]
    Normal,
    /// Also why, in `[ralph]` lines.
    Verbose,
}

/// Whether what the agent says and does is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AgentStream {
    /// As it happens.
    #[default]
    Shown,
    /// Only the line that sums it up.
    Hidden,
}

/// What a view must know before the first event.
#[derive(Debug, Clone)]
pub struct ViewOptions {
    /// How it looks.
    pub style: Style,
    /// How much it shows.
    pub verbosity: Verbosity,
    /// Whether what the agent says and does is shown.
    pub agent_stream: AgentStream,
    /// The time of day.
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

/// Tells several views the same.
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
