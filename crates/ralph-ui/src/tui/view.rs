//! The full-screen view as a [`Ui`] of the run: forwards events to the screen, and to the plain
//! view once the screen is gone.
//!
//! Not here: the thread of the screen (`display`).

use std::io::Write;
use std::thread;
use std::time::Duration;

use ralph_core::event::{Event, Recorded};
use ralph_core::gate::GateStatus;
use ralph_core::ports::{Activity, Ui};
use ralph_core::reading::{AgentEvent, ResultStatus, ToolOutcome};
use ralph_core::run::RunState;

use crate::style::{Motion, Style};
use crate::time::WallClock;
use crate::tui::display::{Device, Live, Send, show};
use crate::tui::facts::{Facts, ReadPlan, WholePlan};
use crate::tui::link::{Presence, Screen as Link};
use crate::tui::screen::Screen;
use crate::tui::scroll::Kind;
use crate::view::{TerminalView, Verbosity, ViewOptions};

/// How long the end of the run waits for a terminal that hangs.
const PATIENCE: Duration = Duration::from_secs(2);

/// The parts of a full-screen view.
pub struct Setup {
    pub device: Box<dyn Device>,
    /// Sends control requests to the run.
    pub send: Send,
    pub read_plan: ReadPlan,
    /// A handle to the screen; other code may hold clones.
    pub screen: Link,
    pub options: ViewOptions,
}

/// Shows a run on the whole screen.
pub struct FullScreen<W: Write, P: Ui> {
    link: Link,
    teller: Teller<W>,
    plain: P,
}

impl<W: Write, P: Ui> FullScreen<W, P> {
    /// Enters the full screen and starts its thread.
    ///
    /// `lines` gets the writer for the lines of the stream and may wrap it. `plain` receives events
    /// once the screen is gone, which may be at once, and always the end of the run.
    pub fn start(setup: Setup, lines: impl FnOnce(Link) -> W, plain: P) -> Self {
        let Setup { mut device, send, read_plan, screen: link, options } = setup;
        let mut screen = Screen::new((&options.style).into(), options.clock.clone());
        let teller = Teller::new(link.clone(), lines(link.clone()), options);
        let mut live = Live { link: link.clone(), send, read_plan, plan: WholePlan::default() };
        // Set before the thread starts: leaving must wait for a screen that is left at once.
        link.is_now(Presence::Shown);
        let begun = device.enter().and_then(|()| {
            let thread = thread::Builder::new().name("screen".to_owned());
            thread.spawn(move || show(device, &mut live, &mut screen))
        });
        if begun.is_err() {
            link.is_now(Presence::Gone);
        }
        Self { link, teller, plain }
    }

    /// Returns the view that receives events now.
    fn who(&mut self) -> &mut dyn Ui {
        if self.link.is_gone() { &mut self.plain } else { &mut self.teller }
    }
}

impl<W: Write, P: Ui> Ui for FullScreen<W, P> {
    fn tell(&mut self, recorded: &Recorded, state: &RunState) {
        if let Event::RunEnded { .. } = &recorded.event {
            self.link.leave(PATIENCE);
            // Also release a terminal that hangs.
            self.link.is_left();
        }
        self.who().tell(recorded, state);
    }

    fn hear(&mut self, event: &AgentEvent) {
        self.who().hear(event);
    }

    fn doing(&mut self, activity: &Activity<'_>) {
        self.who().doing(activity);
    }
}

impl<W: Write, P: Ui> Drop for FullScreen<W, P> {
    fn drop(&mut self) {
        self.link.leave(PATIENCE);
    }
}

/// Sends facts and the lines of the streaming view to a screen.
pub(super) struct Teller<W: Write> {
    link: Link,
    facts: Facts,
    stream: TerminalView<W>,
    clock: WallClock,
}

impl<W: Write> Teller<W> {
    pub(super) fn new(link: Link, lines: W, options: ViewOptions) -> Self {
        let clock = options.clock.clone();
        let stream = TerminalView::new(lines, on_screen(options));
        Self { link, facts: Facts::default(), stream, clock }
    }
}

