//! The choice of the next task, on small lists and long ones.

#![expect(clippy::needless_raw_string_hashes, reason = "expect-test writes its snapshots so")]

use expect_test::{Expect, expect};

use super::*;

const REVIEW: ReviewPolicy = ReviewPolicy::Fresh { cap: 5 };
const RETRY: RetryPolicy = RetryPolicy::WhileAttemptsLeft { usual: 2 };

fn task(id: &str, order: i64, depends_on: &[&str], status: TaskStatus) -> Task {
    let depends_on = depends_on.iter().map(|id| TaskId((*id).into())).collect();
    Task { order: Some(order), depends_on, status, ..Task::new(id, "t") }
}

fn reviewed(id: &str, order: i64, review: ReviewStatus) -> Task {
    let mut task = task(id, order, &["unknown"], TaskStatus::InProgress);
    task.review.status = review;
    task
}

fn list(tasks: Vec<Task>) -> TaskList {
    TaskList { tasks, ..TaskList::default() }
}

fn describe_next(next: &NextWork<'_>) -> String {
    match next {
        NextWork::Fix(task) => format!("fix {}", task.id),
        NextWork::Review(task) => format!("review {}", task.id),
        NextWork::Implement(task) => format!("implement {}", task.id),
        NextWork::Nothing { .. } => "nothing".into(),
        NextWork::AllDone => "all done".into(),
    }
}

#[track_caller]
fn check(tasks: Vec<Task>, expect: &str) {
    assert_eq!(describe_next(&choose_next_work(&list(tasks), REVIEW, RETRY)), expect);
}

#[test]
fn the_next_task_is_the_lowest_that_can_begin() {
    use TaskStatus::{Done, Failed, InProgress, Pending, Skipped};
    check(vec![], "all done");
    check(vec![task("b", 2, &[], Pending), task("a", 1, &[], Pending)], "implement a");
    check(vec![task("b", 1, &[], Pending), task("a", 1, &[], Pending)], "implement b");
    check(vec![task("a", 1, &["b"], Pending), task("b", 2, &[], Pending)], "implement b");
    check(vec![task("a", 1, &["b"], Pending), task("b", 2, &[], Done)], "implement a");
    check(vec![task("a", 1, &["gone"], Pending)], "nothing");
    check(vec![task("a", 1, &["b"], Pending), task("b", 2, &[], Skipped)], "nothing");
    check(vec![task("a", 1, &[], Done), task("b", 2, &[], Skipped)], "all done");
    check(vec![task("a", 1, &[], Pending), task("b", 2, &[], InProgress)], "implement b");
    check(vec![Task::new("a", "t"), task("b", 9, &[], Pending)], "implement b");
    check(vec![Task::new("a", "t"), Task::new("b", "t")], "implement a");
    check(vec![task("a", 1, &[], Failed), task("b", 2, &[], Pending)], "implement a");
}

#[test]
fn failed_tasks_are_tried_again_while_attempts_are_left() {
    let failed = |attempts, max_retries| {
        let task = task("a", 1, &[], TaskStatus::Failed);
        list(vec![Task { max_retries, attempts, ..task }])
    };
    for (attempts, max_retries, retrying, expect) in [
        (1, None, RETRY, "implement a"),
        (2, None, RETRY, "nothing"),
        (2, Some(2), RETRY, "implement a"),
        (3, Some(2), RETRY, "nothing"),
        (1, Some(0), RETRY, "nothing"),
        (0, None, RetryPolicy::Never, "nothing"),
    ] {
        let list = failed(attempts, max_retries);
        assert_eq!(
            describe_next(&choose_next_work(&list, REVIEW, retrying)),
            expect,
            "{attempts} {max_retries:?}"
        );
    }
}

#[test]
fn fixes_come_before_reviews_before_implementing() {
    let new = || task("new", 1, &[], TaskStatus::Pending);
    let review = || reviewed("review", 2, ReviewStatus::NeedsReview);
    let fix = || reviewed("fix", 3, ReviewStatus::ChangesRequested);
    check(vec![new(), review(), fix()], "fix fix");
    check(vec![new(), review()], "review review");
    check(vec![new()], "implement new");
}

#[test]
fn without_reviews_everything_is_implemented() {
    let mut fix = task("fix", 1, &[], TaskStatus::Pending);
    fix.review.status = ReviewStatus::ChangesRequested;
    let list = list(vec![fix]);
    assert_eq!(describe_next(&choose_next_work(&list, ReviewPolicy::Skip, RETRY)), "implement fix");
}

#[track_caller]
fn check_blocked(tasks: Vec<Task>, expect: &Expect) {
    let list = list(tasks);
    let mut text = String::new();
    for blockage in find_blockages(&list) {
        let waiting: Vec<_> =
            blockage.waiting.iter().map(|it| format!("{} ({})", it.task, it.through)).collect();
        let Blockage { blocker, status, .. } = &blockage;
        text.push_str(&format!("{blocker} {status}: {}\n", waiting.join(", ")));
    }
    expect.assert_eq(&text);
}

#[test]
fn what_is_left_names_what_it_waits_for() {
    use TaskStatus::{Done, Failed, Pending, Skipped};
    check_blocked(
        vec![
            task("done", 1, &[], Done),
            task("bad", 1, &["done"], Failed),
            task("next", 2, &["bad", "done"], Pending),
            task("last", 3, &["next", "out"], Pending),
            task("out", 1, &[], Skipped),
            task("alone", 1, &[], Failed),
            task("unused", 1, &[], Skipped),
            task("two", 1, &["out", "alone"], Pending),
        ],
        &expect![[r#"
            bad failed: next (bad), last (next)
            out skipped: two (out)
            alone failed: 
        "#]],
    );
}

#[test]
fn a_chain_as_long_as_the_list_is_followed() {
    let count = 100_000;
    let mut tasks = vec![task("0", 0, &[], TaskStatus::Failed)];
    for at in 1..count {
        tasks.push(task(&at.to_string(), at, &[&(at - 1).to_string()], TaskStatus::Pending));
    }
    let list = list(tasks);
    let next = choose_next_work(&list, REVIEW, RetryPolicy::Never);
    let NextWork::Nothing { blocked } = next else {
        panic!("nothing can begin, not {}", describe_next(&next));
    };
    assert_eq!(blocked.len(), 1);
    assert_eq!(blocked[0].waiting.len(), 99_999);
}
