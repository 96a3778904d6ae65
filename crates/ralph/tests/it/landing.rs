//! What happens to the work tree: commits, rollbacks, and what must not change.

use std::fs;

use serde_json::{Value, json};

use ralph_testkit::sealed::{Running, Sealed, merge_into};

use crate::{first_then, repository, run};

/// An agent that writes a file, reports completion, and writes commit messages.
fn worker() -> Value {
    json!([
        { "when": { "role": "message" }, "do": [{ "text": "\"Add the work\"" }] },
        { "do": [{ "append": { "path": "work.txt", "text": "work\n" } }, { "claim": "DONE" }] }
    ])
}

fn committed(sealed: &Sealed) {
    sealed.write_file(".gitignore", "/.ralph/\n/ignored\n");
    sealed.commit_all("Settings");
}

fn scm() -> Value {
    json!({ "scm": { "command": "git", "tasks": ["commit"] } })
}

/// Files that a run must not touch.
fn users_own(sealed: &Sealed) -> (String, String, String) {
    (
        sealed.run_git(&["stash", "list"]),
        sealed.run_git(&["config", "--list", "--local"]),
        fs::read_to_string(sealed.project_dir().join("ignored")).unwrap_or_default(),
    )
}

#[test]
fn work_that_passed_is_committed_with_the_message_of_the_agent() {
    let sealed = repository();
    let mut settings = scm();
    settings["guardrails"] = json!([{ "command": "test -f work.txt" }]);
    sealed.write_script(&worker(), &settings);
    committed(&sealed);
    sealed.write_file("ignored", "mine");
    let before = users_own(&sealed);
    run(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.subjects(), ["Add the work", "Settings", "Begin"]);
    let body = sealed.run_git(&["log", "-1", "--format=%B"]);
    assert!(body.contains("Ralph-Iteration: 1"), "{body}");
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), "");
    assert_eq!(sealed.run_git(&["show", "--name-only", "--format=", "HEAD"]), "work.txt\n");
    assert_eq!(users_own(&sealed), before);
}

#[test]
fn work_that_failed_is_never_committed() {
    let sealed = repository();
    let mut settings = scm();
    settings["guardrails"] = json!([{ "command": "false" }]);
    settings["maximumIterations"] = json!(3);
    sealed.write_script(&worker(), &settings);
    committed(&sealed);
    run(&sealed, &[]).expect_code(1);
    assert_eq!(sealed.subjects(), ["Settings", "Begin"]);
    assert_eq!(sealed.read_file("work.txt"), "work\nwork\nwork\n", "it stays for the next attempt");
}

#[test]
fn a_rollback_goes_back_and_keeps_what_it_removes() {
    let sealed = repository();
    sealed.write_script(&worker(), &json!({ "guardrails": [{ "command": "false" }], "onFailure": "rollback", "maximumIterations": 2 }));
    committed(&sealed);
    sealed.write_file("ignored", "mine");
    sealed.write_file("README.md", "# Changed by the user\n");
    sealed.write_file("untracked", "also the user's");
    run(&sealed, &[]).expect_code(1);
    assert!(!sealed.project_dir().join("work.txt").exists());
    assert_eq!(sealed.read_file("README.md"), "# Changed by the user\n");
    assert_eq!(sealed.read_file("untracked"), "also the user's");
    assert_eq!(sealed.read_file("ignored"), "mine");
    let kept = sealed.run_git(&["for-each-ref", "--format=%(refname)", "refs/ralph/kept"]);
    assert_eq!(kept.lines().count(), 2, "{kept}");
    let first = kept.lines().next().expect("a ref");
    assert_eq!(sealed.run_git(&["show", &format!("{first}:work.txt")]), "work\n");
}

