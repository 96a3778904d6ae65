//! The stop hook: whether an agent that ralph started may stop, and what is still wrong.
//!
//! An early check only: the engine checks everything here again after the iteration, for every
//! agent. Not here: how the answer reaches the agent, and how often it is given.

use ralph_model::agent_list_diff::ListViolation;
use ralph_model::glob;
use ralph_model::hook_state::{Committer, HookState};
use ralph_model::list_snapshot::{ListSnapshot, TaskSnapshot};
use ralph_model::review::ReviewPolicy;
use ralph_model::task::{ListOwner, TaskList};

use crate::tasks::rules;

/// What was found when an agent wanted to stop.
#[derive(Debug, Clone, Default)]
pub struct StopFindings {
    /// `None` if it cannot be read.
    pub list: Option<TaskList>,
    /// Mistakes in the task file, with positions.
    pub mistakes: Vec<String>,
    /// Uncommitted paths, relative to the project directory.
    pub uncommitted: Vec<String>,
}

/// The answer to an agent that wants to stop.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StopObjections {
    /// Why it may not stop; empty if it may.
    pub reasons: Vec<String>,
    pub remarks: Vec<String>,
}

/// What has to be checked before an agent stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopChecks {
    pub tasks: CheckNeed,
    pub tree: CheckNeed,
}

/// Whether a check is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckNeed {
    Needed,
    Skipped,
}

/// Returns what has to be checked: nothing, unless the call is the work of an iteration.
pub fn choose_checks<S>(active: &HookState<S>) -> StopChecks {
    let needed = |is_needed: bool| if is_needed { CheckNeed::Needed } else { CheckNeed::Skipped };
    let is_work = active.role().is_some();
    let keeps_list = active.keeper == Some(ListOwner::Agent) && active.tasks_file.is_some();
    StopChecks {
        tasks: needed(is_work && keeps_list),
        tree: needed(is_work && active.commit == Some(Committer::Agent)),
    }
}

/// A longer list of paths does not help the agent.
const SHOWN_PATHS: usize = 20;

/// Returns everything that is wrong, all at once.
pub fn find_objections(active: &HookState, found: &StopFindings) -> StopObjections {
    let mut objections = StopObjections { reasons: found.mistakes.clone(), remarks: Vec::new() };
    let StopChecks { tasks, tree } = choose_checks(active);
    if let (CheckNeed::Needed, Some(list), Some(turn)) = (tasks, &found.list, active.edit_context())
    {
        let before = active.pre_iteration_snapshot.as_ref();
        let mut violations = Vec::new();
        let mut add = |more: Vec<ListViolation>| {
            for violation in more {
                // A field is reported once, by the first rule it violates.
                let is_reported = violations.iter().any(|known: &ListViolation| {
                    (&known.task, &known.field) == (&violation.task, &violation.field)
                });
                if !is_reported {
                    violations.push(violation);
                }
            }
        };
        match (turn.review, before) {
            (ReviewPolicy::Skip, _) => {}
            (ReviewPolicy::Fresh { .. }, Some(before)) => {
                add(rules::find_illegal_changes(before, list, &turn));
                add(rules::find_omissions(before, list, &turn));
            }
            (ReviewPolicy::Fresh { .. }, None) => objections.remarks.push(
                "ralph has no record of the stories at the start of this iteration: what \
                 changed since is not checked here, only by ralph afterwards."
                    .to_owned(),
            ),
        }
        if let Some(known) = &active.list_settings {
            add(rules::find_setting_changes(known, list));
        }
        let invariants = rules::find_contradictions(list, turn.review);
        add(invariants.into_iter().filter(|it| !is_unchanged(it, list, before)).collect());
        objections.reasons.extend(violations.iter().map(ToString::to_string));
    }
    // Files outside the scope belong to the user.
    let is_its = |path: &&String| glob::is_in_scope(&active.scope, path);
    let left: Vec<String> = found.uncommitted.iter().filter(is_its).cloned().collect();
    if tree == CheckNeed::Needed && !left.is_empty() {
        objections.reasons.push(describe_uncommitted(active, &left));
    }
    objections
}

/// Returns whether a story was like that when the iteration began; then this agent need not fix
/// it, and might not even be allowed to.
fn is_unchanged(violation: &ListViolation, list: &TaskList, before: Option<&ListSnapshot>) -> bool {
    let Some((id, before)) = violation.task.as_ref().zip(before) else { return false };
    list.find_task(id).is_some_and(|task| before.0.get(id) == Some(&TaskSnapshot::from_task(task)))
}

fn describe_uncommitted<S>(active: &HookState<S>, paths: &[String]) -> String {
    let shown = paths.iter().take(SHOWN_PATHS).map(|path| format!("\n    {path}"));
    let mut text = format!("There are uncommitted changes:{}", shown.collect::<Vec<_>>().concat());
    if paths.len() > SHOWN_PATHS {
        text.push_str(&format!("\n    and {} more", paths.len() - SHOWN_PATHS));
    }
    if active.tasks_file.is_some() {
        text.push_str(
            "\n  Note in progress.txt what was done and learned, put what holds beyond this list \
             where the project keeps its conventions, then commit everything, the task file and \
             progress.txt included.",
        );
    } else {
        text.push_str("\n  Commit everything that belongs to the work, and remove the rest.");
    }
    text
}

