//! Any events, keys and sizes: never a panic, and no control characters on the screen.

use proptest::prelude::*;
use ralph_model::agent_output::{Usage, UsageScope};
use ralph_model::event::WaitReason;

use super::*;
use crate::tui::key_actions::handle_key;
use crate::tui::keys::TerminalKey;

#[derive(Debug, Clone)]
enum Happening {
    Tell(Event),
    Hear(AgentEvent),
    Gate(String),
    Wait(i64),
    Press(TerminalKey),
    Size(u16, u16),
    Pass(u64),
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[a-z 日\n\t]{0,60}",
        Just("\u{1b}[2J\u{1b}]0;x\u{7}👨\u{200d}👩 e\u{301}".to_owned()),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let roles = vec![Role::Prompt, Role::Implement, Role::Review, Role::Compact];
    prop_oneof![
        (0usize..30, any_text()).prop_map(|(count, title)| {
            let mut list = task_list(count);
            list.tasks.iter_mut().for_each(|task| task.title.clone_from(&title));
            Event::TasksRead { list: Box::new(list), remarks: vec![title] }
        }),
        (any::<u32>(), prop::sample::select(roles), proptest::option::of(any_text())).prop_map(
            |(number, role, task)| Event::IterationStarted {
                iteration: IterationNumber(number),
                role,
                task: task.map(TaskId),
            }
        ),
        any_text().prop_map(|text| Event::Warned { text }),
        any::<i64>().prop_map(|until| Event::Waiting {
            until: Timestamp(until),
            reason: WaitReason::UsageLimit
        }),
        any_text().prop_map(|output| Event::BaselineChecked {
            result: result("lint", GateStatus::Failed, &output)
        }),
        Just(Event::IterationEnded { iteration: IterationNumber(1) }),
    ]
}

fn agent_event() -> impl Strategy<Value = AgentEvent> {
    prop_oneof![
        any_text().prop_map(|message| text(&message)),
        any_text().prop_map(|text| AgentEvent::Text {
            text,
            speaker: Speaker::Subagent,
            form: TextForm::Delta
        }),
        (any_text(), any_text()).prop_map(|(name, summary)| AgentEvent::ToolStarted {
            id: "1".into(),
            name,
            summary,
            speaker: Speaker::Agent
        }),
        any_text().prop_map(|output| AgentEvent::ToolEnded {
            id: "1".into(),
            outcome: ToolOutcome::Error,
            output
        }),
        any::<u64>().prop_map(|cost| AgentEvent::Usage {
            usage: Usage { cost: Some(UsdMicros(cost)), ..Usage::default() },
            scope: UsageScope::Step
        }),
        any_text().prop_map(|line| AgentEvent::Unparsed { line }),
    ]
}

fn key() -> impl Strategy<Value = TerminalKey> {
    prop_oneof![
        any::<char>().prop_map(TerminalKey::Char),
        prop::sample::select("?/nNgGf12345qskmpyhl +-".chars().collect::<Vec<_>>())
            .prop_map(TerminalKey::Char),
        prop::sample::select(vec![
            TerminalKey::Enter,
            TerminalKey::Escape,
            TerminalKey::Tab,
            TerminalKey::Backspace,
            TerminalKey::Delete,
            TerminalKey::Up,
            TerminalKey::Down,
            TerminalKey::Left,
            TerminalKey::Right,
            TerminalKey::PageUp,
            TerminalKey::PageDown,
            TerminalKey::Home,
            TerminalKey::End,
        ]),
        any_text().prop_map(TerminalKey::Paste),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    let edge = || prop::sample::select(vec![0u16, 1, 2, 3, 5, 9, 10, 20, 24, 60, 61, 200]);
    prop_oneof![
        event().prop_map(Happening::Tell),
        agent_event().prop_map(Happening::Hear),
        any_text().prop_map(Happening::Gate),
        any::<i64>().prop_map(Happening::Wait),
        key().prop_map(Happening::Press),
        (edge(), edge()).prop_map(|(width, height)| Happening::Size(width, height)),
        (0u64..10_000).prop_map(Happening::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn any_sequence_of_events_can_be_drawn(all in prop::collection::vec(happening(), 0..60)) {
        let mut rig = Rig::new();
        rig.begin(recipe(Work::Tasks(TaskWork::new("plan.json"))));
        for happening in all {
            match happening {
                Happening::Tell(event) => drop(rig.tell(event)),
                Happening::Hear(event) => drop(rig.hear(&event)),
                Happening::Gate(name) => drop(rig.run_gate(&name)),
                Happening::Wait(until) => rig.teller.show_activity(&Activity::Waiting {
                    until: Timestamp(until),
                    reason: WaitReason::Retry,
                    left: Millis(5),
                }),
                Happening::Press(key) => drop(handle_key(&mut rig.screen, &key)),
                Happening::Size(width, height) => rig.screen.size = Size::new(width, height),
                Happening::Pass(seconds) => drop(rig.pass(seconds)),
            }
            let cells = rig.cells();
            let acts = |cell: &ratatui_core::buffer::Cell| cell.symbol().contains(char::is_control);
            prop_assert!(!cells.content().iter().any(acts));
        }
    }
}