#[test]
fn uncommitted_changes_are_refused_included_or_set_aside() {
    let sealed = repository();
    sealed.write_script(&worker(), &scm());
    committed(&sealed);
    sealed.write_file("README.md", "# Changed\n");
    sealed.write_file("new.txt", "new");
    let end = run(&sealed, &[]).expect_code(2);
    for text in ["README.md", "new.txt", "--include-dirty", "--set-aside"] {
        assert!(end.stderr.contains(text), "{text}:\n{}", end.stderr);
    }
    assert_eq!(sealed.runs().len(), 0);
    run(&sealed, &["--set-aside"]).expect_code(0);
    assert_eq!(sealed.run_git(&["show", "--name-only", "--format=", "HEAD"]), "work.txt\n");
    assert_eq!(sealed.read_file("README.md"), "# Changed\n");
    assert_eq!(sealed.read_file("new.txt"), "new");
    run(&sealed, &["--include-dirty"]).expect_code(0);
    assert_eq!(
        sealed.run_git(&["show", "--name-only", "--format=", "HEAD"]),
        "README.md\nnew.txt\nwork.txt\n"
    );
}

/// In a sandbox the settings are read-only; they stay as they are, like the rest of `.ralph/`.
#[test]
fn changes_are_set_aside_without_ralphs_own_files() {
    let sealed = repository();
    sealed.write_script(&worker(), &json!({ "commit": "ralph" }));
    sealed.commit_all("Settings");
    sealed.write_script(&worker(), &json!({ "commit": "ralph", "stuck": { "after": 5 } }));
    sealed.write_file(".ralph/schema.json", "{}\n");
    sealed.write_file("README.md", "# Changed\n");
    sealed.write_file("new.txt", "new");
    sealed.trust_project(&[]);
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(["run", "-p", "work", "--set-aside"]).env_remove("RALPH_SANDBOX_BACKEND");
    let end = Running::start_command(command).wait_for_end().expect_code(0);
    assert!(
        end.stderr.contains("are set aside until the run ends, on refs/ralph/"),
        "{}",
        end.stderr
    );
    assert_eq!(sealed.read_file("README.md"), "# Changed\n");
    assert_eq!(sealed.read_file("new.txt"), "new");
    assert_eq!(sealed.read_file(".ralph/schema.json"), "{}\n");
}

#[test]
fn a_hook_that_refuses_is_feedback() {
    let sealed = repository();
    let calls = json!([
        { "when": { "role": "message" }, "do": [{ "text": "Add the work" }] },
        { "when": { "promptContains": "no tabs" }, "do": [{ "write": { "path": "work.txt", "text": "spaces" } }, { "claim": "DONE" }] },
        { "do": [{ "write": { "path": "work.txt", "text": "\ttabs" } }, { "claim": "DONE" }] }
    ]);
    sealed.write_script(&calls, &scm());
    committed(&sealed);
    let hook = sealed.project_dir().join(".git/hooks/pre-commit");
    fs::create_dir_all(hook.parent().expect("a parent")).expect("a directory");
    fs::write(
        &hook,
        "#!/bin/sh\nif git show :work.txt | grep -q '\t'; then echo 'no tabs please'; exit 1; fi\n",
    )
    .expect("written");
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("a mode");
    run(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.subjects(), ["Add the work", "Settings", "Begin"]);
    assert_eq!(sealed.run_git(&["show", "HEAD:work.txt"]), "spaces");
}

#[test]
fn a_hook_that_refuses_without_a_word_is_reported_with_its_exit_code() {
    let sealed = repository();
    let calls = json!([
        { "when": { "role": "message" }, "do": [{ "text": "Add the work" }] },
        { "when": { "promptContains": "pre-commit hook ended with exit code 7 and no output" },
          "do": [{ "write": { "path": "work.txt", "text": "good" } }, { "claim": "DONE" }] },
        { "do": [{ "write": { "path": "work.txt", "text": "bad" } }, { "claim": "DONE" }] }
    ]);
    sealed.write_script(&calls, &scm());
    committed(&sealed);
    let hook = sealed.project_dir().join(".git/hooks/pre-commit");
    fs::create_dir_all(hook.parent().expect("a parent")).expect("a directory");
    fs::write(&hook, "#!/bin/sh\n! grep -q bad work.txt || exit 7\n").expect("written");
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("a mode");
    run(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.run_git(&["show", "HEAD:work.txt"]), "good");
}

#[test]
fn nothing_to_commit_is_not_an_error() {
    let sealed = repository();
    sealed.write_script(
        &json!([{ "when": { "role": "prompt" }, "do": [{ "claim": "DONE" }] }]),
        &scm(),
    );
    committed(&sealed);
    run(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.find_events("asked").len(), 1);
}

