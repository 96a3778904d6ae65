//! Disks that are full, slow, or read-only.

use ralph_testkit::sealed::{Finished, Sealed};
use serde_json::{Value, json};

use super::{calls, counted, leave_out, script};
use crate::repository;

/// A namespace in which every user may mount a small disk.
const OWN_MOUNTS: [&str; 2] = ["unshare", "-rm"];

fn has_own_mounts() -> bool {
    let sealed = crate::sealed();
    let tried = script(&sealed, &OWN_MOUNTS, "mount -t tmpfs -o size=64k none \"$STATE\"");
    if tried.code != Some(0) {
        leave_out("small disks", &tried.stderr);
    }
    tried.code == Some(0)
}

/// An agent that fills a disk once, as another program might, and has done its work in the second
/// iteration.
fn filling(sealed: &Sealed, settings: &Value) {
    let fill = "test -e \"$ROOT/filled\" || head -c 20M /dev/zero > \"$DISK/filler\" 2> /dev/null; \
                touch \"$ROOT/filled\"";
    // An answer too long for the rest of a page.
    let words = "words ".repeat(1_500);
    let calls = json!([
        { "when": { "iteration": 1 }, "do": [
            counted(),
            { "write": { "path": "one.txt", "text": "1\n" } },
            { "run": { "command": fill } },
            { "text": words }
        ] },
        { "do": [counted(), { "write": { "path": "two.txt", "text": "2\n" } }, { "claim": "DONE" }] }
    ]);
    sealed.write_script(&calls, settings);
    sealed.write_file(".gitignore", "/.ralph/\n/filler\n");
    sealed.commit_all("Settings");
}

/// Prints the exit codes of the run and of the resumed one, and then the subjects of all commits.
const RUN_AND_RESUME: &str = r#"
    code=0; "$RALPH" run -p base || code=$?; echo "first $code"
    rm "$DISK/filler"
    code=0; "$RALPH" resume >&2 || code=$?; echo "second $code"
    git log --format=%s; git status --porcelain; git fsck --no-dangling
"#;

#[track_caller]
fn expect_whole(end: &Finished, first: i32, commits: &[&str]) {
    let head = format!("first {first}\nsecond 0\n");
    let expect = commits.iter().fold(head, |all, commit| format!("{all}{commit}\n"));
    assert_eq!(end.stdout, expect, "{}", end.stderr);
    assert!(!end.stderr.contains("panicked"), "{}", end.stderr);
    assert!(end.stderr.contains("ralph resume"), "{}", end.stderr);
}

#[test]
fn a_full_disk_under_the_state_stops_the_run_until_there_is_room() {
    if !has_own_mounts() {
        return;
    }
    let mount = "mount -t tmpfs -o size=3m none \"$STATE\"; export DISK=\"$STATE\";";
    // Without commits the journal is what does not fit.
    for (commit, first, words, commits) in [
        ("none", 1, "journal", &["Settings", "Begin", "?? one.txt", "?? two.txt"][..]),
        ("ralph", 1, "journal", &["ralph[2]: prompt", "ralph[1]: prompt", "Settings", "Begin"]),
    ] {
        let sealed = repository();
        filling(&sealed, &json!({ "commit": commit }));
        let end = script(&sealed, &OWN_MOUNTS, &format!("{mount}{RUN_AND_RESUME}"));
        expect_whole(&end, first, commits);
        assert!(end.stderr.contains(words), "{}", end.stderr);
        assert!(end.stderr.contains("No space left on device"), "{}", end.stderr);
        assert_eq!(sealed.survivors(), [""; 0]);
        // The answer that did not fit into the journal was not kept completely either.
        assert!(calls(&sealed) <= 3, "{}", end.stderr);
    }
}

#[test]
fn full_project_disk_is_a_git_failure_without_partial_commits() {
    if !has_own_mounts() {
        return;
    }
    let sealed = repository();
    filling(&sealed, &json!({ "commit": "ralph" }));
    let move_over = r#"
        export DISK="$ROOT/small"; mkdir "$DISK"; mount -t tmpfs -o size=4m none "$DISK"
        cp -a "$ROOT/project" "$DISK/project"; cd "$DISK/project"
    "#;
    let end = script(&sealed, &OWN_MOUNTS, &format!("{move_over}{RUN_AND_RESUME}"));
    expect_whole(&end, 5, &["ralph[2]: prompt", "ralph[1]: prompt", "Settings", "Begin"]);
    assert!(end.stderr.contains("No space left on device"), "{}", end.stderr);
    assert_eq!(calls(&sealed), 2, "no answer was asked for twice");
    assert_eq!(sealed.survivors(), [""; 0]);
}

