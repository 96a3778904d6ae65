//! Views on writers that break, are given away, or come in numbers.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;
use crate::json::JsonView;
use expect_test::expect;

struct Broken;

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A writer that the test can still read after it was given away.
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
fn every_view_is_told_and_a_broken_one_stops_nothing() {
    let options = |verbosity| options(&Wishes::default(), &pipe(), verbosity);
    let (quiet, json) = (Kept::default(), Kept::default());
    let mut fanout = Fanout::new(vec![
        Box::new(TerminalView::new(Broken, options(Verbosity::Normal))),
        Box::new(TerminalView::new(quiet.clone(), options(Verbosity::Quiet))),
        Box::new(JsonView::new(json.clone())),
    ]);
    let mut scene = Stage::new(&pipe());
    scene.begin(recipe());
    let state = scene.course.state();
    let event = Event::Warned { text: "careful".into() };
    let recorded = Recorded { seq: 2, at: START, ran: Millis::ZERO, event };
    fanout.tell(&recorded, state);
    fanout.hear(&AgentEvent::Notice { text: "heard".into() });
    fanout.doing(&Activity::Gate(&state.recipe.gates[0]));
    assert_eq!(quiet.text(), "⚠ careful\n");
    expect![[r#"
        {"seq":2,"at":1794698100000,"ran":0,"event":{"type":"warned","text":"careful"}}
    "#]]
    .assert_eq(&json.text());
}

#[test]
fn an_error_of_the_writer_is_remembered() {
    let options = options(&Wishes::default(), &pipe(), Verbosity::Normal);
    let mut view = TerminalView::new(Broken, options);
    assert!(view.first_error().is_none());
    view.hear(&AgentEvent::Notice { text: "lost".into() });
    assert_eq!(view.first_error().map(io::Error::kind), Some(io::ErrorKind::BrokenPipe));
}

#[cfg(unix)]
#[test]
fn an_event_that_is_no_json_is_remembered_as_an_error() {
    use std::os::unix::ffi::OsStrExt;
    let mut scene = Stage::new(&pipe());
    scene.begin(recipe());
    let event = Event::RunStarted {
        journal: JOURNAL_VERSION,
        version: "0.1.0".into(),
        run: RunId("r".into()),
        project: std::ffi::OsStr::from_bytes(b"\xff").into(),
        recipe: Box::new(recipe()),
    };
    let recorded = Recorded { seq: 1, at: START, ran: Millis::ZERO, event };
    let mut view = JsonView::new(Vec::new());
    view.tell(&recorded, scene.course.state());
    assert!(view.first_error().is_some());
}

#[test]
fn a_view_that_is_gone_leaves_a_fresh_line() {
    for (around, expect) in [(terminal(), "\r\u{1b}[2K"), (pipe(), "make lint\n")] {
        let kept = Kept::default();
        let options = options(&Wishes::default(), &around, Verbosity::Normal);
        let mut view = TerminalView::new(kept.clone(), options);
        view.doing(&Activity::Gate(&recipe().gates[0]));
        drop(view);
        assert!(kept.text().ends_with(expect), "{:?}", kept.text());
    }
}