#[test]
fn a_push_that_fails_is_a_git_failure_and_can_be_repeated() {
    let sealed = repository();
    sealed.write_script(
        &worker(),
        &json!({ "scm": { "command": "git", "tasks": ["commit", "push origin main"] } }),
    );
    committed(&sealed);
    sealed.trust_project(&[]);
    run(&sealed, &[]).expect_code(5).expect_stderr("git push origin main");
    assert_eq!(sealed.subjects().len(), 3, "the commit is there");
    let remote = sealed.root().join("remote.git");
    sealed.run_git(&["init", "--bare", "--quiet", &remote.to_string_lossy()]);
    sealed.run_git(&["remote", "add", "origin", &remote.to_string_lossy()]);
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert_eq!(sealed.subjects().len(), 3, "nothing is committed twice");
    assert_eq!(
        sealed.run_git(&["rev-parse", "origin/main"]),
        sealed.run_git(&["rev-parse", "HEAD"])
    );
}

#[test]
fn a_commit_without_a_message_of_the_agent_outlives_a_failed_push() {
    let sealed = repository();
    let mut calls = worker();
    let error = json!({ "error": { "class": "turnLimit", "words": "too many turns" } });
    calls[0]["do"] = json!([{ "text": "I was about to" }, { "result": error }]);
    sealed.write_script(
        &calls,
        &json!({ "scm": { "command": "git", "tasks": ["commit", "push origin main"] } }),
    );
    committed(&sealed);
    sealed.trust_project(&[]);
    run(&sealed, &[]).expect_code(5).expect_stderr("git push origin main");
    let head = sealed.run_git(&["rev-parse", "HEAD"]);
    let remote = sealed.root().join("remote.git");
    sealed.run_git(&["init", "--bare", "--quiet", &remote.to_string_lossy()]);
    sealed.run_git(&["remote", "add", "origin", &remote.to_string_lossy()]);
    let asked = sealed.find_events("asked").len();
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert_eq!(sealed.find_events("asked").len(), asked, "no agent is asked again");
    assert_eq!(sealed.run_git(&["rev-parse", "HEAD"]), head);
    assert_eq!(sealed.run_git(&["rev-parse", "origin/main"]), head);
}

#[test]
fn ralph_can_write_the_commit_message() {
    let sealed = repository();
    sealed.write_script(&worker(), &json!({ "commit": "ralph", "commitPrefix": "loop" }));
    committed(&sealed);
    run(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.subjects()[0], "loop[1]: prompt");
    assert_eq!(sealed.find_events("asked").len(), 1);
}

/// Commits three iterations, and returns the git commands of the last one.
fn asked_of_git(sealed: &Sealed, settings: &Value) -> Vec<String> {
    let log = sealed.root().join("git.log");
    let usual = "PATH=/usr/local/bin:/usr/bin:/bin";
    let script = format!("#!/bin/sh\necho \"$*\" >>{}\n{usual} exec git \"$@\"\n", log.display());
    sealed.write_program("git", &script);
    let work = json!([{ "append": { "path": "work.txt", "text": "work\n" } }, { "text": "more" }]);
    sealed.write_script(&json!([{ "do": work }]), settings);
    committed(sealed);
    // Without a branch ralph leaves the commit that is checked out to git.
    sealed.run_git(&["checkout", "--quiet", "--detach"]);
    run(sealed, &["-m", "3"]).expect_code(1);
    assert_eq!(sealed.subjects().len(), 5);
    let text = fs::read_to_string(&log).expect("a log");
    let mut asked: Vec<String> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ').peekable();
            while words.next_if_eq(&"-c").is_some() {
                words.next();
            }
            let is_branch = line.contains(" HEAD ");
            words.next().map(|subcommand| match subcommand {
                "update-ref" if is_branch => "move the branch".to_owned(),
                other => other.to_owned(),
            })
        })
        .collect();
    let is_commit = |word: &String| word == "move the branch";
    let last = asked.iter().rposition(is_commit).expect("a commit");
    asked.truncate(last + 1);
    let before = asked[..last].iter().rposition(is_commit).expect("another");
    asked.split_off(before + 1)
}

