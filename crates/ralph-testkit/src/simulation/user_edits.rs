//! What a user does to the project while a run is stopped, before resuming it.
//!
//! Not here: control requests, which reach a running run.

use std::rc::Rc;

use ralph_model::event::{Event, Recorded};
use ralph_model::task::{Task, TaskList, TaskStatus};
use ralph_model::worktree::{CheckedOut, EndSnapshot, Landed};

use super::dice::hash_numbers;
use super::plan::{CommitMode, FaultKind, SimulatedWorkflow, SimulationPlan};
use super::recipe::{TASKS, format_task_id};
use super::repository::{FileContent, parse_commit_id};
use super::world::SimulatedWorld;

/// Where a user changes files.
pub const BY_HAND: &str = "by-hand/";

/// The message of a user's commit.
pub const USER_COMMIT: &str = "of a person's";

/// The task list as the run left it, and after a user's edit.
#[derive(Debug, Clone, PartialEq)]
pub struct EditedList {
    pub before: Rc<TaskList>,
    pub after: Rc<TaskList>,
}

impl SimulatedWorld {
    /// Makes the changes that the plan has a user make now.
    pub(super) fn apply_user_edits(&mut self) {
        let is_end = |it: &&Recorded| matches!(it.event, Event::RunEnded { .. });
        let ends = u32::try_from(self.journal.iter().filter(is_end).count()).unwrap_or(u32::MAX);
        if self.has_observed_work() && self.take_fault(FaultKind::EditedByHand, ends) {
            let text = format!("bad{} by hand", ends % 3);
            self.repository.work.insert(format!("{BY_HAND}{ends}"), FileContent::from_text(text));
            self.by_hand = Some(ends);
        }
        if let Some(list) = self.find_editable_list()
            && self.take_fault(FaultKind::ListEditedByHand, ends)
        {
            let after = Rc::new(edit_list(&list, self.plan.derive_seed(ends)));
            self.repository.work.insert(TASKS.to_owned(), FileContent::List(Rc::clone(&after)));
            self.edited = Some(EditedList { before: list, after });
        }
        if self.plan.commit == CommitMode::Ralph
            && self.take_fault(FaultKind::CommittedByHand, ends)
        {
            let path = format!("{BY_HAND}committed-{ends}");
            self.repository.work.insert(path.clone(), FileContent::from_text("good"));
            let (tree, _) = self.repository.select_paths(|it| it == path);
            let made = self.repository.make_commit(tree, USER_COMMIT, None);
            self.committed = Some(made);
            // If git failed to the end, the run does not know what was checked out then.
            let is_known = self.end_snapshot().is_some_and(|left| left.repository.is_some());
            self.user_commits.extend(is_known.then_some(made));
        }
    }

    /// Takes back a user's commit that the run refuses to continue with, and keeps it on a
    /// branch. Returns whether there was one.
    pub fn take_back_user_commit(&mut self, left: &CheckedOut) -> bool {
        let Some(made) = self.committed.take() else { return false };
        self.user_commits.retain(|it| *it != made);
        self.tally.count_one("events commit taken back");
        let repository = &mut self.repository;
        let name = format!("refs/heads/persons-{}", repository.branches.len());
        repository.branches.insert(name, repository.head);
        repository.head = left.head.as_ref().and_then(parse_commit_id);
        true
    }

    /// Returns the state that the run recorded at its end.
    fn end_snapshot(&self) -> Option<&EndSnapshot> {
        // A warning about a view that could not be written may follow the end.
        let mut last = self.journal.iter().rev().map(|recorded| &recorded.event);
        let Event::RunEnded { left, .. } =
            last.find(|event| !matches!(event, Event::Warned { .. }))?
        else {
            return None;
        };
        left.as_deref()
    }

    /// Returns whether git may report a failed commit although it was made.
    fn can_git_misreport(&self) -> bool {
        self.plan.faults.iter().any(|fault| fault.kind == FaultKind::CommitFailsLate)
    }

    /// Returns whether a run ended with observed work that has not landed. If a gate makes
    /// commits, or git reports falsely, that cannot be determined.
    fn has_observed_work(&self) -> bool {
        if self.plan.gates.iter().any(|gate| gate.commits) || self.can_git_misreport() {
            return false;
        }
        let is_over = |event: &Event| {
            let is_committed = matches!(event, Event::Landed { landed: Landed::Committed { .. } });
            is_committed || matches!(event, Event::IterationEnded { .. })
        };
        let last = self.journal.iter().rev().map(|recorded| &recorded.event);
        let mut last = last.take_while(|event| !is_over(event));
        last.any(|event| matches!(event, Event::Observed { .. }))
    }

    /// Returns the task list if the run left it in sync. The changes of an agent that owns it may
    /// be about to land.
    fn find_editable_list(&self) -> Option<Rc<TaskList>> {
        let latest = |is_it: fn(&Event) -> bool| {
            self.journal.iter().rposition(|recorded| is_it(&recorded.event))
        };
        let begun = latest(|event| matches!(event, Event::IterationStarted { .. }));
        let over = latest(|event| matches!(event, Event::IterationEnded { .. }));
        let is_agents = self.plan.workflow == SimulatedWorkflow::Stories && begun > over;
        match self.repository.work.get(TASKS) {
            Some(FileContent::List(list))
                if self.end_snapshot()?.task_file_in_sync
                    && !is_agents
                    && !self.can_git_misreport() =>
            {
                Some(Rc::clone(list))
            }
            Some(_) | None => None,
        }
    }
}

impl SimulationPlan {
    /// Returns a number that is the same each time a plan is played.
    fn derive_seed(&self, ends: u32) -> u64 {
        let salts = self.script.iter().map(|act| u64::from(act.salt));
        hash_numbers(&salts.chain([u64::from(ends)]).collect::<Vec<_>>())
    }
}

/// Returns a list after a user's edits.
fn edit_list(list: &TaskList, number: u64) -> TaskList {
    let mut list = list.clone();
    for number in [number, hash_numbers(&[number])] {
        let at = usize::try_from(number / 9).unwrap_or(0).checked_rem(list.tasks.len());
        let Some(at) = at.filter(|_| number % 9 > 1) else {
            let id = format!("by-hand-{}", list.tasks.len());
            list.tasks.push(Task { description: "d".into(), ..Task::new(id, "by hand") });
            continue;
        };
        let many = list.tasks.len();
        let task = &mut list.tasks[at];
        match number % 9 {
            2 | 3 => task.status = toggle_status(task.status),
            4 => task.status = TaskStatus::Done,
            5 => task.acceptance_criteria = vec!["as a person wants it".to_owned()],
            6 => (task.attempts, task.notes) = (0, "noted by hand".to_owned()),
            7 => task.depends_on = vec![format_task_id((at + 1) % many)],
            _ => drop(list.tasks.remove(at)),
        }
    }
    list
}

fn toggle_status(status: TaskStatus) -> TaskStatus {
    match status {
        TaskStatus::Pending => TaskStatus::Skipped,
        TaskStatus::InProgress | TaskStatus::Done | TaskStatus::Failed | TaskStatus::Skipped => {
            TaskStatus::Pending
        }
    }
}
