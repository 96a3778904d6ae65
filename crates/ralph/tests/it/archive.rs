//! `ralph archive`: moves a complete task list away, and changes nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use ralph_testkit::sealed::{Finished, Sealed, merge_into};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{always, repository, sealed};

const PRD: &str = "# Notes\n\nNotes can be searched.\n";

fn story(id: &str, further: Value) -> Value {
    let mut story = json!({
        "id": id,
        "title": format!("The {id}"),
        "description": format!("Make {id}."),
        "acceptanceCriteria": [format!("{id} is there")],
        "passes": false
    });
    merge_into(&mut story, &further);
    story
}

fn done(id: &str, reviews: u32) -> Value {
    let further = json!({
        "passes": true, "reviewStatus": "approved", "reviewCount": reviews, "notes": "Done."
    });
    story(id, further)
}

fn documents(sealed: &Sealed, stories: &[Value]) {
    let list = json!({
        "project": "Notes", "branchName": "ralph/notes", "verifyCommands": ["true"],
        "userStories": stories
    });
    sealed.write_file("ralph/prd.md", PRD);
    sealed.write_file("ralph/tasks.json", &format!("{list:#}\n"));
    sealed.write_file(
        "ralph/progress.txt",
        "# Progress\n\nStarted: 2026-11-01\n\n---\nUS-001 done.\n",
    );
    sealed.write_file("ralph/prompt.md", "Run `make`.\n");
}

/// A repository whose documents are committed.
fn project(stories: &[Value]) -> Sealed {
    let sealed = repository();
    documents(&sealed, stories);
    sealed.commit_all("Documents");
    sealed
}

fn archive(sealed: &Sealed, words: &[&str]) -> Finished {
    sealed.run_ralph(&[&["archive"], words].concat())
}

fn archives(sealed: &Sealed) -> Vec<String> {
    let entries = fs::read_dir(sealed.project_dir().join("ralph-archive")).into_iter().flatten();
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The only archive, of any date.
#[track_caller]
fn the_archive(sealed: &Sealed, about: &str) -> String {
    let names = archives(sealed);
    assert!(names.len() == 1 && names[0].ends_with(about), "{names:?}");
    assert_eq!(names[0].len(), "2026-11-15".len() + about.len());
    format!("ralph-archive/{}", names[0])
}

#[test]
fn finished_list_is_archived_and_committed() {
    let sealed = project(&[done("US-001", 1), done("US-002", 1)]);
    let (prd, tasks, progress) = (
        sealed.read_file("ralph/prd.md"),
        sealed.read_file("ralph/tasks.json"),
        sealed.read_file("ralph/progress.txt"),
    );
    let end = archive(&sealed, &[]).expect_code(0);
    assert!(end.stdout.contains("-notes, 2 of 2 tasks done.\n"), "{}", end.stdout);
    assert!(end.stdout.contains("Committed as "), "{}", end.stdout);
    let place = the_archive(&sealed, "-notes");
    assert_eq!(sealed.read_file(&format!("{place}/prd.md")), prd);
    assert_eq!(sealed.read_file(&format!("{place}/tasks.json")), tasks);
    assert_eq!(sealed.read_file(&format!("{place}/progress.txt")), progress);
    let summary = sealed.read_file(&format!("{place}/summary.md"));
    for line in
        ["# Notes\n", "Completed: 2/2 tasks", "Worked on: 2026-11-01 to 20", "reviews are cheap"]
    {
        assert!(summary.contains(line), "{summary}");
    }
    // Fresh documents that work at once, and general instructions that stay.
    sealed.run_ralph(&["tasks", "validate"]).expect_code(0);
    assert!(sealed.read_file("ralph/tasks.json").contains("\"verifyCommands\": [\"true\"]"));
    assert!(!sealed.read_file("ralph/prd.md").contains("searched"));
    assert_eq!(sealed.read_file("ralph/prompt.md"), "Run `make`.\n");
    assert!(sealed.subjects()[0].starts_with("ralph: archive 20"), "{:?}", sealed.subjects());
    assert!(sealed.subjects()[0].ends_with("-notes — 2 of 2 tasks done"));
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), "");
    archive(&sealed, &[]).expect_code(2).expect_stderr("nothing to archive");
    // The printed command names the next feature, and keeps the shared instructions.
    let next = end.stdout.lines().find_map(|line| line.trim().strip_prefix("ralph init "));
    let next = next.expect("a next step").replace("FEATURE", "Next");
    let words: Vec<&str> = std::iter::once("init").chain(next.split(' ')).collect();
    for force in [&[][..], &["--force"]] {
        sealed.run_ralph(&[&words, force].concat()).expect_code(0);
        assert!(!sealed.project_dir().join("ralph/prd.md.bak").exists());
        assert!(sealed.read_file("ralph/prd.md").starts_with("# Next\n"));
        let list = sealed.read_file("ralph/tasks.json");
        assert!(list.contains("\"verifyCommands\": [\"true\"]"), "{list}");
        assert!(list.contains("ralph/next"), "{list}");
        assert_eq!(sealed.read_file("ralph/prompt.md"), "Run `make`.\n");
    }
}

