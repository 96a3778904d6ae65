//! What a run leaves and finds on disk: journals, streams, control requests, and the inputs of hooks.

use std::cell::OnceCell;
use std::io::Read as _;
use std::path::Path;

use ralph_core::ports::{Moment, StopRequest};
use ralph_core::reporting::report::Report;
use ralph_core::run_loop::choose;
use ralph_core::run_loop::control::find_refusal;
use ralph_core::run_loop::fold::{apply_event, start_state};
use ralph_core::tasks::next_work::{
    find_compaction_trigger, find_due_compaction, next_coding_task,
};
use ralph_io::hooks::transcript;
use ralph_io::process::OutputLines;
use ralph_io::store::journal;
use ralph_io::store::raw::{RawReader, RawWriter};
use ralph_io::store::tail::JournalTail;
use ralph_model::control::{ControlRequest, SubmittedRequest};
use ralph_model::event::Recorded;
use ralph_model::hook_state::HookState;
use ralph_model::run::RunState;
use ralph_model::units::{Millis, Timestamp};
use tempfile::TempDir;

use super::{FuzzForm, FuzzTarget};

/// The targets of this file.
pub(super) const TARGETS: &[FuzzTarget] = &[
    FuzzTarget {
        name: "journal",
        run: journal,
        form: FuzzForm::JsonLines,
        seeds: &[],
        words: &[
            "\n",
            "\"seq\":",
            "\"at\":",
            "\"ran\":",
            "\"event\":",
            "\"type\":",
            "\"run_started\"",
            "\"run_resumed\"",
            "\"iteration_started\"",
            "\"iteration_ended\"",
            "\"run_ended\"",
            "\"asked\"",
            "\"answered\"",
            "\"judged\"",
            "\"landed\"",
            "\"gate_checked\"",
            "\"warned\"",
            "\"tasks_read\"",
            "\"observed\"",
            "\"waited\"",
            "\"journal\":",
        ],
    },
    FuzzTarget {
        name: "raw-streams",
        run: raw_streams,
        form: FuzzForm::Bytes,
        seeds: &["crates/ralph-io/tests/data/sim"],
        words: &["\x28", "\n"],
    },
    FuzzTarget {
        name: "transcripts",
        run: transcripts,
        form: FuzzForm::JsonLines,
        seeds: &["crates/ralph/tests/data/hooks"],
        words: &["\"usage\":", "\"input_tokens\":", "\"message\":", "18446744073709551615"],
    },
    FuzzTarget {
        name: "control-requests",
        run: fuzz_control_requests,
        form: FuzzForm::Json,
        seeds: &[],
        words: &[
            "\"version\":",
            "\"at\":",
            "\"by\":",
            "\"wish\":",
            "\"pause\"",
            "\"go\"",
            "\"stop\"",
            "\"skip\"",
            "\"note\"",
            "\"text\":",
            "\"task\":",
            "\"run\":",
            "\"pid\":",
            "\"protect\":",
            "\"started\":",
            "\"guard\":",
        ],
    },
];

/// Writes bytes to a file of this thread's own, and has it looked at.
pub fn in_file(name: &str, bytes: &[u8], look: impl FnOnce(&Path)) {
    thread_local! {
        static DIRECTORY: OnceCell<TempDir> = const { OnceCell::new() };
    }
    DIRECTORY.with(|directory| {
        // In memory where it can be: what is read here is also written and synced.
        let make = || tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let path = directory.get_or_init(|| make().expect("a directory")).path().join(name);
        path.parent().map_or(Ok(()), std::fs::create_dir_all).expect("made");
        std::fs::write(&path, bytes).expect("written");
        look(&path);
    });
}

