//! Replays a recorded run, or follows one that another process drives.
//!
//! Journal events have timestamps; the output of an agent is spread over the time of its call. Not
//! here: reading files.

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;

use ralph_core::ports::Ui as _;
use ralph_core::run_loop::fold::{apply_event, start_state};
use ralph_core::tasks::checklist::Checklist;
use ralph_model::agent_output::AgentEvent;
use ralph_model::event::{Event, Recorded};
use ralph_model::run::RunState;
use ralph_model::units::{Millis, Timestamp};

use crate::tui::display::{Device, ScreenHost, SendRequest, send_request, show_screen};
use crate::tui::facts::{ScreenFacts, WholePlan};
use crate::tui::key_actions::{Jump, KeyAction};
use crate::tui::link::{Presence, ScreenHandle as Link};
use crate::tui::screen::{PlayState, ReplayControls, ReplaySource, ReplaySpeed, ScreenState};
use crate::tui::scrollback::LineKind;
use crate::tui::view::{adapt_for_screen, classify_agent_event, classify_event};
use crate::view::{TerminalView, ViewOptions};

/// A recorded run.
pub trait Recording {
    /// Returns the journal events since the last call, in order.
    fn read_events(&mut self) -> Result<Vec<Recorded>, String>;

    /// Selects an agent call, with the state after its `Asked` event.
    fn select_call(&mut self, state: &RunState, asked: &Event);

    /// Returns the next agent events of that call; empty if there are no more, or not yet. Does not
    /// return the same events again.
    fn read_output(&mut self) -> CallOutput;

    /// Returns the plan as the run saw it last.
    fn read_plan(&mut self, state: &RunState) -> Option<Checklist>;
}

/// A part of the output of an agent call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CallOutput {
    pub events: Vec<AgentEvent>,
    /// Bytes of the recorded output read so far.
    pub read_bytes: u64,
    /// Size of the recorded output by now, in bytes.
    pub total_bytes: u64,
}

/// Replays a run until the user leaves. `sends` takes control requests for an active run.
pub fn replay_run(
    mut device: Box<dyn Device>,
    link: &Link,
    options: ViewOptions,
    recording: Box<dyn Recording>,
    source: ReplaySource,
    sends: SendRequest,
) -> io::Result<()> {
    let clock = options.clock.clone();
    let mut screen = ScreenState::new(options.style.clone(), clock);
    let mut player =
        ReplayPlayer::new(link.clone(), adapt_for_screen(options), recording, source, sends);
    player.show_beginning(&mut screen);
    device.enter()?;
    link.set_presence(Presence::Shown);
    show_screen(device, &mut player, &mut screen);
    Ok(())
}

/// Replays a run on a screen.
pub(super) struct ReplayPlayer {
    link: Link,
    options: ViewOptions,
    view: TerminalView<Link>,
    recording: Box<dyn Recording>,
    sends: SendRequest,
    source: ReplaySource,
    replayed: ReplayState,
    facts: Vec<Recorded>,
    /// Agent events until the next journal event.
    pending: VecDeque<(Timestamp, AgentEvent)>,
    /// The agent call that is being replayed.
    call: Option<ReplayedCall>,
    plan: WholePlan,
    /// Sequence number of the last `PlanSeen` event.
    plan_seen: Option<u64>,
    /// When the recording was read last.
    last_read: Option<Timestamp>,
    /// When the screen was refreshed last.
    last_refresh: Option<Timestamp>,
}

/// An agent call that is being replayed.
struct ReplayedCall {
    began: Timestamp,
    ended: Timestamp,
    /// The replay time of the last events read.
    upto: Timestamp,
}

/// The state after the replayed events.
#[derive(Default)]
struct ReplayState {
    count: usize,
    state: Option<RunState>,
    shown: ScreenFacts,
}

/// Shortens long waits in a replay.
const LONGEST_GAP: Millis = Millis(2_000);
/// How often the run of another process is read.
const LOOK_AGAIN: Millis = Millis(250);

impl ReplayPlayer {
    pub(super) fn new(
        link: Link,
        options: ViewOptions,
        recording: Box<dyn Recording>,
        source: ReplaySource,
        sends: SendRequest,
    ) -> Self {
        Self {
            view: TerminalView::new(link.clone(), options.clone()),
            link,
            options,
            recording,
            sends,
            source,
            replayed: ReplayState::default(),
            facts: Vec::new(),
            pending: VecDeque::new(),
            call: None,
            plan: WholePlan::default(),
            plan_seen: None,
            last_read: None,
            last_refresh: None,
        }
    }

    /// Shows the beginning of an ended run, or catches up with an active one.
    pub(super) fn show_beginning(&mut self, screen: &mut ScreenState) {
        self.read_new_events(screen);
        let at = self.facts.first().map_or(screen.now, |fact| fact.at);
        let deck = ReplayControls {
            play: PlayState::Playing,
            speed: ReplaySpeed::X8,
            at,
            source: self.source,
        };
        screen.replay = Some(deck);
        if self.source == ReplaySource::Live {
            // Only the current iteration is shown; earlier ones are in the log.
            let from = self.iteration_starts().last().copied().unwrap_or(0);
            self.apply_up_to(from);
            while self.show_next(screen) {}
        }
    }