impl StopObjections {
    /// Returns the reason given to an agent, or `None` if it may stop.
    pub fn reason(&self) -> Option<String> {
        // A list that is wrong everywhere has one cause; the first page shows it.
        const SHOWN: usize = 25;
        if self.reasons.is_empty() {
            return None;
        }
        let mut text = "ralph does not let this iteration end yet:".to_owned();
        for reason in self.reasons.iter().take(SHOWN) {
            text.push_str(&format!("\n- {reason}"));
        }
        if self.reasons.len() > SHOWN {
            text.push_str(&format!("\n- … and {} more", self.reasons.len() - SHOWN));
        }
        text.push_str("\nFix all of this, then stop again.");
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use ralph_model::ids::{RunId, TaskId};
    use ralph_model::review::ReviewStatus;
    use ralph_model::task::{Task, TaskStatus};
    use ralph_model::units::Timestamp;

    use super::*;

    fn list() -> TaskList {
        let task = |id: &str| Task {
            description: "d".into(),
            acceptance_criteria: vec!["c".into()],
            notes: "n".into(),
            ..Task::new(id, "t")
        };
        let old = Task { status: TaskStatus::Done, notes: String::new(), ..task("US-0") };
        TaskList { tasks: vec![old, task("US-1"), task("US-2")], ..TaskList::default() }
    }

    fn active(mode: &str) -> HookState {
        HookState {
            iteration_mode: Some(mode.to_owned()),
            task: Some(TaskId("US-1".into())),
            keeper: Some(ListOwner::Agent),
            commit: Some(Committer::Agent),
            review_cap: Some(5),
            tasks_file: Some("/p/ralph/tasks.json".into()),
            pre_iteration_snapshot: Some(ListSnapshot::from_list(&list())),
            list_settings: Some(list().without_tasks()),
            ..HookState::new(RunId("r".into()), 7, Timestamp(0))
        }
    }

    fn found(change: impl FnOnce(&mut TaskList)) -> StopFindings {
        let mut list = list();
        change(&mut list);
        StopFindings { list: Some(list), ..StopFindings::default() }
    }

    #[test]
    fn mistakes_from_before_the_iteration_do_not_block() {
        // `US-0` passes without approval and notes, and did so before.
        let asked = found(|list| list.tasks[1].review.status = ReviewStatus::NeedsReview);
        assert_eq!(find_objections(&active("implement"), &asked), StopObjections::default());
        let blind = HookState { pre_iteration_snapshot: None, ..active("implement") };
        let objections = find_objections(&blind, &asked);
        assert_eq!((objections.reasons.len(), objections.remarks.len()), (2, 1));
    }

    #[test]
    fn everything_is_reported_at_once() {
        let mut found = found(|list| {
            list.tasks[1].status = TaskStatus::Done;
            list.tasks[1].notes.clear();
            list.tasks[2].review.count = 9;
        });
        found.uncommitted = vec!["src/main.rs".into()];
        let reason =
            find_objections(&active("implement"), &found).reason().expect("there are reasons");
        expect![[r"
            ralph does not let this iteration end yet:
            - Story `US-1`: `passes` went from false to true, but implement iterations cannot approve; only a review may. Set it back to false.
            - Story `US-2`: `reviewCount` went from 0 to 9, but this iteration is about US-1 alone. Set it back to 0.
            - Story `US-1`: `notes` is empty, but a story that passes says what was done. Note in a line or two what was done.
            - There are uncommitted changes:
                src/main.rs
              Note in progress.txt what was done and learned, put what holds beyond this list where the project keeps its conventions, then commit everything, the task file and progress.txt included.
            Fix all of this, then stop again."]].assert_eq(&reason);
    }

    #[test]
    fn settings_of_the_list_stay() {
        let edited = found(|list| {
            list.tasks[1].review.status = ReviewStatus::NeedsReview;
            list.branch = Some("other".into());
        });
        for skip_review in [false, true] {
            let active = HookState { skip_review, ..active("implement") };
            let reasons = find_objections(&active, &edited).reasons;
            assert_eq!(
                reasons,
                [
                    "The list: `branchName` went from none to \"other\", but only users change the settings of \
                 the list. Set it back to none."
                ]
            );
            let older = HookState { list_settings: None, ..active };
            assert_eq!(find_objections(&older, &edited), StopObjections::default());
        }
    }

    #[test]
    fn only_the_work_of_an_iteration_is_checked() {
        let dirty = StopFindings { uncommitted: vec!["a".into()], ..StopFindings::default() };
        for mode in ["gate", "message", "something new"] {
            assert_eq!(find_objections(&active(mode), &dirty), StopObjections::default(), "{mode}");
        }
        let others = HookState { commit: Some(Committer::Ralph), ..active("implement") };
        assert_eq!(find_objections(&others, &dirty), StopObjections::default());
        let kept = HookState { keeper: Some(ListOwner::Ralph), ..active("implement") };
        let passed = found(|list| list.tasks[1].status = TaskStatus::Done);
        assert_eq!(find_objections(&kept, &passed), StopObjections::default());
    }

    #[test]
    fn without_reviews_only_notes_are_required() {
        let skip = HookState { skip_review: true, ..active("implement") };
        let passed = found(|list| list.tasks[1].status = TaskStatus::Done);
        assert_eq!(find_objections(&skip, &passed), StopObjections::default());
        let silent = found(|list| {
            list.tasks[1].status = TaskStatus::Done;
            list.tasks[1].notes.clear();
        });
        assert_eq!(find_objections(&skip, &silent).reasons.len(), 1);
    }
}
