//! Replays: played, and stepped through by iteration.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use ralph_core::tasks::checklist::Checklist;
use ralph_core::tasks::plan::assess_plan_text;

use super::*;
use crate::tui::display::ScreenHost;
use crate::tui::key_actions::{KeyAction, handle_key};
use crate::tui::keys::TerminalKey;
use crate::tui::replay_player::{CallOutput, Recording, ReplayPlayer};
use crate::tui::screen::{PlayState, ReplaySource};

/// A recording of three iterations with a short text in each.
struct Record {
    facts: Vec<Recorded>,
    output: VecDeque<AgentEvent>,
    looks: usize,
}

impl Recording for Record {
    fn read_events(&mut self) -> Result<Vec<Recorded>, String> {
        Ok(std::mem::take(&mut self.facts))
    }

    fn select_call(&mut self, state: &RunState, _: &Event) {
        self.output = [text(&format!("word {}\n", state.iterations)), text("more\n")].into();
    }

    fn read_output(&mut self) -> CallOutput {
        let events: Vec<AgentEvent> = self.output.pop_front().into_iter().collect();
        CallOutput { events, read_bytes: 2 - self.output.len() as u64, total_bytes: 2 }
    }

    fn read_plan(&mut self, _: &RunState) -> Option<Checklist> {
        self.looks += 1;
        assert_eq!(self.looks, 1, "it is read once for each plan event");
        Some(Checklist::read("- [x] Read\n- [ ] Print\n- [ ] Say why\n"))
    }
}

fn record() -> Vec<Recorded> {
    let mut rig = Rig::new();
    rig.begin(prompt_recipe());
    for number in 1..=3 {
        rig.pass(10).iterate(number, Role::Prompt, None);
        rig.pass(60).check("lint", GateStatus::Passed, "");
        rig.tell(Event::IterationEnded { iteration: IterationNumber(number) });
    }
    rig.course.events
}

fn player(facts: Vec<Recorded>, source: ReplaySource) -> (ReplayPlayer, ScreenState) {
    let options = options(&StylePreferences::default(), &terminal());
    let mut screen = ScreenState::new(options.style.clone(), options.clock.clone());
    screen.size = Size::new(80, 24);
    let send = Box::new(|_: &_| Err("no run is active".to_owned()));
    let record = Box::new(Record { facts, output: VecDeque::new(), looks: 0 });
    let mut player = ReplayPlayer::new(Link::default(), options, record, source, send);
    player.show_beginning(&mut screen);
    (player, screen)
}

fn push(
    player: &mut ReplayPlayer,
    screen: &mut ScreenState,
    key: &TerminalKey,
) -> Option<ControlFlow<()>> {
    handle_key(screen, key).map(|action| player.execute_action(action, screen))
}

fn later(player: &mut ReplayPlayer, screen: &mut ScreenState, millis: u64) -> String {
    NOW.set(NOW.get().saturating_add(Millis(millis)));
    screen.now = NOW.get();
    player.refresh(screen);
    lines(&cells(screen))
}

#[test]
fn it_plays_with_shortened_gaps() {
    let (mut player, mut screen) = player(record(), ReplaySource::Record);
    later(&mut player, &mut screen, 0);
    let seen = later(&mut player, &mut screen, 1);
    assert!(seen.starts_with(" replay x8 23:15:00"), "{seen}");
    assert!(!seen.contains("Iteration 1/10"), "{seen}");
    // At this speed, ten seconds of the run take little more than one.
    let seen = later(&mut player, &mut screen, 1_300);
    assert!(seen.contains("Iteration 1/10") && !seen.contains("word 1"), "{seen}");
    let seen = later(&mut player, &mut screen, 3_000);
    assert!(seen.contains("word 1") && !seen.contains("Gate lint"), "{seen}");
    push(&mut player, &mut screen, &TerminalKey::Char(' '));
    let seen = later(&mut player, &mut screen, 60_000);
    assert!(seen.starts_with(" replay halted"), "{seen}");
    assert!(!seen.contains("Iteration 2/10"), "{seen}");
    push(&mut player, &mut screen, &TerminalKey::Char(' '));
    push(&mut player, &mut screen, &TerminalKey::Char('+'));
    for _ in 0..10 {
        later(&mut player, &mut screen, 3_000);
    }
    assert_eq!(screen.replay.map(|deck| deck.play), Some(PlayState::AtEnd));
}

#[test]
fn it_steps_by_iteration_both_ways() {
    let (mut player, mut screen) = player(record(), ReplaySource::Record);
    let mut step = |key: TerminalKey| {
        push(&mut player, &mut screen, &key);
        let seen = later(&mut player, &mut screen, 1);
        (1..=3).filter(|number| seen.contains(&format!("word {number}"))).collect::<Vec<u32>>()
    };
    assert_eq!(step(TerminalKey::Right), [1]);
    assert_eq!(step(TerminalKey::Right), [2]);
    assert_eq!(step(TerminalKey::Right), [3]);
    assert_eq!(step(TerminalKey::Right), [3]);
    assert_eq!(step(TerminalKey::Left), [2]);
    assert_eq!(step(TerminalKey::Left), [1]);
    assert_eq!(step(TerminalKey::Left), [1]);
}

#[test]
fn an_active_run_is_shown_up_to_now_and_takes_requests() {
    let mut facts = record();
    let rest = facts.split_off(facts.len() - 2);
    let (mut player, mut screen) = player(facts, ReplaySource::Live);
    let seen = later(&mut player, &mut screen, 1_000);
    assert!(seen.contains("live") && seen.contains("word 3"), "{seen}");
    assert!(!seen.contains("word 2"), "{seen}");
    assert_eq!(
        handle_key(&mut screen, &TerminalKey::Char('p')),
        Some(KeyAction::Request(ralph_model::control::ControlRequest::Pause))
    );
    assert_eq!(
        push(&mut player, &mut screen, &TerminalKey::Char('p')),
        Some(ControlFlow::Continue(()))
    );
    let seen = later(&mut player, &mut screen, 1);
    assert!(seen.contains("no run is active"), "{seen}");
    assert_eq!(rest.len(), 2);
}

#[test]
fn the_last_plan_is_complete_and_earlier_ones_are_as_recorded() {
    let mut rig = Rig::new();
    rig.begin(prompt_recipe());
    for (number, plan) in [(1, "- [ ] Read\n"), (2, "- [x] Read\n- [ ] Print\n- [ ] Say why\n")] {
        rig.pass(10).iterate(number, Role::Build, None);
        rig.tell(Event::PlanSeen { look: assess_plan_text(plan) });
        rig.pass(10).tell(Event::IterationEnded { iteration: IterationNumber(number) });
    }
    let (mut player, mut screen) = player(rig.course.events, ReplaySource::Record);
    let step = |player: &mut ReplayPlayer, screen: &mut ScreenState| {
        push(player, screen, &TerminalKey::Right);
        later(player, screen, 1)
    };
    let first = step(&mut player, &mut screen);
    assert!(first.contains(" ○ Read ") && !first.contains("Say why"), "{first}");
    let last = step(&mut player, &mut screen);
    let items: Vec<usize> = ["○ Print", "○ Say why", "✔ Read"]
        .iter()
        .map(|item| last.find(item).unwrap_or_else(|| panic!("no {item}: {last}")))
        .collect();
    assert!(items.is_sorted(), "open items come first: {last}");
}
