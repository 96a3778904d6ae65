//! Finds all mistakes in a task list at once.
//!
//! [`validate_list`] is for every list that is read: a list without problems can be worked
//! on. [`find_begun_tasks`] is for plans, in which no task has begun, and
//! [`find_skill_problems`] for skills, which only the caller can look up. Not here: the
//! rules for reviewed lists, which are in `rules`; and the position in a file, which follows from
//! the task's index and the field.

use std::collections::BTreeMap;
use std::fmt;

use ralph_model::glob::{GlobError, Pattern};
use ralph_model::ids::TaskId;
use ralph_model::review::ReviewStatus;
use ralph_model::task::{Task, TaskList, TaskStatus};

use crate::nearest::find_nearest;
use crate::tasks::skill;

/// One thing wrong with a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskProblem {
    /// The index of the task in the list.
    pub task: usize,
    /// The id of the task, which may be empty or not unique.
    pub id: TaskId,
    pub fault: TaskFault,
}

/// What can be wrong with a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskFault {
    EmptyId,
    /// Its id has a newline or another control character: ids are parts of prompts, lines and commits.
    ControlInId,
    /// Another task before it has the same id.
    DuplicateId {
        /// The index of the other task in the list.
        first: usize,
    },
    NoTitle,
    NoDescription,
    /// No acceptance criteria.
    NoCriteria,
    /// One of its criteria is blank.
    BlankCriterion {
        /// The index of the criterion.
        at: usize,
    },
    /// It depends on a task that does not exist.
    UnknownDependency {
        /// The index of the dependency.
        at: usize,
        /// The unknown id.
        id: TaskId,
        nearest: Option<TaskId>,
    },
    /// It waits for itself through others.
    Cycle {
        /// The cycle; it begins and ends with this task.
        path: Vec<TaskId>,
    },
    /// One of the globs in `touches` cannot be read.
    BadGlob {
        /// The index of the glob.
        at: usize,
        error: GlobError,
    },
    /// It names a skill that does not exist.
    UnknownSkill {
        /// The index of the skill.
        at: usize,
        name: String,
        nearest: Option<String>,
    },
    /// It is approved but not done.
    ApprovedNotDone,
    /// It is done, but its review is open.
    DoneUnderReview {
        review: ReviewStatus,
    },
    /// A review asks for changes but does not state which.
    NoFeedback,
    /// It was begun, in a list where no task may be.
    Begun {
        field: TaskField,
        sign: String,
    },
}

/// A field of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskField {
    Id,
    Title,
    Description,
    /// [`Task::acceptance_criteria`], or one of them.
    AcceptanceCriteria(Option<usize>),
    /// [`Task::depends_on`], or one of them.
    DependsOn(Option<usize>),
    Touches(usize),
    Skills(usize),
    Status,
    ReviewStatus,
    ReviewCount,
    ReviewFeedback,
    Attempts,
    Notes,
}

/// The state of a task in the search for cycles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VisitState {
    New,
    OnPath { depth: usize },
    Finished,
}

/// A task on the path of the search for cycles.
struct PathStep {
    at: usize,
    /// How many of its dependencies were examined.
    examined: usize,
    /// The depth of the last task up to here that is part of a reported cycle.
    reported_depth: Option<usize>,
}

fn build_problem(at: usize, task: &Task, fault: TaskFault) -> TaskProblem {
    TaskProblem { task: at, id: task.id.clone(), fault }
}

fn find_own_faults(task: &Task) -> Vec<TaskFault> {
    let mut faults = Vec::new();
    if task.id.0.trim().is_empty() {
        faults.push(TaskFault::EmptyId);
    }
    if task.id.0.contains(char::is_control) {
        faults.push(TaskFault::ControlInId);
    }
    if task.title.trim().is_empty() {
        faults.push(TaskFault::NoTitle);
    }
    if task.description.trim().is_empty() {
        faults.push(TaskFault::NoDescription);
    }
    if task.acceptance_criteria.is_empty() {
        faults.push(TaskFault::NoCriteria);
    }
    for (at, criterion) in task.acceptance_criteria.iter().enumerate() {
        if criterion.trim().is_empty() {
            faults.push(TaskFault::BlankCriterion { at });
        }
    }
    for (at, glob) in task.touches.iter().enumerate() {
        if let Err(error) = Pattern::new(glob) {
            faults.push(TaskFault::BadGlob { at, error });
        }
    }
    faults
}

