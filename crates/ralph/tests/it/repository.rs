//! Repositories in unusual states: refused with a hint, or supported.

use std::process::Command;

use serde_json::{Value, json};

use ralph_testkit::sealed::Sealed;

use crate::{repository, run};

/// Returns a repository whose agent writes a file for ralph to commit.
fn ready(commit: &str) -> Sealed {
    let sealed = repository();
    let calls = json!([
        { "do": [{ "append": { "path": "work.txt", "text": "work\n" } }, { "claim": "DONE" }] }
    ]);
    sealed.write_script(&calls, &json!({ "commit": commit }));
    sealed.write_file(".gitignore", "/.ralph/\n");
    sealed.write_file("text", "one\n");
    commit_all(&sealed, "Settings");
    sealed.run_git(&["checkout", "-q", "-b", "other"]);
    sealed.write_file("text", "two\n");
    commit_all(&sealed, "Other");
    sealed.run_git(&["checkout", "-q", "main"]);
    sealed.write_file("text", "three\n");
    commit_all(&sealed, "Main");
    sealed
}

fn commit_all(sealed: &Sealed, message: &str) {
    sealed.run_git(&["add", "-A"]);
    sealed.run_git(&["commit", "-qm", message]);
}

/// Runs a git command that is expected to fail.
fn git_in_conflict(sealed: &Sealed, words: &[&str]) {
    let mut command: Command = sealed.build_command("git");
    let end = command.args(words).output().expect("it runs");
    assert!(!end.status.success(), "git {words:?} is in conflict");
}

fn warnings(sealed: &Sealed) -> Vec<String> {
    let events = sealed.find_events("warned");
    events.iter().filter_map(|event| event["text"].as_str().map(str::to_owned)).collect()
}

#[test]
fn git_operation_in_progress_is_refused_with_a_hint() {
    for (words, operation, remedy) in [
        (["merge", "other"].as_slice(), "merge", "git merge --abort"),
        (&["rebase", "other"], "rebase", "git rebase --abort"),
        (&["cherry-pick", "other"], "cherry-pick", "git cherry-pick --abort"),
        (&["revert", "HEAD~1"], "revert", "git revert --abort"),
    ] {
        let sealed = ready("ralph");
        git_in_conflict(&sealed, words);
        for flag in [&[][..], &["--include-dirty"], &["--set-aside"]] {
            run(&sealed, flag)
                .expect_code(5)
                .expect_stderr(&format!("`git {operation}` is under way"))
                .expect_stderr(remedy);
        }
        assert_eq!(sealed.runs().len(), 0, "{operation}");
        sealed.run_git(&[operation, "--abort"]);
        run(&sealed, &[]).expect_code(0);
    }
    let sealed = ready("ralph");
    sealed.run_git(&["bisect", "start", "HEAD", "HEAD~2"]);
    run(&sealed, &[]).expect_code(5).expect_stderr("git bisect reset");
}

#[test]
fn git_operation_in_progress_is_allowed_without_commits() {
    let sealed = ready("none");
    git_in_conflict(&sealed, &["merge", "other"]);
    run(&sealed, &[]).expect_code(0);
    assert!(sealed.project_dir().join(".git/MERGE_HEAD").exists());
}

#[test]
fn commits_go_onto_a_detached_head_with_a_warning() {
    let sealed = ready("ralph");
    let main = sealed.run_git(&["rev-parse", "main"]);
    sealed.run_git(&["checkout", "-q", "--detach"]);
    run(&sealed, &[]).expect_code(0).expect_stderr("HEAD is detached");
    assert_eq!(sealed.run_git(&["rev-parse", "main", "HEAD~1"]), format!("{main}{main}"));
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), "");
    let sealed = ready("none");
    sealed.run_git(&["checkout", "-q", "--detach"]);
    run(&sealed, &[]).expect_code(0);
    assert!(!warnings(&sealed).iter().any(|text| text.contains("detached")));
}

#[test]
fn a_sparse_checkout_is_worked_in_and_stays_sparse() {
    let sealed = ready("ralph");
    sealed.write_file("far/away", "far\n");
    commit_all(&sealed, "Far");
    sealed.run_git(&["sparse-checkout", "set", "near"]);
    assert!(!sealed.project_dir().join("far").exists());
    run(&sealed, &[]).expect_code(0);
    assert!(!sealed.project_dir().join("far").exists());
    assert_eq!(sealed.run_git(&["show", "HEAD:far/away"]), "far\n");
    assert_eq!(sealed.run_git(&["show", "--name-only", "--format=", "HEAD"]), "work.txt\n");
}

#[test]
fn submodules_are_left_unchanged() {
    let sealed = ready("ralph");
    let module = sealed.root().join("module");
    let module = module.to_str().expect("text");
    sealed.run_git(&["init", "-q", module]);
    sealed.run_git(&["-C", module, "commit", "-q", "--allow-empty", "-m", "Module"]);
    let allow = "protocol.file.allow=always";
    sealed.run_git(&["-c", allow, "submodule", "--quiet", "add", "--", module, "sub"]);
    commit_all(&sealed, "Submodule");
    run(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.run_git(&["show", "--name-only", "--format=", "HEAD"]), "work.txt\n");
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), "");
}

#[test]
fn a_lock_that_the_agent_leaves_behind_does_not_stop_the_commit() {
    let sealed = ready("ralph");
    let calls: Value = json!([
        { "do": [
            { "append": { "path": "work.txt", "text": "work\n" } },
            { "write": { "path": ".git/index.lock", "text": "" } },
            { "claim": "DONE" }
        ] }
    ]);
    sealed.write_script(&calls, &json!({ "commit": "ralph" }));
    run(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), "");
    assert_eq!(sealed.run_git(&["show", "--name-only", "--format=", "HEAD"]), "work.txt\n");
}
