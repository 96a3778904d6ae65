//! Random edits against a model: it lists the states that a role may leave a single task in.

use std::collections::BTreeSet;

use proptest::prelude::*;
use ralph_model::ids::{Role, TaskId};
use ralph_model::list_snapshot::{EditContext, ListSnapshot};

use super::*;
use crate::tasks::validation::validate_list;

/// A changed task: status, review, and whether its texts were changed.
#[derive(Debug, Clone)]
struct Touched {
    status: TaskStatus,
    review: ReviewState,
    asks: bool,
    notes: bool,
    attempts: bool,
}

/// An edit of a list.
#[derive(Debug, Clone)]
struct Edit {
    /// The indexes of the changed tasks.
    touched: Vec<(usize, Touched)>,
    removed: Vec<usize>,
    added: Vec<Touched>,
    swap: Option<(usize, usize)>,
}

fn status() -> impl Strategy<Value = TaskStatus> {
    (0..TaskStatus::ALL.len()).prop_map(|at| TaskStatus::ALL[at])
}

fn any_review() -> impl Strategy<Value = ReviewState> {
    let feedback = prop_oneof![Just(""), Just("fix it"), Just("and that")];
    (0..ReviewStatus::ALL.len(), 0u32..4, feedback)
        .prop_map(|(at, count, feedback)| review(ReviewStatus::ALL[at], count, feedback))
}

fn rarely() -> impl Strategy<Value = bool> {
    prop_oneof![9 => Just(false), 1 => Just(true)]
}

fn touched() -> impl Strategy<Value = Touched> {
    (status(), any_review(), rarely(), rarely(), rarely()).prop_map(
        |(status, review, asks, notes, attempts)| Touched { status, review, asks, notes, attempts },
    )
}

fn edit() -> impl Strategy<Value = Edit> {
    let places = 0..known().tasks.len();
    (
        proptest::collection::vec((places.clone(), touched()), 0..3),
        proptest::collection::vec(places.clone(), 0..2),
        proptest::collection::vec(touched(), 0..2),
        proptest::option::of((places.clone(), places)),
    )
        .prop_map(|(touched, removed, added, swap)| Edit { touched, removed, added, swap })
}

fn any_context() -> impl Strategy<Value = EditContext> {
    let role = prop_oneof![
        Just(Role::Implement),
        Just(Role::Review),
        Just(Role::Fix),
        Just(Role::Message)
    ];
    let task = proptest::option::of(0..known().tasks.len());
    let policy = prop_oneof![3 => Just(FRESH), 1 => Just(ReviewPolicy::Skip)];
    (role, task, policy).prop_map(|(role, task, review)| {
        let task = task.map(|at| known().tasks[at].id.clone());
        EditContext { role, task, review }
    })
}

fn apply(edit: &Edit) -> TaskList {
    let mut list = known();
    let touch = |task: &mut Task, touched: &Touched| {
        (task.status, task.review) = (touched.status, touched.review.clone());
        task.attempts += u32::from(touched.attempts);
        if touched.asks {
            task.description.push('!');
        }
        if touched.notes {
            task.notes.push('!');
        }
    };
    for (at, touched) in &edit.touched {
        touch(&mut list.tasks[*at], touched);
    }
    if let Some((one, other)) = edit.swap {
        list.tasks.swap(one, other);
    }
    for at in &edit.removed {
        list.tasks.remove(*at);
    }
    for (number, touched) in edit.added.iter().enumerate() {
        let mut added = task(&format!("add-{number}"), TaskStatus::Pending, untouched());
        touch(&mut added, touched);
        list.tasks.push(added);
    }
    list
}

fn untouched() -> ReviewState {
    review(ReviewStatus::None, 0, "")
}

/// One letter for each status; open ones are the same.
fn letter(status: TaskStatus) -> char {
    match status {
        TaskStatus::Pending | TaskStatus::InProgress => 'o',
        TaskStatus::Done => 'd',
        TaskStatus::Failed => 'f',
        TaskStatus::Skipped => 's',
    }
}

/// Returns the progress and review of a task as one string.
fn state(status: TaskStatus, review: &ReviewState) -> String {
    format!("{} {} {} {}", letter(status), review.status.name(), review.count, review.feedback)
}

/// Returns every state that the task may have after an iteration on it; feedback is one of three.
fn allowed(before: &Task, context: &EditContext) -> BTreeSet<String> {
    let count = before.review.count;
    let mut states = BTreeSet::from([state(before.status, &before.review)]);
    let is_reviewed = context.review != ReviewPolicy::Skip;
    if letter(before.status) != 'o' {
        return states;
    }
    match (context.role, before.review.status) {
        (Role::Implement | Role::Fix, _) if !is_reviewed => {
            states.insert(state(TaskStatus::Done, &before.review));
            if matches!(
                before.review.status,
                ReviewStatus::NeedsReview | ReviewStatus::ChangesRequested
            ) {
                states.insert(format!("d none {count} "));
            }
        }
        (Role::Implement, ReviewStatus::None) => {
            let feedback = &before.review.feedback;
            states.insert(format!("o needs_review {count} {feedback}"));
        }
        (Role::Fix, ReviewStatus::ChangesRequested) => {
            states.insert(format!("o needs_review {count} "));
        }
        (Role::Review, ReviewStatus::NeedsReview) if is_reviewed => {
            for feedback in ["", "fix it", "and that"] {
                states.insert(format!("d approved {} {feedback}", count + 1));
            }
            for feedback in ["fix it", "and that"] {
                states.insert(format!("o changes_requested {} {feedback}", count + 1));
            }
        }
        _ => {}
    }
    states
}

