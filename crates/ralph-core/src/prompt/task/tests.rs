//! The prompts as agents get them.

use super::*;
use crate::handoff::read;
use crate::ids::{IterationNumber, TaskId};
use crate::stuck::ErrorHash;

fn task() -> Task {
    Task {
        description: "People can log in.".into(),
        acceptance_criteria: vec!["A wrong password is refused.".into()],
        ..Task::new("T-1", "Login")
    }
}

#[test]
fn a_first_attempt_is_told_the_task() {
    let task = task();
    let gates = ["cargo test".to_owned()];
    expect_test::expect![[r"
        ## Current task
        ID: T-1
        Title: Login

        Description:
        People can log in.

        Acceptance criteria (all of them must be met):
        - [ ] A wrong password is refused.

        ## Previous attempts
        First attempt.

        ## How to work
        1. Read the code this task is about before you change it. Search before you assume that something is missing.
        2. Write or extend tests for the criteria first, then the code. No placeholders, no stubs.
        3. Do this task and nothing else. If you find other work, propose it in `plan_amendments`.
        4. These checks will be run after you, and all must pass. Run them yourself first:
           - `cargo test`
        5. Do not commit and do not edit the task list: both are done for you after the checks.
        6. If you cannot go on without a person (a secret, a decision, an access), say so in `blocked` and why.

        ## Your answer
        End with a handoff: what you did, where you left the plan and why, bugs, decisions, constraints, tests added, and what is left. Be exact; the next iteration knows nothing but this.
    "]].assert_eq(&attempt(&TaskParts { gates: &gates, ..TaskParts::first(&task) }));
}

#[test]
fn a_stuck_task_is_told_what_not_to_do() {
    let task = task();
    let outputs =
        [FailedOutput { title: "Test Output (verbatim)".into(), text: "E: no\nx".into() }];
    let attempts = [Attempt {
        iteration: IterationNumber(3),
        gate: "tests".into(),
        exit_code: 1,
        hash: ErrorHash("a".into()),
        failing: Vec::new(),
        tree: None,
        summary: "Guessed the format.\nMore.".into(),
        files: vec!["a.rs".into()],
        escalation: Escalation::None,
    }];
    let stuck = TaskParts {
        record: Some("---\nRECORD\n"),
        outputs: &outputs,
        attempts: &attempts,
        escalation: Escalation::ContextExpansion,
        patch: "-old\n+new",
        context: &[("lib.rs".to_owned(), "fn x() {}\n".to_owned())],
        ..TaskParts::first(&task)
    };
    let text = attempt(&stuck);
    for part in [
        "RECORD",
        "## Another approach is required",
        "    E: no\n    x",
        "- Guessed the format. (in a.rs)",
        "    -old\n    +new",
        "### lib.rs\n    fn x() {}",
    ] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    let shifted = attempt(&TaskParts { escalation: Escalation::StrategyShift, ..stuck });
    assert!(!shifted.contains("lib.rs"), "{shifted}");
}

#[test]
fn a_review_is_told_to_look_for_itself() {
    let task = task();
    let account = read::read([], "All done.", &TaskId("T-1".into()), &[]);
    expect_test::expect![[r"
        You review the work of somebody else. You did not write it, and you change nothing: do not edit, create or delete files, and do not commit. Whatever you change is undone.

        ## Current task
        ID: T-1
        Title: Login

        Description:
        People can log in.

        Acceptance criteria (all of them must be met):
        - [ ] A wrong password is refused.

        ## What the last review wanted
        Mend b.rs:3.

        Check first whether this is mended.

        ## What the author says
        This is a claim, not a fact. Check it.
        [T-1] All done. Partial. 0 files.

        ## The change
            +code

        ## How to review
        1. Read the changed files whole, not just the change.
        2. Go through the acceptance criteria one by one. For each, find the evidence in code or tests, or say what is missing. Run what you need to run.
        3. Look for what was not asked for, for tests that cannot fail, and for stubs that only look done.
        4. Ask for changes only for real faults against the task, and name exactly what to mend and where (file and line). Style and taste are no reason.

        ## Your answer
        Answer with `verdict` (`approved` or `changes_requested`), `feedback` (what to mend; empty if approved) and `criteria` (each criterion with `met` and the `evidence` you found).
    "]].assert_eq(&review(&ReviewParts {
        task: Some(&task),
        asked: "",
        focus: Focus::Criteria,
        patch: "+code",
        account: Some(&account),
        last_feedback: "Mend b.rs:3.",
        hint: None,
    }));
}

#[test]
fn the_task_list_is_no_part_of_the_work() {
    let work = "diff --git a/a b/a\n--- a/a\n+++ b/a\n+diff --git a/plan.json b/plan.json\n";
    let list = "diff --git a/ralph/tasks.json b/ralph/tasks.json\n+  \"notes\": \"\"\n";
    let other = "diff --git a/x/tasks.json b/x/tasks.json\n+x\n";
    let file = std::path::Path::new("/home/me/project/ralph/tasks.json");
    assert_eq!(without_file(&format!("{work}{list}{other}"), file), format!("{work}{other}"));
    assert_eq!(without_file(list, file), "");
}
