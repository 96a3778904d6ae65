//! Tests of the rules: the tables row by row; random edits against a model are in `model`.

mod model;

use expect_test::{Expect, expect};
use ralph_model::ids::{Role, TaskId};
use ralph_model::list_snapshot::{EditContext, ListSnapshot};
use ralph_model::review::{AUTO_APPROVED_PREFIX, ReviewState};
use ralph_model::task::TaskStatus;

use super::*;

const FRESH: ReviewPolicy = ReviewPolicy::Fresh { cap: 5 };

fn id(id: &str) -> TaskId {
    TaskId(id.to_owned())
}

fn review(status: ReviewStatus, count: u32, feedback: &str) -> ReviewState {
    ReviewState { status, count, feedback: feedback.to_owned() }
}

fn task(name: &str, status: TaskStatus, review: ReviewState) -> Task {
    Task {
        description: "d".into(),
        acceptance_criteria: vec!["c".into()],
        notes: "n".into(),
        order: Some(1),
        status,
        review,
        ..Task::new(name, "t")
    }
}

/// A list with a task in every state.
fn known() -> TaskList {
    use ReviewStatus::{Approved, ChangesRequested, NeedsReview, None};
    use TaskStatus::{Done, Failed, InProgress, Pending, Skipped};
    let tasks = vec![
        task("new", Pending, review(None, 0, "")),
        task("begun", InProgress, review(None, 0, "")),
        task("waits", InProgress, review(NeedsReview, 1, "")),
        task("waits-too", InProgress, review(NeedsReview, 0, "")),
        task("back", InProgress, review(ChangesRequested, 1, "fix it")),
        task("done", Done, review(Approved, 1, "")),
        task("failed", Failed, review(None, 0, "")),
        task("skipped", Skipped, review(None, 0, "")),
    ];
    TaskList { tasks, verify_commands: vec!["make test".into()], ..TaskList::default() }
}

fn edited(change: impl FnOnce(&mut TaskList)) -> TaskList {
    let mut list = known();
    change(&mut list);
    list
}

fn task_mut<'a>(list: &'a mut TaskList, name: &str) -> &'a mut Task {
    list.tasks.iter_mut().find(|task| task.id.0 == name).expect("it is there")
}

fn context(role: Role, task: Option<&str>) -> EditContext {
    EditContext { role, task: task.map(id), review: FRESH }
}

fn join_lines(violations: &[ListViolation]) -> String {
    let mut text = String::new();
    for violation in violations {
        text.push_str(&format!("{violation}\n"));
    }
    text
}

/// Checks an edit with the task named and without one.
#[track_caller]
fn check(role: Role, name: &str, change: impl Fn(&mut TaskList), expect: &Expect) {
    let after = edited(&change);
    let before = ListSnapshot::from_list(&known());
    let found = find_illegal_changes(&before, &after, &context(role, Some(name)));
    expect.assert_eq(&join_lines(&found));
    let anyone = find_illegal_changes(&before, &after, &context(role, None));
    assert_eq!(anyone.is_empty(), found.is_empty(), "{anyone:?}");
    let reconciled = reconcile_edit(&known(), &after, &context(role, Some(name)));
    assert_eq!(reconciled.violations, found);
    assert_eq!(find_illegal_changes(&before, &reconciled.list, &context(role, Some(name))), []);
}

#[track_caller]
fn passes(role: Role, name: &str, change: impl Fn(&mut TaskList)) {
    check(role, name, &change, &expect![""]);
    let reconciled = reconcile_edit(&known(), &edited(&change), &context(role, Some(name)));
    assert_eq!(reconciled.list, edited(change));
}

