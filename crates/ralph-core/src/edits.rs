//! A task list that changed while a run was using it: what of the change is taken over.
//!
//! A person may edit the list during a run, and so may an agent, and nobody can tell which of
//! the two it was. So what a person would want to do is taken over, and what would let an agent
//! get away with something is put back: how far tasks are, what reviews said, and the words of
//! the task being worked on are ralph's for the time of the run. When it has ended in order, the
//! next edits are a person's. Not here: finding the change.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::TaskId;
use crate::task::{Task, TaskChange, TaskFields, TaskList, TaskStatus};

/// What an edit comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// The list to go on with.
    pub list: TaskList,
    /// What was taken over.
    pub taken: Vec<String>,
    /// What was put back, and why.
    pub put_back: Vec<String>,
}

impl Merged {
    /// Returns the list that ralph knows, where nobody edited it.
    pub fn unchanged(known: &TaskList) -> Self {
        Self { list: known.clone(), taken: Vec::new(), put_back: Vec::new() }
    }
}

/// Merges the list that is in the file with the one ralph knows.
pub fn merge(known: &TaskList, found: &TaskList, current: Option<&TaskId>) -> Merged {
    let mut taken = Vec::new();
    let mut put_back = Vec::new();
    let mut tasks: Vec<Task> = Vec::with_capacity(found.tasks.len());
    for task in &found.tasks {
        if let Some(ours) = known.task(&task.id) {
            tasks.push(edited(ours, task, current, &mut taken, &mut put_back));
        } else {
            taken.push(format!("task `{}` is new", task.id));
            tasks.push(begun_anew(task, &mut put_back));
        }
    }
    for (at, ours) in known.tasks.iter().enumerate() {
        if found.task(&ours.id).is_some() {
            continue;
        }
        let is_current = current == Some(&ours.id);
        if ours.status == TaskStatus::Pending && !is_current {
            taken.push(format!("task `{}` was removed", ours.id));
        } else {
            put_back.push(format!(
                "task `{}` was removed, but it is {}",
                ours.id,
                if is_current { "being worked on" } else { ours.status.name() }
            ));
            tasks.insert(at.min(tasks.len()), ours.clone());
        }
    }
    checked(known, found, Merged { list: TaskList { tasks, ..known.clone() }, taken, put_back })
}

