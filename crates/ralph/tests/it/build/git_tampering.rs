//! Agents that change the repository in ways that only ralph may. Not here: commits, rewritten
//! histories, hooks and configuration that `cheats::history` tries.

use serde_json::json;

use super::{assert_clean, assert_statuses, build, handoff, made, project, settings, task};
use super::{worker, writes};

fn committing(command: &str) -> serde_json::Value {
    json!([
        { "when": { "task": "a" }, "do": [
            { "run": { "command": format!("echo x > a.txt; {command}") } }, handoff("Did it.")
        ] },
        writes("$RALPH_TASK.txt")
    ])
}

#[test]
fn agent_commits_are_undone_and_reported() {
    for (command, output_text) in [
        (
            "git add a.txt; git commit -qm mine; git commit -q --allow-empty -m two",
            "the agent made 2 commits",
        ),
        ("git checkout -q -b elsewhere", "rewrote the history or switched the branch"),
    ] {
        let tasks = [task("a", &[]), task("b", &[])];
        let sealed = project(&tasks, &committing(command), &settings(json!({})));
        let before = sealed.run_git(&["rev-parse", "HEAD"]);
        build(&sealed, &[]).expect_code(0).expect_stderr(output_text);
        assert_eq!(sealed.run_git(&["rev-parse", "HEAD~2"]), before, "{command}");
        assert_eq!(sealed.run_git(&["symbolic-ref", "HEAD"]), "refs/heads/main\n", "{command}");
        assert_eq!(made(&sealed), ["ralph[1]: a — The a", "ralph[2]: b — The b"], "{command}");
        assert_clean(&sealed);
    }
}

#[test]
fn agent_commits_must_pass_the_gates() {
    let with = settings(json!({
        "guardrails": [{ "command": "test ! -f a.txt" }], "tasks": { "maxAttempts": 1 }
    }));
    let command = "git add -A; git commit -qm 'ralph[1]: a — The a'";
    let sealed = project(&[task("a", &[]), task("b", &[])], &committing(command), &with);
    build(&sealed, &[]).expect_code(1);
    assert_eq!(made(&sealed), ["ralph[2]: b — The b"]);
    assert_statuses(&sealed, &[("a", "failed"), ("b", "done")]);
}

#[test]
fn runtime_files_that_an_agent_stages_are_not_committed() {
    let command = "rm -f .ralph/.gitignore; git add -f .ralph";
    let sealed =
        project(&[task("a", &[]), task("b", &[])], &committing(command), &settings(json!({})));
    build(&sealed, &[]).expect_code(0);
    let files = sealed.run_git(&["ls-tree", "-r", "--name-only", "HEAD"]);
    assert_eq!(files, ".ralph/settings.json\nREADME.md\na.txt\nb.txt\nplan.json\n");
}

#[test]
fn git_dir_files_are_restored_before_git_executes_them() {
    for (action, path) in [
        ("rm -rf .git/hooks; ln -s ../../bin .git/hooks", ".git/hooks"),
        ("echo ../../elsewhere > .git/commondir", ".git/commondir"),
        (
            "mkdir -p .git/objects/info; echo /nowhere > .git/objects/info/alternates",
            ".git/objects/info/alternates",
        ),
        (
            "mkdir -p .git/info; echo '* filter=evil' > .git/info/attributes; git config filter.evil.clean 'touch ../injected-ran; cat'",
            ".git/info/attributes",
        ),
        ("rm .git/config; mkfifo .git/config", ".git/config"),
        ("rm .git/config; ln -s /dev/zero .git/config", ".git/config"),
    ] {
        let calls = json!([
            { "when": { "promptContains": "belong to git itself" }, "do": [
                { "run": { "command": "echo x > $RALPH_TASK.txt" } }, handoff("Did it.")
            ] },
            { "do": [{ "run": { "command": format!("echo x > a.txt; {action}") } }, handoff("Did it.")] }
        ]);
        let sealed = project(&[task("a", &[])], &calls, &settings(json!({})));
        let before = sealed.read_file(".git/config");
        build(&sealed, &[]).expect_code(0).expect_stderr(path);
        assert_eq!(sealed.read_file(".git/config"), before, "{action}");
        assert!(!sealed.root().join("injected-ran").exists(), "{action}");
        assert_eq!(made(&sealed), ["ralph[2]: a — The a"], "{action}");
        let gates = &sealed.find_events("judged")[0]["judgement"]["verdict"]["gates"];
        assert_eq!(*gates, json!(["git's own files"]), "{action}");
        let kept = std::fs::read_dir(sealed.runs()[0].join("git-changed"));
        assert!(kept.expect("it is kept").count() > 0, "{action}");
    }
}

#[test]
fn hook_written_by_the_agent_never_runs_for_its_commit_message() {
    let hook = "printf '#!/bin/sh\\ntouch ../injected-ran\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit";
    let sealed = crate::repository();
    let calls = json!([
        { "when": { "role": "message" }, "do": [{ "text": "Add it" }] },
        { "when": { "promptContains": "belong to git itself" }, "do": [{ "text": "Sorry." }, { "claim": "DONE" }] },
        { "do": [{ "run": { "command": format!("echo x > a.txt; {hook}") } }, { "claim": "DONE" }] }
    ]);
    sealed.write_script(&calls, &json!({ "scm": { "command": "git", "tasks": ["commit"] } }));
    super::commit_all(&sealed);
    sealed.run_ralph(&["run", "-p", "base"]).expect_code(0);
    assert!(!sealed.root().join("injected-ran").exists());
    assert_eq!(sealed.subjects()[0], "Add it");
}

#[test]
fn commits_of_a_failed_gate_are_undone_too() {
    let gate = "echo sneaked > sneaked.txt; git add sneaked.txt; git commit -qm Sneaked; false";
    let with = settings(json!({ "baseline": "off", "guardrails": [{ "command": gate }] }));
    let sealed = project(&[task("a", &[])], &worker(), &with);
    let ended = build(&sealed, &["1"]).expect_code(1);
    let output_text: Vec<&str> = ended.stderr.split_whitespace().collect();
    assert!(output_text.join(" ").contains("the history was restored; kept on refs/ralph/kept/"));
    assert_eq!(made(&sealed), [""; 0], "only what was there before is left");
    assert_eq!(
        sealed.read_file("sneaked.txt"),
        "sneaked\n",
        "its files are reported with the work"
    );
}