    /// Reads new journal events.
    fn read_new_events(&mut self, screen: &mut ScreenState) {
        self.last_read = Some(screen.now);
        match self.recording.read_events() {
            Ok(new) => {
                let is_look = |fact: &&Recorded| matches!(fact.event, Event::PlanSeen { .. });
                let seen = new.iter().rfind(is_look).map(|fact| fact.seq);
                self.plan_seen = seen.or(self.plan_seen);
                self.facts.extend(new);
            }
            Err(why) => {
                let why = crate::sanitize::sanitize_line(&why, 500, "…");
                screen.scroll.push_line(LineKind::Warning, &why);
            }
        }
    }

    /// Returns the indices at which iterations begin.
    fn iteration_starts(&self) -> Vec<usize> {
        let begins =
            |(_, fact): &(usize, &Recorded)| matches!(fact.event, Event::IterationStarted { .. });
        self.facts.iter().enumerate().filter(begins).map(|(at, _)| at).collect()
    }

    /// Applies events up to this index without showing them.
    fn apply_up_to(&mut self, end: usize) {
        if end < self.replayed.count {
            self.replayed = ReplayState::default();
        }
        self.pending.clear();
        self.call = None;
        while self.replayed.count < end && self.replayed.apply_next(&self.facts).is_some() {}
    }

    /// Shows the next event, and returns whether there was one.
    fn show_next(&mut self, screen: &mut ScreenState) -> bool {
        self.read_call_output();
        if let Some((at, event)) = self.pending.pop_front() {
            self.link.set_kind(classify_agent_event(&event));
            self.replayed.shown.apply_usage(&event);
            self.view.show_agent_event(&event);
            self.update_screen(screen, at);
            return true;
        }
        let Some(at) = self.replayed.apply_next(&self.facts) else { return false };
        let (Some(fact), Some(state)) = (self.facts.get(at), &self.replayed.state) else {
            return false;
        };
        self.link.set_kind(classify_event(&fact.event));
        self.view.show_event(fact, state);
        self.call = None;
        if let Event::Asked { .. } = &fact.event {
            self.recording.select_call(state, &fact.event);
            let ended = self.facts.get(at + 1).map_or(fact.at, |next| next.at);
            self.call = Some(ReplayedCall { began: fact.at, ended, upto: fact.at });
        }
        let at = fact.at;
        self.update_screen(screen, at);
        true
    }

    /// Reads the next agent events, if all earlier ones are shown.
    fn read_call_output(&mut self) {
        let (true, Some(call)) = (self.pending.is_empty(), &mut self.call) else { return };
        let output = self.recording.read_output();
        let span = u128::from(call.ended.elapsed_since(call.began).0);
        let part = span * u128::from(output.read_bytes.min(output.total_bytes))
            / u128::from(output.total_bytes.max(1));
        let upto = call.began.saturating_add(Millis(u64::try_from(part).unwrap_or(u64::MAX)));
        let upto = upto.max(call.upto);
        self.pending = spread_over(call.upto, upto, output.events);
        call.upto = upto;
    }

    /// Returns whether there are more agent events before the next journal event.
    fn has_more_output(&mut self) -> bool {
        self.read_call_output();
        !self.pending.is_empty()
    }

    fn update_screen(&mut self, screen: &mut ScreenState, at: Timestamp) {
        if let Some(deck) = &mut screen.replay {
            deck.at = deck.at.max(at);
        }
        let news = self.link.take_updates();
        for (kind, text) in news.pieces {
            screen.scroll.push_text(kind, &text);
        }
        if news.lost > 0 {
            screen.report_loss(news.lost);
        }
        let mut facts = self.replayed.shown.clone();
        // The recording has only the latest state of the plan.
        if let Some(state) =
            self.replayed.state.as_ref().filter(|_| facts.shows_plan_of(self.plan_seen))
        {
            self.plan.fill_items(&mut facts, || self.recording.read_plan(state));
        }
        screen.facts = facts;
        // Elapsed time and countdowns use the replayed time.
        if self.source == ReplaySource::Record {
            screen.facts.at = screen.replay.map_or(at, |deck| deck.at);
        }
    }

    /// Returns when the next event is due.
    fn find_next_due(&mut self) -> Option<Timestamp> {
        self.read_call_output();
        let pending = self.pending.front().map(|(at, _)| *at);
        pending.or_else(|| self.facts.get(self.replayed.count).map(|fact| fact.at))
    }

