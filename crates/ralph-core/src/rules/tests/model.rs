//! Random edits against a model: for a single task the states that a role may leave behind are
//! written out as a list, and looked up.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// What can be told of a task: status, review, and whether its words were changed.
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
    /// Which task becomes what.
    touched: Vec<(usize, Touched)>,
    removed: Vec<usize>,
    added: Vec<Touched>,
    swap: Option<(usize, usize)>,
}

fn status() -> impl Strategy<Value = TaskStatus> {
    (0..TaskStatus::ALL.len()).prop_map(|at| TaskStatus::ALL[at])
}

fn any_review() -> impl Strategy<Value = ReviewState> {
    let feedback = prop_oneof![Just(""), Just("mend it"), Just("and that")];
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

fn any_turn() -> impl Strategy<Value = Turn> {
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
        Turn { role, task, review }
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

/// Returns all that is said of progress and review, as one word.
fn word(status: TaskStatus, review: &ReviewState) -> String {
    format!("{} {} {} {}", letter(status), review.status.name(), review.count, review.feedback)
}

/// Returns every word that the task may have after its own turn; feedback is one of three.
fn allowed(before: &Task, turn: &Turn) -> BTreeSet<String> {
    let count = before.review.count;
    let mut words = BTreeSet::from([word(before.status, &before.review)]);
    let is_reviewed = turn.review != ReviewPolicy::Skip;
    if letter(before.status) != 'o' {
        return words;
    }
    match (turn.role, before.review.status) {
        (Role::Implement | Role::Fix, _) if !is_reviewed => {
            words.insert(word(TaskStatus::Done, &before.review));
            if matches!(
                before.review.status,
                ReviewStatus::NeedsReview | ReviewStatus::ChangesRequested
            ) {
                words.insert(format!("d none {count} "));
            }
        }
        (Role::Implement, ReviewStatus::None) => {
            let feedback = &before.review.feedback;
            words.insert(format!("o needs_review {count} {feedback}"));
        }
        (Role::Fix, ReviewStatus::ChangesRequested) => {
            words.insert(format!("o needs_review {count} "));
        }
        (Role::Review, ReviewStatus::NeedsReview) if is_reviewed => {
            for feedback in ["", "mend it", "and that"] {
                words.insert(format!("d approved {} {feedback}", count + 1));
            }
            for feedback in ["mend it", "and that"] {
                words.insert(format!("o changes_requested {} {feedback}", count + 1));
            }
        }
        _ => {}
    }
    words
}

/// Returns the ids of the tasks that did what they may not.
fn offending(after: &TaskList, turn: &Turn) -> BTreeSet<TaskId> {
    let known = known();
    let changed = |before: &Task, after: &Task| {
        word(before.status, &before.review) != word(after.status, &after.review)
    };
    let moved: Vec<&TaskId> = (known.tasks.iter())
        .filter(|before| after.task(&before.id).is_some_and(|after| changed(before, after)))
        .map(|before| &before.id)
        .collect();
    let may_move = |id: &TaskId| match &turn.task {
        Some(given) => given == id,
        None => moved.len() == 1,
    };
    let mut offending = BTreeSet::new();
    for before in &known.tasks {
        let is_fine = after.task(&before.id).is_some_and(|after| {
            let is_moved = changed(before, after);
            let is_where_it_may =
                allowed(before, turn).contains(&word(after.status, &after.review));
            let keeps_words = before.description == after.description
                && before.attempts == after.attempts
                && (before.notes == after.notes || letter(before.status) == 'o');
            keeps_words && (!is_moved || may_move(&before.id) && is_where_it_may)
        });
        if !is_fine {
            offending.insert(before.id.clone());
        }
    }
    for task in after.tasks.iter().filter(|task| known.task(&task.id).is_none()) {
        let is_untouched = word(task.status, &task.review) == "o none 0 " && task.attempts == 0;
        if !is_untouched || !matches!(turn.role, Role::Implement | Role::Fix) {
            offending.insert(task.id.clone());
        }
    }
    offending
}

/// Returns the review of a task as it is kept: one that is open is put by where a task is done in
/// a run without reviews.
fn kept(status: TaskStatus, review: &ReviewState, turn: &Turn) -> ReviewState {
    let is_open =
        matches!(review.status, ReviewStatus::NeedsReview | ReviewStatus::ChangesRequested);
    if turn.review == ReviewPolicy::Skip && status == TaskStatus::Done && is_open {
        ReviewState { status: ReviewStatus::None, count: review.count, feedback: String::new() }
    } else {
        review.clone()
    }
}

/// Returns the list with what is pending and what is in progress as it was known.
fn without_flips(list: &TaskList, turn: &Turn) -> TaskList {
    let mut list = list.clone();
    for task in &mut list.tasks {
        let was = known().task(&task.id).map_or(TaskStatus::Pending, |known| known.status);
        if letter(task.status) == 'o' && letter(was) == 'o' {
            task.status = was;
        }
        if letter(was) == 'o' {
            task.review = kept(task.status, &task.review, turn);
        }
    }
    list
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn random_edits_are_judged_as_the_model_does(edit in edit(), turn in any_turn()) {
        let after = apply(&edit);
        let before = Snapshot::of(&known());
        let found = transitions(&before, &after, &turn);
        let told: BTreeSet<TaskId> = found.iter().filter_map(|it| it.task.clone()).collect();
        prop_assert_eq!(told, offending(&after, &turn));
        let reconciled = reconcile(&known(), &after, &turn);
        prop_assert_eq!(transitions(&before, &reconciled.list, &turn), vec![]);
        prop_assert!(reconciled.list.validate().len() <= known().validate().len());
        let again = reconcile(&known(), &reconciled.list, &turn);
        prop_assert_eq!(&again.list, &reconciled.list);
        prop_assert_eq!(again.violations, vec![]);
        if found.is_empty() {
            prop_assert_eq!(reconciled.list, without_flips(&after, &turn));
        } else {
            prop_assert!(!reconciled.violations.is_empty());
        }
    }

    #[test]
    fn the_given_task_keeps_its_legal_move_whatever_else_was_done(
        edit in edit(), turn in any_turn(),
    ) {
        let after = apply(&edit);
        if let (Some(before), Some(now)) = (
            turn.task.as_ref().and_then(|given| known().task(given).cloned()),
            turn.task.as_ref().and_then(|given| after.task(given).cloned()),
        ) {
            let words: Vec<String> = allowed(&before, &turn).into_iter().collect();
            let is_legal = words.contains(&word(now.status, &now.review));
            let list = reconcile(&known(), &after, &turn).list;
            let kept = list.task(&before.id).expect("nothing is lost");
            let expect = if is_legal {
                word(now.status, &self::kept(now.status, &now.review, &turn))
            } else {
                word(before.status, &before.review)
            };
            // A fix that forgot the feedback is let through without it.
            let is_mended = turn.role == Role::Fix && kept.review.feedback.is_empty();
            prop_assert!(word(kept.status, &kept.review) == expect || is_mended);
        }
    }
}
