//! Every mistake of a list, and that long lists are fast.

#![expect(clippy::needless_raw_string_hashes, reason = "expect-test writes its snapshots so")]

use expect_test::{Expect, expect};
use proptest::prelude::*;
use ralph_model::task::TaskStatus;

use crate::tasks::validation::*;

fn good(id: &str, depends_on: &[&str]) -> Task {
    Task {
        description: "What is wanted.".into(),
        acceptance_criteria: vec!["It works".into()],
        depends_on: depends_on.iter().map(|id| TaskId((*id).into())).collect(),
        ..Task::new(id, "A title")
    }
}

fn reviewed(id: &str, status: TaskStatus, review: ReviewStatus, feedback: &str) -> Task {
    let mut task = Task { status, ..good(id, &[]) };
    task.review.status = review;
    task.review.feedback = feedback.into();
    task
}

#[track_caller]
fn check(tasks: Vec<Task>, expect: &Expect) {
    expect.assert_eq(&format_problems(&validate_list(&TaskList { tasks, ..TaskList::default() })));
}

fn format_problems(problems: &[TaskProblem]) -> String {
    let lines = problems.iter().map(|it| format!("{it} ({})", it.fault.remedy()));
    lines.flat_map(|line| [line, "\n".into()]).collect()
}

#[test]
fn ids_have_no_control_characters() {
    check(
        vec![good("T-1\n", &[]), good("T-\u{1b}[2J", &[]), good("Aufgabe 3 – ü", &[])],
        &expect![[r#"
            task number 1 has a control character in its id (give it an id such as `TASK-001`)
            task number 2 has a control character in its id (give it an id such as `TASK-001`)
        "#]],
    );
}

#[test]
fn all_mistakes_are_reported_at_once() {
    check(vec![good("a", &[]), good("b", &["a"])], &expect![""]);
    check(
        vec![
            Task { acceptance_criteria: vec![], ..good("a", &["TASK-002", "xyz", ""]) },
            Task { title: " ".into(), description: String::new(), ..good("", &[]) },
            Task { acceptance_criteria: vec!["ok".into(), "\t".into()], ..good("a", &[]) },
            good("TASK-02", &[]),
            good("", &[]),
        ],
        &expect![[r#"
            task `a` has no acceptance criteria (add conditions for being done)
            task `a` depends on an unknown task `TASK-002` (did you mean `TASK-02`?)
            task `a` depends on an unknown task `xyz` (add that task, or remove the dependency)
            task `a` depends on an unknown task `` (add that task, or remove the dependency)
            task number 2 has no id (give it an id such as `TASK-001`)
            task number 2 has no title (describe it in one line)
            task number 2 has no description (describe what is wanted)
            task `a` has a blank acceptance criterion (write it out or remove it)
            task `a` has the id of another task, number 1 in the list (give one of them another id)
            task number 5 has no id (give it an id such as `TASK-001`)
        "#]],
    );
}

#[test]
fn reviews_must_agree_with_the_status() {
    use ReviewStatus::{Approved, ChangesRequested, NeedsReview, None};
    use TaskStatus::{Done, Pending};
    check(
        vec![
            reviewed("ok-1", Done, Approved, ""),
            reviewed("ok-2", Done, None, ""),
            reviewed("ok-3", Pending, ChangesRequested, "fix x.rs"),
            reviewed("bad-1", Pending, Approved, ""),
            reviewed("bad-2", Done, NeedsReview, ""),
            reviewed("bad-3", Done, ChangesRequested, " "),
        ],
        &expect![[r#"
            task `bad-1` is approved but not done (mark it done, or remove the approval)
            task `bad-2` is done although its review says `needs_review` (change one of the two)
            task `bad-3` is done although its review says `changes_requested` (change one of the two)
            task `bad-3` has changes requested without feedback (add what to fix and where)
        "#]],
    );
}

#[test]
fn every_sign_of_work_in_a_plan_is_reported() {
    let mut worked_on = reviewed("b", TaskStatus::Done, ReviewStatus::Approved, "fine");
    worked_on.review.count = 2;
    worked_on.attempts = 1;
    let noted = Task { notes: "Careful with the index.".into(), ..good("a", &[]) };
    let list = TaskList { tasks: vec![noted, worked_on], ..TaskList::default() };
    expect![[r#"
        task `b` was begun: it is `done` (in a plan no task has begun)
        task `b` was begun: its review says `approved` (in a plan no task has begun)
        task `b` was begun: its count of reviews is 2 (in a plan no task has begun)
        task `b` was begun: a review gave feedback (in a plan no task has begun)
        task `b` was begun: its count of failed attempts is 1 (in a plan no task has begun)
    "#]]
    .assert_eq(&format_problems(&find_begun_tasks(&list)));
}

#[test]
fn cycles_are_shown() {
    check(
        vec![good("A", &["A"])],
        &expect![[r#"
        task `A` waits for itself: A → A (remove one of these dependencies)
    "#]],
    );
    check(
        vec![good("A", &["B"]), good("B", &["A"])],
        &expect![[r#"
        task `A` waits for itself: A → B → A (remove one of these dependencies)
    "#]],
    );
    check(
        vec![
            good("start", &["A"]),
            good("A", &["B", "C"]),
            good("B", &["A"]),
            good("C", &["A", "D"]),
            good("D", &["E"]),
            good("E", &["D"]),
        ],
        &expect![[r#"
            task `A` waits for itself: A → B → A (remove one of these dependencies)
            task `D` waits for itself: D → E → D (remove one of these dependencies)
        "#]],
    );
    let ring = |at: usize| good(&format!("T{at}"), &[&format!("T{}", (at + 1) % 30)]);
    check(
        (0..30).map(ring).collect(),
        &expect![[r#"
        task `T0` waits for itself: T0 → T1 → T2 → T3 → T4 → T5 → T6 → T7 → T8 → T9 → … (19 more) → T29 → T0 (remove one of these dependencies)
    "#]],
    );
}

#[test]
fn a_chain_as_long_as_the_list_is_followed() {
    let count = 100_000;
    let chain = |at: usize| good(&at.to_string(), &[&((at + 1) % count).to_string()]);
    let list = TaskList { tasks: (0..count).map(chain).collect(), ..TaskList::default() };
    let problems = validate_list(&list);
    assert_eq!(problems.len(), 1);
    assert!(matches!(&problems[0].fault, TaskFault::Cycle { path } if path.len() == count + 1));
}

#[test]
fn a_group_with_more_cycles_than_tasks_is_reported_briefly() {
    let count = 1_000;
    let knot = |at: usize| {
        let mut task = good(&at.to_string(), &[]);
        task.depends_on = (0..count).rev().map(|id| TaskId(id.to_string())).collect();
        task
    };
    let list = TaskList { tasks: (0..count).map(knot).collect(), ..TaskList::default() };
    let reported: usize = validate_list(&list)
        .iter()
        .map(|problem| {
            let TaskFault::Cycle { path } = &problem.fault else { return 0 };
            path.len() - 1
        })
        .sum();
    assert!(reported <= count, "{reported} tasks in cycles");
}

proptest! {
    /// A list has a cycle exactly if repeatedly removing tasks that wait for nothing leaves
    /// something.
    #[test]
    fn cycles_are_found_exactly_where_they_are(
        edges in prop::collection::vec((0usize..8, 0usize..8), 0..14)
    ) {
        let mut tasks: Vec<Task> = (0..8).map(|at| good(&at.to_string(), &[])).collect();
        for (from, to) in &edges {
            tasks[*from].depends_on.push(TaskId(to.to_string()));
        }
        let mut left: Vec<usize> = (0..8).collect();
        loop {
            let before = left.len();
            let here = left.clone();
            left.retain(|at| edges.iter().any(|(from, to)| from == at && here.contains(to)));
            if left.len() == before {
                break;
            }
        }
        let problems = validate_list(&TaskList { tasks: tasks.clone(), ..TaskList::default() });
        prop_assert_eq!(problems.is_empty(), left.is_empty());
        for problem in problems {
            let TaskFault::Cycle { path } = problem.fault else { continue };
            for pair in path.windows(2) {
                let at: usize = pair[0].0.parse().expect("a number");
                prop_assert!(tasks[at].depends_on.contains(&pair[1]));
            }
        }
    }
}
