//! A task list that changed while a run was using it: which edits are taken over.
//!
//! The user may edit the list during a run, and so may an agent, and ralph cannot tell
//! them apart. So edits that a user would make are taken over, and edits that would help
//! an agent cheat are reverted: during a run, the status of tasks, reviews, and the text
//! of the current task belong to ralph. After a run has ended regularly, further edits
//! are the user's. Not here: finding the change.

use std::collections::{BTreeMap, BTreeSet};

use ralph_model::ids::TaskId;
use ralph_model::parallel_state::ParallelState;
use ralph_model::task::{Task, TaskChange, TaskFields, TaskList, TaskStatus};

use crate::tasks::validation::validate_list;

/// The result of merging an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedList {
    pub list: TaskList,
    /// Descriptions of edits that were taken over.
    pub taken: Vec<String>,
    /// Descriptions of edits that were reverted, and why.
    pub reverted: Vec<String>,
}

impl MergedList {
    /// Returns the known list, if it was not edited.
    pub fn from_known(known: &TaskList) -> Self {
        Self { list: known.clone(), taken: Vec::new(), reverted: Vec::new() }
    }
}

/// Merges the list in the file with the known list.
pub fn merge_edits(known: &TaskList, found: &TaskList, current: Option<&TaskId>) -> MergedList {
    reject_if_invalid(known, found, merge_lists(known, found, current))
}

/// Merges the list in the file with the known list of a parallel run. Its agents have lists of
/// their own, so the user may also remove and skip tasks that workers do; the text of those stays.
pub fn merge_edits_during_jobs(
    known: &TaskList,
    found: &TaskList,
    merging: Option<&TaskId>,
    parallel: &ParallelState,
) -> MergedList {
    let (mut ours, mut theirs, mut taken) = (known.clone(), found.clone(), Vec::new());
    let mut reverted = Vec::new();
    ours.tasks.retain_mut(|task| {
        let is_begun = task.status == TaskStatus::InProgress;
        if merging == Some(&task.id) || !(is_begun || task.status == TaskStatus::Pending) {
            return true;
        }
        match theirs.tasks.iter_mut().find(|it| it.id == task.id) {
            None if is_begun => {
                taken.push(format!("task `{}` was removed", task.id));
                false
            }
            None => true,
            Some(edited) => {
                if edited.status == TaskStatus::Skipped {
                    taken.push(format!("task `{}` is skipped now", task.id));
                    task.status = TaskStatus::Skipped;
                }
                if parallel.is_taken(&task.id) {
                    let mut no_edits = Vec::new();
                    *edited =
                        merge_task(task, edited, Some(&task.id), &mut no_edits, &mut reverted);
                }
                true
            }
        }
    });
    let mut merged = merge_lists(&ours, &theirs, merging);
    merged.taken.splice(0..0, taken);
    merged.reverted.splice(0..0, reverted);
    reject_if_invalid(known, found, merged)
}

fn merge_lists(known: &TaskList, found: &TaskList, current: Option<&TaskId>) -> MergedList {
    let mut taken = Vec::new();
    let mut reverted = Vec::new();
    let mut tasks: Vec<Task> = Vec::with_capacity(found.tasks.len());
    for task in &found.tasks {
        if let Some(ours) = known.find_task(&task.id) {
            tasks.push(merge_task(ours, task, current, &mut taken, &mut reverted));
        } else {
            taken.push(format!("task `{}` is new", task.id));
            tasks.push(reset_new_task(task, &mut reverted));
        }
    }
    for (at, ours) in known.tasks.iter().enumerate() {
        if found.find_task(&ours.id).is_some() {
            continue;
        }
        let is_current = current == Some(&ours.id);
        if ours.status == TaskStatus::Pending && !is_current {
            taken.push(format!("task `{}` was removed", ours.id));
        } else {
            reverted.push(format!(
                "task `{}` was removed, but it is {}",
                ours.id,
                if is_current { "being worked on" } else { ours.status.name() }
            ));
            tasks.insert(at.min(tasks.len()), ours.clone());
        }
    }
    MergedList { list: TaskList { tasks, ..known.clone() }, taken, reverted }
}

