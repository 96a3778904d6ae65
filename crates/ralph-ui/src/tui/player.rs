//! Replays a recorded run, or follows one that another process drives.
//!
//! Journal events have timestamps; the output of an agent is spread over the time of its call. Not
//! here: reading files.

use std::collections::VecDeque;
use std::io;

use ralph_core::checklist::Checklist;
use ralph_core::event::{Event, Recorded};
use ralph_core::ports::Ui as _;
use ralph_core::reading::AgentEvent;
use ralph_core::run::RunState;
use ralph_core::units::{Millis, Timestamp};

use crate::tui::display::{Device, Host, Send, Stay, send, show};
use crate::tui::facts::{Facts, WholePlan};
use crate::tui::link::{Order, Presence, Screen as Link};
use crate::tui::press::{Deed, Jump};
use crate::tui::screen::{Deck, Play, Screen, Source, Speed};
use crate::tui::scroll::Kind;
use crate::tui::view::{kind_of, kind_of_heard, on_screen};
use crate::view::{TerminalView, ViewOptions};

/// A recorded run.
pub trait Recording {
    /// Returns the journal events since the last call, in order.
    fn facts(&mut self) -> Result<Vec<Recorded>, String>;

    /// Selects an agent call, with the state after its `Asked` event.
    fn turn_to(&mut self, state: &RunState, asked: &Event);

    /// Returns the next agent events of that call; empty if there are no more, or not yet. Does not
    /// return the same events again.
    fn heard(&mut self) -> Said;

    /// Returns the plan as the run saw it last.
    fn plan(&mut self, state: &RunState) -> Option<Checklist>;
}

/// A part of the output of an agent call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Said {
    pub events: Vec<AgentEvent>,
    /// Bytes of the recorded output read so far.
    pub read: u64,
    /// Size of the recorded output by now, in bytes.
    pub of: u64,
}

/// Whether a run has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    Past,
    Present,
}

/// Replays a run until the user leaves. `sends` takes control requests for an active run.
pub fn replay(
    mut device: Box<dyn Device>,
    link: &Link,
    options: ViewOptions,
    recording: Box<dyn Recording>,
    moment: Moment,
    sends: Send,
) -> io::Result<()> {
    let clock = options.clock.clone();
    let mut screen = Screen::new((&options.style).into(), clock);
    let mut player = Player::new(link.clone(), on_screen(options), recording, moment, sends);
    player.begin(&mut screen);
    device.enter()?;
    link.is_now(Presence::Shown);
    show(device, &mut player, &mut screen);
    Ok(())
}

/// Replays a run on a screen.
pub(super) struct Player {
    link: Link,
    options: ViewOptions,
    view: TerminalView<Link>,
    recording: Box<dyn Recording>,
    sends: Send,
    source: Source,
    told: Told,
    facts: Vec<Recorded>,
    /// Agent events until the next journal event.
    pending: VecDeque<(Timestamp, AgentEvent)>,
    /// The agent call that is being replayed.
    call: Option<Call>,
    plan: WholePlan,
    /// Sequence number of the last `PlanSeen` event.
    plan_seen: Option<u64>,
    /// When the recording was read last.
    looked: Option<Timestamp>,
    /// When the screen was refreshed last.
    refreshed: Option<Timestamp>,
}

/// An agent call that is being replayed.
struct Call {
    began: Timestamp,
    ended: Timestamp,
    /// The replay time of the last events read.
    upto: Timestamp,
}

/// The state after the replayed events.
#[derive(Default)]
struct Told {
    count: usize,
    state: Option<RunState>,
    shown: Facts,
}

/// Shortens long waits in a replay.
const LONGEST_GAP: Millis = Millis(2_000);
/// How often the run of another process is read.
const LOOK_AGAIN: Millis = Millis(250);

impl Player {
    pub(super) fn new(
        link: Link,
        options: ViewOptions,
        recording: Box<dyn Recording>,
        moment: Moment,
        sends: Send,
    ) -> Self {
        let source = match moment {
            Moment::Past => Source::Record,
            Moment::Present => Source::Live,
        };
        Self {
            view: TerminalView::new(link.clone(), options.clone()),
            link,
            options,
            recording,
            sends,
            source,
            told: Told::default(),
            facts: Vec::new(),
            pending: VecDeque::new(),
            call: None,
            plan: WholePlan::default(),
            plan_seen: None,
            looked: None,
            refreshed: None,
        }
    }

    /// Shows the beginning of an ended run, or catches up with an active one.
    pub(super) fn begin(&mut self, screen: &mut Screen) {
        self.look(screen);
        let at = self.facts.first().map_or(screen.now, |fact| fact.at);
        let deck = Deck { play: Play::On, speed: Speed::X8, at, source: self.source };
        screen.deck = Some(deck);
        match self.source {
            Source::Record => {}
            Source::Live => {
                // Only the current iteration is shown; earlier ones are in the log.
                let from = self.starts().last().copied().unwrap_or(0);
                self.fold_to(from);
                while self.step(screen) {}
            }
        }
    }