/// How far the work on the task is that a run was cut off at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open<'a> {
    /// Its agent is about to be asked, or asked again.
    ToAsk(&'a TaskId),
    /// Its agent has answered; what it did is being checked.
    Answered(&'a TaskId),
}

/// Merges what a person made of the list, while nobody of the run was there. How far tasks are is
/// theirs to say, but for the one that is open: its work is not over.
pub fn of_person(known: &TaskList, found: &TaskList, open: Option<Open<'_>>) -> Merged {
    let Some(Open::ToAsk(current) | Open::Answered(current)) = open else {
        return of_person_between(known, found, None);
    };
    let mut found = found.clone();
    let mut put_back = Vec::new();
    let ours = known.task(current);
    match (ours, found.tasks.iter_mut().find(|task| task.id == *current)) {
        (Some(ours), Some(theirs)) => {
            let mut taken = Vec::new();
            // Words that come before the agent is asked are what it is asked.
            let worked_on = matches!(open, Some(Open::Answered(_))).then_some(current);
            *theirs = edited(ours, theirs, worked_on, &mut taken, &mut put_back);
        }
        (Some(ours), None) => {
            put_back.push(format!("task `{current}` was removed, but it is being worked on"));
            let at = known.tasks.iter().position(|task| task.id == *current).unwrap_or(0);
            found.tasks.insert(at.min(found.tasks.len()), ours.clone());
        }
        (None, _) => {}
    }
    let mut merged = of_person_between(known, &found, Some(current));
    put_back.append(&mut merged.put_back);
    Merged { put_back, ..merged }
}

fn of_person_between(known: &TaskList, found: &TaskList, current: Option<&TaskId>) -> Merged {
    let mut merged = Merged { list: known.clone(), taken: Vec::new(), put_back: Vec::new() };
    merged.list.tasks.clear();
    for task in &found.tasks {
        let Some(ours) = known.task(&task.id) else {
            merged.taken.push(format!("task `{}` is new", task.id));
            merged.list.tasks.push(begun_anew(task, &mut merged.put_back));
            continue;
        };
        // Nobody is at work on it.
        let is_begun = task.status == TaskStatus::InProgress && current != Some(&task.id);
        let status = if is_begun { ours.status } else { task.status };
        let theirs = Task { status, ..task.clone() };
        if theirs.status != ours.status {
            merged.taken.push(format!("task `{}` is {} now", task.id, theirs.status));
        }
        if (Task { status: ours.status, ..theirs.clone() }) != *ours {
            merged.taken.push(format!("what task `{}` says was changed", task.id));
        }
        merged.list.tasks.push(theirs);
    }
    let gone = known.tasks.iter().filter(|ours| found.task(&ours.id).is_none());
    merged.taken.extend(gone.map(|ours| format!("task `{}` was removed", ours.id)));
    checked(known, found, merged)
}

/// Takes a merged list only if it is no worse than the one that ralph knows.
fn checked(known: &TaskList, found: &TaskList, mut merged: Merged) -> Merged {
    if known.terms() != found.terms() {
        merged.put_back.push(
            "branch, limits and checks of the list stay as they were when the run began".to_owned(),
        );
    }
    let problems = merged.list.validate();
    if problems.len() > known.validate().len() {
        let said = problems.iter().map(|it| format!("task `{}` {}", it.id, it.fault));
        return Merged { put_back: said.collect(), ..Merged::unchanged(known) };
    }
    merged
}

/// Returns the changes that make one list of another.
pub fn changes(from: &TaskList, to: &TaskList) -> Vec<TaskChange> {
    let pairs = || from.tasks.iter().zip(&to.tasks);
    // The usual case, many times in a run: nothing came, went or moved.
    if from.tasks.len() == to.tasks.len() && pairs().all(|(old, new)| old.id == new.id) {
        let mut changes = Vec::new();
        for (old, new) in pairs().filter(|(old, new)| old != new) {
            differences(old, new, &mut changes);
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
            Some(old) => differences(old, task, &mut changes),
            None => changes
                .push(TaskChange::Insert { task: Box::new(task.clone()), after: after.cloned() }),
        }
        after = Some(&task.id);
    }
    changes
}

/// Returns the changes that make one list of what further changes will make of another, where no
/// other tasks than these and those of the changes can differ. Nothing where a task comes, goes or
/// moves. A long list is not compared as a whole.
pub fn changes_of(
    from: &TaskList,
    to: &TaskList,
    then: &[TaskChange],
    ids: &BTreeSet<TaskId>,
) -> Option<Vec<TaskChange>> {
    let comes_or_goes = |it: &TaskChange| match it {
        TaskChange::Add { .. } | TaskChange::Insert { .. } | TaskChange::Remove { .. } => true,
        TaskChange::SetStatus { .. }
        | TaskChange::SetAttempts { .. }
        | TaskChange::SetReview { .. }
        | TaskChange::SetNotes { .. }
        | TaskChange::Modify { .. } => false,
    };
    if from.tasks.len() != to.tasks.len() || then.iter().any(comes_or_goes) {
        return None;
    }
    let ids: BTreeSet<&TaskId> = ids.iter().chain(then.iter().map(TaskChange::task)).collect();
    let places: Option<BTreeSet<usize>> = ids.into_iter().map(|id| from.place(id).ok()).collect();
    let mut changes = Vec::new();
    for at in places? {
        let old = &from.tasks[at];
        let new = to.tasks[at].clone();
        if new.id != old.id {
            return None;
        }
        let mut alone = TaskList { tasks: vec![new], ..TaskList::default() };
        for change in then.iter().filter(|change| *change.task() == old.id) {
            // A change that does not fit was refused when it was weighed.
            let _ = alone.apply(change);
        }
        differences(old, &alone.tasks[0], &mut changes);
    }
    Some(changes)
}

fn differing<T: PartialEq + Clone>(old: &T, new: &T) -> Option<T> {
    (old != new).then(|| new.clone())
}

fn differences(old: &Task, new: &Task, changes: &mut Vec<TaskChange>) {
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
        title: differing(&old.title, &new.title),
        description: differing(&old.description, &new.description),
        acceptance_criteria: differing(&old.acceptance_criteria, &new.acceptance_criteria),
        order: differing(&old.order, &new.order).flatten(),
        depends_on: differing(&old.depends_on, &new.depends_on),
        skills: differing(&old.skills, &new.skills),
        libraries: differing(&old.libraries, &new.libraries),
        needs_docs: differing(&old.needs_docs, &new.needs_docs),
        max_turns: differing(&old.max_turns, &new.max_turns).flatten(),
        max_retries: differing(&old.max_retries, &new.max_retries).flatten(),
    };
    if fields != TaskFields::default() {
        changes.push(TaskChange::Modify { task: task(), fields: Box::new(fields) });
    }
}

