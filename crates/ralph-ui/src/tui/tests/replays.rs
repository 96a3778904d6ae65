//! Replays: played, and stepped through by iteration.

use std::collections::VecDeque;

use ralph_core::checklist::Checklist;
use ralph_core::plan::PlanLook;

use super::*;
use crate::tui::display::{Host, Stay};
use crate::tui::keys::Key;
use crate::tui::player::{Moment, Player, Recording, Said};
use crate::tui::press::{Deed, press};
use crate::tui::screen::Play;

/// A recording of three iterations with a short text in each.
struct Record {
    facts: Vec<Recorded>,
    output: VecDeque<AgentEvent>,
    looks: usize,
}

impl Recording for Record {
    fn facts(&mut self) -> Result<Vec<Recorded>, String> {
        Ok(std::mem::take(&mut self.facts))
    }

    fn turn_to(&mut self, state: &RunState, _: &Event) {
        self.output = [text(&format!("word {}\n", state.iterations)), text("more\n")].into();
    }

    fn heard(&mut self) -> Said {
        let events: Vec<AgentEvent> = self.output.pop_front().into_iter().collect();
        Said { events, read: 2 - self.output.len() as u64, of: 2 }
    }

    fn plan(&mut self, _: &RunState) -> Option<Checklist> {
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

fn player(facts: Vec<Recorded>, moment: Moment) -> (Player, Screen) {
    let options = options(&Wishes::default(), &terminal());
    let mut screen = Screen::new((&options.style).into(), options.clock.clone());
    screen.size = Size::new(80, 24);
    let send = Box::new(|_: &_| Err("no run is active".to_owned()));
    let record = Box::new(Record { facts, output: VecDeque::new(), looks: 0 });
    let mut player = Player::new(Link::default(), options, record, moment, send);
    player.begin(&mut screen);
    (player, screen)
}

fn push(player: &mut Player, screen: &mut Screen, key: &Key) -> Option<Stay> {
    press(screen, key).map(|action| player.serve(action, screen))
}

fn later(player: &mut Player, screen: &mut Screen, millis: u64) -> String {
    NOW.set(NOW.get().plus(Millis(millis)));
    screen.now = NOW.get();
    player.refresh(screen);
    lines(&cells(screen))
}

#[test]
fn it_plays_with_shortened_gaps() {
    let (mut player, mut screen) = player(record(), Moment::Past);
    later(&mut player, &mut screen, 0);
    let seen = later(&mut player, &mut screen, 1);
    assert!(seen.starts_with(" replay x8 23:15:00"), "{seen}");
    assert!(!seen.contains("Iteration 1/10"), "{seen}");
    // At this speed, ten seconds of the run take little more than one.
    let seen = later(&mut player, &mut screen, 1_300);
    assert!(seen.contains("Iteration 1/10") && !seen.contains("word 1"), "{seen}");
    let seen = later(&mut player, &mut screen, 3_000);
    assert!(seen.contains("word 1") && !seen.contains("Gate lint"), "{seen}");
    push(&mut player, &mut screen, &Key::Char(' '));
    let seen = later(&mut player, &mut screen, 60_000);
    assert!(seen.starts_with(" replay halted"), "{seen}");
    assert!(!seen.contains("Iteration 2/10"), "{seen}");
    push(&mut player, &mut screen, &Key::Char(' '));
    push(&mut player, &mut screen, &Key::Char('+'));
    for _ in 0..10 {
        later(&mut player, &mut screen, 3_000);
    }
    assert_eq!(screen.deck.map(|deck| deck.play), Some(Play::AtEnd));
}

#[test]
fn it_steps_by_iteration_both_ways() {
    let (mut player, mut screen) = player(record(), Moment::Past);
    let mut step = |key: Key| {
        push(&mut player, &mut screen, &key);
        let seen = later(&mut player, &mut screen, 1);
        (1..=3).filter(|number| seen.contains(&format!("word {number}"))).collect::<Vec<u32>>()
    };
    assert_eq!(step(Key::Right), [1]);
    assert_eq!(step(Key::Right), [2]);
    assert_eq!(step(Key::Right), [3]);
    assert_eq!(step(Key::Right), [3]);
    assert_eq!(step(Key::Left), [2]);
    assert_eq!(step(Key::Left), [1]);
    assert_eq!(step(Key::Left), [1]);
}

#[test]
fn an_active_run_is_shown_up_to_now_and_takes_requests() {
    let mut facts = record();
    let rest = facts.split_off(facts.len() - 2);
    let (mut player, mut screen) = player(facts, Moment::Present);
    let seen = later(&mut player, &mut screen, 1_000);
    assert!(seen.contains("live") && seen.contains("word 3"), "{seen}");
    assert!(!seen.contains("word 2"), "{seen}");
    assert_eq!(
        press(&mut screen, &Key::Char('p')),
        Some(Deed::Wish(ralph_core::control::Wish::Pause))
    );
    assert_eq!(push(&mut player, &mut screen, &Key::Char('p')), Some(Stay::Yes));
    let seen = later(&mut player, &mut screen, 1);
    assert!(seen.contains("no run is active"), "{seen}");
    assert_eq!(rest.len(), 2);
}

#[test]
fn the_last_plan_is_complete_and_earlier_ones_are_as_recorded() {
    let mut rig = Rig::new();
    rig.begin(prompt_recipe());
    for (number, plan) in [(1, "- [ ] Read\n"), (2, "- [x] Read\n- [ ] Print\n")] {
        rig.pass(10).iterate(number, Role::Build, None);
        rig.tell(Event::PlanSeen { look: PlanLook::of(plan) });
        rig.pass(10).tell(Event::IterationEnded { iteration: IterationNumber(number) });
    }
    let (mut player, mut screen) = player(rig.course.events, Moment::Past);
    let step = |player: &mut Player, screen: &mut Screen| {
        push(player, screen, &Key::Right);
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
