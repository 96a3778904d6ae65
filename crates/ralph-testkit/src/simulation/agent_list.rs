//! What agents do to the task list: hand in, review, and cheat.
//!
//! Not here: what they do to other files.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "an agent does what most do, unless its character says otherwise"
)]

use std::rc::Rc;

use ralph_model::ids::TaskId;
use ralph_model::review::{ReviewState, ReviewStatus};
use ralph_model::task::{Task, TaskList, TaskStatus};

use super::agent_action::{AgentScene, IntendedVerdict};
use super::plan::Character;
use super::recipe::{TASKS, format_task_id};
use super::repository::FileContent;

impl AgentScene<'_> {
    /// Writes a verdict into the task list, as a reviewer that owns it does.
    pub(super) fn review_in_list(&mut self, meant: IntendedVerdict) {
        let character = self.act.character;
        let cheats = matches!(character, Character::EditsList);
        let (salt, planned) = (self.act.salt, self.plan.tasks.len());
        let feedback_text =
            if character == Character::RejectsWithoutWords { "" } else { "Fix the edges." };
        self.edit_list(|task, list| {
            if let Some(task) = find_task(task, list) {
                let count = task.review.count + 1;
                match meant {
                    IntendedVerdict::Approval => {
                        task.status = TaskStatus::Done;
                        let feedback = String::new();
                        task.review =
                            ReviewState { status: ReviewStatus::Approved, count, feedback };
                    }
                    IntendedVerdict::Changes => {
                        let (status, feedback) =
                            (ReviewStatus::ChangesRequested, feedback_text.to_owned());
                        task.review = ReviewState { status, count, feedback };
                    }
                    IntendedVerdict::Nothing => {}
                }
            }
            if cheats {
                scramble_list(list, salt, planned);
            }
        });
    }

    /// Marks the task in the list, as an agent that owns it does.
    pub(super) fn hand_in(&mut self) {
        let is_reviewed = self.plan.review.is_some();
        let note = format!("did it in {}", self.request.iteration);
        self.edit_list(|id, list| {
            let Some(task) = find_task(id, list) else { return };
            if is_reviewed {
                task.review.status = ReviewStatus::NeedsReview;
                task.review.feedback.clear();
            } else {
                task.status = TaskStatus::Done;
            }
            task.notes = note;
        });
    }

    pub(super) fn cheat_in_list(&mut self) {
        use Character as C;
        let (salt, planned) = (self.act.salt, self.plan.tasks.len());
        match self.act.character {
            C::DeletesList if self.is_work_wanted() => drop(self.repository.work.remove(TASKS)),
            C::BreaksList if self.is_work_wanted() => self.write_file(TASKS, "{"),
            C::EditsList => self.edit_list(|_, list| scramble_list(list, salt, planned)),
            C::Approves => self.edit_list(|_, list| {
                for task in &mut list.tasks {
                    task.status = TaskStatus::Done;
                    "done".clone_into(&mut task.notes);
                }
            }),
            C::ApprovesItself => self.edit_list(|id, list| {
                let Some(task) = find_task(id, list) else { return };
                task.status = TaskStatus::Done;
                task.review.status = ReviewStatus::Approved;
                task.review.count += 1;
                "done".clone_into(&mut task.notes);
            }),
            _ => {}
        }
    }

    fn edit_list(&mut self, edit: impl FnOnce(&TaskId, &mut TaskList)) {
        let (Some(FileContent::List(list)), Some(task)) =
            (self.repository.work.get(TASKS), &self.request.task)
        else {
            return;
        };
        let mut list = (**list).clone();
        edit(task, &mut list);
        self.repository.work.insert(TASKS.to_owned(), FileContent::List(Rc::new(list)));
    }
}

fn find_task<'a>(id: &TaskId, list: &'a mut TaskList) -> Option<&'a mut Task> {
    list.tasks.iter_mut().find(|task| task.id == *id)
}

/// Makes forbidden changes to a list. An agent that is called twice, because its first answer was
/// lost, makes them only once: they depend on the ids of the plan, not on current positions.
fn scramble_list(list: &mut TaskList, salt: u32, planned: usize) {
    let at = |offset: u32| format_task_id((salt + offset) as usize % planned.max(1));
    let (first, second) = (at(0), at(1));
    if let Some(task) = find_task(&first, list) {
        task.acceptance_criteria = vec!["It exists".to_owned()];
        task.review.count = salt;
        task.attempts = 0;
    }
    if let Some(task) = find_task(&second, list) {
        task.status = TaskStatus::ALL[salt as usize % TaskStatus::ALL.len()];
        task.review.status = ReviewStatus::ALL[salt as usize % ReviewStatus::ALL.len()];
    }
    if salt.is_multiple_of(3) && list.tasks.len() > 1 {
        list.tasks.retain(|task| task.id != second);
    }
    if salt.is_multiple_of(2) {
        let id = format!("slipped-in-{salt}");
        if !list.tasks.iter().any(|task| task.id.0 == id) {
            list.tasks.push(Task {
                description: "Slipped in.".to_owned(),
                acceptance_criteria: vec!["It is".to_owned()],
                status: TaskStatus::ALL[salt as usize / 2 % TaskStatus::ALL.len()],
                ..Task::new(id, "Slipped in")
            });
        }
    }
    list.verify_commands = vec!["true".to_owned()];
}