/// A journal gives an error or a state, and everything that is made of a state can be made of it.
fn journal(bytes: &[u8]) {
    let lines = bytes.split(|byte| *byte == b'\n');
    let events: Vec<Recorded> = lines.map_while(|it| serde_json::from_slice(it).ok()).collect();
    for recorded in &events {
        let written = serde_json::to_string(recorded).expect("events are JSON");
        let again: Recorded = serde_json::from_str(&written).expect("events read back");
        assert_eq!(again, *recorded);
    }
    if let Some((first, rest)) = events.split_first()
        && let Ok(mut state) = start_state(first)
    {
        look_at(&state, first);
        for recorded in rest {
            if apply_event(&mut state, recorded).is_err() {
                break;
            }
            look_at(&state, recorded);
        }
    }
    if let Ok(report) = Report::from_events(&events)
        && let Some(summary) = report.summary()
    {
        assert!(!ralph_ui::report::render_report(&summary).is_empty());
    }
    in_file("journal.ndjson", bytes, |path| {
        let _ = journal::fold_journal(path);
        let Ok(mut reading) = journal::open_for_reading(path) else { return };
        let read = reading.by_ref().take_while(Result::is_ok).count();
        assert!(read <= bytes.split(|byte| *byte == b'\n').count());
        let mut tail = JournalTail::open(path).expect("it is there");
        while let Ok(Some(_)) = tail.next_event() {}
    });
}

fn look_at(state: &RunState, last: &Recorded) {
    for (now, stop) in [(last.at, StopRequest::Continue), (Timestamp(i64::MAX), StopRequest::Stop)]
    {
        choose::choose_next_step(state, Moment { now, ran: last.ran, stop });
    }
    let _ = (next_coding_task(state), find_compaction_trigger(state), state.last_iteration());
    assert!(state.ran_in_iteration() <= Millis(u64::MAX));
    let _ = (find_refusal(state, &ControlRequest::Stop), find_due_compaction(state));
}

/// Whatever lies there is read to an end, and what is written comes back.
fn raw_streams(bytes: &[u8]) {
    let read = |path: &Path| {
        let mut reader = RawReader::open(path).ok()?;
        let (mut all, mut buffer) = (Vec::new(), vec![0; 4096]);
        // A small file may be a gigabyte; every reader has its own limit.
        while all.len() < 1 << 20 {
            match reader.read(&mut buffer).expect("never fails") {
                0 => break,
                count => all.extend_from_slice(&buffer[..count]),
            }
        }
        Some(all)
    };
    in_file("agent.zst", bytes, |path| {
        read(path);
    });
    in_file("agent.zst", b"", |path| {
        let mut writer = RawWriter::create(path).expect("created");
        writer.write(bytes).expect("written");
        writer.finish().expect("finished");
        let all = read(path).expect("readable");
        assert_eq!(all[..], bytes[..all.len()]);
        assert_eq!(all.len(), bytes.len().min(all.len().max(1 << 20)));
    });
    let mut lines = OutputLines::with_cap(64);
    let mut most = 0;
    bytes
        .chunks(7)
        .for_each(|it| lines.push_bytes(it, |line| most = most.max(format!("{line:?}").len())));
    assert!(most <= 64 * 12 + 100, "a line is kept within its cap: {most}");
}

fn fuzz_control_requests(bytes: &[u8]) {
    let _ = serde_json::from_slice::<HookState>(bytes);
    in_file("scenario.json", bytes, |path| {
        let _ = ralph_io::sim::Scenario::read(path);
    });
    in_file("inbox/000001794703710-0000abcd.json", bytes, |path| {
        let run = path.ancestors().nth(2).expect("it lies in an inbox");
        for SubmittedRequest { id, by, .. } in ralph_io::control::list_pending(run) {
            assert_eq!(id.0, "000001794703710-0000abcd");
            assert!(by.is_none_or(|by| by.chars().count() <= 60), "names are cut");
        }
    });
}

fn transcripts(bytes: &[u8]) {
    in_file("transcript.jsonl", bytes, |path| {
        transcript::read_context_usage(path).expect("the file is there");
    });
}
