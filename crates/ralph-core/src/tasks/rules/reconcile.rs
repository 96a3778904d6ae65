//! Builds the list that results from an edit: every legal change of it, and no illegal one.

use std::collections::{BTreeMap, BTreeSet};

use ralph_model::agent_list_diff::ListViolation;
use ralph_model::ids::{Role, TaskId};
use ralph_model::list_snapshot::{EditContext, ListSnapshot, TaskSnapshot};
use ralph_model::review::{ReviewPolicy, ReviewState, ReviewStatus};
use ralph_model::task::{Task, TaskList, TaskStatus};

use super::moves::{find_move_faults, find_moved_tasks, has_new_status, may_add};
use super::{find_illegal_changes, quote_text};
use crate::tasks::validation::{TaskField, TaskProblem, validate_list};

/// The result of reconciling an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconciled {
    /// The list to continue with.
    pub list: TaskList,
    /// The changes that were reverted, with reasons.
    pub violations: Vec<ListViolation>,
}

/// Takes over every legal change of an edit and reverts every illegal one.
///
/// The requirements of a task always come from the known list. A fix that forgot to clear the
/// feedback still counts: the feedback is cleared. If the result would have more errors than the
/// known list, only the move of the given task survives.
pub fn reconcile_edit(known: &TaskList, edited: &TaskList, context: &EditContext) -> Reconciled {
    let before = ListSnapshot::from_list(known);
    let mut violations = find_illegal_changes(&before, edited, context);
    violations.extend(find_setting_changes(known, edited));
    let moved = find_legal_moves(&before, edited, context);
    let places: BTreeMap<&TaskId, &Task> =
        known.tasks.iter().rev().map(|task| (&task.id, task)).collect();
    let mut seen: BTreeSet<&TaskId> = BTreeSet::new();
    let mut tasks: Vec<Task> = Vec::with_capacity(edited.tasks.len());
    for task in edited.tasks.iter().filter(|task| seen.insert(&task.id)) {
        match places.get(&task.id) {
            Some(ours) => tasks.push(merge_task(ours, task, moved.get(&task.id))),
            None if may_add(context.role) => tasks.push(reset_task(task)),
            None => {}
        }
    }
    for (at, ours) in known.tasks.iter().enumerate() {
        if !seen.contains(&ours.id) {
            tasks.insert(at.min(tasks.len()), ours.clone());
        }
    }
    let list = TaskList { tasks, ..known.clone() };
    let problems = validate_list(&list);
    if problems.len() <= validate_list(known).len() {
        return Reconciled { list, violations };
    }
    violations.extend(problems.iter().map(new_problem_violation));
    let tasks = known.tasks.iter().map(|ours| match moved.get(&ours.id) {
        Some((status, review)) => Task { status: *status, review: review.clone(), ..ours.clone() },
        None => ours.clone(),
    });
    Reconciled { list: TaskList { tasks: tasks.collect(), ..known.clone() }, violations }
}

/// The new status and review of a task.
type NewTaskState = (TaskStatus, ReviewState);

/// Returns the legal moves.
fn find_legal_moves<'a>(
    before: &ListSnapshot,
    edited: &'a TaskList,
    context: &EditContext,
) -> BTreeMap<&'a TaskId, NewTaskState> {
    let movers = find_moved_tasks(before, edited);
    let mut legal = BTreeMap::new();
    let mut seen: BTreeSet<&TaskId> = BTreeSet::new();
    for task in edited.tasks.iter().filter(|task| seen.insert(&task.id)) {
        let Some(standing) = before.0.get(&task.id).filter(|_| movers.contains(&task.id)) else {
            continue;
        };
        let task_as_meant = clear_review(standing, task, context);
        if find_move_faults(standing, &task_as_meant, context, movers.len()).is_empty() {
            let status = if has_new_status(standing.status, task.status) {
                task.status
            } else {
                standing.status
            };
            legal.insert(&task.id, (status, task_as_meant.review));
        }
    }
    legal
}