#[test]
fn a_full_disk_under_the_clones_ends_the_run_until_there_is_room() {
    if !has_own_mounts() {
        return;
    }
    let sealed = repository();
    // Another program fills the disk while the agents work.
    let work = "test -e \"$ROOT/filled\" || head -c 20M /dev/zero > \"$DISK/filler\" 2> /dev/null; \
                touch \"$ROOT/filled\"; { head -c 9000 /dev/urandom > \"$RALPH_TASK.txt\"; } 2> /dev/null || true";
    let end =
        json!({ "handoff": { "task_completed": { "summary": "Done.", "fully_complete": true } } });
    let task = |id: &str| {
        json!({ "id": id, "title": "A task", "description": "Do it.", "status": "pending",
                "acceptance_criteria": ["It is done"], "depends_on": [] })
    };
    let parallel = json!({ "directory": sealed.root().join("clones"), "keepFree": "1K" });
    let settings = json!({ "review": { "enabled": false }, "parallel": parallel });
    sealed.write_script(&json!([{ "do": [{ "run": { "command": work } }, end] }]), &settings);
    sealed.write_file(
        "plan.json",
        &json!({ "project": "p", "tasks": [task("a"), task("b")] }).to_string(),
    );
    sealed.commit_all("Settings");
    sealed.trust_project(&[]);
    let end = script(
        &sealed,
        &OWN_MOUNTS,
        r#"
        export DISK="$ROOT/clones"; mkdir "$DISK"; mount -t tmpfs -o size=4m none "$DISK"
        code=0; "$RALPH" build --jobs 2 || code=$?; echo "first $code"
        rm "$DISK/filler"
        code=0; "$RALPH" resume >&2 || code=$?; echo "second $code"
        git status --porcelain; git fsck --no-dangling; ls *.txt
    "#,
    );
    assert!(end.stderr.contains("No space left on device"), "{}", end.stderr);
    assert_eq!(end.stdout, "first 5\nsecond 0\na.txt\nb.txt\n", "{}", end.stderr);
    assert!(!end.stderr.contains("panicked"), "{}", end.stderr);
    assert_eq!(sealed.survivors(), [""; 0]);
}

#[test]
fn read_only_state_directory_is_reported_before_the_run() {
    if !has_own_mounts() {
        return;
    }
    let sealed = repository();
    sealed.write_script(&json!([{ "do": [counted(), { "claim": "DONE" }] }]), &json!({}));
    let text = r#"
        mount --bind "$STATE" "$STATE"; mount -o remount,ro,bind "$STATE"
        code=0; "$RALPH" run -p base || code=$?; echo "first $code"
        test ! -e "$ROOT/calls"
        umount "$STATE"
        code=0; "$RALPH" run -p base >&2 || code=$?; echo "second $code"
    "#;
    let end = script(&sealed, &OWN_MOUNTS, text);
    assert_eq!(end.stdout, "first 2\nsecond 0\n", "{}", end.stderr);
    assert!(end.stderr.contains("Read-only file system"), "{}", end.stderr);
}

#[test]
fn a_slow_disk_only_takes_its_time() {
    let sealed = repository();
    filling(&sealed, &json!({ "commit": "ralph" }));
    // 30 ms for each of about fifty syncs.
    let slow = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync"];
    let slow = [&slow[..], &["-e", "inject=fsync,fdatasync:delay_exit=30000"]].concat();
    let tried = std::process::Command::new(slow[0]).args(&slow[1..]).arg("true").status();
    if !tried.as_ref().is_ok_and(std::process::ExitStatus::success) {
        leave_out("a slow disk", &format!("strace: {tried:?}"));
        return;
    }
    let text = "export DISK=/nowhere; \"$RALPH\" run -p base --max-time 1m";
    script(&sealed, &slow, text).expect_code(0);
    assert_eq!(sealed.subjects().len(), 4);
    assert_eq!(calls(&sealed), 2);
    assert_eq!(sealed.survivors(), [""; 0]);
}