    /// Reads new journal events.
    fn look(&mut self, screen: &mut Screen) {
        self.looked = Some(screen.now);
        match self.recording.facts() {
            Ok(new) => {
                let is_look = |fact: &&Recorded| matches!(fact.event, Event::PlanSeen { .. });
                let seen = new.iter().rfind(is_look).map(|fact| fact.seq);
                self.plan_seen = seen.or(self.plan_seen);
                self.facts.extend(new);
            }
            Err(why) => {
                let why = crate::safe::one_line(&why, 500, "…");
                screen.scroll.push_line(Kind::Warning, &why);
            }
        }
    }

    /// Returns the indices at which iterations begin.
    fn starts(&self) -> Vec<usize> {
        let begins =
            |(_, fact): &(usize, &Recorded)| matches!(fact.event, Event::IterationStarted { .. });
        self.facts.iter().enumerate().filter(begins).map(|(at, _)| at).collect()
    }

    /// Applies events up to this index without showing them.
    fn fold_to(&mut self, end: usize) {
        if end < self.told.count {
            self.told = Told::default();
        }
        self.pending.clear();
        self.call = None;
        while self.told.count < end && self.told.next(&self.facts).is_some() {}
    }

    /// Shows the next event, and returns whether there was one.
    fn step(&mut self, screen: &mut Screen) -> bool {
        self.listen();
        if let Some((at, event)) = self.pending.pop_front() {
            self.link.set_kind(kind_of_heard(&event));
            self.told.shown.hear(&event);
            self.view.hear(&event);
            self.reach(screen, at);
            return true;
        }
        let Some(at) = self.told.next(&self.facts) else { return false };
        let (Some(fact), Some(state)) = (self.facts.get(at), &self.told.state) else {
            return false;
        };
        self.link.set_kind(kind_of(&fact.event));
        self.view.tell(fact, state);
        self.call = None;
        if let Event::Asked { .. } = &fact.event {
            self.recording.turn_to(state, &fact.event);
            let ended = self.facts.get(at + 1).map_or(fact.at, |next| next.at);
            self.call = Some(Call { began: fact.at, ended, upto: fact.at });
        }
        let at = fact.at;
        self.reach(screen, at);
        true
    }

    /// Reads the next agent events, if all earlier ones are shown.
    fn listen(&mut self) {
        let (true, Some(call)) = (self.pending.is_empty(), &mut self.call) else { return };
        let output = self.recording.heard();
        let span = u128::from(call.ended.since(call.began).0);
        let part = span * u128::from(output.read.min(output.of)) / u128::from(output.of.max(1));
        let upto = call.began.plus(Millis(u64::try_from(part).unwrap_or(u64::MAX)));
        let upto = upto.max(call.upto);
        self.pending = spread(call.upto, upto, output.events);
        call.upto = upto;
    }

    /// Returns whether there are more agent events before the next journal event.
    fn has_more_to_hear(&mut self) -> bool {
        self.listen();
        !self.pending.is_empty()
    }

    fn reach(&mut self, screen: &mut Screen, at: Timestamp) {
        if let Some(deck) = &mut screen.deck {
            deck.at = deck.at.max(at);
        }
        let news = self.link.take();
        for (kind, text) in news.pieces {
            screen.scroll.push(kind, &text);
        }
        if news.lost > 0 {
            screen.admit_loss(news.lost);
        }
        let mut facts = self.told.shown.clone();
        // The recording has only the latest state of the plan.
        if let Some(state) = self.told.state.as_ref().filter(|_| facts.saw_plan(self.plan_seen)) {
            self.plan.complete(&mut facts, || self.recording.plan(state));
        }
        screen.facts = facts;
        // Elapsed time and countdowns use the replayed time.
        if self.source == Source::Record {
            screen.facts.at = screen.deck.map_or(at, |deck| deck.at);
        }
    }

    /// Returns when the next event is due.
    fn due(&mut self) -> Option<Timestamp> {
        self.listen();
        let pending = self.pending.front().map(|(at, _)| *at);
        pending.or_else(|| self.facts.get(self.told.count).map(|fact| fact.at))
    }

