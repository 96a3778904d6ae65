//! Agents that do to the repository what only ralph does.

use serde_json::json;

use super::{assert_clean, assert_statuses, build, handoff, made, project, settings, task, writes};

fn committing(command: &str) -> serde_json::Value {
    json!([
        { "when": { "task": "a" }, "do": [
            { "run": { "command": format!("echo x > a.txt; {command}") } }, handoff("Did it.")
        ] },
        writes("$RALPH_TASK.txt")
    ])
}

#[test]
fn commits_of_the_agent_are_taken_back_and_said() {
    for (command, said) in [
        ("git add a.txt; git commit -qm mine", "the agent made a commit"),
        (
            "git add a.txt; git commit -qm mine; git commit -q --allow-empty -m two",
            "the agent made 2 commits",
        ),
        ("git commit -q --amend -m forged", "rewrote the history"),
        ("git checkout -q -b elsewhere", "rewrote the history or switched the branch"),
        ("git reset -q --soft HEAD~1", "rewrote the history"),
    ] {
        let tasks = [task("a", &[]), task("b", &[])];
        let sealed = project(&tasks, &committing(command), &settings(json!({})));
        let before = sealed.git(&["rev-parse", "HEAD"]);
        build(&sealed, &[]).expect_code(0).expect_stderr(said);
        assert_eq!(sealed.git(&["rev-parse", "HEAD~2"]), before, "{command}");
        assert_eq!(sealed.git(&["symbolic-ref", "HEAD"]), "refs/heads/main\n", "{command}");
        assert_eq!(made(&sealed), ["ralph[1]: a — The a", "ralph[2]: b — The b"], "{command}");
        assert_clean(&sealed);
    }
}

#[test]
fn what_an_agent_commits_still_has_to_pass() {
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
    let files = sealed.git(&["ls-tree", "-r", "--name-only", "HEAD"]);
    assert_eq!(files, ".ralph/settings.json\nREADME.md\na.txt\nb.txt\nplan.json\n");
}
