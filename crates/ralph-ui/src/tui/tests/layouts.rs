//! The content of the screen at several sizes, in several states, with and without color.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use expect_test::{Expect, expect};
use ralph_core::tasks::checklist::Checklist;
use ralph_core::tasks::plan::assess_plan_text;
use ralph_model::event::WaitReason;
use ralph_model::outcome::Outcome;
use ratatui_core::style::{Color, Modifier};

use super::*;
use crate::tui::screen::Panel;

#[track_caller]
fn check(rig: &mut Rig, (width, height): (u16, u16), expect: &Expect) {
    expect.assert_eq(&rig.sized(width, height));
}

#[test]
fn a_task_list_is_left_of_the_stream() {
    check(
        &mut tasks(),
        (80, 20),
        &expect![[r#"
             ⠋ running  implement T-002  run 20261114-231500-k3f9
            ─ Tasks 1/4 ──────────────┬─ Stream ────────────────────────────────────────────
             ✔ T-001 Read the file    │or a sandbox
            >● T-002 Print 日本       │📋 4 tasks, 3 to do; about 3 iterations if all goes
             ○ T-003 Say what is wrong│well, 10 allowed
             ○ T-004 Read the file    │
                                      │Iteration 1/10: implement T-002
                                      │  Print 日本
                                      │Checkpoint 1a2b3c4
                                      │I read it first.
                                      │⏺ Read(src/main.rs)
                                      │❌ Error ← Read (1 line, 12 chars)
                                      │  ⎿  no such file
                                      │⏳ Gate lint: running make lint
                                      │✔ Gate lint: passed, exit code 0 (1.2s)
                                      │⏳ Gate test: running make test
            ──────────────────────────┴─────────────────────────────────────────────────────
            Gates ✔ lint 1.2s  ⠋ test 3s
            Budget iteration 1/10  1m 5s  $0.00 of $20.00
            p pause  s stop  k skip  m note  f filter  / search  Tab panel  ? help  q leave
        "#]],
    );
}

#[test]
fn a_small_screen_shows_the_stream() {
    let mut rig = tasks();
    check(
        &mut rig,
        (50, 12),
        &expect![[r#"
             ⠋ running  implement T-002  run 20261114-231500-k
            ─ Stream ─────────────────────────────────────────
            ⏺ Read(src/main.rs)
            ❌ Error ← Read (1 line, 12 chars)
              ⎿  no such file
            ⏳ Gate lint: running make lint
            ✔ Gate lint: passed, exit code 0 (1.2s)
            ⏳ Gate test: running make test
            ──────────────────────────────────────────────────
            Gates ✔ lint 1.2s  ⠋ test 3s
            Budget iteration 1/10  1m 5s  $0.00 of $20.00
            p pause  s stop  k skip  m note  f filter  / searc
        "#]],
    );
    check(
        &mut rig,
        (20, 5),
        &expect![[r#"
         ⠋ running  implemen
        exit code 0 (1.2s)
        ⏳ Gate test:
        running make test
        Budget iteration 1/1
    "#]],
    );
    check(
        &mut rig,
        (12, 2),
        &expect![[r#"
             ⠋ running
            test
        "#]],
    );
    assert_eq!(rig.sized(3, 1), " ⠋\n");
    assert_eq!(rig.sized(0, 0), "");
}

#[test]
fn a_plain_terminal_gets_ascii_and_no_colors() {
    let (preferences, around) = plain();
    let mut rig = tasks_with(Rig::with(&preferences, &around));
    check(
        &mut rig,
        (64, 14),
        &expect![[r#"
         | running  implement T-002  run 20261114-231500-k3f9
        - Tasks 1/4 ----------+- Stream --------------------------------
         [x] T-001 Read the fi|I read it first.
        >[>] T-002 Print 日本 |* Read(src/main.rs)
         [ ] T-003 Say what is|[ERR] Error <- Read (1 line, 12 chars)
         [ ] T-004 Read the fi|  |  no such file
                              |[..] Gate lint: running make lint
                              |[OK] Gate lint: passed, exit code 0
                              |(1.2s)
                              |[..] Gate test: running make test
        ----------------------+-----------------------------------------
        Gates [OK] lint 1.2s  | test 3s
        Budget iteration 1/10  1m 5s  $0.00 of $20.00
        p pause  s stop  k skip  m note  f filter  / search  Tab panel
    "#]],
    );
    assert!(lines(&rig.cells()).is_ascii() || lines(&rig.cells()).contains('日'));
    assert!(rig.cells().content().iter().all(|cell| cell.fg == Color::Reset));
    let colors = tasks().cells();
    assert!(colors.content().iter().any(|cell| cell.fg == Color::Green));
}

#[test]
fn a_prompt_has_iterations() {
    let mut rig = Rig::new();
    rig.begin(prompt_recipe()).pass(10).iterate(1, Role::Prompt, None);
    rig.hear(&text("Here."));
    check(
        &mut rig,
        (70, 12),
        &expect![[r#"
             ⠋ running  prompt  run 20261114-231500-k3f9
            ─ Iterations ──────────┬─ Stream ─────────────────────────────────────
            >● 1 prompt            │  no file is protected: that needs a git
                                   │repository or a sandbox
                                   │
                                   │Iteration 1/10
                                   │Checkpoint 1a2b3c4
                                   │Here.
            ───────────────────────┴──────────────────────────────────────────────
            Gates ○ lint  ○ test
            Budget iteration 1/10  10s  $0.00 of $20.00
            p pause  s stop  k skip  m note  f filter  / search  Tab panel  ? help
        "#]],
    );
}

#[test]
fn a_plan_has_iterations_and_what_is_next() {
    let mut rig = Rig::new();
    rig.begin(prompt_recipe()).pass(10).iterate(1, Role::Build, None);
    let look = assess_plan_text("- [x] Read\n- [ ] Print the table\n- [ ] Say why\n");
    rig.tell(Event::PlanSeen { look });
    let seen = rig.sized(70, 12);
    assert!(seen.contains("Plan 1/3"), "{seen}");
    assert!(seen.contains(">● 1 build") && seen.contains(" ○ Print the table"), "{seen}");
}

#[test]
fn a_wait_counts_down_and_the_end_is_shown() {
    let mut rig = tasks();
    let until = START.saturating_add(Millis::from_mins(30));
    rig.tell(Event::Waiting { until, reason: WaitReason::UsageLimit }).pass(5);
    let title = |rig: &mut Rig| rig.text().lines().next().unwrap_or_default().to_owned();
    assert_eq!(
        title(&mut rig),
        " usage limit: resumes at 23:45, in 28:50  implement T-002  run 20261114-231500-k"
    );
    rig.tell(Event::RunEnded { outcome: Outcome::Interrupted, left: None });
    assert_eq!(title(&mut rig), " ended: interrupted  implement T-002  run 20261114-231500-k3f9");
}

#[test]
fn ten_thousand_tasks_keep_the_current_one_in_sight() {
    let mut rig = Rig::new();
    rig.begin(recipe(Work::Tasks(TaskWork::new("plan.json"))));
    rig.tell(Event::TasksRead { list: Box::new(task_list(10_000)), remarks: Vec::new() });
    rig.iterate(1, Role::Implement, Some("T-5000"));
    let seen = rig.sized(80, 14);
    assert!(seen.contains(">● T-5000"), "{seen}");
    rig.screen.focus = Panel::List;
    rig.screen.list_top = Some(usize::MAX);
    let seen = rig.text();
    assert!(seen.contains("T-10000"), "{seen}");
}

/// Updates the screen, and returns the texts of the rows.
fn row_texts(rig: &mut Rig) -> Vec<Arc<str>> {
    rig.cells();
    rig.screen.facts.work.rows.iter().map(|row| Arc::clone(&row.text)).collect()
}

#[test]
fn only_changed_rows_are_rebuilt() {
    let mut rig = Rig::new();
    rig.begin(recipe(Work::Tasks(TaskWork::new("plan.json"))));
    rig.tell(Event::TasksRead { list: Box::new(task_list(10_000)), remarks: Vec::new() });
    let before = row_texts(&mut rig);
    rig.iterate(1, Role::Implement, Some("T-5000"));
    let after = row_texts(&mut rig);
    let made: Vec<usize> =
        (0..10_000).filter(|at| !Arc::ptr_eq(&before[*at], &after[*at])).collect();
    assert_eq!(made, [4_999]);
    rig.tell(Event::GateChecked { result: result("lint", GateStatus::Passed, ""), survey: None });
    let rows = Arc::clone(&rig.screen.facts.work.rows);
    rig.cells();
    assert!(Arc::ptr_eq(&rows, &rig.screen.facts.work.rows), "a gate changes no row");
}

#[test]
fn a_plan_saved_after_its_event_is_read_again() {
    let mut rig = Rig::new();
    rig.begin(prompt_recipe()).pass(10).iterate(1, Role::Build, None);
    let mut saved = vec!["- [x] Read\n- [ ] Print\n", "- [ ] Read\n- [ ] Print\n"];
    rig.live.read_plan = Box::new(move || saved.pop().map(Checklist::read));
    rig.tell(Event::PlanSeen { look: assess_plan_text("- [x] Read\n- [ ] Print\n") });
    rig.sized(70, 16);
    rig.tell(Event::GateChecked { result: result("lint", GateStatus::Passed, ""), survey: None });
    let seen = rig.text();
    assert!(seen.contains("✔ Read") && seen.contains("○ Print"), "{seen}");
}

#[test]
fn all_items_of_a_long_plan_can_be_scrolled_to() {
    let mut rig = Rig::new();
    rig.begin(prompt_recipe()).pass(10).iterate(1, Role::Build, None);
    let item = |at: u32| format!("- [{}] Item {at}", if at < 3 { "x" } else { " " });
    let plan = (0..10_000).map(item).collect::<Vec<_>>().join("\n");
    let looks = Arc::new(AtomicUsize::new(0));
    let (text, counted) = (plan.clone(), Arc::clone(&looks));
    rig.live.read_plan = Box::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        Some(Checklist::read(&text))
    });
    rig.tell(Event::PlanSeen { look: assess_plan_text(&plan) });
    let seen = rig.sized(70, 16);
    assert!(seen.contains("Plan 3/10000") && seen.contains("○ Item 11 "), "{seen}");
    rig.screen.focus = Panel::List;
    rig.screen.list_top = Some(5_000);
    rig.tell(Event::GateChecked { result: result("lint", GateStatus::Passed, ""), survey: None });
    let seen = rig.text();
    assert!(seen.contains("○ Item 5002 "), "{seen}");
    rig.screen.list_top = Some(usize::MAX);
    let seen = rig.text();
    assert!(seen.contains("○ Item 9999 ") && seen.contains("✔ Item 2 "), "{seen}");
    assert_eq!(looks.load(Ordering::SeqCst), 1, "it is read once for each plan event");
}

#[test]
fn agent_output_cannot_move_the_cursor() {
    let mut rig = tasks();
    rig.hear(&text("\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31mwords\r\n\tmore"));
    let cells = rig.cells();
    let seen = lines(&cells);
    assert!(seen.contains("words") && seen.contains("    more"), "{seen}");
    assert!(!seen.contains("owned"));
    assert!(cells.content().iter().all(|cell| !cell.symbol().contains(char::is_control)));
}

#[test]
fn search_matches_are_highlighted() {
    let mut rig = tasks();
    rig.text();
    let room = rig.screen.stream_size();
    assert!(rig.screen.scroll.search_for("such", room));
    let cells = rig.cells();
    let stream = cells.content().chunks(80).skip(2);
    let shown: String = stream
        .flatten()
        .filter(|cell| cell.modifier.contains(Modifier::REVERSED))
        .map(ratatui_core::buffer::Cell::symbol)
        .collect();
    assert_eq!(shown, "such");
}