    /// Advances the replay by a span of real time.
    fn play(&mut self, screen: &mut Screen, deck: Deck, span: Millis) -> bool {
        let Some(due) = self.due() else {
            return match self.source {
                Source::Live => false,
                Source::Record => {
                    screen.deck = Some(Deck { play: Play::AtEnd, ..deck });
                    true
                }
            };
        };
        let gap = deck.speed.of(LONGEST_GAP);
        let late = Timestamp(due.0.saturating_sub(i64::try_from(gap.0).unwrap_or(i64::MAX)));
        let at = deck.at.max(late).plus(deck.speed.of(span));
        screen.deck = Some(Deck { at, ..deck });
        let mut is_new = false;
        while self.due().is_some_and(|due| due <= at) && self.step(screen) {
            is_new = true;
        }
        is_new
    }

    /// Catches up with an active run.
    fn catch_up(&mut self, screen: &mut Screen) -> bool {
        if self.looked.is_some_and(|looked| screen.now.since(looked) < LOOK_AGAIN) {
            return false;
        }
        self.look(screen);
        let is_halted = screen.deck.is_some_and(|deck| deck.play == Play::Halted);
        if is_halted {
            return false;
        }
        let mut is_new = false;
        if let Some(call) = &mut self.call {
            (call.ended, call.upto) = (call.ended.max(screen.now), call.upto.max(screen.now));
        }
        while self.step(screen) {
            is_new = true;
        }
        is_new
    }

    fn jump(&mut self, screen: &mut Screen, jump: Jump) {
        let starts = self.starts();
        let passed = starts.iter().filter(|start| **start < self.told.count).count();
        let (from, upto) = match jump {
            Jump::Next => (passed, passed + 1),
            Jump::Previous => (passed.saturating_sub(2), passed.saturating_sub(1).max(1)),
        };
        let Some(start) = starts.get(from) else {
            screen.hint = Some("that is the last iteration".to_owned());
            while self.step(screen) {}
            return;
        };
        let end = starts.get(upto).copied().unwrap_or(self.facts.len());
        self.fold_to(*start);
        screen.scroll.clear();
        self.view = TerminalView::new(self.link.clone(), self.options.clone());
        let at = self.facts.get(*start).map_or(screen.now, |fact| fact.at);
        if let Some(deck) = &mut screen.deck {
            *deck = Deck { at, play: Play::Halted, ..*deck };
        }
        while (self.told.count < end || self.has_more_to_hear()) && self.step(screen) {}
        screen.hint = Some("halted after this iteration; Space continues".to_owned());
    }
}

impl Told {
    /// Applies the next event, and returns its index. An event that does not fit ends the replay.
    fn next(&mut self, facts: &[Recorded]) -> Option<usize> {
        let at = self.count;
        let fact = facts.get(at)?;
        let state = match self.state.take() {
            None => RunState::begin(fact),
            Some(mut state) => state.apply(fact).map(|()| state),
        };
        let state = state.ok()?;
        self.shown.tell(fact, &state);
        self.state = Some(state);
        self.count += 1;
        Some(at)
    }
}

/// Spreads agent events evenly over a time span.
fn spread(
    from: Timestamp,
    end: Timestamp,
    events: Vec<AgentEvent>,
) -> VecDeque<(Timestamp, AgentEvent)> {
    let parts = events.len() as u64 + 1;
    let span = end.since(from).0;
    let place = |(at, event): (usize, AgentEvent)| {
        let part = u128::from(span) * (at as u128 + 1) / u128::from(parts);
        (from.plus(Millis(u64::try_from(part).unwrap_or(span))), event)
    };
    events.into_iter().enumerate().map(place).collect()
}

impl Host for Player {
    fn refresh(&mut self, screen: &mut Screen) -> bool {
        let span = self.refreshed.map_or(Millis::ZERO, |last| screen.now.since(last));
        self.refreshed = Some(screen.now);
        let is_new = match (self.source, screen.deck) {
            (Source::Live, _) => self.catch_up(screen),
            (Source::Record, Some(deck)) if deck.play == Play::On => self.play(screen, deck, span),
            (Source::Record, _) => false,
        };
        // The screen shows the replayed time.
        if let (Source::Record, Some(deck)) = (self.source, screen.deck) {
            screen.now = deck.at;
        }
        is_new
    }

    fn serve(&mut self, action: Deed, screen: &mut Screen) -> Stay {
        match action {
            Deed::Jump(jump) => {
                self.jump(screen, jump);
                Stay::Yes
            }
            Deed::Wish(request) => send(&mut self.sends, &request, screen, Stay::Yes),
            Deed::WishAndLeave(request) => send(&mut self.sends, &request, screen, Stay::No),
            Deed::Leave => Stay::No,
            Deed::Redraw => Stay::Yes,
        }
    }

    fn ordered(&self) -> Order {
        self.link.ordered()
    }

    fn wait(&self, order: Order) {
        self.link.wait_while(order, std::time::Duration::from_millis(LOOK_AGAIN.0));
    }

    fn is_now(&mut self, presence: Presence) {
        self.link.is_now(presence);
    }
}
