//! The table of the review cycle: which moves a role may make.

use std::collections::BTreeSet;

use ralph_model::agent_list_diff::ListViolation;
use ralph_model::ids::{Role, TaskId};
use ralph_model::list_snapshot::{EditContext, ListSnapshot, TaskSnapshot, is_open};
use ralph_model::review::{ReviewPolicy, ReviewStatus};
use ralph_model::task::{Task, TaskList, TaskStatus};

use super::{format_status, quote_text};

/// Returns every change since a snapshot that the role may not make.
///
/// Order, dependencies, notes and skills of open tasks may change. Pending and in progress count as
/// the same status; ralph keeps track of that itself.
pub fn find_illegal_changes(
    before: &ListSnapshot,
    after: &TaskList,
    context: &EditContext,
) -> Vec<ListViolation> {
    let mut violations = Vec::new();
    let mut seen: BTreeSet<&TaskId> = BTreeSet::new();
    let movers = find_moved_tasks(before, after);
    for task in &after.tasks {
        if !seen.insert(&task.id) {
            let why = "another story has that id";
            violations.push(new_value_violation(
                task,
                "id",
                &quote_text(&task.id.0),
                why,
                "Remove one of the two",
            ));
            continue;
        }
        let Some(standing) = before.0.get(&task.id) else {
            violations.extend(check_new_task(task, context));
            continue;
        };
        violations.extend(check_fixed_fields(standing, task));
        if movers.contains(&task.id) {
            violations.extend(find_move_faults(standing, task, context, movers.len()));
        }
    }
    for id in before.0.keys().filter(|id| !seen.contains(id)) {
        violations.push(ListViolation {
            task: Some(id.clone()),
            field: "id".to_owned(),
            old: Some(quote_text(&id.0)),
            new: None,
            why: "no iteration removes stories".to_owned(),
            remedy: "Restore it as it was".to_owned(),
        });
    }
    violations
}

/// Returns what the role should have done but has not, such as a review without a verdict. These
/// are not illegal changes, so [`find_illegal_changes`] does not report them.
pub fn find_omissions(
    before: &ListSnapshot,
    after: &TaskList,
    context: &EditContext,
) -> Vec<ListViolation> {
    let is_review = context.role == Role::Review && context.review != ReviewPolicy::Skip;
    if !is_review || !find_moved_tasks(before, after).is_empty() {
        return Vec::new();
    }
    let waits = |task: &&Task| match &context.task {
        Some(given) => task.id == *given,
        None => task.review.status == ReviewStatus::NeedsReview,
    };
    let Some(task) = after.tasks.iter().find(waits) else { return Vec::new() };
    vec![new_value_violation(
        task,
        "reviewCount",
        &format!("still {}", task.review.count),
        "a review adds 1 to it and gives a verdict",
        "Add 1, and set `reviewStatus` to \"approved\" with `passes` true, or to \
         \"changes_requested\" with feedback",
    )]
}

/// Returns what is wrong with the move of a task, given the number of tasks that moved.
pub(super) fn find_move_faults(
    standing: &TaskSnapshot,
    task: &Task,
    context: &EditContext,
    movers: usize,
) -> Vec<ListViolation> {
    match &context.task {
        Some(given) if *given != task.id => {
            let why = format!("this iteration is about {given} alone");
            report_all_changes(standing, task, &why)
        }
        None if movers > 1 => {
            let why = "an iteration moves one story, and this one moved several";
            report_all_changes(standing, task, why)
        }
        Some(_) | None => check_move(standing, task, context),
    }
}

/// Returns the tasks whose progress or review changed.
pub(super) fn find_moved_tasks<'a>(
    before: &ListSnapshot,
    after: &'a TaskList,
) -> BTreeSet<&'a TaskId> {
    let moved = |task: &&Task| {
        before.0.get(&task.id).is_some_and(|standing| {
            standing.review != task.review || has_new_status(standing.status, task.status)
        })
    };
    let mut seen: BTreeSet<&TaskId> = BTreeSet::new();
    let firsts = after.tasks.iter().filter(|task| seen.insert(&task.id));
    firsts.filter(moved).map(|task| &task.id).collect()
}