#[test]
fn archiving_an_unfinished_list_is_refused() {
    let capped = json!({
        "passes": true, "reviewStatus": "approved", "reviewCount": 5, "notes": "Done.",
        "reviewFeedback": "[AUTO-APPROVED AT CAP] It is slow."
    });
    let failed = json!({
        "status": "failed", "retryCount": 5, "notes": "failed: stuck; its work is on wip/x"
    });
    let stories = [story("US-001", capped), story("US-002", failed), story("US-003", json!({}))];
    let sealed = project(&stories);
    archive(&sealed, &["--label", "Gave up: Notes!"]).expect_code(0);
    let place = the_archive(&sealed, "-gave-up-notes");
    let summary = sealed.read_file(&format!("{place}/summary.md"));
    for line in [
        "Completed: 1/3 tasks",
        "1 failed, 1 left.",
        "**US-002** (The US-002), after 5 failed attempts: failed: stuck; its work is on wip/x",
        "**US-001** (The US-001), after 5 reviews: [AUTO-APPROVED AT CAP] It is slow.",
    ] {
        assert!(summary.contains(line), "{line}\n{summary}");
    }
}

#[test]
fn a_second_archive_of_the_day_gets_a_number() {
    let sealed = project(&[done("US-001", 1)]);
    archive(&sealed, &[]).expect_code(0);
    documents(&sealed, &[done("US-002", 1)]);
    archive(&sealed, &[]).expect_code(0);
    let names = archives(&sealed);
    assert_eq!(names.len(), 2);
    assert_eq!(names[1], format!("{}-2", names[0]));
    assert!(sealed.read_file(&format!("ralph-archive/{}/tasks.json", names[1])).contains("US-002"));
}

#[test]
fn other_and_staged_changes_are_kept() {
    let sealed = project(&[done("US-001", 1)]);
    sealed.write_file("staged.txt", "staged\n");
    sealed.run_git(&["add", "staged.txt"]);
    sealed.write_file("README.md", "# Mine\n");
    sealed.write_file("ralph/prompt.md", "Changed.\n");
    archive(&sealed, &[]).expect_code(0);
    let status = sealed.run_git(&["status", "--porcelain"]);
    assert_eq!(status, " M README.md\n M ralph/prompt.md\nA  staged.txt\n");
    let files = sealed.run_git(&["show", "--name-only", "--format=", "HEAD"]);
    assert_eq!(files.lines().count(), 7, "{files}");
    assert_eq!(files.lines().filter(|file| file.starts_with("ralph-archive/")).count(), 4);
}

#[test]
fn uncommitted_documents_are_archived_too() {
    let sealed = repository();
    documents(&sealed, &[done("US-001", 1)]);
    archive(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), "?? ralph/prompt.md\n");
}

#[test]
fn invalid_list_is_archived_unchanged() {
    let sealed = project(&[done("US-001", 1)]);
    sealed.write_file("ralph/tasks.json", "{ broken");
    let end = archive(&sealed, &[]).expect_code(0);
    assert!(end.stdout.contains("The list is archived as it is"), "{}", end.stdout);
    let place = the_archive(&sealed, "-main");
    assert_eq!(sealed.read_file(&format!("{place}/tasks.json")), "{ broken");
    assert!(sealed.read_file(&format!("{place}/summary.md")).contains("no readable task list"));
}

#[test]
fn archive_works_without_a_repository() {
    let sealed = sealed();
    documents(&sealed, &[done("US-001", 1)]);
    let end = archive(&sealed, &[]).expect_code(0);
    assert!(end.stdout.contains("Not committed: this is not a git repository."), "{}", end.stdout);
    the_archive(&sealed, "-notes");
}

#[test]
fn ignored_archive_is_reported() {
    let sealed = repository();
    sealed.write_file(".gitignore", "/ralph/\n/ralph-archive/\n");
    documents(&sealed, &[done("US-001", 1)]);
    let end = archive(&sealed, &[]).expect_code(0);
    assert!(end.stdout.contains("Not committed: git ignores it."), "{}", end.stdout);
}