fn find_duplicate(places: &BTreeMap<&str, usize>, at: usize, task: &Task) -> Option<TaskFault> {
    let first = places.get(task.id.0.as_str()).copied()?;
    (first != at && !task.id.0.trim().is_empty()).then_some(TaskFault::DuplicateId { first })
}

/// Returns the unknown dependencies. Suggests similar ids as long as `lookups` last.
fn find_unknown_dependencies(
    places: &BTreeMap<&str, usize>,
    task: &Task,
    lookups: &mut usize,
) -> Vec<TaskFault> {
    let mut faults = Vec::new();
    for (at, id) in task.depends_on.iter().enumerate() {
        if !id.0.trim().is_empty() && places.contains_key(id.0.as_str()) {
            continue;
        }
        let mut meant = None;
        if *lookups > 0 {
            *lookups -= 1;
            let is_other = |other: &&str| !other.trim().is_empty() && *other != task.id.0;
            meant = find_nearest(&id.0, places.keys().copied().filter(is_other));
        }
        let nearest = meant.map(|id| TaskId(id.into()));
        faults.push(TaskFault::UnknownDependency { at, id: id.clone(), nearest });
    }
    faults
}

fn find_signs_of_work(task: &Task) -> Vec<TaskFault> {
    let (status, review) = (task.status, &task.review);
    let mut signs = Vec::new();
    let mut add = |is_there: bool, field, sign: String| {
        if is_there {
            signs.push(TaskFault::Begun { field, sign });
        }
    };
    add(status != TaskStatus::Pending, TaskField::Status, format!("it is `{status}`"));
    add(
        review.status != ReviewStatus::None,
        TaskField::ReviewStatus,
        format!("its review says `{}`", review.status.name()),
    );
    add(
        review.count > 0,
        TaskField::ReviewCount,
        format!("its count of reviews is {}", review.count),
    );
    let has_feedback = !review.feedback.trim().is_empty();
    add(has_feedback, TaskField::ReviewFeedback, "a review gave feedback".to_owned());
    let attempts = task.attempts;
    add(attempts > 0, TaskField::Attempts, format!("its count of failed attempts is {attempts}"));
    signs
}

fn find_review_faults(task: &Task) -> Vec<TaskFault> {
    let mut faults = Vec::new();
    match task.review.status {
        ReviewStatus::None => {}
        ReviewStatus::Approved => {
            if !task.status.is_done() {
                faults.push(TaskFault::ApprovedNotDone);
            }
        }
        review @ (ReviewStatus::NeedsReview | ReviewStatus::ChangesRequested) => {
            if task.status.is_done() {
                faults.push(TaskFault::DoneUnderReview { review });
            }
        }
    }
    let wants_changes = task.review.status == ReviewStatus::ChangesRequested;
    if wants_changes && task.review.feedback.trim().is_empty() {
        faults.push(TaskFault::NoFeedback);
    }
    faults
}

impl TaskFault {
    /// Returns the field that a person would fix.
    pub fn field(&self) -> TaskField {
        match self {
            Self::EmptyId | Self::ControlInId | Self::DuplicateId { .. } => TaskField::Id,
            Self::NoTitle => TaskField::Title,
            Self::NoDescription => TaskField::Description,
            Self::NoCriteria => TaskField::AcceptanceCriteria(None),
            Self::BlankCriterion { at } => TaskField::AcceptanceCriteria(Some(*at)),
            Self::UnknownDependency { at, .. } => TaskField::DependsOn(Some(*at)),
            Self::Cycle { .. } => TaskField::DependsOn(None),
            Self::BadGlob { at, .. } => TaskField::Touches(*at),
            Self::UnknownSkill { at, .. } => TaskField::Skills(*at),
            Self::ApprovedNotDone | Self::DoneUnderReview { .. } => TaskField::ReviewStatus,
            Self::NoFeedback => TaskField::ReviewFeedback,
            Self::Begun { field, .. } => *field,
        }
    }

