//! The prompts as agents get them.

use std::collections::BTreeMap;

use ralph_model::ids::{IterationNumber, TaskId};
use ralph_model::review::{ReviewPolicy, ReviewState, ReviewStatus};
use ralph_model::stuck::ErrorHash;
use ralph_model::task::{ListForm, ListOwner};
use ralph_model::worktree::TreeId;

use super::*;
use crate::asking::prompt::list_ownership::Commits;
use crate::asking::prompt::role::CompanionFiles;
use crate::memory::handoff_reading as read;

static NO_VARS: BTreeMap<String, String> = BTreeMap::new();

fn task() -> Task {
    Task {
        description: "People can log in.".into(),
        acceptance_criteria: vec!["A wrong password is refused.".into()],
        ..Task::new("T-1", "Login")
    }
}

fn reviewed(status: ReviewStatus, count: u32, feedback: &str) -> Task {
    Task { review: ReviewState { status, count, feedback: feedback.into() }, ..task() }
}

fn ralph() -> ListOwnership<'static> {
    ListOwnership {
        owner: ListOwner::Ralph,
        commits: Commits::Ralph,
        file: "plan.json",
        form: ListForm::Plan,
        review: ReviewPolicy::Fresh { cap: 3 },
        amendments: 3,
        amendment_policy: ralph_model::amendment::AmendmentPolicy::Add,
        completion: "COMPLETE",
    }
}

fn agent() -> ListOwnership<'static> {
    ListOwnership {
        owner: ListOwner::Agent,
        commits: Commits::Agent,
        file: "ralph/tasks.json",
        form: ListForm::Stories,
        ..ralph()
    }
}

fn beside() -> CompanionFiles {
    CompanionFiles {
        tasks: "ralph/tasks.json".into(),
        prompt: "<!-- Standing orders. -->\nUse tabs.\n".into(),
        prd: Some("ralph/prd.md".into()),
        progress: Some("ralph/progress.txt".into()),
        log: "# Log\n\n## Codebase Patterns\n- Dates are UTC <!-- ralph -->\n\n---\n".into(),
    }
}

fn frame<'a>(beside: &'a CompanionFiles, gates: &'a [String]) -> RoleFrame<'a> {
    RoleFrame {
        template: None,
        iteration: IterationNumber(2),
        limit: 9,
        vars: &NO_VARS,
        companions: beside,
        gates,
        surroundings: "",
    }
}

#[track_caller]
fn text(rendered: RenderedPrompt) -> String {
    assert_eq!(rendered.warnings, Vec::<String>::new());
    rendered.text
}

/// The part of a prompt about the list.
#[track_caller]
fn keeping_in(prompt: &str) -> String {
    let (_, part) = prompt.split_once("\nYou maintain the task list").expect("a keeper");
    let (part, _) = part.split_once("\n\n## Your answer\n").expect("an answer after it");
    format!("You maintain the task list{part}\n")
}

#[test]
fn a_first_attempt_gets_the_task() {
    let (task, gates) = (task(), ["cargo test".to_owned()]);
    expect_test::expect![[r"
        You implement one task of a list. You work alone and without supervision: no person answers questions, and your session ends with your answer. Run checks in the foreground and wait for them.

        ## Current task
        ID: T-1
        Title: Login

        Description:
        People can log in.

        Acceptance criteria (all of them must be met):
        - [ ] A wrong password is refused.

        ## How to work
        1. Read the code this task is about before you change it, and follow its patterns. Search before you assume that something is missing.
        2. Write or extend tests first for criteria about code, then the code. No placeholders, no stubs.
        3. Do this task and no other. Report other work that you find instead of doing it.
        4. Never weaken, skip or delete a test or a check to make it pass. Fix the code.
        5. Run the checks until they pass, and try the result once as its user would.
        6. Review your work before you finish: read every line of your diff, go through the acceptance criteria one by one, and look for edge cases, unhandled errors and leftovers. Fix what you find and run the checks again.
        7. If you need a person (a secret, a decision, an access), do not guess: report the blocker.

        ## Checks
        These will be run after you, and all must pass. Run them yourself first:
        - `cargo test`

        ## Task list and commits
        - Do not commit, and do not edit or restore the task list `plan.json`: that is done for you after the checks, from your handoff.
        - Other work that you find: add at most 3 new tasks in `plan_amendments` (action `add`), each with `id`, `title`, `description` and `acceptance_criteria`. You cannot change or remove tasks: `modify` and `remove` only propose it to the user.
        - A blocker: state in `blocked` what you need from a person, and why.

        ## Your answer
        It is the handoff to the next agent: what you did, where you deviated from the task and why, bugs, decisions, constraints, and what is left. Be exact: of your session it gets only this object. `fully_complete` is false if a criterion is not met; `unfinished_business` names what is left then.
    "]].assert_eq(&text(render_implement(
        &TaskParts::for_first_attempt(&task, ralph()),
        &frame(&CompanionFiles::default(), &gates),
    )));
}