/// How far the work is on the task at which a run stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenTask<'a> {
    /// Its agent is about to be called, or called again.
    ToAsk(&'a TaskId),
    /// Its agent has answered; its work is being checked, or the form of its answer is asked for.
    Answered(&'a TaskId),
}

/// Merges the user's edits from while the run was stopped. The user may set the status of
/// tasks, except of the open one, whose work is not over.
pub fn merge_user_edits(
    known: &TaskList,
    found: &TaskList,
    open: Option<OpenTask<'_>>,
) -> MergedList {
    let Some(OpenTask::ToAsk(current) | OpenTask::Answered(current)) = open else {
        return merge_user_list(known, found, None);
    };
    let mut found = found.clone();
    let mut reverted = Vec::new();
    let ours = known.find_task(current);
    match (ours, found.tasks.iter_mut().find(|task| task.id == *current)) {
        (Some(ours), Some(theirs)) => {
            let mut taken = Vec::new();
            // Edits before the agent call are part of its prompt.
            let worked_on = matches!(open, Some(OpenTask::Answered(_))).then_some(current);
            *theirs = merge_task(ours, theirs, worked_on, &mut taken, &mut reverted);
        }
        (Some(ours), None) => {
            reverted.push(format!("task `{current}` was removed, but it is being worked on"));
            let at = known.tasks.iter().position(|task| task.id == *current).unwrap_or(0);
            found.tasks.insert(at.min(found.tasks.len()), ours.clone());
        }
        (None, _) => {}
    }
    let mut merged = merge_user_list(known, &found, Some(current));
    reverted.append(&mut merged.reverted);
    MergedList { reverted, ..merged }
}

fn merge_user_list(known: &TaskList, found: &TaskList, current: Option<&TaskId>) -> MergedList {
    let mut merged = MergedList { list: known.clone(), taken: Vec::new(), reverted: Vec::new() };
    merged.list.tasks.clear();
    for task in &found.tasks {
        let Some(ours) = known.find_task(&task.id) else {
            merged.taken.push(format!("task `{}` is new", task.id));
            merged.list.tasks.push(reset_new_task(task, &mut merged.reverted));
            continue;
        };
        // No agent is working on it.
        let is_begun = task.status == TaskStatus::InProgress && current != Some(&task.id);
        let status = if is_begun { ours.status } else { task.status };
        let theirs = Task { status, ..task.clone() };
        if theirs.status != ours.status {
            merged.taken.push(format!("task `{}` is {} now", task.id, theirs.status));
        }
        if (Task { status: ours.status, ..theirs.clone() }) != *ours {
            merged.taken.push(format!("the text of task `{}` was changed", task.id));
        }
        merged.list.tasks.push(theirs);
    }
    let gone = known.tasks.iter().filter(|ours| found.find_task(&ours.id).is_none());
    merged.taken.extend(gone.map(|ours| format!("task `{}` was removed", ours.id)));
    reject_if_invalid(known, found, merged)
}

/// Accepts a merged list only if it has no more faults than the known one.
fn reject_if_invalid(known: &TaskList, found: &TaskList, mut merged: MergedList) -> MergedList {
    if known.list_terms() != found.list_terms() {
        merged.reverted.push(
            "branch, limits and checks of the list stay as they were when the run began".to_owned(),
        );
    }
    let problems = validate_list(&merged.list);
    if problems.len() > validate_list(known).len() {
        let faults = problems.iter().map(|it| format!("task `{}` {}", it.id, it.fault));
        return MergedList { reverted: faults.collect(), ..MergedList::from_known(known) };
    }
    merged
}

/// Returns the changes that turn one list into another.
pub fn diff_lists(from: &TaskList, to: &TaskList) -> Vec<TaskChange> {
    let pairs = || from.tasks.iter().zip(&to.tasks);
    // The usual case, many times in a run: no task was added, removed or moved.
    if from.tasks.len() == to.tasks.len() && pairs().all(|(old, new)| old.id == new.id) {
        let mut changes = Vec::new();
        for (old, new) in pairs().filter(|(old, new)| old != new) {
            diff_tasks(old, new, &mut changes);
        }
        return changes;
    }
    let stay: BTreeSet<&TaskId> = to.tasks.iter().map(|task| &task.id).collect();
    let gone = from.tasks.iter().filter(|task| !stay.contains(&task.id));
    let mut changes: Vec<TaskChange> =
        gone.map(|task| TaskChange::Remove { task: task.id.clone() }).collect();
    let places: BTreeMap<&TaskId, &Task> =
        from.tasks.iter().rev().map(|task| (&task.id, task)).collect();
    let mut after: Option<&TaskId> = None;
    for task in &to.tasks {
        match places.get(&task.id) {
            Some(old) => diff_tasks(old, task, &mut changes),
            None => changes
                .push(TaskChange::Insert { task: Box::new(task.clone()), after: after.cloned() }),
        }
        after = Some(&task.id);
    }
    changes
}

/// Returns the changes that turn `from` into `to` with the changes of `then` applied,
/// where only these tasks and those of `then` can differ. Returns nothing if a task is
/// added, removed or moved. Avoids comparing a long list as a whole.
pub fn diff_listed_tasks(
    from: &TaskList,
    to: &TaskList,
    then: &[TaskChange],
    ids: &BTreeSet<TaskId>,
) -> Option<Vec<TaskChange>> {
    let adds_or_removes = |it: &TaskChange| match it {
        TaskChange::Add { .. } | TaskChange::Insert { .. } | TaskChange::Remove { .. } => true,
        TaskChange::SetStatus { .. }
        | TaskChange::SetAttempts { .. }
        | TaskChange::SetReview { .. }
        | TaskChange::SetNotes { .. }
        | TaskChange::Modify { .. } => false,
    };
    if from.tasks.len() != to.tasks.len() || then.iter().any(adds_or_removes) {
        return None;
    }
    let ids: BTreeSet<&TaskId> = ids.iter().chain(then.iter().map(TaskChange::task_id)).collect();
    let places: Option<BTreeSet<usize>> =
        ids.into_iter().map(|id| from.find_index(id).ok()).collect();
    let mut changes = Vec::new();
    for at in places? {
        let old = &from.tasks[at];
        let new = to.tasks[at].clone();
        if new.id != old.id {
            return None;
        }
        let mut alone = TaskList { tasks: vec![new], ..TaskList::default() };
        for change in then.iter().filter(|change| *change.task_id() == old.id) {
            // A change that does not fit was refused when it was weighed.
            let _ = alone.apply_change(change);
        }
        diff_tasks(old, &alone.tasks[0], &mut changes);
    }
    Some(changes)
}

fn pick_changed<T: PartialEq + Clone>(old: &T, new: &T) -> Option<T> {
    (old != new).then(|| new.clone())
}

fn diff_tasks(old: &Task, new: &Task, changes: &mut Vec<TaskChange>) {
    let task = || new.id.clone();
    if old.status != new.status {
        changes.push(TaskChange::SetStatus { task: task(), status: new.status });
    }
    if old.attempts != new.attempts {
        changes.push(TaskChange::SetAttempts { task: task(), attempts: new.attempts });
    }
    if old.review != new.review {
        changes.push(TaskChange::SetReview { task: task(), review: new.review.clone() });
    }
    if old.notes != new.notes {
        changes.push(TaskChange::SetNotes { task: task(), notes: new.notes.clone() });
    }
    let fields = TaskFields {
        title: pick_changed(&old.title, &new.title),
        description: pick_changed(&old.description, &new.description),
        acceptance_criteria: pick_changed(&old.acceptance_criteria, &new.acceptance_criteria),
        order: pick_changed(&old.order, &new.order).flatten(),
        depends_on: pick_changed(&old.depends_on, &new.depends_on),
        touches: pick_changed(&old.touches, &new.touches),
        skills: pick_changed(&old.skills, &new.skills),
        libraries: pick_changed(&old.libraries, &new.libraries),
        needs_docs: pick_changed(&old.needs_docs, &new.needs_docs),
        max_turns: pick_changed(&old.max_turns, &new.max_turns).flatten(),
        max_retries: pick_changed(&old.max_retries, &new.max_retries).flatten(),
    };
    if fields != TaskFields::default() {
        changes.push(TaskChange::Modify { task: task(), fields: Box::new(fields) });
    }
}

fn merge_task(
    ours: &Task,
    found: &Task,
    current: Option<&TaskId>,
    taken: &mut Vec<String>,
    reverted: &mut Vec<String>,
) -> Task {
    let id = &ours.id;
    if (found.status, &found.review, found.attempts, &found.notes)
        != (ours.status, &ours.review, ours.attempts, &ours.notes)
    {
        reverted
            .push(format!("the status and notes of task `{id}` are kept by ralph during a run"));
    }
    let with_found_text = Task {
        status: ours.status,
        review: ours.review.clone(),
        attempts: ours.attempts,
        notes: ours.notes.clone(),
        ..found.clone()
    };
    if with_found_text == *ours {
        return ours.clone();
    }
    if current == Some(id) || ours.status == TaskStatus::Done {
        reverted.push(format!(
            "the text of task `{id}` was changed, but it is {}",
            if current == Some(id) { "being worked on" } else { "done" }
        ));
        return ours.clone();
    }
    taken.push(format!("the text of task `{id}` was changed"));
    with_found_text
}

fn reset_new_task(found: &Task, reverted: &mut Vec<String>) -> Task {
    let fresh = Task::new(found.id.0.clone(), found.title.clone());
    let may_stay = matches!(found.status, TaskStatus::Pending | TaskStatus::Skipped);
    if !may_stay || found.review != fresh.review {
        reverted.push(format!("task `{}` is new and cannot be {} yet", found.id, found.status));
        return Task {
            status: TaskStatus::Pending,
            review: fresh.review,
            attempts: 0,
            ..found.clone()
        };
    }
    found.clone()
}

#[cfg(test)]
mod tests {
    use ralph_model::review::ReviewStatus;

    use super::*;

    fn task(id: &str, status: TaskStatus) -> Task {
        Task {
            description: "d".into(),
            acceptance_criteria: vec!["c".into()],
            status,
            ..Task::new(id, "t")
        }
    }

    fn known() -> TaskList {
        let tasks = vec![
            task("done", TaskStatus::Done),
            task("now", TaskStatus::InProgress),
            task("later", TaskStatus::Pending),
        ];
        TaskList { tasks, ..TaskList::default() }
    }

    fn edit(change: impl FnOnce(&mut Vec<Task>)) -> MergedList {
        let mut found = known();
        change(&mut found.tasks);
        merge_edits(&known(), &found, Some(&TaskId("now".into())))
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut Vec<Task>), taken: usize, reverted: usize) -> TaskList {
        let merged = edit(change);
        assert_eq!((merged.taken.len(), merged.reverted.len()), (taken, reverted), "{merged:?}");
        merged.list
    }

    #[test]
    fn edits_that_a_user_would_make_are_taken_over() {
        let list = check(|tasks| tasks.push(task("new", TaskStatus::Pending)), 1, 0);
        assert_eq!(list.tasks.len(), 4);
        let list = check(|tasks| tasks[2].title = "better".into(), 1, 0);
        assert_eq!(list.tasks[2].title, "better");
        let list = check(|tasks| drop(tasks.remove(2)), 1, 0);
        assert_eq!(list.tasks.len(), 2);
        assert_eq!(check(|_| (), 0, 0), known());
    }

    #[test]
    fn edits_that_would_help_a_cheat_are_reverted() {
        assert_eq!(check(|tasks| tasks[1].status = TaskStatus::Done, 0, 1), known());
        assert_eq!(check(|tasks| tasks[2].status = TaskStatus::Skipped, 0, 1), known());
        assert_eq!(check(|tasks| tasks[2].review.status = ReviewStatus::Approved, 0, 1), known());
        assert_eq!(
            check(|tasks| tasks[1].acceptance_criteria = vec!["less".into()], 0, 1),
            known()
        );
        assert_eq!(check(|tasks| tasks[0].description = "other".into(), 0, 1), known());
        assert_eq!(check(|tasks| drop(tasks.remove(1)), 0, 1), known());
        assert_eq!(check(|tasks| drop(tasks.remove(0)), 0, 1), known());
        let list = check(|tasks| tasks.push(task("new", TaskStatus::Done)), 1, 1);
        assert_eq!(list.tasks[3].status, TaskStatus::Pending);
    }

    #[test]
    fn in_a_parallel_run_the_user_may_remove_and_skip_begun_tasks() {
        let policy = ralph_model::recipe::ParallelPolicy::new(2);
        let parallel = ParallelState::new(&policy);
        let check = |edit: fn(&mut Vec<Task>), merging, counts| {
            let mut found = known();
            edit(&mut found.tasks);
            let merged = merge_edits_during_jobs(&known(), &found, merging, &parallel);
            assert_eq!((merged.taken.len(), merged.reverted.len()), counts, "{merged:?}");
            merged.list
        };
        let now = TaskId("now".into());
        assert_eq!(check(|tasks| drop(tasks.remove(1)), None, (1, 0)).tasks.len(), 2);
        assert_eq!(check(|tasks| drop(tasks.remove(1)), Some(&now), (0, 1)), known());
        let skip = |tasks: &mut Vec<Task>| tasks[1].status = TaskStatus::Skipped;
        assert_eq!(check(skip, None, (1, 0)).tasks[1].status, TaskStatus::Skipped);
        assert_eq!(check(skip, Some(&now), (0, 1)), known());
        assert_eq!(check(|tasks| tasks[1].status = TaskStatus::Done, None, (0, 1)), known());
        assert_eq!(check(|tasks| drop(tasks.remove(0)), None, (0, 1)), known());
        // Another task still needs it.
        let mut needed = known();
        needed.tasks[2].depends_on = vec![now.clone()];
        let mut found = needed.clone();
        found.tasks.remove(1);
        let merged = merge_edits_during_jobs(&needed, &found, None, &parallel);
        assert_eq!((merged.list, merged.reverted.len()), (needed, 1));
    }

    #[track_caller]
    fn check_person(
        open: Option<OpenTask<'_>>,
        change: impl FnOnce(&mut Vec<Task>),
        counts: (usize, usize),
    ) -> TaskList {
        let mut found = known();
        change(&mut found.tasks);
        let merged = merge_user_edits(&known(), &found, open);
        assert_eq!((merged.taken.len(), merged.reverted.len()), counts, "{merged:?}");
        merged.list
    }

    #[test]
    fn the_user_may_set_the_status_of_tasks() {
        let now = TaskId("now".into());
        for open in [None, Some(OpenTask::ToAsk(&now)), Some(OpenTask::Answered(&now))] {
            let skip = |tasks: &mut Vec<Task>| tasks[2].status = TaskStatus::Skipped;
            assert_eq!(check_person(open, skip, (1, 0)).tasks[2].status, TaskStatus::Skipped);
            let again = |tasks: &mut Vec<Task>| tasks[0].status = TaskStatus::Pending;
            assert_eq!(check_person(open, again, (1, 0)).tasks[0].status, TaskStatus::Pending);
            let begun = |tasks: &mut Vec<Task>| tasks[2].status = TaskStatus::InProgress;
            assert_eq!(check_person(open, begun, (0, 0)), known());
            let gone = |tasks: &mut Vec<Task>| drop(tasks.remove(0));
            assert_eq!(check_person(open, gone, (1, 0)).tasks.len(), 2);
            let words = |tasks: &mut Vec<Task>| tasks[0].title = "other".into();
            assert_eq!(check_person(open, words, (1, 0)).tasks[0].title, "other");
            let wrong = |tasks: &mut Vec<Task>| tasks[2].depends_on = vec![TaskId("no".into())];
            assert_eq!(check_person(open, wrong, (0, 1)), known());
            assert_eq!(check_person(open, |_| (), (0, 0)), known());
        }
    }

    #[test]
    fn the_user_may_edit_the_current_task_until_its_agent_has_answered() {
        let now = TaskId("now".into());
        let words = |tasks: &mut Vec<Task>| tasks[1].description = "better".into();
        let list = check_person(Some(OpenTask::ToAsk(&now)), words, (1, 0));
        assert_eq!(
            (list.tasks[1].description.as_str(), list.tasks[1].status.name()),
            ("better", "in_progress")
        );
        assert_eq!(check_person(Some(OpenTask::Answered(&now)), words, (0, 1)), known());
        for open in [OpenTask::ToAsk(&now), OpenTask::Answered(&now)] {
            let done = |tasks: &mut Vec<Task>| tasks[1].status = TaskStatus::Done;
            assert_eq!(check_person(Some(open), done, (0, 1)), known());
            assert_eq!(check_person(Some(open), |tasks| drop(tasks.remove(1)), (0, 1)), known());
        }
    }

    #[test]
    fn checks_of_a_list_cannot_change_during_a_run() {
        let mut found = known();
        found.verify_commands = vec!["true".into()];
        let merged = merge_edits(&known(), &found, None);
        assert_eq!(merged.list, known());
        assert_eq!(merged.reverted.len(), 1, "{merged:?}");
    }

    #[test]
    fn changes_turn_one_list_into_another() {
        let mut to = known();
        to.tasks[0].notes = "n".into();
        to.tasks[1].review.count = 2;
        to.tasks[2].title = "other".into();
        to.tasks.insert(1, task("new", TaskStatus::Pending));
        to.tasks.remove(3);
        to.tasks.insert(0, task("first", TaskStatus::Skipped));
        to.tasks.push(task("last", TaskStatus::Pending));
        let mut from = known();
        from.tasks[0].order = Some(4);
        to.tasks[1].order = Some(4);
        for change in diff_lists(&from.clone(), &to) {
            from.apply_change(&change).expect("possible");
        }
        assert_eq!(from, to);
        assert_eq!(diff_lists(&to, &to), []);
    }

    #[test]
    fn changes_of_some_tasks_equal_those_of_the_whole_list() {
        let ids = |ids: &[&str]| ids.iter().map(|id| TaskId((*id).into())).collect();
        let set = |id: &str, status| TaskChange::SetStatus { task: TaskId(id.into()), status };
        let mut to = known();
        to.tasks[1].notes = "n".into();
        to.tasks[2].status = TaskStatus::Skipped;
        let then = [set("done", TaskStatus::Failed), set("later", TaskStatus::Pending)];
        let mut outcome = to.clone();
        for change in &then {
            outcome.apply_change(change).expect("fits");
        }
        let whole = diff_lists(&known(), &outcome);
        assert_eq!(whole.len(), 2);
        assert_eq!(diff_listed_tasks(&known(), &to, &then, &ids(&["now", "later"])), Some(whole));
        let whole = diff_lists(&known(), &to);
        assert_eq!(diff_listed_tasks(&known(), &to, &[], &ids(&["later", "now"])), Some(whole));
        assert_eq!(diff_listed_tasks(&known(), &to, &[], &ids(&[])), Some(Vec::new()));
        // Added, removed or moved tasks need the whole list.
        assert_eq!(diff_listed_tasks(&known(), &to, &[], &ids(&["unknown"])), None);
        let gone = TaskChange::Remove { task: TaskId("later".into()) };
        assert_eq!(diff_listed_tasks(&known(), &to, &[gone], &ids(&[])), None);
        to.tasks.swap(0, 1);
        assert_eq!(diff_listed_tasks(&known(), &to, &[], &ids(&["now"])), None);
        to.tasks.pop();
        assert_eq!(diff_listed_tasks(&known(), &to, &[], &ids(&[])), None);
    }

    #[test]
    fn an_edit_that_breaks_the_list_is_reverted_completely() {
        let merged = edit(|tasks| tasks[2].depends_on = vec![TaskId("later".into())]);
        assert_eq!(merged.list, known());
        assert!(merged.reverted[0].contains("waits for itself"), "{merged:?}");
    }
}
