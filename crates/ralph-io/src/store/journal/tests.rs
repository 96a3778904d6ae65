//! The journal keeps complete lines, whatever happens.

use std::fs;
use std::time::Duration;

use proptest::prelude::*;
use ralph_core::run_loop::fold::fold_events;

use super::*;
use crate::process::{self, ProcessLimits, Spawn, StdinSource, Watch};
use crate::store::sample;

fn write(path: &Path, events: &[Recorded]) -> Vec<u8> {
    let mut journal = Journal::create(path).expect("created");
    for event in events {
        journal.append(event).expect("appended");
    }
    fs::read(path).expect("readable")
}

fn all(path: &Path) -> Result<Vec<Recorded>, JournalError> {
    open_for_reading(path)?.collect()
}

#[test]
fn appended_events_are_read_back_and_fold() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("journal.jsonl");
    let events = sample::build_events();
    write(&path, &events);
    assert_eq!(all(&path).expect("readable"), events);
    assert_eq!(fold_journal(&path).expect("folds"), fold_events(&events).expect("folds"));
    Journal::create(&path).expect_err("never overwritten");
}

#[test]
fn a_journal_cut_anywhere_folds_to_a_prefix_and_can_be_resumed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("journal.jsonl");
    let events = sample::build_events();
    let bytes = write(&path, &events);
    for length in 0..bytes.len() {
        let whole = bytes[..length].split(|byte| *byte == b'\n').count() - 1;
        fs::write(&path, &bytes[..length]).expect("written");
        assert_eq!(all(&path).expect("readable"), events[..whole], "cut at {length}");
        match fold_events(&events[..whole]) {
            Ok(state) => assert_eq!(fold_journal(&path).expect("folds"), state, "cut at {length}"),
            Err(_) => assert!(matches!(fold_journal(&path), Err(JournalError::Empty { .. }))),
        }
        // Each of these is a sync; a few offsets within every line are enough.
        if length % 37 != 0 {
            continue;
        }
        let mut journal = Journal::open_for_append(&path).expect("can be resumed");
        journal.append(&events[whole]).expect("appended");
        assert_eq!(all(&path).expect("readable"), events[..=whole], "cut at {length}");
    }
}

#[test]
fn a_torn_end_is_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("journal.jsonl");
    let bytes = write(&path, &sample::build_events());
    for (tail, expect) in [("", None), ("{\"se", Some(4)), ("\0\0\0\n", Some(4))] {
        fs::write(&path, [&bytes, tail.as_bytes()].concat()).expect("written");
        let mut reading = open_for_reading(&path).expect("opened");
        assert_eq!(reading.by_ref().flatten().count(), 10);
        assert_eq!(reading.torn_line(), expect.map(|bytes| TornLine { bytes }), "{tail:?}");
        Journal::open_for_append(&path).expect("can be resumed");
        assert_eq!(fs::read(&path).expect("readable"), bytes, "{tail:?}");
    }
}

#[test]
fn a_damaged_line_stops_and_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("journal.jsonl");
    let text = String::from_utf8(write(&path, &sample::build_events())).expect("text");
    let damaged = text.replacen("\"seq\":3", "\"seq\":x", 1);
    fs::write(&path, &damaged).expect("written");
    for error in [
        fold_journal(&path).expect_err("damaged").to_string(),
        Journal::open_for_append(&path).expect_err("damaged").to_string(),
    ] {
        assert!(error.starts_with("line 3 of the journal `"), "{error}");
        assert!(error.contains("its 2 earlier events are readable"), "{error}");
    }
    assert_eq!(fs::read_to_string(&path).expect("readable"), damaged);
    assert_eq!(open_for_reading(&path).expect("opened").flatten().count(), 2);
}

#[test]
fn a_later_format_is_read_if_possible_and_never_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("journal.jsonl");
    let text = String::from_utf8(write(&path, &sample::build_events())).expect("text");
    let later = text.replacen("\"journal\":3", "\"journal\":4,\"more\":true", 1);
    fs::write(&path, format!("{later}{{torn")).expect("written");
    fold_journal(&path).expect("readable");
    let error = Journal::open_for_append(&path).expect_err("refused").to_string();
    assert!(error.contains("has format 4, and this ralph knows 3"), "{error}");
    assert_eq!(fs::read_to_string(&path).expect("readable"), format!("{later}{{torn"));
    fs::write(&path, later.replacen("\"type\":\"warned\"", "\"type\":\"dreamed\"", 1))
        .expect("written");
    assert!(matches!(fold_journal(&path), Err(JournalError::Newer { version: 4, .. })));
}

#[test]
fn an_event_out_of_order_does_not_fold() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("journal.jsonl");
    let mut events = sample::build_events();
    events.remove(4);
    write(&path, &events);
    assert!(matches!(fold_journal(&path), Err(JournalError::Inconsistent { .. })));
}

#[test]
fn a_missing_journal_is_named() {
    let error = fold_journal(Path::new("/nowhere/journal.jsonl")).expect_err("missing").to_string();
    expect_test::expect![
        "cannot read the journal `/nowhere/journal.jsonl`: No such file or directory (os error 2)"
    ]
    .assert_eq(&error);
}

/// Names the file for the child that [`a_full_disk_leaves_whole_lines`] starts.
const FULL: &str = "RALPH_TEST_FULL_JOURNAL";

/// The limit on the size of files is the one way to a full disk that needs no rights; it holds
/// for a process, so the test starts itself again under it.
#[test]
fn a_full_disk_leaves_whole_lines() {
    if let Some(path) = std::env::var_os(FULL) {
        return fill(Path::new(&path));
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("journal.jsonl");
    let this = std::env::current_exe().expect("known");
    let script = "trap '' XFSZ; ulimit -f 8; exec \"$0\" --exact \
                  store::journal::tests::a_full_disk_leaves_whole_lines";
    let spawn = Spawn {
        program: "sh".into(),
        args: vec!["-c".into(), script.into(), this.into()],
        cwd: directory.path().to_owned(),
        env: std::env::vars_os().chain([(FULL.into(), path.clone().into())]).collect(),
        stdin: StdinSource::Null,
        limits: ProcessLimits { hard: Some(Duration::from_secs(60)), ..ProcessLimits::default() },
    };
    let captured = process::capture_output(&spawn, &Watch::new_detached(), 100_000);
    let output = String::from_utf8_lossy(&captured.stdout).into_owned();
    assert!(captured.end.ending.is_success() && output.contains("1 passed"), "{output}");
    let bytes = fs::read(&path).expect("readable");
    assert!(bytes.ends_with(b"\n") && bytes.len() <= 8 * 1024, "{}", bytes.len());
    fold_journal(&path).expect("folds");
}

fn fill(path: &Path) {
    let events = sample::build_events();
    let mut journal = Journal::create(path).expect("created");
    journal.append(&events[0]).expect("appended");
    for seq in 2..100 {
        let event = Recorded {
            seq,
            event: ralph_model::event::Event::Warned { text: "x".repeat(500) },
            ..events[0].clone()
        };
        if let Err(error) = journal.append(&event) {
            let message = error.to_string();
            assert!(message.contains("journal.jsonl`: File too large"), "{message}");
            return;
        }
    }
    unreachable!("the limit holds");
}

proptest! {
    #[test]
    fn no_bytes_make_reading_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal.jsonl");
        fs::write(&path, &bytes).expect("written");
        let _ = fold_journal(&path);
        let _ = Journal::open_for_append(&path);
    }
}