/// Returns whether a status changed; pending and in progress count as the same.
pub(super) fn has_new_status(old: TaskStatus, new: TaskStatus) -> bool {
    old != new && !(is_open(old) && is_open(new))
}

/// Returns whether a role may add tasks.
pub(super) fn may_add(role: Role) -> bool {
    role.is_attempt()
}

/// Returns what is wrong with a new task.
fn check_new_task(task: &Task, context: &EditContext) -> Vec<ListViolation> {
    if !may_add(context.role) {
        let why = format!("{} iterations add no stories", context.role);
        let remedy = "Remove it; say in the feedback or the notes what is missing";
        return vec![new_value_violation(task, "id", "new", &why, remedy)];
    }
    let mut violations = Vec::new();
    let mut add = |field: &str, value: &str, remedy: &str| {
        violations.push(new_value_violation(
            task,
            field,
            value,
            "a new story starts without progress",
            remedy,
        ));
    };
    if task.status.is_done() {
        add("passes", "true", "Set it to false");
    } else if !is_open(task.status) {
        add("status", &quote_text(task.status.name()), "Remove `status`");
    }
    if task.review.status != ReviewStatus::None {
        add("reviewStatus", &format_status(task.review.status), "Set it to null");
    }
    if task.review.count != 0 {
        add("reviewCount", &task.review.count.to_string(), "Set it to 0");
    }
    if !task.review.feedback.is_empty() {
        add("reviewFeedback", &quote_text(&task.review.feedback), "Leave it empty");
    }
    if task.attempts != 0 {
        add("retryCount", &task.attempts.to_string(), "Remove it");
    }
    violations
}

/// Returns changes that no role may make: to the requirements of a task, ralph's own counts and
/// limits, and anything in a closed task.
fn check_fixed_fields(standing: &TaskSnapshot, task: &Task) -> Vec<ListViolation> {
    let now = TaskSnapshot::from_task(task);
    let mut violations = Vec::new();
    let mut changed = |field: &str, old: Option<String>, new: Option<String>, why: &str| {
        violations.push(ListViolation {
            task: Some(task.id.clone()),
            field: field.to_owned(),
            old,
            new,
            why: why.to_owned(),
            remedy: "Restore it as it was; `git diff` shows the change".to_owned(),
        });
    };
    if standing.requirements != now.requirements {
        let why = "only users change what a story asks for";
        changed("title, description or acceptanceCriteria", None, None, why);
    }
    if standing.attempts != now.attempts {
        let (old, new) = (standing.attempts.to_string(), now.attempts.to_string());
        changed("retryCount", Some(old), Some(new), "ralph counts the attempts");
    }
    for (field, old, new) in [
        ("maxTurns", standing.max_turns, now.max_turns),
        ("maxRetries", standing.max_retries, now.max_retries),
    ] {
        let word = |limit: Option<u32>| limit.map_or("none".to_owned(), |limit| limit.to_string());
        if old != new {
            changed(field, Some(word(old)), Some(word(new)), "only users change limits");
        }
    }
    if !standing.is_open() && standing.other_fields != now.other_fields {
        let why =
            format!("the story is {}, and such a story can no longer change", standing.status);
        changed("notes, priority, dependsOn, touches, skills or libraries", None, None, &why);
    }
    violations
}

/// Returns what is wrong with the move of a task that may move.
fn check_move(standing: &TaskSnapshot, task: &Task, context: &EditContext) -> Vec<ListViolation> {
    if !standing.is_open() {
        let why =
            format!("the story is {}, and such a story can no longer change", standing.status);
        return report_all_changes(standing, task, &why);
    }
    match (context.role, context.review) {
        (Role::Implement, ReviewPolicy::Fresh { .. }) => check_implement(standing, task),
        (Role::Review, ReviewPolicy::Fresh { .. }) => check_review(standing, task),
        (Role::Fix, ReviewPolicy::Fresh { .. }) => check_fix(standing, task),
        (Role::Implement | Role::Fix, ReviewPolicy::Skip) => check_unreviewed(standing, task),
        (Role::Review, ReviewPolicy::Skip)
        | (
            Role::Prompt | Role::Plan | Role::Build | Role::Compact | Role::Message | Role::Merge,
            _,
        ) => {
            let why = format!("{} iterations do not move stories", context.role);
            report_all_changes(standing, task, &why)
        }
    }
}