/// Returns a task as the agent meant it: a fix that sends it back to review clears the fixed
/// feedback, and a task that is done in a run without reviews drops its open review.
fn clear_review(standing: &TaskSnapshot, task: &Task, context: &EditContext) -> Task {
    let mut task = task.clone();
    let is_back = (standing.review.status, task.review.status)
        == (ReviewStatus::ChangesRequested, ReviewStatus::NeedsReview);
    if context.role == Role::Fix && is_back {
        task.review.feedback.clear();
    }
    let is_by = task.status.is_done() && task.review.status.is_open();
    if context.review == ReviewPolicy::Skip && is_by && task.review == standing.review {
        task.review = task.review.close_open_review();
    }
    task
}

/// Returns the known task with the legal changes of the edited one.
fn merge_task(ours: &Task, edited: &Task, moved: Option<&NewTaskState>) -> Task {
    if !TaskSnapshot::from_task(ours).is_open() {
        return ours.clone();
    }
    let (status, review) = moved.cloned().unwrap_or_else(|| (ours.status, ours.review.clone()));
    Task {
        status,
        review,
        order: edited.order,
        depends_on: edited.depends_on.clone(),
        touches: edited.touches.clone(),
        skills: edited.skills.clone(),
        libraries: edited.libraries.clone(),
        needs_docs: edited.needs_docs,
        notes: edited.notes.clone(),
        ..ours.clone()
    }
}

/// Returns a new task in its initial state.
fn reset_task(task: &Task) -> Task {
    let fresh = Task::new(task.id.0.clone(), task.title.clone());
    Task { status: fresh.status, review: fresh.review, attempts: 0, ..task.clone() }
}

/// Returns the changes to the settings of the list, which no role may make.
pub fn find_setting_changes(known: &TaskList, edited: &TaskList) -> Vec<ListViolation> {
    let word = |text: Option<String>| text.map_or_else(|| "none".to_owned(), |it| quote_text(&it));
    let number = |number: Option<u32>| word(number.map(|it| it.to_string()));
    let strategy = |list: &TaskList| word(list.validation_strategy.map(|it| format!("{it:?}")));
    let commands = |list: &TaskList| quote_text(&list.verify_commands.join("; "));
    let fields = [
        ("project", quote_text(&known.project), quote_text(&edited.project)),
        ("description", quote_text(&known.description), quote_text(&edited.description)),
        ("branchName", word(known.branch.clone()), word(edited.branch.clone())),
        ("maxIterations", number(known.max_iterations), number(edited.max_iterations)),
        ("validationStrategy", strategy(known), strategy(edited)),
        ("verifyCommands", commands(known), commands(edited)),
    ];
    let is_changed = [
        known.project != edited.project,
        known.description != edited.description,
        known.branch != edited.branch,
        known.max_iterations != edited.max_iterations,
        known.validation_strategy != edited.validation_strategy,
        known.verify_commands != edited.verify_commands,
    ];
    let changed = fields.into_iter().zip(is_changed).filter(|(_, is_changed)| *is_changed);
    changed
        .map(|((field, old, new), _)| ListViolation {
            task: None,
            field: field.to_owned(),
            remedy: format!("Set it back to {old}"),
            old: Some(old),
            new: Some(new),
            why: "only users change the settings of the list".to_owned(),
        })
        .collect()
}

/// Returns the violation for an error that the edit would bring into the list.
fn new_problem_violation(problem: &TaskProblem) -> ListViolation {
    let field = match problem.fault.field() {
        TaskField::Id => "id",
        TaskField::Title => "title",
        TaskField::Description => "description",
        TaskField::AcceptanceCriteria(_) => "acceptanceCriteria",
        TaskField::DependsOn(_) => "dependsOn",
        TaskField::Touches(_) => "touches",
        TaskField::Skills(_) => "skills",
        TaskField::Status => "passes",
        TaskField::Attempts => "retryCount",
        TaskField::ReviewStatus => "reviewStatus",
        TaskField::ReviewCount => "reviewCount",
        TaskField::ReviewFeedback => "reviewFeedback",
        TaskField::Notes => "notes",
    };
    let remedy = problem.fault.remedy();
    let mut letters = remedy.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    ListViolation {
        task: Some(problem.id.clone()),
        field: field.to_owned(),
        old: None,
        new: None,
        why: format!("the story {}, so the whole edit was reverted", problem.fault),
        remedy: format!("{first}{}", letters.as_str()),
    }
}
