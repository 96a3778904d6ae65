//! The full-screen view as a [`Ui`] of the run: forwards events to the screen, and to the plain
//! view once the screen is gone.
//!
//! Not here: the thread of the screen (`display`).

use std::io::Write;
use std::thread;
use std::time::Duration;

use ralph_core::ports::{Activity, Ui};
use ralph_model::agent_output::{AgentEvent, ResultStatus, ToolOutcome};
use ralph_model::event::{Event, Recorded};
use ralph_model::gate::GateStatus;
use ralph_model::run::RunState;

use crate::style::Style;
use crate::time::WallClock;
use crate::tui::display::{Device, LiveRun, SendRequest, show_screen};
use crate::tui::facts::{ReadPlan, ScreenFacts, WholePlan};
use crate::tui::link::{Presence, ScreenHandle as Link};
use crate::tui::screen::ScreenState;
use crate::tui::scrollback::LineKind;
use crate::view::{TerminalView, Verbosity, ViewOptions};

/// How long the end of the run waits for a terminal that hangs.
const PATIENCE: Duration = Duration::from_secs(2);

/// The parts of a full-screen view.
pub struct FullScreenSetup {
    pub device: Box<dyn Device>,
    /// Sends control requests to the run.
    pub send: SendRequest,
    pub read_plan: ReadPlan,
    /// A handle to the screen; other code may hold clones.
    pub screen: Link,
    pub options: ViewOptions,
}

/// Shows a run on the whole screen.
pub struct FullScreen<W: Write, P: Ui> {
    link: Link,
    teller: ScreenFeed<W>,
    plain: P,
}

impl<W: Write, P: Ui> FullScreen<W, P> {
    /// Enters the full screen and starts its thread.
    ///
    /// `lines` gets the writer for the lines of the stream and may wrap it. `plain` receives events
    /// once the screen is gone, which may be at once, and always the end of the run.
    pub fn start(setup: FullScreenSetup, lines: impl FnOnce(Link) -> W, plain: P) -> Self {
        let FullScreenSetup { mut device, send, read_plan, screen: link, options } = setup;
        let mut screen = ScreenState::new(options.style.clone(), options.clock.clone());
        let teller = ScreenFeed::new(link.clone(), lines(link.clone()), options);
        let mut live = LiveRun { link: link.clone(), send, read_plan, plan: WholePlan::default() };
        // Set before the thread starts: leaving must wait for a screen that is left at once.
        link.set_presence(Presence::Shown);
        let begun = device.enter().and_then(|()| {
            let thread = thread::Builder::new().name("screen".to_owned());
            thread.spawn(move || show_screen(device, &mut live, &mut screen))
        });
        if begun.is_err() {
            link.set_presence(Presence::Gone);
        }
        Self { link, teller, plain }
    }

    /// Returns the view that receives events now.
    fn find_active_view(&mut self) -> &mut dyn Ui {
        if self.link.is_gone() { &mut self.plain } else { &mut self.teller }
    }
}

impl<W: Write, P: Ui> Ui for FullScreen<W, P> {
    fn show_event(&mut self, recorded: &Recorded, state: &RunState) {
        if let Event::RunEnded { .. } = &recorded.event {
            self.link.leave_screen(PATIENCE);
            // Also release a terminal that hangs.
            self.link.mark_left();
        }
        self.find_active_view().show_event(recorded, state);
    }

    fn show_agent_event(&mut self, event: &AgentEvent) {
        self.find_active_view().show_agent_event(event);
    }

    fn show_activity(&mut self, activity: &Activity<'_>) {
        self.find_active_view().show_activity(activity);
    }
}

impl<W: Write, P: Ui> Drop for FullScreen<W, P> {
    fn drop(&mut self) {
        self.link.leave_screen(PATIENCE);
    }
}

/// Sends facts and the lines of the streaming view to a screen.
pub(super) struct ScreenFeed<W: Write> {
    link: Link,
    facts: ScreenFacts,
    stream: TerminalView<W>,
    clock: WallClock,
}

impl<W: Write> ScreenFeed<W> {
    pub(super) fn new(link: Link, lines: W, options: ViewOptions) -> Self {
        let clock = options.clock.clone();
        let stream = TerminalView::new(lines, adapt_for_screen(options));
        Self { link, facts: ScreenFacts::default(), stream, clock }
    }
}

impl<W: Write> Ui for ScreenFeed<W> {
    fn show_event(&mut self, recorded: &Recorded, state: &RunState) {
        self.facts.apply_event(recorded, state);
        self.link.put_facts(self.facts.clone());
        self.link.set_kind(classify_event(&recorded.event));
        self.stream.show_event(recorded, state);
    }

    fn show_agent_event(&mut self, event: &AgentEvent) {
        if self.facts.apply_usage(event) {
            self.link.put_facts(self.facts.clone());
        }
        self.link.set_kind(classify_agent_event(event));
        self.stream.show_agent_event(event);
    }

    fn show_activity(&mut self, activity: &Activity<'_>) {
        self.facts.apply_activity(activity, (self.clock.now)());
        self.link.put_facts(self.facts.clone());
        self.link.set_kind(match activity {
            Activity::Gate(_) | Activity::GateRuns { .. } => LineKind::Gate,
            Activity::Waiting { .. } | Activity::Paused { .. } | Activity::Workers(_) => {
                LineKind::Ralph
            }
        });
        self.stream.show_activity(activity);
    }
}

/// Returns the options for lines on a screen: unwrapped, and never rewritten.
pub(super) fn adapt_for_screen(options: ViewOptions) -> ViewOptions {
    let verbosity = match options.verbosity {
        Verbosity::Quiet | Verbosity::Normal => Verbosity::Normal,
        Verbosity::Verbose => Verbosity::Verbose,
    };
    // The screen wraps lines itself, according to its current width.
    let style = Style { rewrites: false, width: usize::from(u16::MAX), ..options.style };
    ViewOptions { style, verbosity, ..options }
}

/// Returns the kind of the lines of an event.
pub(super) fn classify_event(event: &Event) -> LineKind {
    match event {
        Event::Refused { .. } => LineKind::GateError,
        Event::GateChecked { result, .. } | Event::BaselineChecked { result } => {
            match result.status {
                GateStatus::Passed | GateStatus::Cached => LineKind::Gate,
                GateStatus::Failed => LineKind::GateError,
            }
        }
        Event::Warned { .. } | Event::ControlRequested { refused: Some(_), .. } => {
            LineKind::Warning
        }
        Event::Replied { reply, .. } if reply.failure.is_some() => LineKind::Warning,
        Event::AgentListRead { diff: claim } if !claim.refused.is_empty() => LineKind::Warning,
        _ => LineKind::Ralph,
    }
}

/// Returns the kind of the lines of an agent event.
pub(super) fn classify_agent_event(event: &AgentEvent) -> LineKind {
    match event {
        AgentEvent::Text { .. }
        | AgentEvent::Reasoning { .. }
        | AgentEvent::Result { status: ResultStatus::Success, .. } => LineKind::Text,
        AgentEvent::ToolEnded { outcome: ToolOutcome::Error, .. } => LineKind::ToolError,
        AgentEvent::ToolStarted { .. }
        | AgentEvent::ToolEnded { outcome: ToolOutcome::Ok, .. }
        | AgentEvent::Todo { .. }
        | AgentEvent::FileChanged { .. }
        | AgentEvent::FileEdited { .. } => LineKind::Tool,
        AgentEvent::Result { status: ResultStatus::Failed(_), .. }
        | AgentEvent::RateLimit { .. } => LineKind::Warning,
        _ => LineKind::Ralph,
    }
}
