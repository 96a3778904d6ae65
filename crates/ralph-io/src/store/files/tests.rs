//! The files in `.ralph/`, and reports about a bad prompt file.

use std::fs;

use ralph_core::run_loop::fold::fold_events;
use ralph_model::gate::{GateStatus, Severity};
use ralph_model::stuck::ErrorHash;

use super::*;
use crate::store::sample;

fn store() -> (tempfile::TempDir, RunStore) {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().join("state");
    let layout =
        ProjectLayout::for_project(directory.path(), directory.path(), &root).expect("located");
    layout.prepare_state().expect("prepared");
    let journal = Journal::create(&layout.state().join("journal.jsonl")).expect("created");
    let files = RunDir::from_path(directory.path());
    (
        directory,
        RunStore::new(layout, journal, files, ".ralph/skills".into(), ".ralph/prompts".into()),
    )
}

#[test]
fn the_counters_are_there_for_scripts() {
    let (directory, mut store) = store();
    let events = sample::build_events();
    for count in [7, events.len()] {
        let state = fold_events(&events[..count]).expect("folds");
        store.publish_view(&View::State(&state)).expect("written");
    }
    let text = fs::read_to_string(directory.path().join(".ralph/state.json")).expect("written");
    expect_test::expect![[r#"
        {
          "version": 1,
          "run": "20261114-231500-k3f9",
          "status": "complete",
          "started_at": "2026-11-14T23:46:40.001Z",
          "current_iteration": 2,
          "last_compaction_iteration": 0,
          "coding_iterations_since_compaction": 2,
          "total_handoff_bytes_since_compaction": 0,
          "last_task_id": "T-2 ä",
          "cost_usd_micros": null,
          "tokens": 0
        }
    "#]]
    .assert_eq(&text);
}

fn memory(summary: &str) -> ralph_model::memory::Compacted {
    ralph_model::memory::Compacted {
        memory: ralph_model::memory::Memory {
            project_summary: summary.into(),
            ..ralph_model::memory::Memory::default()
        },
        resolved: Vec::new(),
        left_out: vec!["too long".into()],
    }
}

#[test]
fn the_latest_memory_replaces_the_one_before_it_once() {
    let (directory, mut store) = store();
    let place = directory.path().join(".ralph/context");
    let run = ralph_model::ids::RunId("20261114-231500-k3f9".into());
    let mut publish = |iteration, summary: &str| {
        let (iteration, compacted) = (IterationNumber(iteration), &memory(summary));
        store.publish_view(&View::Memory { run: &run, iteration, compacted }).expect("written");
    };
    let history = || -> Vec<String> {
        let entries = fs::read_dir(place.join("compaction-history")).into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    publish(6, "first");
    publish(6, "first");
    assert_eq!(history(), [] as [&str; 0]);
    publish(12, "second");
    publish(12, "second");
    assert_eq!(history(), ["compacted-20261114-231500-k3f9-0006.json"]);
    let text = fs::read_to_string(place.join("compacted-latest.json")).expect("written");
    expect_test::expect![[r#"
        {
          "version": 1,
          "run": "20261114-231500-k3f9",
          "iteration": 12,
          "project_summary": "second",
          "completed_work": [],
          "active_constraints": [],
          "architectural_decisions": [],
          "unresolved_issues": [],
          "file_knowledge": [],
          "library_docs": [],
          "carried_over": [],
          "resolved": [],
          "left_out": [
            "too long"
          ]
        }
    "#]]
    .assert_eq(&text);
    // Foreign files are kept too, and links are not followed.
    fs::write(place.join("compacted-latest.json"), r#"{"run": "../../x", "iteration": 1}"#)
        .expect("written");
    publish(18, "third");
    assert_eq!(history()[1], "compacted-20261114-231500-k3f9-0018-unknown-before.json");
    for iteration in 19..100 {
        publish(iteration, "more");
    }
    assert_eq!(history().len(), 50);
    assert_eq!(history()[49], "compacted-20261114-231500-k3f9-0098.json");
}

#[test]
fn the_results_of_gates_have_a_file_per_iteration() {
    let (directory, mut store) = store();
    let result = GateResult {
        hash: Some(ErrorHash("899109bb".into())),
        failing: vec!["adds".into()],
        reason: Some("no test ran: `1..0`".into()),
        ..GateResult::new("test", "make test", Severity::Hard, GateStatus::Failed)
    };
    let view = View::Gates { iteration: IterationNumber(3), results: &[result], refusals: &[] };
    store.publish_view(&view).expect("written");
    let path = directory.path().join(".ralph/logs/validation/iter-3.json");
    let value: serde_json::Value =
        serde_json::from_slice(&fs::read(path).expect("written")).expect("JSON");
    let result = &value["results"][0];
    assert_eq!(result["status"], "failed");
    assert_eq!(result["hash"], "899109bb");
    assert_eq!(result["failing"], serde_json::json!(["adds"]));
    assert_eq!(result["reason"], "no test ran: `1..0`");
}

#[test]
fn a_view_behind_a_link_is_not_written() {
    let (directory, mut store) = store();
    let elsewhere = tempfile::tempdir().expect("a directory");
    std::os::unix::fs::symlink(elsewhere.path(), directory.path().join(".ralph")).expect("a link");
    let state = fold_events(&sample::build_events()).expect("folds");
    let error = store.publish_view(&View::State(&state)).expect_err("refused").to_string();
    assert!(error.contains(".ralph` is not a directory"), "{error}");
    assert_eq!(fs::read_dir(elsewhere.path()).expect("readable").count(), 0);
}

#[test]
fn a_bad_prompt_file_is_reported_with_what_is_wrong() {
    let (directory, store) = store();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("good.md"), "Do it.\n").expect("written");
    fs::write(at("empty.md"), "").expect("written");
    fs::write(at("white.md"), " \n\t").expect("written");
    fs::write(at("bytes.md"), b"ab\xff").expect("written");
    fs::create_dir(at("directory")).expect("made");
    fs::File::create(at("large.md")).and_then(|file| file.set_len(17 << 20)).expect("made");
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), rustix::fs::FileType::Fifo, mode, 0)
        .expect("made");
    assert_eq!(
        read_prompt(store.layout.project(), Path::new("good.md")).expect("readable"),
        "Do it.\n"
    );
    assert_eq!(read_prompt(store.layout.project(), &at("good.md")).expect("readable"), "Do it.\n");
    for (name, what) in [
        ("missing.md", "No such file or directory (os error 2)"),
        ("empty.md", "it is empty"),
        ("white.md", "it is empty"),
        ("bytes.md", "it is not valid UTF-8 (byte 3)"),
        ("directory", "it is a directory"),
        ("large.md", "it is larger than 16 MiB"),
        ("fifo", "it is not a regular file"),
    ] {
        let error =
            read_prompt(store.layout.project(), Path::new(name)).expect_err(name).to_string();
        let path = directory.path().canonicalize().expect("there").join(name);
        assert_eq!(error, format!("cannot read the prompt file `{}`: {what}", path.display()));
    }
}
