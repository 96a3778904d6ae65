//! The full-screen view as the run knows it: tells the screen, and the plain view once there is no
//! screen any more.
//!
//! Not here: the screen's own thread (`display`).

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

/// A terminal that hangs is not waited for longer than this at the end.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a full-screen view is made of.
pub struct Setup {
    /// The terminal.
    pub device: Box<dyn Device>,
    /// Sends wishes to the run.
    pub send: Send,
    /// Reads the plan that the run keeps.
    pub read_plan: ReadPlan,
    /// The handle on the screen, which others may hold as well.
    pub screen: Link,
    /// How things look.
    pub options: ViewOptions,
}

/// A run on a whole screen.
pub struct FullScreen<W: Write, P: Ui> {
    link: Link,
    teller: Teller<W>,
    plain: P,
}

impl<W: Write, P: Ui> FullScreen<W, P> {
    /// Takes the terminal and starts the thread of the screen.
    ///
    /// `lines` gets the writer for the lines of the stream and may put something before it;
    /// `plain` is told once there is no screen any more, which may be at once, and how the run
    /// ended.
    pub fn start(setup: Setup, lines: impl FnOnce(Link) -> W, plain: P) -> Self {
        let Setup { mut device, send, read_plan, screen: link, options } = setup;
        let mut screen = Screen::new((&options.style).into(), options.clock.clone());
        let teller = Teller::new(link.clone(), lines(link.clone()), options);
        let mut live = Live { link: link.clone(), send, read_plan, plan: WholePlan::default() };
        // Before the thread says so: a screen that is left at once must be waited for.
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

    /// Returns who is to be told now.
    fn who(&mut self) -> &mut dyn Ui {
        if self.link.is_gone() { &mut self.plain } else { &mut self.teller }
    }
}

impl<W: Write, P: Ui> Ui for FullScreen<W, P> {
    fn tell(&mut self, recorded: &Recorded, state: &RunState) {
        if let Event::RunEnded { .. } = &recorded.event {
            self.link.leave(PATIENCE);
            // A terminal that hangs is not the screen's any more, either.
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

/// Tells a screen of a run: facts, and the lines of the streaming view.
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

/// Returns the options of the lines on a screen: whole, and never rewritten.
pub(super) fn on_screen(options: ViewOptions) -> ViewOptions {
    let verbosity = match options.verbosity {
        Verbosity::Quiet | Verbosity::Normal => Verbosity::Normal,
        Verbosity::Verbose => Verbosity::Verbose,
    };
    // The screen wraps by itself, whatever its width is by then.
    let style = Style { motion: Motion::Appends, width: usize::from(u16::MAX), ..options.style };
    ViewOptions { style, verbosity, ..options }
}

/// Returns what the lines of an event are about.
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

/// Returns what the lines of something that was heard are about.
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
