//! The screen on its own thread, on a terminal that may hang, close or fail.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use ralph_core::ports::Ui;
use ralph_core::run_loop::fold::{apply_event, start_state};
use ralph_model::control::ControlRequest;
use ralph_model::outcome::Outcome;

use super::*;
use crate::tui::display::{Device, KeyRead};
use crate::tui::view::{FullScreen, FullScreenSetup};

/// A terminal that a test controls.
#[derive(Clone, Default)]
struct Toy(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    keys: Vec<u8>,
    written: Vec<u8>,
    entered: usize,
    left: usize,
    was_resized: bool,
    mood: Mood,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Mood {
    #[default]
    Well,
    /// Accepts no output.
    Hangs,
    /// Was closed.
    Gone,
    /// Makes the screen panic.
    Mad,
}

impl Toy {
    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.0.lock().expect("no panic"));
        self.0.1.notify_all();
    }

    fn until(&self, holds: impl Fn(&State) -> bool) {
        let state = self.0.0.lock().expect("no panic");
        let patience = Duration::from_secs(20);
        let waited = self.0.1.wait_timeout_while(state, patience, |it| !holds(it));
        assert!(!waited.expect("no panic").1.timed_out(), "timed out");
    }

    fn shows(&self, text: &str) {
        self.until(|state| String::from_utf8_lossy(&state.written).contains(text));
    }
}

impl Device for Toy {
    fn enter(&mut self) -> io::Result<()> {
        self.set(|state| state.entered += 1);
        Ok(())
    }

    fn leave(&mut self) {
        self.set(|state| state.left += 1);
    }

    fn is_foreground(&self) -> bool {
        true
    }

    fn size(&self) -> Option<(u16, u16)> {
        Some((80, 24))
    }

    fn was_resized(&mut self) -> bool {
        let mut was_resized = false;
        self.set(|state| was_resized = std::mem::take(&mut state.was_resized));
        was_resized
    }

    fn read_keys(&mut self, patience: Duration, keys: &mut Vec<u8>) -> KeyRead {
        let state = self.0.0.lock().expect("no panic");
        let waits = |state: &mut State| state.keys.is_empty() && state.mood == Mood::Well;
        let (mut state, _) = self.0.1.wait_timeout_while(state, patience, waits).expect("no panic");
        keys.append(&mut state.keys);
        let mood = state.mood;
        drop(state);
        match mood {
            Mood::Gone => KeyRead::Gone,
            Mood::Mad => panic!("a screen that breaks"),
            Mood::Well | Mood::Hangs if keys.is_empty() => KeyRead::Nothing,
            Mood::Well | Mood::Hangs => KeyRead::Keys,
        }
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        let state = self.0.0.lock().expect("no panic");
        let mut state =
            self.0.1.wait_while(state, |state| state.mood == Mood::Hangs).expect("no panic");
        state.written.extend_from_slice(bytes);
        self.0.1.notify_all();
        Ok(())
    }
}

/// Counts the calls of the plain view.
#[derive(Clone, Default)]
struct Plain(Arc<AtomicUsize>);

