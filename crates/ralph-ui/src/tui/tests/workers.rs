//! A run with workers on the screen: their rows, and the keys that act on one.

use expect_test::expect;
use ralph_model::control::ControlRequest;

use super::*;
use crate::tui::key_actions::{KeyAction, handle_key};
use crate::tui::keys::TerminalKey;
use crate::view::tests::Course;
use crate::view::tests::parallel::{parallel_course, taken_over_course};

fn parallel() -> Rig {
    let mut rig = replay_course(parallel_course());
    rig.pass(12);
    rig
}

fn replay_course(course: Course) -> Rig {
    let mut rig = Rig::new();
    for recorded in course.events {
        let passed = recorded.ran.0 - rig.course.now().elapsed_since(START).0;
        rig.pass(passed / 1000).tell(recorded.event);
    }
    rig
}

#[test]
fn a_row_names_machine_attempt_and_takeover() {
    let screen = replay_course(taken_over_course()).sized(120, 20);
    for part in ["gpu-2/s1 (a1.2)", "taken over from gpu-1 (a1.1) after 3 iterations"] {
        assert!(screen.contains(part), "no {part} in {screen}");
    }
}

fn type_in(rig: &mut Rig, typed: &str) -> Vec<KeyAction> {
    rig.text();
    let key = |letter| match letter {
        '\n' => TerminalKey::Enter,
        letter => TerminalKey::Char(letter),
    };
    typed.chars().filter_map(|letter| handle_key(&mut rig.screen, &key(letter))).collect()
}

#[test]
fn workers_and_the_queue_are_above_the_gates() {
    let mut rig = parallel();
    type_in(&mut rig, "w");
    expect![[r#"
         ⠋ running  merge T3  run 20261114-231500-k3f9
        ─ Tasks 1/5 ──────────────┬─ Stream ────────────────────────────────────────────
         ✔ T1 Write T1            │Progress: 1/5 tasks done, iterations 5/10, 2m 0s
         ● T2 (1/5 failed) Write T│elapsed, $0.22 so far
        >● T3 Write T3            │⏳ T2 merging
         ● T4 Write T4            │↻ T2 conflict in src/x.rs: starts again, round 2
         ○ T5 Write T5            │Progress: 1/5 tasks done, iterations 5/10, 2m 3s
                                  │elapsed, $0.22 so far
                                  │▶ T4 started in slot s1
                                  │● T3 waits to land
                                  │⏳ T3 merging
                                  │✘ T3 gate test failed (1.2s)
                                  │  ⎿  expected 1, got 2
        ──────────────────────────┴─────────────────────────────────────────────────────
        >s1  T4  working  0 iterations  0:42
         T3  gates 0/1  0:12
         T2 in round 2: conflict in src/x.rs
        Gates ✘ test 1.2s
        Budget iteration 6/10  2m 45s  $0.24 of $20.00  24K tokens
        p pause  s stop  w worker  k skip  m note  f filter  / search  ? help  q leave
    "#]]
    .assert_eq(&rig.sized(80, 20));
    // A small screen keeps the stream.
    let small = rig.sized(50, 9);
    assert!(!small.contains("s1  T4") && small.contains("expected 1"), "{small}");
}

#[test]
fn keys_act_on_the_chosen_worker() {
    let task = || TaskId("T4".into());
    let note = ControlRequest::TaskNote { task: task(), text: "hi".into() };
    assert_eq!(type_in(&mut parallel(), "wmhi\n"), [KeyAction::Request(note)]);
    let skip = ControlRequest::Skip { task: task() };
    assert_eq!(type_in(&mut parallel(), "wky"), [KeyAction::Request(skip)]);
    let all = ControlRequest::Note { text: "hi".into() };
    assert_eq!(type_in(&mut parallel(), "wwmhi\n"), [KeyAction::Request(all)], "none is chosen");
    let mut rig = parallel();
    type_in(&mut rig, "w\n");
    let hint = "ralph log --task T4 --follow shows this worker";
    assert_eq!(rig.screen.hint.as_deref(), Some(hint));
}