    /// Returns what to do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::EmptyId | Self::ControlInId => "give it an id such as `TASK-001`".into(),
            Self::DuplicateId { .. } => "give one of them another id".into(),
            Self::NoTitle => "describe it in one line".into(),
            Self::NoDescription => "describe what is wanted".into(),
            Self::NoCriteria => "add conditions for being done".into(),
            Self::BlankCriterion { .. } => "write it out or remove it".into(),
            Self::UnknownDependency { nearest: Some(id), .. } => format!("did you mean `{id}`?"),
            Self::UnknownDependency { nearest: None, .. } => {
                "add that task, or remove the dependency".into()
            }
            Self::Cycle { .. } => "remove one of these dependencies".into(),
            Self::BadGlob { .. } => "write a path of the project, such as `src/parser/**`".into(),
            Self::UnknownSkill { nearest: Some(name), .. } => format!("did you mean `{name}`?"),
            Self::UnknownSkill { nearest: None, .. } => {
                "write its file among the project's skills, or remove it".into()
            }
            Self::ApprovedNotDone => "mark it done, or remove the approval".into(),
            Self::DoneUnderReview { .. } => "change one of the two".into(),
            Self::NoFeedback => "add what to fix and where".into(),
            Self::Begun { .. } => "in a plan no task has begun".into(),
        }
    }
}

/// A fragment that follows the name of the task.
impl fmt::Display for TaskFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyId => f.write_str("has no id"),
            Self::ControlInId => f.write_str("has a control character in its id"),
            Self::DuplicateId { first } => {
                write!(f, "has the id of another task, number {} in the list", first + 1)
            }
            Self::NoTitle => f.write_str("has no title"),
            Self::NoDescription => f.write_str("has no description"),
            Self::NoCriteria => f.write_str("has no acceptance criteria"),
            Self::BlankCriterion { .. } => f.write_str("has a blank acceptance criterion"),
            Self::UnknownDependency { id, .. } => write!(f, "depends on an unknown task `{id}`"),
            Self::Cycle { path } => write!(f, "waits for itself: {}", CyclePath(path)),
            Self::BadGlob { error, .. } => write!(f, "has a bad path: {error}"),
            Self::UnknownSkill { name, .. } => write!(f, "names an unknown skill `{name}`"),
            Self::ApprovedNotDone => f.write_str("is approved but not done"),
            Self::DoneUnderReview { review } => {
                write!(f, "is done although its review says `{}`", review.name())
            }
            Self::NoFeedback => f.write_str("has changes requested without feedback"),
            Self::Begun { sign, .. } => write!(f, "was begun: {sign}"),
        }
    }
}

/// The message with the name of the task.
impl fmt::Display for TaskProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.id.0.trim().is_empty() || self.fault == TaskFault::ControlInId {
            write!(f, "task number {} {}", self.task + 1, self.fault)
        } else {
            write!(f, "task `{}` {}", self.id, self.fault)
        }
    }
}

/// A cycle, abbreviated in the middle if it is long.
struct CyclePath<'a>(&'a [TaskId]);

impl fmt::Display for CyclePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As many as fit on a line or two.
        const SHOWN: usize = 12;
        let tail = self.0.len().saturating_sub(2);
        for (at, id) in self.0.iter().enumerate() {
            if self.0.len() > SHOWN && at >= SHOWN - 2 && at < tail {
                if at == SHOWN - 2 {
                    write!(f, " → … ({} more)", tail - at)?;
                }
                continue;
            }
            if at > 0 {
                f.write_str(" → ")?;
            }
            write!(f, "{id}")?;
        }
        Ok(())
    }
}

