//! Key handling: from a state and a key to a state and an action.

use ralph_model::control::ControlRequest;

use super::*;
use crate::tui::key_actions::{KeyAction, handle_key};
use crate::tui::keys::TerminalKey;
use crate::tui::screen::{InputMode, Panel, Stopping};
use crate::tui::scrollback::LineFilter;

fn keys(typed: &str) -> Vec<TerminalKey> {
    typed
        .chars()
        .map(|letter| match letter {
            '\n' => TerminalKey::Enter,
            '\u{1b}' => TerminalKey::Escape,
            letter => TerminalKey::Char(letter),
        })
        .collect()
}

#[track_caller]
fn check(typed: &str, expect: &[KeyAction]) {
    let mut rig = tasks();
    rig.text();
    let actions: Vec<KeyAction> =
        keys(typed).iter().filter_map(|key| handle_key(&mut rig.screen, key)).collect();
    assert_eq!(actions, expect, "{typed:?}");
    assert_eq!(rig.screen.mode, InputMode::Watch, "{typed:?}");
}

#[test]
fn irreversible_requests_need_a_confirmation() {
    let task = || TaskId("T-002".into());
    check("p", &[KeyAction::Request(ControlRequest::Pause)]);
    check(
        "pp",
        &[KeyAction::Request(ControlRequest::Pause), KeyAction::Request(ControlRequest::Resume)],
    );
    check("sy", &[KeyAction::Request(ControlRequest::Stop)]);
    check("sn", &[]);
    check("s\u{1b}", &[]);
    check("ky", &[KeyAction::Request(ControlRequest::Skip { task: task() })]);
    check("kk", &[]);
    check(
        "mUse tabs, nicht Ö\n",
        &[KeyAction::Request(ControlRequest::Note { text: "Use tabs, nicht Ö".into() })],
    );
    check("m  \n", &[]);
    check("mqsp\u{1b}", &[]);
    check("qs", &[KeyAction::RequestAndLeave(ControlRequest::Stop)]);
    check("ql", &[KeyAction::Leave]);
    check("qq", &[]);
    check("?q", &[]);
    check("/s\n", &[]);
}

#[test]
fn a_paste_is_no_command_and_a_task_is_needed_to_skip_one() {
    let mut rig = Rig::new();
    rig.begin(prompt_recipe()).text();
    assert_eq!(handle_key(&mut rig.screen, &TerminalKey::Paste("sy".into())), None);
    assert_eq!(rig.screen.mode, InputMode::Watch);
    assert_eq!(handle_key(&mut rig.screen, &TerminalKey::Char('k')), None);
    assert_eq!(rig.screen.hint.as_deref(), Some("no task is being worked on"));
}

#[test]
fn keys_change_the_screen() {
    let mut rig = tasks();
    rig.text();
    let mut type_in = |typed: &str| {
        for key in keys(typed) {
            handle_key(&mut rig.screen, &key);
        }
        rig.text()
    };
    assert!(type_in("f").contains("Stream: text"));
    assert!(type_in("5").contains("Stream: errors"));
    let seen = type_in("");
    assert!(seen.contains("no such file") && !seen.contains("I read it"), "{seen}");
    assert!(type_in("1/READ IT\n").contains("Stream /read it"));
    assert!(type_in("/nowhere\n").contains("\"nowhere\" was not found"));
    NOW.set(NOW.get().saturating_add(Millis::from_secs(6)));
    assert!(!type_in("").contains("is not there"));
    assert!(type_in("?").contains("any key closes this"));
    assert!(!type_in("x").contains("any key closes this"));
    assert!(type_in("s").ends_with("Stop after this step? y/n\n"));
    assert!(type_in("y").starts_with(" ⠋ stopping after this step"));
    assert_eq!(rig.screen.stopping, Stopping::AfterThisStep);
    assert_eq!(rig.screen.scroll.filter(), LineFilter::All);
}

#[test]
fn arrows_move_in_the_panel_that_has_them() {
    let mut rig = tasks();
    rig.sized(80, 10);
    for number in 0..30 {
        rig.hear(&text(&format!("line {number}\n")));
    }
    rig.text();
    let mut push = |key: &TerminalKey| {
        handle_key(&mut rig.screen, key);
        (rig.screen.focus, rig.screen.scroll.is_following(), rig.screen.list_top)
    };
    assert_eq!(push(&TerminalKey::Up), (Panel::Stream, false, None));
    assert_eq!(push(&TerminalKey::PageDown), (Panel::Stream, true, None));
    assert_eq!(push(&TerminalKey::Home), (Panel::Stream, false, None));
    assert_eq!(push(&TerminalKey::End), (Panel::Stream, true, None));
    assert_eq!(push(&TerminalKey::Left), (Panel::List, true, None));
    assert_eq!(push(&TerminalKey::Up), (Panel::List, true, Some(0)));
    assert_eq!(push(&TerminalKey::End), (Panel::List, true, None));
    assert_eq!(push(&TerminalKey::Tab), (Panel::Stream, true, None));
}