/// Returns the ids of the tasks with illegal changes.
fn offending(after: &TaskList, context: &EditContext) -> BTreeSet<TaskId> {
    let known = known();
    let changed = |before: &Task, after: &Task| {
        state(before.status, &before.review) != state(after.status, &after.review)
    };
    let moved: Vec<&TaskId> = (known.tasks.iter())
        .filter(|before| after.find_task(&before.id).is_some_and(|after| changed(before, after)))
        .map(|before| &before.id)
        .collect();
    let may_move = |id: &TaskId| match &context.task {
        Some(given) => given == id,
        None => moved.len() == 1,
    };
    let mut offending = BTreeSet::new();
    for before in &known.tasks {
        let is_fine = after.find_task(&before.id).is_some_and(|after| {
            let is_moved = changed(before, after);
            let is_where_it_may =
                allowed(before, context).contains(&state(after.status, &after.review));
            let keeps_words = before.description == after.description
                && before.attempts == after.attempts
                && (before.notes == after.notes || letter(before.status) == 'o');
            keeps_words && (!is_moved || may_move(&before.id) && is_where_it_may)
        });
        if !is_fine {
            offending.insert(before.id.clone());
        }
    }
    for task in after.tasks.iter().filter(|task| known.find_task(&task.id).is_none()) {
        let is_untouched = state(task.status, &task.review) == "o none 0 " && task.attempts == 0;
        if !is_untouched || !matches!(context.role, Role::Implement | Role::Fix) {
            offending.insert(task.id.clone());
        }
    }
    offending
}

/// Returns the review of a task after reconciling: an open review is dropped if the task is done in
/// a run without reviews.
fn kept(status: TaskStatus, review: &ReviewState, context: &EditContext) -> ReviewState {
    let is_open =
        matches!(review.status, ReviewStatus::NeedsReview | ReviewStatus::ChangesRequested);
    if context.review == ReviewPolicy::Skip && status == TaskStatus::Done && is_open {
        ReviewState { status: ReviewStatus::None, count: review.count, feedback: String::new() }
    } else {
        review.clone()
    }
}

/// Returns the list with pending and in progress as in the known list.
fn without_flips(list: &TaskList, context: &EditContext) -> TaskList {
    let mut list = list.clone();
    for task in &mut list.tasks {
        let was = known().find_task(&task.id).map_or(TaskStatus::Pending, |known| known.status);
        if letter(task.status) == 'o' && letter(was) == 'o' {
            task.status = was;
        }
        if letter(was) == 'o' {
            task.review = kept(task.status, &task.review, context);
        }
    }
    list
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn random_edits_are_judged_as_the_model_does(edit in edit(), context in any_context()) {
        let after = apply(&edit);
        let before = ListSnapshot::from_list(&known());
        let found = find_illegal_changes(&before, &after, &context);
        let reported: BTreeSet<TaskId> = found.iter().filter_map(|it| it.task.clone()).collect();
        prop_assert_eq!(reported, offending(&after, &context));
        let reconciled = reconcile_edit(&known(), &after, &context);
        prop_assert_eq!(find_illegal_changes(&before, &reconciled.list, &context), vec![]);
        prop_assert!(validate_list(&reconciled.list).len() <= validate_list(&known()).len());
        let again = reconcile_edit(&known(), &reconciled.list, &context);
        prop_assert_eq!(&again.list, &reconciled.list);
        prop_assert_eq!(again.violations, vec![]);
        if found.is_empty() {
            prop_assert_eq!(reconciled.list, without_flips(&after, &context));
        } else {
            prop_assert!(!reconciled.violations.is_empty());
        }
    }

    #[test]
    fn the_given_task_keeps_its_legal_move_whatever_else_was_done(
        edit in edit(), context in any_context(),
    ) {
        let after = apply(&edit);
        if let (Some(before), Some(now)) = (
            context.task.as_ref().and_then(|given| known().find_task(given).cloned()),
            context.task.as_ref().and_then(|given| after.find_task(given).cloned()),
        ) {
            let states: Vec<String> = allowed(&before, &context).into_iter().collect();
            let is_legal = states.contains(&state(now.status, &now.review));
            let list = reconcile_edit(&known(), &after, &context).list;
            let kept = list.find_task(&before.id).expect("nothing is lost");
            let expect = if is_legal {
                state(now.status, &self::kept(now.status, &now.review, &context))
            } else {
                state(before.status, &before.review)
            };
            // A fix that forgot to clear the feedback is accepted without it.
            let is_fixed = context.role == Role::Fix && kept.review.feedback.is_empty();
            prop_assert!(state(kept.status, &kept.review) == expect || is_fixed);
        }
    }
}