    /// Advances the replay by a span of real time.
    fn advance_replay(
        &mut self,
        screen: &mut ScreenState,
        deck: ReplayControls,
        span: Millis,
    ) -> bool {
        let Some(due) = self.find_next_due() else {
            return match self.source {
                ReplaySource::Live => false,
                ReplaySource::Record => {
                    screen.replay = Some(ReplayControls { play: PlayState::AtEnd, ..deck });
                    true
                }
            };
        };
        let gap = deck.speed.scale_span(LONGEST_GAP);
        let late = Timestamp(due.0.saturating_sub(i64::try_from(gap.0).unwrap_or(i64::MAX)));
        let at = deck.at.max(late).saturating_add(deck.speed.scale_span(span));
        screen.replay = Some(ReplayControls { at, ..deck });
        let mut is_new = false;
        while self.find_next_due().is_some_and(|due| due <= at) && self.show_next(screen) {
            is_new = true;
        }
        is_new
    }

    /// Catches up with an active run.
    fn catch_up(&mut self, screen: &mut ScreenState) -> bool {
        if self.last_read.is_some_and(|looked| screen.now.elapsed_since(looked) < LOOK_AGAIN) {
            return false;
        }
        self.read_new_events(screen);
        let is_halted = screen.replay.is_some_and(|deck| deck.play == PlayState::Halted);
        if is_halted {
            return false;
        }
        let mut is_new = false;
        if let Some(call) = &mut self.call {
            (call.ended, call.upto) = (call.ended.max(screen.now), call.upto.max(screen.now));
        }
        while self.show_next(screen) {
            is_new = true;
        }
        is_new
    }

    fn jump_to_iteration(&mut self, screen: &mut ScreenState, jump: Jump) {
        let starts = self.iteration_starts();
        let passed = starts.iter().filter(|start| **start < self.replayed.count).count();
        let (from, upto) = match jump {
            Jump::Next => (passed, passed + 1),
            Jump::Previous => (passed.saturating_sub(2), passed.saturating_sub(1).max(1)),
        };
        let Some(start) = starts.get(from) else {
            screen.hint = Some("that is the last iteration".to_owned());
            while self.show_next(screen) {}
            return;
        };
        let end = starts.get(upto).copied().unwrap_or(self.facts.len());
        self.apply_up_to(*start);
        screen.scroll.clear();
        self.view = TerminalView::new(self.link.clone(), self.options.clone());
        let at = self.facts.get(*start).map_or(screen.now, |fact| fact.at);
        if let Some(deck) = &mut screen.replay {
            *deck = ReplayControls { at, play: PlayState::Halted, ..*deck };
        }
        while (self.replayed.count < end || self.has_more_output()) && self.show_next(screen) {}
        screen.hint = Some("halted after this iteration; Space continues".to_owned());
    }
}

impl ReplayState {
    /// Applies the next event, and returns its index. An event that does not fit ends the replay.
    fn apply_next(&mut self, facts: &[Recorded]) -> Option<usize> {
        let at = self.count;
        let fact = facts.get(at)?;
        let state = match self.state.take() {
            None => start_state(fact),
            Some(mut state) => apply_event(&mut state, fact).map(|()| state),
        };
        let state = state.ok()?;
        self.shown.apply_event(fact, &state);
        self.state = Some(state);
        self.count += 1;
        Some(at)
    }
}

/// Spreads agent events evenly over a time span.
fn spread_over(
    from: Timestamp,
    end: Timestamp,
    events: Vec<AgentEvent>,
) -> VecDeque<(Timestamp, AgentEvent)> {
    let parts = events.len() as u64 + 1;
    let span = end.elapsed_since(from).0;
    let place = |(at, event): (usize, AgentEvent)| {
        let part = u128::from(span) * (at as u128 + 1) / u128::from(parts);
        (from.saturating_add(Millis(u64::try_from(part).unwrap_or(span))), event)
    };
    events.into_iter().enumerate().map(place).collect()
}

impl ScreenHost for ReplayPlayer {
    fn refresh(&mut self, screen: &mut ScreenState) -> bool {
        let span = self.last_refresh.map_or(Millis::ZERO, |last| screen.now.elapsed_since(last));
        self.last_refresh = Some(screen.now);
        let is_new = match (self.source, screen.replay) {
            (ReplaySource::Live, _) => self.catch_up(screen),
            (ReplaySource::Record, Some(deck)) if deck.play == PlayState::Playing => {
                self.advance_replay(screen, deck, span)
            }
            (ReplaySource::Record, _) => false,
        };
        // The screen shows the replayed time.
        if let (ReplaySource::Record, Some(deck)) = (self.source, screen.replay) {
            screen.now = deck.at;
        }
        is_new
    }

    fn execute_action(&mut self, action: KeyAction, screen: &mut ScreenState) -> ControlFlow<()> {
        match action {
            KeyAction::Jump(jump) => {
                self.jump_to_iteration(screen, jump);
                ControlFlow::Continue(())
            }
            KeyAction::Request(request) => {
                send_request(&mut self.sends, &request, screen, ControlFlow::Continue(()))
            }
            KeyAction::RequestAndLeave(request) => {
                send_request(&mut self.sends, &request, screen, ControlFlow::Break(()))
            }
            KeyAction::Leave => ControlFlow::Break(()),
            KeyAction::Redraw => ControlFlow::Continue(()),
        }
    }

    fn link(&self) -> &Link {
        &self.link
    }
}