fn edited(
    ours: &Task,
    found: &Task,
    current: Option<&TaskId>,
    taken: &mut Vec<String>,
    put_back: &mut Vec<String>,
) -> Task {
    let id = &ours.id;
    if (found.status, &found.review, found.attempts, &found.notes)
        != (ours.status, &ours.review, ours.attempts, &ours.notes)
    {
        put_back.push(format!(
            "how far task `{id}` is, and what is noted of it, is kept by ralph during a run"
        ));
    }
    let words_of_found = Task {
        status: ours.status,
        review: ours.review.clone(),
        attempts: ours.attempts,
        notes: ours.notes.clone(),
        ..found.clone()
    };
    if words_of_found == *ours {
        return ours.clone();
    }
    if current == Some(id) || ours.status == TaskStatus::Done {
        put_back.push(format!(
            "what task `{id}` says was changed, but it is {}",
            if current == Some(id) { "being worked on" } else { "done" }
        ));
        return ours.clone();
    }
    taken.push(format!("what task `{id}` says was changed"));
    words_of_found
}

fn begun_anew(found: &Task, put_back: &mut Vec<String>) -> Task {
    let fresh = Task::new(found.id.0.clone(), found.title.clone());
    let may_stay = matches!(found.status, TaskStatus::Pending | TaskStatus::Skipped);
    if !may_stay || found.review != fresh.review {
        put_back.push(format!("task `{}` is new and cannot be {} yet", found.id, found.status));
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
    use super::*;
    use crate::review::ReviewStatus;

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

    fn edit(change: impl FnOnce(&mut Vec<Task>)) -> Merged {
        let mut found = known();
        change(&mut found.tasks);
        merge(&known(), &found, Some(&TaskId("now".into())))
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut Vec<Task>), taken: usize, put_back: usize) -> TaskList {
        let merged = edit(change);
        assert_eq!((merged.taken.len(), merged.put_back.len()), (taken, put_back), "{merged:?}");
        merged.list
    }

    #[test]
    fn what_a_person_would_do_is_taken_over() {
        let list = check(|tasks| tasks.push(task("new", TaskStatus::Pending)), 1, 0);
        assert_eq!(list.tasks.len(), 4);
        let list = check(|tasks| tasks[2].title = "better".into(), 1, 0);
        assert_eq!(list.tasks[2].title, "better");
        let list = check(|tasks| drop(tasks.remove(2)), 1, 0);
        assert_eq!(list.tasks.len(), 2);
        assert_eq!(check(|_| (), 0, 0), known());
    }

    #[test]
    fn what_would_help_a_cheat_is_put_back() {
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

    #[track_caller]
    fn check_person(
        open: Option<Open<'_>>,
        change: impl FnOnce(&mut Vec<Task>),
        said: (usize, usize),
    ) -> TaskList {
        let mut found = known();
        change(&mut found.tasks);
        let merged = of_person(&known(), &found, open);
        assert_eq!((merged.taken.len(), merged.put_back.len()), said, "{merged:?}");
        merged.list
    }

    #[test]
    fn a_person_says_how_far_tasks_are() {
        let now = TaskId("now".into());
        for open in [None, Some(Open::ToAsk(&now)), Some(Open::Answered(&now))] {
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
    fn a_person_says_what_an_agent_is_asked_until_it_has_answered() {
        let now = TaskId("now".into());
        let words = |tasks: &mut Vec<Task>| tasks[1].description = "better".into();
        let list = check_person(Some(Open::ToAsk(&now)), words, (1, 0));
        assert_eq!(
            (list.tasks[1].description.as_str(), list.tasks[1].status.name()),
            ("better", "in_progress")
        );
        assert_eq!(check_person(Some(Open::Answered(&now)), words, (0, 1)), known());
        for open in [Open::ToAsk(&now), Open::Answered(&now)] {
            let done = |tasks: &mut Vec<Task>| tasks[1].status = TaskStatus::Done;
            assert_eq!(check_person(Some(open), done, (0, 1)), known());
            assert_eq!(check_person(Some(open), |tasks| drop(tasks.remove(1)), (0, 1)), known());
        }
    }

    #[test]
    fn the_checks_of_a_list_are_not_for_a_run_to_change() {
        let mut found = known();
        found.verify_commands = vec!["true".into()];
        let merged = merge(&known(), &found, None);
        assert_eq!(merged.list, known());
        assert_eq!(merged.put_back.len(), 1, "{merged:?}");
    }

    #[test]
    fn changes_make_one_list_of_another() {
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
        for change in changes(&from.clone(), &to) {
            from.apply(&change).expect("possible");
        }
        assert_eq!(from, to);
        assert_eq!(changes(&to, &to), []);
    }

    #[test]
    fn changes_of_some_tasks_are_those_of_the_whole_list() {
        let ids = |ids: &[&str]| ids.iter().map(|id| TaskId((*id).into())).collect();
        let set = |id: &str, status| TaskChange::SetStatus { task: TaskId(id.into()), status };
        let mut to = known();
        to.tasks[1].notes = "n".into();
        to.tasks[2].status = TaskStatus::Skipped;
        let then = [set("done", TaskStatus::Failed), set("later", TaskStatus::Pending)];
        let mut outcome = to.clone();
        for change in &then {
            outcome.apply(change).expect("fits");
        }
        let whole = changes(&known(), &outcome);
        assert_eq!(whole.len(), 2);
        assert_eq!(changes_of(&known(), &to, &then, &ids(&["now", "later"])), Some(whole));
        let whole = changes(&known(), &to);
        assert_eq!(changes_of(&known(), &to, &[], &ids(&["later", "now"])), Some(whole));
        assert_eq!(changes_of(&known(), &to, &[], &ids(&[])), Some(Vec::new()));
        // What comes, goes or moves is for the whole list to tell.
        assert_eq!(changes_of(&known(), &to, &[], &ids(&["nobody"])), None);
        let gone = TaskChange::Remove { task: TaskId("later".into()) };
        assert_eq!(changes_of(&known(), &to, &[gone], &ids(&[])), None);
        to.tasks.swap(0, 1);
        assert_eq!(changes_of(&known(), &to, &[], &ids(&["now"])), None);
        to.tasks.pop();
        assert_eq!(changes_of(&known(), &to, &[], &ids(&[])), None);
    }

    #[test]
    fn an_edit_that_breaks_the_list_is_put_back_whole() {
        let merged = edit(|tasks| tasks[2].depends_on = vec![TaskId("later".into())]);
        assert_eq!(merged.list, known());
        assert!(merged.put_back[0].contains("waits for itself"), "{merged:?}");
    }
}