/// Returns the unknown skills that open tasks name, in the order of the file.
pub fn find_skill_problems(list: &TaskList, mut has: impl FnMut(&str) -> bool) -> Vec<TaskProblem> {
    let mut problems = Vec::new();
    for (at, task) in list.tasks.iter().enumerate() {
        let is_open = match task.status {
            TaskStatus::Pending | TaskStatus::InProgress | TaskStatus::Failed => true,
            TaskStatus::Done | TaskStatus::Skipped => false,
        };
        for (nth, name) in task.skills.iter().enumerate().filter(|_| is_open) {
            if skill::find_shipped(name).is_none() && !has(name) {
                let shipped = skill::SHIPPED.iter().map(|(name, _)| *name);
                let nearest = find_nearest(name, shipped).map(str::to_owned);
                let fault = TaskFault::UnknownSkill { at: nth, name: name.clone(), nearest };
                problems.push(build_problem(at, task, fault));
            }
        }
    }
    problems
}

/// Returns everything that prevents work on the list, in the order of the file.
pub fn validate_list(list: &TaskList) -> Vec<TaskProblem> {
    // Each lookup compares with every id; a long list full of mistakes must not take minutes.
    let mut lookups = 20;
    let places = list.index_by_id();
    let mut problems = Vec::new();
    for (at, task) in list.tasks.iter().enumerate() {
        let faults = find_own_faults(task)
            .into_iter()
            .chain(find_duplicate(&places, at, task))
            .chain(find_unknown_dependencies(&places, task, &mut lookups))
            .chain(find_review_faults(task));
        problems.extend(faults.map(|fault| build_problem(at, task, fault)));
    }
    for path in find_cycles(list, &places) {
        let first = path[0];
        let ids = path.iter().chain([&first]).map(|&at| list.tasks[at].id.clone()).collect();
        problems.push(build_problem(first, &list.tasks[first], TaskFault::Cycle { path: ids }));
    }
    problems.sort_by_key(|problem| problem.task);
    problems
}

/// Returns every sign that work on a task was begun, for lists that are still plans.
pub fn find_begun_tasks(list: &TaskList) -> Vec<TaskProblem> {
    let tasks = list.tasks.iter().enumerate();
    let signs = tasks.flat_map(|(at, task)| {
        find_signs_of_work(task).into_iter().map(move |fault| build_problem(at, task, fault))
    });
    signs.collect()
}

/// Returns cycles that share no task, at least one for each group of tasks that wait for each
/// other.
///
/// The search has its own stack, because a chain of dependencies may be as long as the list;
/// and it reports no task twice, because a group may contain more cycles than tasks.
fn find_cycles(list: &TaskList, places: &BTreeMap<&str, usize>) -> Vec<Vec<usize>> {
    let mut marks = vec![VisitState::New; list.tasks.len()];
    let mut cycles = Vec::new();
    let mut path: Vec<PathStep> = Vec::new();
    for start in 0..list.tasks.len() {
        if marks[start] != VisitState::New {
            continue;
        }
        marks[start] = VisitState::OnPath { depth: 0 };
        path.push(PathStep { at: start, examined: 0, reported_depth: None });
        while let Some(step) = path.last_mut() {
            let Some(id) = list.tasks[step.at].depends_on.get(step.examined) else {
                marks[step.at] = VisitState::Finished;
                path.pop();
                continue;
            };
            step.examined += 1;
            let reported = step.reported_depth;
            let Some(&next) = places.get(id.0.as_str()) else { continue };
            match marks[next] {
                VisitState::New => {
                    marks[next] = VisitState::OnPath { depth: path.len() };
                    path.push(PathStep { at: next, examined: 0, reported_depth: reported });
                }
                VisitState::OnPath { depth }
                    if reported.is_none_or(|reported| reported < depth) =>
                {
                    cycles.push(path[depth..].iter().map(|step| step.at).collect());
                    for (at, step) in path.iter_mut().enumerate().skip(depth) {
                        step.reported_depth = Some(at);
                    }
                }
                VisitState::OnPath { .. } | VisitState::Finished => {}
            }
        }
    }
    cycles
}

#[cfg(test)]
mod tests;