#[test]
fn files_next_to_the_list_are_included() {
    let (task, beside) = (task(), beside());
    let prompt =
        text(render_implement(&TaskParts::for_first_attempt(&task, ralph()), &frame(&beside, &[])));
    let (_, part) = prompt.split_once("is refused.\n\n").expect("it begins with the task");
    let (part, end) = part.split_once("## How to work\n").expect("it continues");
    expect_test::expect![[r"
        ## Requirements
        Read `ralph/prd.md` before you begin. It states the purpose of the project, its non-goals and its invariants. It is read-only: never change it.

        ## Project instructions
        Use tabs.

        ## Codebase patterns
        - Dates are UTC

    "]].assert_eq(part);
    assert!(
        end.contains("do not edit or restore the task list `plan.json` and `ralph/progress.txt`"),
        "{end}"
    );
    assert!(end.contains("## Checks\nRun the project's own checks."), "{end}");
}

#[test]
fn a_fix_gets_the_review_feedback() {
    let task = reviewed(ReviewStatus::ChangesRequested, 1, "Fix b.rs:3.\n");
    let parts = TaskParts {
        review_feedback: &task.review.feedback,
        ..TaskParts::for_first_attempt(&task, ralph())
    };
    expect_test::expect![[r"
        You fix what a review found in one task of a list. You work alone and without supervision: no person answers questions, and your session ends with your answer. Run checks in the foreground and wait for them.

        ## Current task
        ID: T-1
        Title: Login

        Description:
        People can log in.

        Acceptance criteria (all of them must be met):
        - [ ] A wrong password is refused.

        ## What the review found
        Review 1 asked for changes. Fix each point, or prove that it is wrong:

        Fix b.rs:3.

        ## How to work
        1. Read the feedback of the review and the code it is about. List its points.
        2. Fix every point that is right, and nothing else: no other task, no refactoring. Where a point is about behavior, write a test that fails without the fix.
        3. If a point is wrong, prove it with a test or with the code, and give the reasons in `summary`, at the length they need: the next review reads them.
        4. Never weaken, skip or delete a test or a check to make it pass. Fix the code.
        5. Run the checks until they pass, and try the result once as its user would.
        6. Review your work before you finish: read every line of your diff, and go through the feedback and the acceptance criteria one by one. Fix what you find and run the checks again. A reviewer with a fresh context reads it next.
        7. If you need a person (a secret, a decision, an access), do not guess: report the blocker.

        ## Checks
        Run the project's own checks.

        ## Task list and commits
        - Do not commit, and do not edit or restore the task list `plan.json`: that is done for you after the checks, from your handoff.
        - Other work that you find: add at most 3 new tasks in `plan_amendments` (action `add`), each with `id`, `title`, `description` and `acceptance_criteria`. You cannot change or remove tasks: `modify` and `remove` only propose it to the user.
        - A blocker: state in `blocked` what you need from a person, and why.

        ## Your answer
        It is the handoff to the next agent: what you did, where you deviated from the task and why, bugs, decisions, constraints, and what is left. Be exact: of your session it gets only this object. `fully_complete` is false if a criterion is not met; `unfinished_business` names what is left then.
    "]].assert_eq(&text(render_fix(&parts, &frame(&CompanionFiles::default(), &[]))));
}

#[test]
fn a_stuck_task_is_asked_for_the_cause_first() {
    let task = task();
    let feedback = [Feedback::from_text("Guardrail \"make test\" failed.\nE: no")];
    let beside = CompanionFiles::default();
    let stuck = TaskParts {
        feedback: &feedback,
        record: Some("Attempts 1 to 3: the check `make test` failed.\n"),
        alike: 3,
        escalation: Escalation::ContextExpansion,
        patch: "-old\n+new",
        context: &[("lib.rs".to_owned(), "fn x() {}\n".to_owned())],
        ..TaskParts::for_first_attempt(&task, ralph())
    };
    let prompt = text(render_implement(&stuck, &frame(&beside, &[])));
    let (_, part) = prompt.split_once("is refused.\n\n").expect("it begins with the task");
    let (part, _) = part.split_once("## How to work\n").expect("it continues");
    expect_test::expect![[r#"
        ## What failed
        Guardrail "make test" failed.
        E: no

        ## The same failure 3 times
        Before you change anything: run the check, read the first error, and write down its cause in one sentence. If the cause is small (an import, a name, a path), fix just that. If the approach itself cannot work, say why, undo it and take another one.

        The last change:
        ```diff
        -old
        +new
        ```

        The failure mentions something that is missing. These files may help:

        ### lib.rs
        ```
        fn x() {}
        ```

        ## Earlier attempts
        Attempts 1 to 3: the check `make test` failed.
        Look at `git status` for what is left of their changes.

    "#]]
    .assert_eq(part);
    let shifted = TaskParts { escalation: Escalation::StrategyShift, ..stuck };
    let shifted = text(render_implement(&shifted, &frame(&beside, &[])));
    assert!(!shifted.contains("lib.rs"), "{shifted}");
}

#[test]
fn a_failure_is_known_without_feedback() {
    let task = task();
    let outputs =
        [FailedOutput { title: "Test Output (verbatim)".into(), text: "E: no\nx".into() }];
    let attempts = [Attempt {
        iteration: IterationNumber(3),
        gate: "tests".into(),
        exit_code: 1,
        hash: ErrorHash("a".into()),
        failing: vec!["t1".into()],
        tree: None,
        summary: "Guessed the format.\nMore.".into(),
        files: vec!["a.rs".into()],
        escalation: Escalation::None,
    }];
    let parts = TaskParts {
        outputs: &outputs,
        attempts: &attempts,
        ..TaskParts::for_first_attempt(&task, ralph())
    };
    let prompt = text(render_implement(&parts, &frame(&CompanionFiles::default(), &[])));
    let expect =
        "## What failed\nFailing tests:\n- t1\nTest Output (verbatim):\n```\nE: no\nx\n```\n";
    assert!(prompt.contains(expect), "{prompt}");
}

#[test]
fn notes_and_broken_checks_are_part_of_the_task() {
    let task = Task { notes: "Use bcrypt.".into(), ..task() };
    let broken = [("make test".to_owned(), vec!["t1".to_owned(), "t2".to_owned()])];
    let protected = ["check.sh".to_owned()];
    let parts = TaskParts {
        broken_before: &broken,
        protected: &protected,
        ..TaskParts::for_first_attempt(&task, ralph())
    };
    let prompt = text(render_implement(&parts, &frame(&CompanionFiles::default(), &[])));
    for part in [
        "\n\nNotes on this task (what agents wrote here is not checked):\nUse bcrypt.\n",
        "Fixing them is part of this task:\n- `make test`: t1, t2\n",
        "Run the project's own checks.\nProtected (an attempt that changes one of these fails): `check.sh`, and the settings of ralph.\n",
    ] {
        assert!(prompt.contains(part), "{part}: {prompt}");
    }
}

#[test]
fn a_review_must_verify_the_work() {
    let task = reviewed(ReviewStatus::NeedsReview, 1, "");
    let account = read::read_handoff([], "All done.", &TaskId("T-1".into()), &[]);
    let (from, to) = (TreeId("1a2b".into()), TreeId("3c4d".into()));
    let diff_command = super::diff::format_diff_command(&from, &to, &["plan.json".to_owned()]);
    let gates = ["cargo test".to_owned()];
    let parts = ReviewParts {
        patch: "+code",
        diff_command: Some(&diff_command),
        handoff: Some(&account),
        last_feedback: "Fix b.rs:3.",
        keeping: Some(ralph()),
        ..ReviewParts::for_task(Some(&task))
    };
    let beside = CompanionFiles::default();
    expect_test::expect![[r"
        You review another agent's work on one task. You did not write it and you do not fix it: you judge it by evidence and say what needs fixing. You work alone and without supervision: no person answers questions, and your session ends with your answer. Run checks in the foreground and wait for them.

        ## Current task
        ID: T-1
        Title: Login

        Description:
        People can log in.

        Acceptance criteria (all of them must be met):
        - [ ] A wrong password is refused.

        ## What the last review wanted
        Fix b.rs:3.

        Check first whether each point is fixed, or shown to be wrong.

        ## What the author says
        These are the author's statements, not facts. Verify them.
        All done.

        ## The change
        `git diff 1a2b 3c4d -- . ':!plan.json'` shows the complete change, even if it is shortened here.

        ```diff
        +code
        ```

        ## How to review
        1. Read the changed files whole, not just the change.
        2. Go through the acceptance criteria one by one. For each, find the code that meets it and the test that shows it (for text, the passage), and check that it works, at the edges and when something fails. Note the evidence, or what is missing. Try the result once as its user would.
        3. Look for changes that the task did not ask for, for tests that were weakened or cannot fail, and for stubs.
        4. Request changes only for faults against the task, and name exactly what to fix and where (file and line). Style and taste are no reason.

        ## Checks
        These ran on this work, and all passed. Run them again if you are not sure:
        - `cargo test`

        ## What you may change
        Nothing in the project. Do not edit, create or delete files in it, and do not commit: whatever you change there is undone. To try something out, use a temporary directory.

        ## Your answer
        Answer with `verdict` (`approved` or `changes_requested`), `feedback` (what to fix; empty if approved) and `criteria` (one entry for each criterion, with `met` and the `evidence` you found; an approval without evidence for each does not count).
    "]].assert_eq(&text(render_review(&parts, &frame(&beside, &gates))));
}

#[test]
fn a_gate_asks_how_good_the_work_is() {
    let parts = ReviewParts {
        asked: "Make it ${TASK}.",
        focus: ReviewFocus::Quality,
        patch: "+code",
        hint: Some("Speed matters."),
        ..ReviewParts::for_task(None)
    };
    let beside = CompanionFiles::default();
    expect_test::expect![[r"
        You review the quality of another agent's work. You did not write it and you do not fix it: you say what needs fixing. You work alone and without supervision: no person answers questions, and your session ends with your answer. Run checks in the foreground and wait for them.

        ## Look out for
        Speed matters.

        ## What was asked
        Make it ${TASK}.

        ## The change
        ```diff
        +code
        ```

        ## How to review
        1. Read the changed files whole, not just the change.
        2. Look for bugs, missing error handling, needless complexity, duplication, weak tests and unclear names.
        3. Request changes only where a careful colleague would, and name exactly what to fix and where (file and line).

        ## What you may change
        Nothing in the project. Do not edit, create or delete files in it, and do not commit: whatever you change there is undone. To try something out, use a temporary directory.

        ## Your answer
        Answer with `verdict` (`approved` or `changes_requested`), `feedback` (what to fix; empty if approved) and `criteria` (one entry for each criterion, with `met` and the `evidence` you found; an approval without evidence for each does not count).
    "]].assert_eq(&text(render_review(&parts, &frame(&beside, &[]))));
}

#[test]
fn an_agent_that_owns_the_list_implements() {
    let (task, beside) = (task(), beside());
    let frame = frame(&beside, &[]);
    let prompt_for =
        |keeping| text(render_implement(&TaskParts::for_first_attempt(&task, keeping), &frame));
    expect_test::expect![[r#"
        You maintain the task list yourself, in `ralph/tasks.json`. After your turn ralph compares it with the earlier version and reverts every change that your role may not make.
        - Once everything is done and the checks pass, set `reviewStatus` of T-1, null or missing so far, to "needs_review", and say in `notes` what was done. Never set `passes` to true, never approve, and leave every `reviewCount` as it is: only a review does that.
        - Other work that you find, or a part of this task that does not fit: add it as a task of its own, at most 3 of them (`passes` false, `reviewStatus` null, `reviewCount` 0, `reviewFeedback` ""). You may reorder tasks that are not begun. Remove and reword none, and leave everything else in the file as it is.
        - Append an entry to the end of `ralph/progress.txt`, under `## <date> <time> — T-1 Login (implement)`: what was done, files changed, results of the checks, what was learned. Never change earlier entries. What later tasks can use goes as a line under `## Codebase Patterns` at its top; correct or remove lines there that are no longer true.
        - A blocker, or work that you could not finish: leave the status of the task alone, and write into `ralph/progress.txt` what is missing and why. The next iteration knows nothing else.
        - Commit everything, the list included, as `feat: [T-1] - Login`. Leave nothing uncommitted. Do not push.
    "#]].assert_eq(&keeping_in(&prompt_for(agent())));
    let skip = ListOwnership { review: ReviewPolicy::Skip, ..agent() };
    expect_test::expect![[r"
        You maintain the task list yourself, in `ralph/tasks.json`. After your turn ralph compares it with the earlier version and reverts every change that your role may not make.
        - Once everything is done and the checks pass, set `passes` of T-1 to true, and say in `notes` what was done. Leave `reviewStatus`, `reviewCount` and `reviewFeedback` as they are.
        - Other work that you find, or a part of this task that does not fit: add it as a task of its own, at most 3 of them (`passes` false). You may reorder tasks that are not begun. Remove and reword none, and leave everything else in the file as it is.
        - Append an entry to the end of `ralph/progress.txt`, under `## <date> <time> — T-1 Login (implement)`: what was done, files changed, results of the checks, what was learned. Never change earlier entries. What later tasks can use goes as a line under `## Codebase Patterns` at its top; correct or remove lines there that are no longer true.
        - A blocker, or work that you could not finish: leave the status of the task alone, and write into `ralph/progress.txt` what is missing and why. The next iteration knows nothing else.
        - Commit everything, the list included, as `feat: [T-1] - Login`. Leave nothing uncommitted. Do not push.
        - Only if then every task in the list has `passes` true: end your answer with `<promise>COMPLETE</promise>`. Otherwise never write it.
    "]].assert_eq(&keeping_in(&prompt_for(skip)));
    // Only this part and the answer depend on the list owner.
    let rest = |prompt: String| {
        prompt.split_once("## Task list and commits").expect("a part").0.to_owned()
    };
    assert_eq!(rest(prompt_for(agent())), rest(prompt_for(ralph())));
    let prompt = prompt_for(agent());
    let (_, answer) = prompt.split_once("\n## Your answer\n").expect("a part");
    expect_test::expect![[r#"
        End with a short report: what you did, where you deviated from the task and why, decisions, constraints, and what is left. Be exact: the next agent reads it.

        Only if you cannot continue without a person, end with this, filled in:

        ```json
        {"task_completed": {"summary": "…", "fully_complete": false}, "blocked": {"needs": "…", "why": "…"}}
        ```
    "#]].assert_eq(answer);
}

#[test]
fn an_agent_that_owns_a_plan_uses_its_names() {
    let task = task();
    let plan = ListOwnership { form: ListForm::Plan, file: "plan.json", ..agent() };
    let beside = CompanionFiles::default();
    let prompt =
        text(render_implement(&TaskParts::for_first_attempt(&task, plan), &frame(&beside, &[])));
    expect_test::expect![[r#"
        You maintain the task list yourself, in `plan.json`. After your turn ralph compares it with the earlier version and reverts every change that your role may not make.
        - Once everything is done and the checks pass, set `review_status` of T-1, null or missing so far, to "needs_review", and say in `notes` what was done. Never set `status` to "done", never approve, and leave every `review_count` as it is: only a review does that.
        - Other work that you find, or a part of this task that does not fit: add it as a task of its own, at most 3 of them (`status` "pending", `review_status` null, `review_count` 0, `review_feedback` ""). You may reorder tasks that are not begun. Remove and reword none, and leave everything else in the file as it is.
        - A blocker, or work that you could not finish: leave the status of the task alone, and write into `notes` what is missing and why. The next iteration knows nothing else.
        - Commit everything, the list included, as `feat: [T-1] - Login`. Leave nothing uncommitted. Do not push.
    "#]].assert_eq(&keeping_in(&prompt));
    let ralphs = ListOwnership { commits: Commits::Ralph, ..plan };
    let prompt =
        text(render_implement(&TaskParts::for_first_attempt(&task, ralphs), &frame(&beside, &[])));
    assert!(prompt.contains("\n- Do not commit: that is done for you"), "{prompt}");
}

#[test]
fn an_agent_that_owns_the_list_fixes() {
    let (task, beside) = (reviewed(ReviewStatus::ChangesRequested, 1, "Fix it."), beside());
    let parts =
        TaskParts { review_feedback: "Fix it.", ..TaskParts::for_first_attempt(&task, agent()) };
    expect_test::expect![[r#"
        You maintain the task list yourself, in `ralph/tasks.json`. After your turn ralph compares it with the earlier version and reverts every change that your role may not make.
        - Once every point is fixed and the checks pass, set `reviewStatus` of T-1 from "changes_requested" back to "needs_review", clear `reviewFeedback` to "", and add to `notes` what was fixed. Never set `passes` to true, never approve, and leave every `reviewCount` as it is: only a review does that.
        - Other work that you find, or a part of this task that does not fit: add it as a task of its own, at most 3 of them (`passes` false, `reviewStatus` null, `reviewCount` 0, `reviewFeedback` ""). You may reorder tasks that are not begun. Remove and reword none, and leave everything else in the file as it is.
        - Append an entry to the end of `ralph/progress.txt`, under `## <date> <time> — T-1 Login (fix)`: what was done, files changed, results of the checks, what was learned. Never change earlier entries. What later tasks can use goes as a line under `## Codebase Patterns` at its top; correct or remove lines there that are no longer true.
        - A blocker, or work that you could not finish: leave the status of the task alone, and write into `ralph/progress.txt` what is missing and why. The next iteration knows nothing else.
        - Commit everything, the list included, as `fix: [T-1] - address review feedback`. Leave nothing uncommitted. Do not push.
    "#]].assert_eq(&keeping_in(&text(render_fix(&parts, &frame(&beside, &[])))));
}

#[test]
fn an_agent_that_owns_the_list_reviews() {
    let beside = beside();
    let prompt_for = |count| {
        let task = reviewed(ReviewStatus::NeedsReview, count, "");
        let parts = ReviewParts { keeping: Some(agent()), ..ReviewParts::for_task(Some(&task)) };
        text(render_review(&parts, &frame(&beside, &[])))
    };
    expect_test::expect![[r#"
        You maintain the task list yourself, in `ralph/tasks.json`. After your turn ralph compares it with the earlier version and reverts every change that your role may not make.
        - Change nothing but T-1, and in it nothing but what is named here: no code, no tests, no other task. Do not fix what you find.
        - Raise `reviewCount` by one, from 1 to 2.
        - If every criterion is met: set `reviewStatus` to "approved" and `passes` to true, with `reviewFeedback` ""; `notes` must say what was done.
        - If not: set `reviewStatus` to "changes_requested", leave `passes` as it is, and write into `reviewFeedback` exactly what to fix and where. It must not be empty.
        - Append an entry to the end of `ralph/progress.txt`, under `## <date> <time> — T-1 Login (review)`: the verdict, the evidence, what needs fixing. Never change earlier entries. What later tasks can use goes as a line under `## Codebase Patterns` at its top; correct or remove lines there that are no longer true.
        - Commit the list and the log, and nothing else, as `review: [T-1] - approved` or `review: [T-1] - changes requested`. Leave nothing uncommitted. Do not push.
        - Only if then every task in the list has `passes` true and `reviewStatus` "approved": end your answer with `<promise>COMPLETE</promise>`. Otherwise never write it.
    "#]].assert_eq(&keeping_in(&prompt_for(1)));
    let at_cap = keeping_in(&prompt_for(2));
    let lines: Vec<&str> = at_cap.lines().filter(|line| line.contains("review")).collect();
    expect_test::expect![[r#"
        - Raise `reviewCount` by one, from 2 to 3.
        - If every criterion is met: set `reviewStatus` to "approved" and `passes` to true, with `reviewFeedback` ""; `notes` must say what was done.
        - This is review 3 of at most 3, so the task is approved in any case. If something still needs fixing: approve it anyway, and begin `reviewFeedback` with `[AUTO-APPROVED AT CAP]`, then what is left and where. A person will look at it.
        - Append an entry to the end of `ralph/progress.txt`, under `## <date> <time> — T-1 Login (review)`: the verdict, the evidence, what needs fixing. Never change earlier entries. What later tasks can use goes as a line under `## Codebase Patterns` at its top; correct or remove lines there that are no longer true.
        - Commit the list and the log, and nothing else, as `review: [T-1] - approved`. Leave nothing uncommitted. Do not push.
        - Only if then every task in the list has `passes` true and `reviewStatus` "approved": end your answer with `<promise>COMPLETE</promise>`. Otherwise never write it."#]].assert_eq(&lines.join("\n"));
}