fn check_implement(standing: &TaskSnapshot, task: &Task) -> Vec<ListViolation> {
    let mut violations = Vec::new();
    violations.extend(report_status_change(standing, task, NOT_BY_IMPLEMENT));
    if task.review.status != standing.review.status
        && (standing.review.status, task.review.status)
            != (ReviewStatus::None, ReviewStatus::NeedsReview)
    {
        let why = match task.review.status {
            ReviewStatus::Approved => NOT_BY_IMPLEMENT,
            ReviewStatus::None | ReviewStatus::NeedsReview | ReviewStatus::ChangesRequested => {
                "an implement iteration only goes from null to \"needs_review\""
            }
        };
        violations.extend(report_review_change(standing, task, why));
    }
    violations.extend(report_count_change(
        standing,
        task,
        "implement iterations leave the count alone",
    ));
    let why = "only reviews write feedback";
    violations.extend(report_feedback_change(standing, task, why));
    violations
}

fn check_review(standing: &TaskSnapshot, task: &Task) -> Vec<ListViolation> {
    let mut violations = Vec::new();
    let (old, new) = (standing.review.status, task.review.status);
    let is_verdict = match new {
        ReviewStatus::Approved | ReviewStatus::ChangesRequested => true,
        ReviewStatus::None | ReviewStatus::NeedsReview => false,
    };
    if old != ReviewStatus::NeedsReview {
        let why =
            format!("the story is not waiting for a review; its status was {}", format_status(old));
        return report_all_changes(standing, task, &why);
    }
    if !is_verdict {
        let remedy = "Set it to \"approved\" with `passes` true, or to \"changes_requested\" with \
                      feedback";
        let shown = match new {
            ReviewStatus::NeedsReview => format!("still {}", format_status(new)),
            ReviewStatus::None | ReviewStatus::ChangesRequested | ReviewStatus::Approved => {
                format_status(new)
            }
        };
        violations.push(new_value_violation(
            task,
            "reviewStatus",
            &shown,
            "a review gives a verdict",
            remedy,
        ));
    }
    if standing.review.count.checked_add(1) != Some(task.review.count) {
        let (before, after) = (standing.review.count, task.review.count);
        let why = "a review adds exactly 1 to it";
        let remedy = format!("Set it to {}", before.saturating_add(1));
        violations.push(if before == after {
            new_value_violation(task, "reviewCount", &format!("still {before}"), why, &remedy)
        } else {
            let (before, after) = (before.to_string(), after.to_string());
            ListViolation {
                remedy,
                ..new_change_violation(task, "reviewCount", before, after, why)
            }
        });
    }
    match (new, task.status) {
        (ReviewStatus::Approved, TaskStatus::Done) => {}
        (ReviewStatus::Approved, _) => {
            let why = "the review approves, and an approved story passes";
            violations.push(new_value_violation(task, "passes", "false", why, "Set it to true"));
        }
        (ReviewStatus::None | ReviewStatus::NeedsReview | ReviewStatus::ChangesRequested, _) => {
            violations.extend(report_status_change(standing, task, "the review does not approve"));
        }
    }
    if new == ReviewStatus::ChangesRequested && task.review.feedback.trim().is_empty() {
        let why = "a review that requests changes says which";
        let remedy = "Write down exactly what to fix and where";
        violations.push(new_value_violation(task, "reviewFeedback", "empty", why, remedy));
    }
    violations
}

