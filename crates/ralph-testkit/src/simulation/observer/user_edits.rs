//! Checks what happens to a user's edit of the task list while a run is stopped.

#![expect(clippy::wildcard_enum_match_arm, reason = "most events are about something else")]

use ralph_core::tasks::validation::validate_list;
use ralph_model::event::{Event, Recorded};
use ralph_model::task::{Task, TaskList, TaskStatus};

use super::{Invariant, Observer, WatchedIteration};
use crate::simulation::user_edits::EditedList;
use crate::simulation::world::SimulatedWorld;

impl Observer {
    /// Checks that a user's edit of the list is applied once the run resumes.
    pub(super) fn check_edits(&mut self, recorded: &Recorded, world: &mut SimulatedWorld) {
        match &recorded.event {
            Event::RunResumed { .. }
            | Event::TasksRead { .. }
            | Event::TasksWritten
            | Event::Warned { .. }
            | Event::ControlRequested { .. } => return,
            _ => {}
        }
        let (Some(edited), Some(now)) = (world.edited.take(), &self.list) else { return };
        let watched = self.watched.as_ref();
        // A follow-up asks for the form of the answer alone: the work was for the text as it was.
        let is_answered = watched.is_some_and(|it| it.answer.is_some());
        let mut expected = build_expected_list(&edited, watched, is_answered);
        // Committed work of an open iteration is in the file, and in the list when the iteration
        // ends.
        let settled = watched.filter(|it| it.committed).and_then(|it| it.task.as_ref());
        for task in expected.tasks.iter_mut().filter(|it| Some(&it.id) == settled) {
            task.clone_from(now.find_task(&task.id).unwrap_or(&task.clone()));
        }
        if now.tasks != expected.tasks && !world.list_failed {
            let differs = |(one, other): &(&Task, &Task)| one != other;
            let found = now.tasks.iter().zip(&expected.tasks).find(differs);
            let message = format!("a user's edit of the list was not applied: {found:?}");
            self.report_violation(Invariant::NothingLost, message);
        }
    }
}

/// Returns the expected list after a user's edit: the edited one, except for the task that is
/// being worked on, and unless it is invalid.
fn build_expected_list(
    EditedList { before, after }: &EditedList,
    watched: Option<&WatchedIteration>,
    is_answered: bool,
) -> TaskList {
    let current = watched.and_then(|watched| watched.task.as_ref());
    let mut expected = TaskList::clone(after);
    for task in &mut expected.tasks {
        let Some(old) = before.find_task(&task.id) else { continue };
        if current != Some(&task.id) {
            // No iteration works on it.
            if task.status == TaskStatus::InProgress {
                task.status = old.status;
            }
        } else if is_answered {
            *task = old.clone();
        } else {
            (task.status, task.attempts) = (old.status, old.attempts);
            (task.review, task.notes) = (old.review.clone(), old.notes.clone());
        }
    }
    let gone = current.filter(|id| expected.find_task(id).is_none());
    if let Some(at) = gone.and_then(|id| before.tasks.iter().position(|task| task.id == *id)) {
        expected.tasks.insert(at.min(expected.tasks.len()), before.tasks[at].clone());
    }
    let is_worse = validate_list(&expected).len() > validate_list(before).len();
    if is_worse { TaskList::clone(before) } else { expected }
}