impl Plain {
    fn calls(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Ui for Plain {
    fn show_event(&mut self, _: &Recorded, _: &RunState) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn show_agent_event(&mut self, _: &AgentEvent) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn show_activity(&mut self, _: &Activity<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

struct Scene {
    toy: Toy,
    plain: Plain,
    link: Link,
    requests: Arc<Mutex<Vec<ControlRequest>>>,
    view: FullScreen<Link, Plain>,
    events: Vec<Recorded>,
    state: RunState,
}

fn scene() -> Scene {
    let (toy, plain, link) = (Toy::default(), Plain::default(), Link::default());
    let requests: Arc<Mutex<Vec<ControlRequest>>> = Arc::default();
    let kept = Arc::clone(&requests);
    let mut options = options(&StylePreferences::default(), &terminal());
    options.clock.now = || START;
    let send = Box::new(move |request: &ControlRequest| {
        kept.lock().expect("no panic").push(request.clone());
        Ok(())
    });
    let setup = FullScreenSetup {
        device: Box::new(toy.clone()),
        send,
        read_plan: Box::new(|| None),
        screen: link.clone(),
        options,
    };
    let mut view = FullScreen::start(setup, |link| link, plain.clone());
    let events = tasks().course.events;
    let mut state = start_state(&events[0]).expect("the first event");
    view.show_event(&events[0], &state);
    for fact in &events[1..] {
        apply_event(&mut state, fact).expect("it fits");
        view.show_event(fact, &state);
    }
    Scene { toy, plain, link, requests, view, events, state }
}

impl Scene {
    fn end(&mut self) {
        let last = self.events.last().expect("an event");
        let event = Event::RunEnded { outcome: Outcome::Complete, left: None };
        let fact = Recorded { seq: last.seq + 1, event, ..last.clone() };
        apply_event(&mut self.state, &fact).expect("it fits");
        self.view.show_event(&fact, &self.state);
    }
}

#[test]
fn the_end_is_printed_on_the_normal_screen() {
    let mut scene = scene();
    scene.toy.shows("T-002");
    assert!(scene.link.is_shown());
    scene.end();
    scene.toy.until(|state| (state.entered, state.left) == (1, 1));
    assert!(scene.link.is_gone());
    assert_eq!(scene.plain.calls(), 1);
}

#[test]
fn keys_become_requests_and_leaving_is_no_stop() {
    let mut scene = scene();
    scene.toy.set(|state| state.keys.extend(b"mhi\rpql"));
    scene.toy.until(|state| state.left == 1);
    let requests = scene.requests.lock().expect("no panic").clone();
    assert_eq!(requests, [ControlRequest::Note { text: "hi".into() }, ControlRequest::Pause]);
    let gone = || scene.link.is_gone();
    let begun = Instant::now();
    while !gone() && begun.elapsed() < Duration::from_secs(20) {
        std::thread::yield_now();
    }
    scene.view.show_agent_event(&text("more"));
    assert_eq!(scene.plain.calls(), 1);
}

#[test]
fn a_terminal_that_hangs_does_not_block_and_lines_are_counted() {
    let mut scene = scene();
    scene.toy.shows("T-002");
    scene.toy.set(|state| state.mood = Mood::Hangs);
    let begun = Instant::now();
    for number in 0..80_000 {
        scene.view.show_agent_event(&text(&format!("line {number} of many\n")));
    }
    assert!(begun.elapsed() < Duration::from_secs(20));
    // Forces a full redraw, so that no cell is skipped because it is unchanged.
    scene.toy.set(|state| {
        (state.mood, state.keys) = (Mood::Well, vec![0x0c]);
        state.written.clear();
    });
    scene.toy.shows("shown");
    scene.end();
    assert_eq!(scene.plain.calls(), 1);
}

#[test]
fn a_closed_or_failing_terminal_does_not_affect_the_run() {
    for mood in [Mood::Gone, Mood::Mad] {
        let mut scene = scene();
        scene.toy.set(|state| state.mood = mood);
        scene.toy.until(|state| state.left == 1);
        scene.end();
        assert_eq!(scene.plain.calls(), 1);
    }
}

#[test]
fn a_terminal_resized_to_its_old_size_is_redrawn() {
    let scene = scene();
    scene.toy.shows("T-002");
    scene.toy.set(|state| {
        state.written.clear();
        state.was_resized = true;
    });
    scene.toy.shows("T-002");
    assert_eq!(scene.toy.0.0.lock().expect("no panic").entered, 1);
}

#[test]
fn a_screen_steps_aside_and_is_restored() {
    let scene = scene();
    scene.toy.shows("T-002");
    scene.link.step_aside(Duration::from_secs(20));
    assert!(!scene.link.is_shown());
    scene.toy.until(|state| state.left == 1);
    scene.toy.set(|state| state.written.clear());
    scene.link.show_again();
    scene.toy.shows("T-002");
    scene.toy.until(|state| state.entered == 2);
}
