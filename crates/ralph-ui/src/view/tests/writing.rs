//! Views on broken writers, moved writers, and several writers at once.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;

struct Broken;

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A writer that the test can still read after moving it into a view.
#[derive(Clone, Default)]
struct Kept(Rc<RefCell<Vec<u8>>>);

impl Kept {
    fn text(&self) -> String {
        String::from_utf8(self.0.borrow().clone()).expect("whole characters")
    }
}

impl Write for Kept {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(piece)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn every_view_gets_the_events_and_a_broken_one_stops_nothing() {
    let options = |verbosity| options(&StylePreferences::default(), &pipe(), verbosity);
    let (quiet, normal) = (Kept::default(), Kept::default());
    let mut fanout = Fanout::new(vec![
        Box::new(TerminalView::new(Broken, options(Verbosity::Normal))),
        Box::new(TerminalView::new(quiet.clone(), options(Verbosity::Quiet))),
        Box::new(TerminalView::new(normal.clone(), options(Verbosity::Normal))),
    ]);
    let mut scene = Stage::new(&pipe());
    scene.begin(recipe());
    let state = scene.course.state();
    let event = Event::Warned { text: "careful".into() };
    let recorded = Recorded { seq: 2, at: START, ran: Millis::ZERO, event };
    fanout.show_event(&recorded, state);
    fanout.show_agent_event(&AgentEvent::Notice { text: "noticed".into() });
    fanout.show_activity(&Activity::Gate(&state.recipe.gates[0]));
    assert_eq!(quiet.text(), "⚠ careful\n");
    let normal = normal.text();
    assert!(normal.starts_with("⚠ careful\n") && normal.contains("noticed"), "{normal}");
}

#[test]
fn an_error_of_the_writer_is_kept() {
    let options = options(&StylePreferences::default(), &pipe(), Verbosity::Normal);
    let mut view = TerminalView::new(Broken, options);
    assert!(view.first_error().is_none());
    view.show_agent_event(&AgentEvent::Notice { text: "lost".into() });
    assert_eq!(view.first_error().map(io::Error::kind), Some(io::ErrorKind::BrokenPipe));
}

#[test]
fn a_dropped_view_leaves_a_fresh_line() {
    for (around, expect) in [(terminal(), "\r\u{1b}[2K"), (pipe(), "make lint\n")] {
        let kept = Kept::default();
        let options = options(&StylePreferences::default(), &around, Verbosity::Normal);
        let mut view = TerminalView::new(kept.clone(), options);
        view.show_activity(&Activity::Gate(&recipe().gates[0]));
        drop(view);
        assert!(kept.text().ends_with(expect), "{:?}", kept.text());
    }
}

/// Shows the live line after these seconds, on a terminal or pipe with this many columns now.
fn show_live(
    around: &StreamEnvironment,
    columns: fn() -> Option<usize>,
    seconds: &[u64],
) -> String {
    let kept = Kept::default();
    let options = options(&StylePreferences::default(), around, Verbosity::Normal);
    let mut view = TerminalView::new(kept.clone(), ViewOptions { columns, ..options });
    view.show_activity(&Activity::Gate(&recipe().gates[0]));
    let before = kept.text().len();
    view.tracker.apply_activity(&Activity::Gate(&recipe().gates[0]), START);
    for second in seconds {
        view.show_agent_event(&AgentEvent::StillRunning { ran: Millis(second * 1000) });
    }
    kept.text()[before..].to_owned()
}

#[test]
fn the_live_line_fits_the_terminal_of_now_and_is_on_no_pipe() {
    let shown = show_live(&terminal(), || None, &[1, 2]);
    assert_eq!(shown.matches("gate lint").count(), 2, "{shown:?}");
    assert!(shown.contains("0:01 gate lint") && shown.ends_with('\r'), "{shown:?}");
    let narrow = show_live(&terminal(), || Some(12), &[1]);
    assert!(narrow.contains("0:01 ") && !narrow.contains("0:01 gate"), "{narrow:?}");
    assert_eq!(show_live(&pipe(), || Some(80), &[1, 2]), "");
}

#[test]
fn a_line_that_the_agent_is_writing_is_not_broken() {
    let kept = Kept::default();
    let options = options(&StylePreferences::default(), &terminal(), Verbosity::Normal);
    let mut view = TerminalView::new(kept.clone(), options);
    view.tracker.apply_activity(&Activity::Gate(&recipe().gates[0]), START);
    let text = |text: &str| AgentEvent::Text {
        text: text.to_owned(),
        speaker: ralph_model::agent_output::Speaker::Agent,
        form: ralph_model::agent_output::TextForm::Delta,
    };
    for event in [text("one "), AgentEvent::StillRunning { ran: Millis(1000) }, text("two")] {
        view.show_agent_event(&event);
    }
    assert!(kept.text().ends_with("one two"), "{:?}", kept.text());
    for second in [2, 3] {
        view.show_agent_event(&AgentEvent::StillRunning { ran: Millis(second * 1000) });
    }
    assert!(kept.text().contains("one two\n"), "{:?}", kept.text());
    assert!(kept.text().contains("0:03"), "{:?}", kept.text());
}

#[test]
fn a_warning_during_a_call_keeps_the_live_line() {
    let kept = Kept::default();
    let options = options(&StylePreferences::default(), &terminal(), Verbosity::Normal);
    let mut view = TerminalView::new(kept.clone(), options);
    view.tracker.apply_activity(&Activity::Gate(&recipe().gates[0]), START);
    let mut scene = Stage::new(&pipe());
    scene.begin(recipe());
    let event = Event::Warned { text: "careful".into() };
    let recorded = Recorded { seq: 2, at: START, ran: Millis::ZERO, event };
    view.show_event(&recorded, scene.course.state());
    view.show_agent_event(&AgentEvent::StillRunning { ran: Millis(5_000) });
    assert!(kept.text().contains("0:05 gate lint"), "{:?}", kept.text());
}