#[test]
fn a_hook_that_refuses_loses_nothing() {
    let sealed = project(&[done("US-001", 1)]);
    sealed.write_file(".git/hooks/pre-commit", "#!/bin/sh\necho no archives here\nexit 1\n");
    let hook = sealed.project_dir().join(".git/hooks/pre-commit");
    fs::set_permissions(hook, fs::Permissions::from_mode(0o755)).expect("a mode");
    archive(&sealed, &[])
        .expect_code(5)
        .expect_stderr("no archives here")
        .expect_stderr("commit it yourself");
    let place = the_archive(&sealed, "-notes");
    assert_eq!(sealed.read_file(&format!("{place}/prd.md")), PRD);
}

#[test]
fn missing_and_invalid_lists_are_refused() {
    let empty = repository();
    archive(&empty, &[]).expect_code(2).expect_stderr("nothing to archive").expect_stderr("init");
    empty.run_ralph(&["init", "--workflow", "tasks"]).expect_code(0);
    archive(&empty, &[]).expect_code(2).expect_stderr("the documents are still the bare templates");

    let sealed = project(&[done("US-001", 1)]);
    archive(&sealed, &["--label", "?"]).expect_code(2).expect_stderr("--label");
    sealed.write_file("ralph-archive", "a file");
    archive(&sealed, &[]).expect_code(2).expect_stderr("must be a directory");
    assert_eq!(sealed.read_file("ralph/prd.md"), PRD);
}

#[test]
fn archive_is_refused_while_a_run_is_active() {
    let sealed = repository();
    let actions =
        json!([{ "touch": "at-work" }, { "waitFor": { "path": "continue" } }, { "claim": "DONE" }]);
    sealed.write_script(&always(actions), &json!({}));
    documents(&sealed, &[done("US-001", 1)]);
    let run = sealed.start_ralph(&["run", "-p", "base"]);
    sealed.wait_for("at-work");
    archive(&sealed, &[]).expect_code(3).expect_stderr("Another run is active");
    assert_eq!(sealed.read_file("ralph/prd.md"), PRD);
    sealed.write_file("continue", "");
    run.wait_for_end().expect_code(0);
}

#[test]
fn init_is_refused_while_a_run_is_active() {
    let sealed = repository();
    let deeds =
        json!([{ "touch": "at-work" }, { "waitFor": { "path": "continue" } }, { "claim": "DONE" }]);
    sealed.write_script(&always(deeds), &json!({}));
    let init =
        |words: &[&str]| sealed.run_ralph(&[&["init", "--workflow", "tasks"], words].concat());
    init(&["--name", "Notes"]).expect_code(0);
    let list = sealed.read_file("ralph/tasks.json");
    let run = sealed.start_ralph(&["run", "-p", "base"]);
    sealed.wait_for("at-work");
    for words in [&["--name", "Other", "--force"][..], &["--name", "Other"]] {
        init(words).expect_code(3).expect_stderr("Another run is active");
    }
    let words = ["init", "--yes", "--force"];
    sealed.run_ralph(&words).expect_code(3).expect_stderr("ralph init --dry-run");
    init(&["--name", "Other", "--force", "--dry-run"]).expect_code(0);
    assert_eq!(sealed.read_file("ralph/tasks.json"), list);
    sealed.write_file("continue", "");
    run.wait_for_end().expect_code(0);
    init(&["--name", "Other", "--force"]).expect_code(0);
}

/// The commit is the last step; a hook that waits is the point to kill it.
#[test]
fn kill_during_archive_loses_nothing() {
    let sealed = project(&[done("US-001", 1)]);
    let (marker, hook) = ("../in-hook", sealed.project_dir().join(".git/hooks/pre-commit"));
    sealed.write_file(
        ".git/hooks/pre-commit",
        &format!("#!/bin/sh\ntouch {marker}\nwhile [ ! -e ../leave ]; do sleep 0.05; done\n"),
    );
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("a mode");
    let running = sealed.start_ralph(&["archive"]);
    sealed.wait_for(marker);
    running.send_signal(Signal::KILL);
    running.wait_for_end();
    fs::write(sealed.root().join("leave"), "").expect("written");
    let place = the_archive(&sealed, "-notes");
    assert_eq!(sealed.read_file(&format!("{place}/prd.md")), PRD);
    assert_eq!(sealed.survivors(), Vec::<String>::new());
    // A partial earlier archive is removed, and everything works as before.
    fs::remove_file(hook).expect("removed");
    sealed.write_file("ralph-archive/.making-x/prd.md", "half");
    documents(&sealed, &[done("US-002", 1)]);
    archive(&sealed, &[]).expect_code(0);
    assert_eq!(archives(&sealed).len(), 2);
}
