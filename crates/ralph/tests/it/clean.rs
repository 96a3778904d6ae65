//! `ralph clean`: removes old runs, and nothing else.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ralph_testkit::sealed::{Finished, Sealed};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{repository, sealed};

/// A project whose agent writes a file in each run, and completes.
fn project(sealed: Sealed) -> Sealed {
    let work = "date +%N >> work.txt";
    let calls = json!([{ "do": [{ "run": { "command": work } }, { "claim": "DONE" }] }]);
    sealed.write_script(&calls, &json!({ "commit": "ralph", "onFailure": "rollback" }));
    sealed.write_file(".gitignore", "/.ralph/\n");
    sealed
}

fn committed(sealed: Sealed) -> Sealed {
    let sealed = project(sealed);
    sealed.commit_all("Settings");
    sealed
}

/// Completes this many runs, and returns their ids, oldest first.
fn run(sealed: &Sealed, times: usize) -> Vec<String> {
    (0..times)
        .map(|_| {
            let before = ids(sealed);
            sealed.run_ralph(&["run", "-p", "work", "-c", "DONE"]).expect_code(0);
            ids(sealed).into_iter().find(|id| !before.contains(id)).expect("a new run")
        })
        .collect()
}

fn ids(sealed: &Sealed) -> Vec<String> {
    let name = |run: PathBuf| run.file_name().map(|it| it.to_string_lossy().into_owned());
    sealed.runs().into_iter().filter_map(name).collect()
}

/// Makes a run this many days old.
fn age(sealed: &Sealed, run: &str, days: u64) {
    let run = sealed.runs().into_iter().find(|it| it.ends_with(run)).expect("the run");
    for entry in fs::read_dir(run).expect("a directory").flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            make_old(&entry.path(), days);
        }
    }
}

fn make_old(path: &Path, days: u64) {
    let then = SystemTime::now() - Duration::from_secs(days * 24 * 3600);
    File::open(path).expect("opened").set_modified(then).expect("set");
}

fn clean(sealed: &Sealed, words: &[&str]) -> Finished {
    sealed.run_ralph(&[&["clean"], words].concat())
}

fn refs(sealed: &Sealed, run: &str) -> usize {
    let all = sealed.run_git(&["for-each-ref", "--format=%(refname)", "refs/ralph"]);
    all.lines().filter(|name| name.contains(run)).count()
}

/// Files that `clean` must not touch.
fn everything_else(sealed: &Sealed) -> [String; 3] {
    [
        sealed.run_git(&["log", "--branches", "--format=%H"]),
        sealed.run_git(&["status", "--porcelain", "--ignored"]),
        sealed.read_file("work.txt"),
    ]
}

#[test]
fn old_runs_are_removed_and_new_ones_kept() {
    let sealed = committed(repository());
    let runs = run(&sealed, 4);
    for (run, days) in runs.iter().zip([90, 31, 29, 40]) {
        age(&sealed, run, days);
        assert!(refs(&sealed, run) > 0);
    }
    let head = sealed.run_git(&["rev-parse", "HEAD"]);
    // Belongs to a run in another work tree.
    let other = "refs/ralph/checkpoints/20260101-000000-abcd/1";
    sealed.run_git(&["update-ref", other, head.trim()]);
    let kept = format!("refs/ralph/kept/{}/1", runs[0]);
    sealed.run_git(&["update-ref", &kept, head.trim()]);
    let before = everything_else(&sealed);

    // The output is the same before and after, except for the verb.
    let reported = clean(&sealed, &["--keep", "1", "--dry-run"]).expect_code(0).stdout;
    assert_eq!(ids(&sealed).len(), 4);
    let done = clean(&sealed, &["--keep", "1"]).expect_code(0).stdout;
    assert_eq!(reported.replace("Would be removed", "Removed"), done);
    assert!(done.contains("Removed: 2 runs, "), "{done}");
    assert!(done.contains("1 ref stays under refs/ralph/kept/"), "{done}");
    assert!(done.contains("2 newer runs stay."), "{done}");

    let mut left = ids(&sealed);
    left.sort();
    let mut expect = runs[2..].to_vec();
    expect.sort();
    assert_eq!(left, expect);
    assert_eq!(refs(&sealed, &runs[0]), 1, "what was kept stays");
    assert_eq!(refs(&sealed, &runs[1]), 0);
    assert_eq!(refs(&sealed, "20260101-000000-abcd"), 1, "others' stay");
    assert!(refs(&sealed, &runs[2]) > 0 && refs(&sealed, &runs[3]) > 0);
    assert_eq!(everything_else(&sealed), before);
    sealed.run_ralph(&["report"]).expect_code(0);
    sealed.run_ralph(&["report", &runs[0]]).expect_code(2);
}