fn check_fix(standing: &TaskSnapshot, task: &Task) -> Vec<ListViolation> {
    let mut violations = Vec::new();
    let (old, new) = (standing.review.status, task.review.status);
    violations.extend(report_status_change(standing, task, NOT_BY_FIX));
    let is_back = (old, new) == (ReviewStatus::ChangesRequested, ReviewStatus::NeedsReview);
    if old != new && !is_back {
        violations.extend(report_review_change(standing, task, NOT_BY_FIX));
    }
    violations.extend(report_count_change(standing, task, "fix iterations leave the count alone"));
    if is_back && !task.review.feedback.is_empty() {
        let why = "a story that goes back to review has none";
        let shown = quote_text(&task.review.feedback);
        violations.push(new_value_violation(task, "reviewFeedback", &shown, why, "Set it to \"\""));
    }
    if !is_back {
        let why = "only reviews write feedback, and a fix clears it when the story goes back";
        violations.extend(report_feedback_change(standing, task, why));
    }
    violations
}

/// Returns what is wrong with a move in a run without reviews.
fn check_unreviewed(standing: &TaskSnapshot, task: &Task) -> Vec<ListViolation> {
    let mut violations = Vec::new();
    if !task.status.is_done() {
        violations.extend(report_status_change(standing, task, "only `passes` may be set"));
    } else if standing.review.status.is_open() && task.review == standing.review.close_open_review()
    {
        return violations;
    }
    let why = "there are no reviews in this run";
    violations.extend(report_review_change(standing, task, why));
    violations.extend(report_count_change(standing, task, why));
    violations.extend(report_feedback_change(standing, task, why));
    violations
}

const NOT_BY_IMPLEMENT: &str = "implement iterations cannot approve; only a review may";
const NOT_BY_FIX: &str = "fix iterations cannot approve; the story goes back to \"needs_review\"";

fn report_all_changes(standing: &TaskSnapshot, task: &Task, why: &str) -> Vec<ListViolation> {
    report_status_change(standing, task, why)
        .into_iter()
        .chain(report_review_change(standing, task, why))
        .chain(report_count_change(standing, task, why))
        .chain(report_feedback_change(standing, task, why))
        .collect()
}

fn report_status_change(standing: &TaskSnapshot, task: &Task, why: &str) -> Option<ListViolation> {
    let (old, new) = (standing.status, task.status);
    let passes = |status: TaskStatus| if status.is_done() { "true" } else { "false" }.to_owned();
    let is_about_passing = old.is_done() || new.is_done();
    has_new_status(old, new).then(|| {
        if is_about_passing {
            new_change_violation(task, "passes", passes(old), passes(new), why)
        } else {
            let why = "only ralph and users skip stories or give them up";
            new_change_violation(
                task,
                "status",
                quote_text(old.name()),
                quote_text(new.name()),
                why,
            )
        }
    })
}

fn report_review_change(standing: &TaskSnapshot, task: &Task, why: &str) -> Option<ListViolation> {
    let (old, new) = (standing.review.status, task.review.status);
    (old != new).then(|| {
        new_change_violation(task, "reviewStatus", format_status(old), format_status(new), why)
    })
}

fn report_count_change(standing: &TaskSnapshot, task: &Task, why: &str) -> Option<ListViolation> {
    let (old, new) = (standing.review.count, task.review.count);
    (old != new)
        .then(|| new_change_violation(task, "reviewCount", old.to_string(), new.to_string(), why))
}

fn report_feedback_change(
    standing: &TaskSnapshot,
    task: &Task,
    why: &str,
) -> Option<ListViolation> {
    let (old, new) = (&standing.review.feedback, &task.review.feedback);
    (old != new).then(|| {
        new_change_violation(task, "reviewFeedback", quote_text(old), quote_text(new), why)
    })
}

/// Returns the violation for a change that must be reverted.
fn new_change_violation(
    task: &Task,
    field: &str,
    old: String,
    new: String,
    why: &str,
) -> ListViolation {
    let remedy = format!("Set it back to {old}");
    ListViolation {
        task: Some(task.id.clone()),
        field: field.to_owned(),
        old: Some(old),
        new: Some(new),
        why: why.to_owned(),
        remedy,
    }
}

/// Returns the violation for an illegal value.
fn new_value_violation(
    task: &Task,
    field: &str,
    new: &str,
    why: &str,
    remedy: &str,
) -> ListViolation {
    ListViolation {
        task: Some(task.id.clone()),
        field: field.to_owned(),
        old: None,
        new: Some(new.to_owned()),
        why: why.to_owned(),
        remedy: remedy.to_owned(),
    }
}