#[test]
fn implementing_asks_for_a_review_and_nothing_else() {
    use Role::Implement;
    passes(Implement, "new", |_| ());
    passes(Implement, "new", |list| {
        task_mut(list, "new").review.status = ReviewStatus::NeedsReview;
    });
    check(
        Implement,
        "new",
        |list| task_mut(list, "new").status = TaskStatus::Done,
        &expect![[r"
            Story `new`: `passes` went from false to true, but implement iterations cannot approve; only a review may. Set it back to false.
        "]],
    );
    check(
        Implement,
        "new",
        |list| task_mut(list, "new").review.status = ReviewStatus::Approved,
        &expect![[r#"
            Story `new`: `reviewStatus` went from null to "approved", but implement iterations cannot approve; only a review may. Set it back to null.
        "#]],
    );
    check(
        Implement,
        "new",
        |list| task_mut(list, "new").review.status = ReviewStatus::ChangesRequested,
        &expect![[r#"
            Story `new`: `reviewStatus` went from null to "changes_requested", but an implement iteration only goes from null to "needs_review". Set it back to null.
        "#]],
    );
    check(
        Implement,
        "new",
        |list| task_mut(list, "new").review.count = 1,
        &expect![[r"
            Story `new`: `reviewCount` went from 0 to 1, but implement iterations leave the count alone. Set it back to 0.
        "]],
    );
    // The cheat that leaves a list without a contradiction; everything is reported at once.
    check(
        Implement,
        "new",
        |list| {
            let task = task_mut(list, "new");
            task.status = TaskStatus::Done;
            task.review = review(ReviewStatus::Approved, 1, "fine");
        },
        &expect![[r#"
            Story `new`: `passes` went from false to true, but implement iterations cannot approve; only a review may. Set it back to false.
            Story `new`: `reviewStatus` went from null to "approved", but implement iterations cannot approve; only a review may. Set it back to null.
            Story `new`: `reviewCount` went from 0 to 1, but implement iterations leave the count alone. Set it back to 0.
            Story `new`: `reviewFeedback` went from empty to "fine", but only reviews write feedback. Set it back to empty.
        "#]],
    );
}

#[test]
fn implementing_may_add_stories_that_are_untouched() {
    use Role::{Fix, Implement, Review};
    let add = |list: &mut TaskList, status, review| list.tasks.push(task("add", status, review));
    let none = || review(ReviewStatus::None, 0, "");
    for role in [Implement, Fix] {
        passes(role, "new", |list| add(list, TaskStatus::Pending, none()));
    }
    check(
        Implement,
        "new",
        |list| add(list, TaskStatus::Done, review(ReviewStatus::Approved, 2, "x")),
        &expect![[r#"
            Story `add`: `passes` is true, but a new story starts without progress. Set it to false.
            Story `add`: `reviewStatus` is "approved", but a new story starts without progress. Set it to null.
            Story `add`: `reviewCount` is 2, but a new story starts without progress. Set it to 0.
            Story `add`: `reviewFeedback` is "x", but a new story starts without progress. Leave it empty.
        "#]],
    );
    check(
        Implement,
        "new",
        |list| add(list, TaskStatus::Skipped, none()),
        &expect![[r#"
            Story `add`: `status` is "skipped", but a new story starts without progress. Remove `status`.
        "#]],
    );
    check(
        Review,
        "waits",
        |list| {
            add(list, TaskStatus::Pending, none());
            let task = task_mut(list, "waits");
            (task.status, task.review) = (TaskStatus::Done, review(ReviewStatus::Approved, 2, ""));
        },
        &expect![[r"
            Story `add`: `id` is new, but review iterations add no stories. Remove it; say in the feedback or the notes what is missing.
        "]],
    );
}

#[test]
fn a_review_counts_itself_and_gives_a_verdict() {
    use ReviewStatus::{Approved, ChangesRequested, NeedsReview};
    let verdict = |status, verdict, count, feedback: &'static str| {
        move |list: &mut TaskList| {
            let task = task_mut(list, "waits");
            (task.status, task.review) = (status, review(verdict, count, feedback));
        }
    };
    let open = TaskStatus::InProgress;
    passes(Role::Review, "waits", verdict(TaskStatus::Done, Approved, 2, ""));
    passes(Role::Review, "waits", verdict(TaskStatus::Done, Approved, 2, AUTO_APPROVED_PREFIX));
    passes(Role::Review, "waits", verdict(open, ChangesRequested, 2, "fix that"));
    for (change, expect) in [
        (
            verdict(TaskStatus::Done, Approved, 1, ""),
            expect![[r"
                Story `waits`: `reviewCount` is still 1, but a review adds exactly 1 to it. Set it to 2.
            "]],
        ),
        (
            verdict(open, ChangesRequested, 3, "fix that"),
            expect![[r"
                Story `waits`: `reviewCount` went from 1 to 3, but a review adds exactly 1 to it. Set it to 2.
            "]],
        ),
        (
            verdict(open, Approved, 2, ""),
            expect![[r"
                Story `waits`: `passes` is false, but the review approves, and an approved story passes. Set it to true.
            "]],
        ),
        (
            verdict(TaskStatus::Done, ChangesRequested, 2, " "),
            expect![[r"
                Story `waits`: `passes` went from false to true, but the review does not approve. Set it back to false.
                Story `waits`: `reviewFeedback` is empty, but a review that requests changes says which. Write down exactly what to fix and where.
            "]],
        ),
        (
            verdict(open, NeedsReview, 2, ""),
            expect![[r#"
                Story `waits`: `reviewStatus` is still "needs_review", but a review gives a verdict. Set it to "approved" with `passes` true, or to "changes_requested" with feedback.
            "#]],
        ),
    ] {
        check(Role::Review, "waits", change, &expect);
    }
    check(
        Role::Review,
        "new",
        |list| {
            let task = task_mut(list, "new");
            (task.status, task.review) = (TaskStatus::Done, review(Approved, 1, ""));
        },
        &expect![[r#"
            Story `new`: `passes` went from false to true, but the story is not waiting for a review; its status was null. Set it back to false.
            Story `new`: `reviewStatus` went from null to "approved", but the story is not waiting for a review; its status was null. Set it back to null.
            Story `new`: `reviewCount` went from 0 to 1, but the story is not waiting for a review; its status was null. Set it back to 0.
        "#]],
    );
}

#[test]
fn a_review_without_a_verdict_is_an_omission_not_a_change() {
    let before = ListSnapshot::from_list(&known());
    let asked = context(Role::Review, Some("waits"));
    assert_eq!(find_illegal_changes(&before, &known(), &asked), []);
    expect![[r#"
        Story `waits`: `reviewCount` is still 1, but a review adds 1 to it and gives a verdict. Add 1, and set `reviewStatus` to "approved" with `passes` true, or to "changes_requested" with feedback.
    "#]]
    .assert_eq(&join_lines(&find_omissions(&before, &known(), &asked)));
    let counted = edited(|list| task_mut(list, "waits").review.count = 2);
    assert_eq!(find_omissions(&before, &counted, &asked), []);
    assert_eq!(find_omissions(&before, &known(), &context(Role::Implement, None)), []);
    let skip = EditContext { review: ReviewPolicy::Skip, ..asked };
    assert_eq!(find_omissions(&before, &known(), &skip), []);
}

#[test]
fn a_fix_goes_back_to_review_with_the_feedback_cleared() {
    use Role::Fix;
    let back = |list: &mut TaskList| {
        task_mut(list, "back").review = review(ReviewStatus::NeedsReview, 1, "");
    };
    passes(Fix, "back", back);
    passes(Fix, "back", |_| ());
    check(
        Fix,
        "back",
        |list| {
            back(list);
            task_mut(list, "back").status = TaskStatus::Done;
        },
        &expect![[r#"
            Story `back`: `passes` went from false to true, but fix iterations cannot approve; the story goes back to "needs_review". Set it back to false.
        "#]],
    );
    check(
        Fix,
        "back",
        |list| task_mut(list, "back").review = review(ReviewStatus::Approved, 2, "fix it"),
        &expect![[r#"
            Story `back`: `reviewStatus` went from "changes_requested" to "approved", but fix iterations cannot approve; the story goes back to "needs_review". Set it back to "changes_requested".
            Story `back`: `reviewCount` went from 1 to 2, but fix iterations leave the count alone. Set it back to 1.
        "#]],
    );
    check(
        Fix,
        "back",
        |list| task_mut(list, "back").review.feedback.clear(),
        &expect![[r#"
            Story `back`: `reviewFeedback` went from "fix it" to empty, but only reviews write feedback, and a fix clears it when the story goes back. Set it back to "fix it".
        "#]],
    );
    let forgotten =
        |list: &mut TaskList| task_mut(list, "back").review.status = ReviewStatus::NeedsReview;
    check(
        Fix,
        "back",
        forgotten,
        &expect![[r#"
            Story `back`: `reviewFeedback` is "fix it", but a story that goes back to review has none. Set it to "".
        "#]],
    );
    let reconciled = reconcile_edit(&known(), &edited(forgotten), &context(Fix, Some("back")));
    assert_eq!(reconciled.list, edited(back), "the fix still counts");
}

#[test]
fn one_story_moves_and_only_the_given_one() {
    let approve = |list: &mut TaskList, name: &str| {
        let task = task_mut(list, name);
        task.status = TaskStatus::Done;
        task.review = review(ReviewStatus::Approved, task.review.count + 1, "");
    };
    let both = edited(|list| {
        approve(list, "waits");
        approve(list, "waits-too");
    });
    let before = ListSnapshot::from_list(&known());
    let offending = |violations: &[ListViolation]| -> Vec<String> {
        let mut ids: Vec<_> =
            violations.iter().flat_map(|it| &it.task).map(ToString::to_string).collect();
        ids.dedup();
        ids
    };
    let given = context(Role::Review, Some("waits"));
    assert_eq!(offending(&find_illegal_changes(&before, &both, &given)), ["waits-too"]);
    let anyone = context(Role::Review, None);
    assert_eq!(offending(&find_illegal_changes(&before, &both, &anyone)), ["waits", "waits-too"]);
    // The legal move survives next to an illegal one.
    let expect = edited(|list| approve(list, "waits"));
    assert_eq!(reconcile_edit(&known(), &both, &given).list, expect);
    assert_eq!(reconcile_edit(&known(), &both, &anyone).list, known());
    let other = edited(|list| task_mut(list, "begun").review.status = ReviewStatus::NeedsReview);
    let found = find_illegal_changes(&before, &other, &context(Role::Implement, Some("new")));
    expect![[r#"
        Story `begun`: `reviewStatus` went from null to "needs_review", but this iteration is about new alone. Set it back to null.
    "#]]
    .assert_eq(&join_lines(&found));
}

/// A name, and a change that no role may make.
type Forbidden = (&'static str, fn(&mut TaskList));

#[test]
fn what_no_role_may_change_is_reverted() {
    let changes: [Forbidden; 13] = [
        ("title", |list| task_mut(list, "new").title = "less".into()),
        ("description", |list| task_mut(list, "new").description = "less".into()),
        ("acceptanceCriteria", |list| task_mut(list, "new").acceptance_criteria = vec!["x".into()]),
        ("retryCount", |list| task_mut(list, "new").attempts = 3),
        ("maxTurns", |list| task_mut(list, "new").max_turns = Some(500)),
        ("maxRetries", |list| task_mut(list, "new").max_retries = Some(500)),
        ("status", |list| task_mut(list, "new").status = TaskStatus::Skipped),
        ("status", |list| task_mut(list, "new").status = TaskStatus::Failed),
        ("status", |list| task_mut(list, "failed").status = TaskStatus::Pending),
        ("passes", |list| task_mut(list, "done").status = TaskStatus::Pending),
        ("notes", |list| task_mut(list, "done").notes = "other".into()),
        ("notes", |list| task_mut(list, "failed").depends_on = vec![id("done")]),
        ("id", |list| list.tasks.retain(|task| task.id.0 != "skipped")),
    ];
    for role in [Role::Implement, Role::Review, Role::Fix, Role::Message] {
        for review in [FRESH, ReviewPolicy::Skip] {
            for (field, change) in &changes {
                let after = edited(change);
                let context = EditContext { role, task: None, review };
                let found =
                    find_illegal_changes(&ListSnapshot::from_list(&known()), &after, &context);
                assert!(
                    found.iter().any(|it| it.field.contains(field)),
                    "{role} {review:?}: {field} gave {found:?}"
                );
                assert_eq!(
                    reconcile_edit(&known(), &after, &context).list,
                    known(),
                    "{role}: {field}"
                );
            }
        }
    }
}

#[test]
fn notes_of_open_stories_may_change() {
    for role in [Role::Implement, Role::Review, Role::Fix] {
        passes(role, "new", |list| {
            let task = task_mut(list, "begun");
            task.order = Some(9);
            task.depends_on = vec![id("done")];
            task.notes = "learned something".into();
            task.touches = vec!["src/**".into()];
            task.skills = vec!["s".into()];
            task.libraries = vec!["l".into()];
            task.needs_docs = true;
            list.tasks.swap(0, 3);
        });
    }
}

#[test]
fn progress_is_reverted_silently() {
    let flipped = edited(|list| {
        task_mut(list, "new").status = TaskStatus::InProgress;
        task_mut(list, "waits").status = TaskStatus::Pending;
    });
    let reconciled = reconcile_edit(&known(), &flipped, &context(Role::Implement, Some("new")));
    assert_eq!(reconciled, Reconciled { list: known(), violations: Vec::new() });
}

#[test]
fn without_reviews_the_given_story_becomes_done() {
    let skip = |role| EditContext { role, task: Some(id("new")), review: ReviewPolicy::Skip };
    let before = ListSnapshot::from_list(&known());
    let done = edited(|list| task_mut(list, "new").status = TaskStatus::Done);
    assert_eq!(find_illegal_changes(&before, &done, &skip(Role::Implement)), []);
    assert_eq!(reconcile_edit(&known(), &done, &skip(Role::Implement)).list, done);
    assert!(!find_illegal_changes(&before, &done, &skip(Role::Review)).is_empty());
    for change in [
        (|list| task_mut(list, "begun").status = TaskStatus::Done) as fn(&mut TaskList),
        |list| task_mut(list, "new").review.status = ReviewStatus::NeedsReview,
        |list| task_mut(list, "new").review = review(ReviewStatus::Approved, 0, ""),
        |list| task_mut(list, "new").review.count = 1,
    ] {
        let after = edited(change);
        assert_eq!(
            find_illegal_changes(&before, &after, &skip(Role::Implement)).len(),
            1,
            "{after:?}"
        );
        assert_eq!(reconcile_edit(&known(), &after, &skip(Role::Implement)).list, known());
    }
}

#[test]
fn changed_list_settings_are_reverted() {
    let after = edited(|list| {
        list.verify_commands = vec!["true".into()];
        list.max_iterations = Some(900);
        task_mut(list, "new").review.status = ReviewStatus::NeedsReview;
    });
    let reconciled = reconcile_edit(&known(), &after, &context(Role::Implement, Some("new")));
    expect![[r#"
        The list: `maxIterations` went from none to "900", but only users change the settings of the list. Set it back to none.
        The list: `verifyCommands` went from "make test" to "true", but only users change the settings of the list. Set it back to "make test".
    "#]]
    .assert_eq(&join_lines(&reconciled.violations));
    let expect = edited(|list| task_mut(list, "new").review.status = ReviewStatus::NeedsReview);
    assert_eq!(reconciled.list, expect);
}

#[test]
fn an_edit_that_breaks_the_list_is_reverted_except_for_the_move() {
    let after = edited(|list| {
        task_mut(list, "begun").depends_on = vec![id("gone")];
        task_mut(list, "begun").notes = "other".into();
        task_mut(list, "new").review.status = ReviewStatus::NeedsReview;
    });
    let reconciled = reconcile_edit(&known(), &after, &context(Role::Implement, Some("new")));
    expect![[r"
        Story `begun`: `dependsOn` was changed, but the story depends on an unknown task `gone`, so the whole edit was reverted. Did you mean `done`?
    "]]
    .assert_eq(&join_lines(&reconciled.violations));
    let expect = edited(|list| task_mut(list, "new").review.status = ReviewStatus::NeedsReview);
    assert_eq!(reconciled.list, expect);
}

#[test]
fn a_second_story_of_the_same_id_is_dropped() {
    let after = edited(|list| {
        let twin = task("new", TaskStatus::Done, review(ReviewStatus::Approved, 1, ""));
        list.tasks.push(twin);
    });
    let reconciled = reconcile_edit(&known(), &after, &context(Role::Implement, Some("new")));
    assert_eq!(reconciled.list, known());
    assert_eq!(reconciled.violations.len(), 1);
}

#[test]
fn removed_stories_are_restored_in_place() {
    let after = edited(|list| {
        list.tasks.remove(5);
        list.tasks.remove(0);
    });
    assert_eq!(reconcile_edit(&known(), &after, &context(Role::Fix, Some("back"))).list, known());
}

#[test]
fn contradictions_are_reported_story_by_story() {
    use ReviewStatus::{Approved, ChangesRequested, NeedsReview, None};
    let contradictions = |status, review| {
        let list = TaskList { tasks: vec![task("a", status, review)], ..TaskList::default() };
        join_lines(&find_contradictions(&list, FRESH))
    };
    let (done, open) = (TaskStatus::Done, TaskStatus::Pending);
    for (status, word) in [
        (None, "null"),
        (NeedsReview, "\"needs_review\""),
        (ChangesRequested, "\"changes_requested\""),
    ] {
        assert_eq!(
            contradictions(done, review(status, 1, "x")),
            format!(
                "Story `a`: `passes` is true, but reviewStatus is {word}, not \"approved\". Set \
                 `passes` back to false; only a review approves.\n"
            )
        );
    }
    assert_eq!(contradictions(done, review(Approved, 6, "")), "");
    assert_eq!(contradictions(open, review(ChangesRequested, 1, "x")), "");
    expect![[r#"
        Story `a`: `reviewFeedback` is empty, but reviewStatus is "changes_requested", which needs feedback. Write down exactly what to fix and where.
    "#]]
    .assert_eq(&contradictions(open, review(ChangesRequested, 1, " ")));
    expect![[r#"
        Story `a`: `reviewStatus` is "approved", but passes is false, and the two go together. Set `passes` to true if this is the review that approves, else take the approval back.
    "#]]
    .assert_eq(&contradictions(open, review(Approved, 1, "")));
    expect![[r"
        Story `a`: `reviewCount` is 7, but there can be 6 reviews at most. Correct the count.
    "]]
    .assert_eq(&contradictions(open, review(None, 7, "")));
    let silent = Task { notes: " ".into(), ..task("a", done, review(None, 9, "")) };
    let list = TaskList { tasks: vec![silent], ..TaskList::default() };
    expect![[r"
        Story `a`: `notes` is empty, but a story that passes says what was done. Note in a line or two what was done.
    "]]
    .assert_eq(&join_lines(&find_contradictions(&list, ReviewPolicy::Skip)));
    assert_eq!(find_contradictions(&known(), FRESH), []);
}

#[test]
fn a_snapshot_uses_the_field_names_of_the_list() {
    let tasks = known().tasks.into_iter().filter(|task| task.id.0 == "back").collect();
    let snapshot = ListSnapshot::from_list(&TaskList { tasks, ..TaskList::default() });
    let json = serde_json::to_string_pretty(&snapshot).expect("serializable");
    expect![[r#"
        {
          "back": {
            "passes": false,
            "reviewStatus": "changes_requested",
            "reviewCount": 1,
            "reviewFeedback": "fix it",
            "status": "in_progress",
            "attempts": 0,
            "asks": "7a7711d0fa6c2dabd1312de45602738f",
            "rest": "76d0283003e5cb8b33b6104a18353169"
          }
        }"#]]
    .assert_eq(&json);
    let all = serde_json::to_string(&ListSnapshot::from_list(&known())).expect("serializable");
    assert_eq!(
        serde_json::from_str::<ListSnapshot>(&all).expect("readable"),
        ListSnapshot::from_list(&known())
    );
    assert!(all.contains(r#""new":{"passes":false,"reviewStatus":null,"reviewCount":0,"#), "{all}");
}