#[test]
fn kept_refs_are_removed_with_their_run_on_request() {
    let sealed = committed(repository());
    let runs = run(&sealed, 1);
    age(&sealed, &runs[0], 31);
    let head = sealed.run_git(&["rev-parse", "HEAD"]);
    sealed.run_git(&["update-ref", &format!("refs/ralph/kept/{}/1", runs[0]), head.trim()]);
    clean(&sealed, &[]).expect_code(0);
    assert_eq!(ids(&sealed), runs, "the newest stay however old they are");
    let facts = clean(&sealed, &["--keep", "0", "--kept", "--json"]).expect_code(0).stdout;
    let facts: Value = serde_json::from_str(&facts).expect("facts");
    assert_eq!(facts["runs"][0]["run"], json!(runs[0]));
    assert_eq!(facts["runs"][0]["outcome"]["end"], "complete");
    assert!(facts["bytes"].as_u64() > Some(100), "{facts}");
    assert_eq!(facts["left"]["keptRefs"], 0);
    assert_eq!(refs(&sealed, &runs[0]), 0);
    assert_eq!(ids(&sealed), [""; 0]);
    let nothing = clean(&sealed, &[]).expect_code(0).stdout;
    assert_eq!(nothing, "There is nothing to remove.\n");
}

#[test]
fn run_with_a_kept_stash_is_not_removed() {
    let sealed = committed(repository());
    let calls = json!([{ "do": [{ "run": { "command": "touch begun; sleep 60" } }] }]);
    sealed.write_script(&calls, &json!({ "commit": "ralph" }));
    sealed.write_file("mine.txt", "mine\n");
    let running = sealed.start_ralph(&["run", "-p", "work", "--set-aside"]);
    sealed.wait_for("begun");
    // While the run is active, nothing is cleaned.
    clean(&sealed, &["--keep", "0"]).expect_code(3);
    clean(&sealed, &["--keep", "0", "--dry-run"]).expect_code(0);
    running.send_signal(Signal::KILL);
    running.wait_for_end();
    let runs = ids(&sealed);
    age(&sealed, &runs[0], 99);
    let reported = clean(&sealed, &["--keep", "0"]).expect_code(0).stdout;
    assert!(reported.contains("stays: changes are set aside for it"), "{reported}");
    assert_eq!(ids(&sealed), runs);
    assert_eq!(sealed.run_git(&["for-each-ref", "refs/ralph/set-aside"]).lines().count(), 1);
}

#[test]
fn partial_removals_and_old_logs_are_removed_too() {
    let sealed = project(sealed());
    sealed.write_script(&json!([{ "do": [{ "claim": "DONE" }] }]), &json!({}));
    let runs = run(&sealed, 1);
    let state = sealed.runs()[0].parent().and_then(Path::parent).expect("there").to_owned();
    let half = state.join(".removing-20260101-000000-abcd");
    fs::create_dir_all(half.join("git")).expect("made");
    fs::write(half.join("journal.jsonl"), "").expect("written");
    let logs = sealed.project_dir().join(".ralph/logs");
    for (name, days) in [("session-a.log", 31), ("session-b.log", 1), ("mine.log", 99)] {
        fs::write(logs.join(name), "said\n").expect("written");
        make_old(&logs.join(name), days);
    }
    let files = sealed.project_dir().join(".ralph");
    let halves =
        [files.join(".plan.json.a.tmp"), files.join("handoffs/.a.tmp"), state.join(".b.tmp")];
    let others = [files.join(".plan.json.b.tmp"), files.join("mine.tmp")];
    fs::create_dir_all(files.join("handoffs")).expect("made");
    for path in halves.iter().chain(&others) {
        fs::write(path, "[").expect("written");
        make_old(path, if path == &others[0] { 1 } else { 31 });
    }
    let reported = clean(&sealed, &[]).expect_code(0).stdout;
    assert!(reported.contains("Removed: 1 log, 3 half-written files; 8 B."), "{reported}");
    assert!(!halves.iter().any(|path| path.exists()));
    assert!(others.iter().all(|path| path.exists()));
    assert!(!half.exists());
    assert!(!logs.join("session-a.log").exists());
    assert!(logs.join("session-b.log").exists() && logs.join("mine.log").exists());
    assert_eq!(ids(&sealed), runs);

    // The user put other files in their place.
    let elsewhere = sealed.root().join("elsewhere");
    fs::rename(&logs, &elsewhere).expect("moved");
    std::os::unix::fs::symlink(&elsewhere, &logs).expect("linked");
    make_old(&elsewhere.join("session-b.log"), 99);
    clean(&sealed, &[]).expect_code(0);
    assert!(elsewhere.join("session-b.log").exists());
}

#[test]
fn doctor_suggests_cleaning() {
    let sealed = committed(repository());
    let reported = |sealed: &Sealed| sealed.run_ralph(&["doctor"]).stdout;
    assert!(!reported(&sealed).contains("takes"), "{}", reported(&sealed));
    run(&sealed, 1);
    let one = reported(&sealed);
    assert!(one.contains("1 run takes ") && !one.contains("ralph clean"), "{one}");
    // A large sparse file.
    let file = File::create(sealed.runs()[0].join("agent-9.ndjson.zst")).expect("made");
    file.set_len(2_000_000_000).expect("set");
    let much = reported(&sealed);
    assert!(much.contains("1 run takes 2.0 GB") && much.contains("ralph clean"), "{much}");
}

#[test]
fn invalid_age_is_refused() {
    let sealed = committed(repository());
    clean(&sealed, &["--older-than", "soon"]).expect_code(2).expect_stderr("--older-than");
    clean(&sealed, &["--keep", "-1"]).expect_code(2);
}