impl<W: Write> Ui for Teller<W> {
    fn tell(&mut self, recorded: &Recorded, state: &RunState) {
        self.facts.tell(recorded, state);
        self.link.put_facts(self.facts.clone());
        self.link.set_kind(kind_of(&recorded.event));
        self.stream.tell(recorded, state);
    }

    fn hear(&mut self, event: &AgentEvent) {
        if self.facts.hear(event) {
            self.link.put_facts(self.facts.clone());
        }
        self.link.set_kind(kind_of_heard(event));
        self.stream.hear(event);
    }

    fn doing(&mut self, activity: &Activity<'_>) {
        self.facts.doing(activity, (self.clock.now)());
        self.link.put_facts(self.facts.clone());
        self.link.set_kind(match activity {
            Activity::Gate(_) | Activity::GateRuns { .. } => Kind::Gate,
            Activity::Waiting { .. } | Activity::Paused { .. } => Kind::Ralph,
        });
        self.stream.doing(activity);
    }
}

/// Returns the options for lines on a screen: unwrapped, and never rewritten.
pub(super) fn on_screen(options: ViewOptions) -> ViewOptions {
    let verbosity = match options.verbosity {
        Verbosity::Quiet | Verbosity::Normal => Verbosity::Normal,
        Verbosity::Verbose => Verbosity::Verbose,
    };
    // The screen wraps lines itself, according to its current width.
    let style = Style { motion: Motion::Appends, width: usize::from(u16::MAX), ..options.style };
    ViewOptions { style, verbosity, ..options }
}

/// Returns the kind of the lines of an event.
pub(super) fn kind_of(event: &Event) -> Kind {
    match event {
        Event::GateChecked { result } | Event::BaselineChecked { result } => match result.status {
            GateStatus::Passed | GateStatus::Cached => Kind::Gate,
            GateStatus::Failed => Kind::GateError,
        },
        Event::Warned { .. } | Event::Wished { refused: Some(_), .. } => Kind::Warning,
        Event::Replied { reply, .. } if reply.failure.is_some() => Kind::Warning,
        Event::Claimed { claim } if !claim.refused.is_empty() => Kind::Warning,
        Event::RunStarted { .. }
        | Event::RunResumed { .. }
        | Event::TasksRead { .. }
        | Event::TasksWritten
        | Event::BaselineStarted { .. }
        | Event::IterationStarted { .. }
        | Event::Checkpointed { .. }
        | Event::Asked { .. }
        | Event::Replied { .. }
        | Event::Waiting { .. }
        | Event::Observed { .. }
        | Event::PlanSeen { .. }
        | Event::Claimed { .. }
        | Event::Judged { .. }
        | Event::Landed { .. }
        | Event::IterationEnded { .. }
        | Event::Wished { refused: None, .. }
        | Event::Paused
        | Event::TaskSkipped { .. }
        | Event::RunEnded { .. } => Kind::Ralph,
    }
}

/// Returns the kind of the lines of an agent event.
pub(super) fn kind_of_heard(event: &AgentEvent) -> Kind {
    match event {
        AgentEvent::Text { .. }
        | AgentEvent::Reasoning { .. }
        | AgentEvent::Result { status: ResultStatus::Success, .. } => Kind::Text,
        AgentEvent::ToolEnded { outcome: ToolOutcome::Error, .. } => Kind::ToolError,
        AgentEvent::ToolStarted { .. }
        | AgentEvent::ToolEnded { outcome: ToolOutcome::Ok, .. }
        | AgentEvent::Todo { .. }
        | AgentEvent::FileChanged { .. } => Kind::Tool,
        AgentEvent::Result { status: ResultStatus::Failed(_), .. }
        | AgentEvent::RateLimit { .. } => Kind::Warning,
        AgentEvent::Session { .. }
        | AgentEvent::Usage { .. }
        | AgentEvent::Notice { .. }
        | AgentEvent::Unparsed { .. } => Kind::Ralph,
    }
}