#[test]
fn no_git_query_is_repeated_in_an_iteration() {
    for (further, expect) in [
        (json!({}), &["add", "move the branch"][..]),
        // Checking what a gate may not change needs a checkpoint; what git sees after the gate is
        // committed.
        (
            json!({ "guardrails": [{ "command": "true" }] }),
            &["add", "add", "add", "move the branch"],
        ),
    ] {
        let mut settings = json!({ "commit": "ralph" });
        merge_into(&mut settings, &further);
        assert_eq!(asked_of_git(&repository(), &settings), expect, "{further}");
    }
}

#[test]
fn with_commit_ralph_no_agent_is_asked_for_a_message() {
    let sealed = repository();
    let mut settings = scm();
    settings["commit"] = json!("ralph");
    sealed.write_script(&worker(), &settings);
    committed(&sealed);
    run(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.subjects(), ["ralph[1]: prompt", "Settings", "Begin"]);
    assert_eq!(sealed.prompts().len(), 1, "no call for a message");
}

#[test]
fn the_end_of_a_run_names_the_changed_files_and_whether_they_are_committed() {
    let note = "commits nothing";
    let join = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let sealed = repository();
    sealed.write_script(&worker(), &json!({}));
    committed(&sealed);
    let end = run(&sealed, &[]).expect_code(0);
    assert!(end.stderr.contains(note), "{}", end.stderr);
    let changed = "changed: 1 file: work.txt, not committed; `git diff` and `git status` show them";
    assert!(join(&end.stderr).contains(changed), "{}", end.stderr);
    let sealed = repository();
    sealed.write_script(&worker(), &scm());
    committed(&sealed);
    let end = run(&sealed, &[]).expect_code(0);
    assert!(!end.stderr.contains(note), "{}", end.stderr);
    assert!(end.stderr.contains("changed: 1 file: work.txt\n"), "{}", end.stderr);
}

#[test]
fn what_was_uncommitted_before_is_no_change_of_the_run() {
    let sealed = repository();
    sealed.write_file("notes.txt", "one\n");
    let work = json!([{ "write": { "path": "work.txt", "text": "work\n" } }, { "text": "More." }]);
    let calls = first_then(work, json!([{ "claim": "DONE" }]));
    sealed.write_script(&calls, &json!({}));
    committed(&sealed);
    sealed.write_file("notes.txt", "two\n");
    sealed.write_file("new.txt", "new\n");
    let end = run(&sealed, &[]).expect_code(0);
    assert!(end.stderr.contains("changed: 1 file: work.txt"), "{}", end.stderr);
    assert!(!end.stderr.contains("notes.txt"), "{}", end.stderr);
    let report = sealed.run_ralph(&["report"]).expect_code(0).stdout;
    assert!(report.contains("## Changed files: 1\n"), "{report}");
}

#[test]
fn the_output_of_the_command_itself_is_named_among_uncommitted_changes() {
    let sealed = repository();
    sealed.write_script(&worker(), &json!({ "commit": "ralph" }));
    committed(&sealed);
    let output = fs::File::create(sealed.project_dir().join("ralph.out")).expect("a file");
    let status = sealed
        .build_command(env!("CARGO_BIN_EXE_ralph"))
        .args(["run", "-p", "base"])
        .stdout(output.try_clone().expect("a second handle"))
        .stderr(output)
        .status();
    assert_eq!(status.expect("it runs").code(), Some(2));
    let text = sealed.read_file("ralph.out");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("`ralph.out` is the output of this command: redirect it"), "{text}");
}

#[test]
fn a_complete_run_that_changed_nothing_says_so() {
    let sealed = repository();
    let gates = json!({ "gates": [{ "command": "true" }] });
    sealed.write_script(&json!([{ "do": [{ "claim": "DONE" }] }]), &gates);
    committed(&sealed);
    let end = run(&sealed, &[]).expect_code(0);
    let text = "changed: nothing; the gates passed on the files as they were";
    assert!(end.stderr.contains(text), "{}", end.stderr);
    let text = "no file was changed; the gates passed on the files as they were";
    for command in ["status", "report"] {
        let shown = sealed.run_ralph(&[command]).expect_code(0).stdout;
        assert!(shown.contains(text), "{shown}");
    }
}
