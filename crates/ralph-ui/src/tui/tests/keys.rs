//! Key handling: from a state and a key to a state and an action.

use ralph_core::control::Wish;

use super::*;
use crate::tui::keys::Key;
use crate::tui::press::{Deed, press};
use crate::tui::screen::{Mode, Panel, Stopping};
use crate::tui::scroll::Filter;

fn keys(typed: &str) -> Vec<Key> {
    typed
        .chars()
        .map(|letter| match letter {
            '\n' => Key::Enter,
            '\u{1b}' => Key::Escape,
            letter => Key::Char(letter),
        })
        .collect()
}

#[track_caller]
fn check(typed: &str, expect: &[Deed]) {
    let mut rig = tasks();
    rig.text();
    let actions: Vec<Deed> =
        keys(typed).iter().filter_map(|key| press(&mut rig.screen, key)).collect();
    assert_eq!(actions, expect, "{typed:?}");
    assert_eq!(rig.screen.mode, Mode::Watch, "{typed:?}");
}

#[test]
fn irreversible_requests_need_a_confirmation() {
    let task = || TaskId("T-002".into());
    check("p", &[Deed::Wish(Wish::Pause)]);
    check("pp", &[Deed::Wish(Wish::Pause), Deed::Wish(Wish::GoOn)]);
    check("sy", &[Deed::Wish(Wish::Stop)]);
    check("sn", &[]);
    check("s\u{1b}", &[]);
    check("ky", &[Deed::Wish(Wish::Skip { task: task() })]);
    check("kk", &[]);
    check("mUse tabs, nicht Ö\n", &[Deed::Wish(Wish::Note { text: "Use tabs, nicht Ö".into() })]);
    check("m  \n", &[]);
    check("mqsp\u{1b}", &[]);
    check("qs", &[Deed::WishAndLeave(Wish::Stop)]);
    check("ql", &[Deed::Leave]);
    check("qq", &[]);
    check("?q", &[]);
    check("/s\n", &[]);
}

#[test]
fn a_paste_is_no_command_and_a_task_is_needed_to_skip_one() {
    let mut rig = Rig::new();
    rig.begin(prompt_recipe()).text();
    assert_eq!(press(&mut rig.screen, &Key::Paste("sy".into())), None);
    assert_eq!(rig.screen.mode, Mode::Watch);
    assert_eq!(press(&mut rig.screen, &Key::Char('k')), None);
    assert_eq!(rig.screen.hint.as_deref(), Some("no task is being worked on"));
}

#[test]
fn keys_change_the_screen() {
    let mut rig = tasks();
    rig.text();
    let mut type_in = |typed: &str| {
        for key in keys(typed) {
            press(&mut rig.screen, &key);
        }
        rig.text()
    };
    assert!(type_in("f").contains("Stream: text"));
    assert!(type_in("5").contains("Stream: errors"));
    let seen = type_in("");
    assert!(seen.contains("no such file") && !seen.contains("I read it"), "{seen}");
    assert!(type_in("1/READ IT\n").contains("Stream /read it"));
    assert!(type_in("/nowhere\n").contains("\"nowhere\" is not there"));
    NOW.set(NOW.get().plus(Millis::from_secs(6)));
    assert!(!type_in("").contains("is not there"));
    assert!(type_in("?").contains("any key closes this"));
    assert!(!type_in("x").contains("any key closes this"));
    assert!(type_in("s").ends_with("Stop after this step? y/n\n"));
    assert!(type_in("y").starts_with(" ⠋ stopping after this step"));
    assert_eq!(rig.screen.stopping, Stopping::AfterThisStep);
    assert_eq!(rig.screen.scroll.filter(), Filter::All);
}

#[test]
fn arrows_move_in_the_panel_that_has_them() {
    let mut rig = tasks();
    rig.sized(80, 10);
    for number in 0..30 {
        rig.hear(&text(&format!("line {number}\n")));
    }
    rig.text();
    let mut push = |key: &Key| {
        press(&mut rig.screen, key);
        (rig.screen.focus, rig.screen.scroll.follows(), rig.screen.list_top)
    };
    assert_eq!(push(&Key::Up), (Panel::Stream, false, None));
    assert_eq!(push(&Key::PageDown), (Panel::Stream, true, None));
    assert_eq!(push(&Key::Home), (Panel::Stream, false, None));
    assert_eq!(push(&Key::End), (Panel::Stream, true, None));
    assert_eq!(push(&Key::Left), (Panel::List, true, None));
    assert_eq!(push(&Key::Up), (Panel::List, true, Some(0)));
    assert_eq!(push(&Key::End), (Panel::List, true, None));
    assert_eq!(push(&Key::Tab), (Panel::Stream, true, None));
}
