//! The queues: what is sent, what is not sent twice, and that nothing waits forever.

use std::sync::mpsc;

use ralph_core::run_loop::fold::{apply_event, start_state};
use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::event::Event;
use ralph_model::ids::RunId;
use ralph_model::occasion::Occasion;
use ralph_model::outcome::Outcome;
use ralph_model::recipe::{PromptSource, Recipe, Work};
use ralph_model::units::{Millis, Timestamp};

use super::*;
use crate::process::Watch;

fn policy() -> NotificationPolicy {
    NotificationPolicy {
        on: [Occasion::Finish, Occasion::Failure].into(),
        long_wait: Millis::from_mins(10),
    }
}

/// The start and the end of a run, each with the state that follows.
fn events() -> Vec<(Recorded, RunState)> {
    let agent = AgentChoice::new(AgentKind::Text, "agent");
    let started = Event::RunStarted {
        journal: 1,
        version: "0".into(),
        run: RunId("r".into()),
        project: "/projects/tulip-granite-9931".into(),
        recipe: Box::new(Recipe::new(Work::Prompt(PromptSource::Text("p".into())), agent)),
    };
    let ended = Event::RunEnded { outcome: Outcome::Complete, left: None };
    let recorded = |event, seq| Recorded { seq, at: Timestamp(0), ran: Millis(0), event };
    let (first, last) = (recorded(started, 1), recorded(ended, 2));
    let before = start_state(&first).expect("it begins");
    let mut after = before.clone();
    apply_event(&mut after, &last).expect("it fits");
    vec![(first, before), (last, after)]
}

fn tell(notifier: &mut Notifier) {
    for (recorded, state) in events() {
        notifier.show_event(&recorded, &state);
    }
}

fn terminal() -> (NotifyChannel, mpsc::Receiver<String>) {
    let (tx, rx) = mpsc::channel();
    let write = Box::new(move |text: &str| drop(tx.send(text.to_owned())));
    (NotifyChannel::Terminal(TerminalChannel { ring: TerminalSignal::Osc9, write }), rx)
}

fn command(script: &str, limit: Duration) -> NotifyChannel {
    NotifyChannel::Command(CommandChannel {
        command: script.to_owned(),
        limit,
        watch: Watch::new_detached(),
        cwd: "/".into(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
    })
}

#[test]
fn a_resumed_run_does_not_repeat_delivered_notifications() {
    let directory = tempfile::tempdir().expect("a directory");
    let ledger = directory.path().join("notices.jsonl");
    let masker = || Masker::new(["tulip-granite-9931".to_owned()]);
    let (channel, received) = terminal();
    let failing = command("echo no >&2; exit 3", Duration::from_secs(20));
    let mut notifier =
        Notifier::start(policy(), vec![channel, failing], &ledger, masker()).expect("started");
    tell(&mut notifier);
    let warnings = notifier.finish(Duration::from_secs(30));
    assert_eq!(warnings, ["a notice by command did not arrive: exit code 3: no"]);
    let texts: Vec<String> = received.try_iter().collect();
    assert_eq!(texts.len(), 1);
    assert!(texts[0].contains("ralph: ***: complete"), "secrets are masked: {texts:?}");
    // The failed one is tried again, the other is not repeated.
    let input = directory.path().join("marker");
    let (channel, received) = terminal();
    let working = command(&format!("cat > {}", input.display()), Duration::from_secs(20));
    let mut notifier =
        Notifier::start(policy(), vec![channel, working], &ledger, masker()).expect("started");
    tell(&mut notifier);
    assert_eq!(notifier.finish(Duration::from_secs(30)), Vec::<String>::new());
    assert_eq!(received.try_iter().count(), 0);
    let text = std::fs::read_to_string(input).expect("the command ran");
    let facts: serde_json::Value = serde_json::from_str(&text).expect("one object");
    assert_eq!(facts["occasion"], "finish");
    assert_eq!(facts["outcome"]["end"], "complete");
}

#[test]
fn a_hanging_channel_delays_neither_the_run_nor_other_channels() {
    let directory = tempfile::tempdir().expect("a directory");
    let (channel, received) = terminal();
    let hanging = command("exec sleep 600", Duration::from_millis(300));
    let ledger = directory.path().join("notices.jsonl");
    let mut notifier =
        Notifier::start(policy(), vec![hanging, channel], &ledger, Masker::new([])).expect("ok");
    tell(&mut notifier);
    assert!(received.recv_timeout(Duration::from_secs(30)).is_ok());
    let warnings = notifier.finish(Duration::from_secs(30));
    assert_eq!(warnings, ["a notice by command did not arrive: timed out"]);
}

#[test]
fn the_end_of_a_run_waits_no_longer_than_its_limit() {
    let directory = tempfile::tempdir().expect("a directory");
    let slow = command("exec sleep 3", Duration::from_secs(600));
    let ledger = directory.path().join("notices.jsonl");
    let mut notifier =
        Notifier::start(policy(), vec![slow], &ledger, Masker::new([])).expect("started");
    tell(&mut notifier);
    let warnings = notifier.finish(Duration::from_millis(50));
    assert_eq!(warnings, ["a notice by command did not arrive: 1 not sent in time"]);
}

#[test]
fn a_flood_of_notices_is_bounded() {
    let line = ChannelQueue::new("webhook");
    let notice = ralph_core::reporting::notification::build_test_notification("/p", Timestamp(0));
    for _ in 0..MAX_QUEUED + 3 {
        line.push(notice.clone());
    }
    assert_eq!(line.lock().waiting.len(), MAX_QUEUED);
    assert_eq!(line.lock().failures, 3);
}
