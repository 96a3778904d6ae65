//! `ralph tasks`: shows a task file and changes it by hand.
//!
//! Not here: working on the tasks, and how a list is drawn.

pub(crate) mod proposals;

use std::collections::BTreeSet;
use std::path::Path;

use ralph_core::ids::TaskId;
use ralph_core::nearest::nearest;
use ralph_core::outcome::ExitStatus;
use ralph_core::review::{ReviewPolicy, ReviewState, ReviewStatus};
use ralph_core::task::{ChangeError, Next, Retrying, Task, TaskChange, TaskList, TaskStatus};
use ralph_core::text;
use ralph_io::formats::{Dialect, FileProblem, TaskFile, WriteError};
use ralph_io::process::Watch;
use ralph_io::store::{self, prompts};
use serde_json::{Value, json};

use crate::cli::{
    CommonArgs, TasksAddArgs, TasksArgs, TasksCommand, TasksStatusArgs, TasksValidateArgs,
};
use crate::complaint::Complaint;
use crate::dead_run;
use crate::project::Project;
use crate::screen::{self, Screen};
use crate::settings::{Loaded, Settings};
use crate::task_file;

/// Runs the command.
pub(crate) fn main(common: &CommonArgs, args: &TasksArgs) -> Result<ExitStatus, Complaint> {
    let project = Project::open_for_work(common)?;
    let loaded = project.settings_as_written(None, Vec::new())?;
    let settings = &loaded.settings;
    let plan = args.plan.as_deref();
    let context = Desk { common, json: args.json, project: &project, settings };
    let changes = match &args.command {
        Some(
            TasksCommand::Add(_)
            | TasksCommand::SetStatus(_)
            | TasksCommand::Proposals { command: Some(_) },
        ) => true,
        Some(
            TasksCommand::Validate(_)
            | TasksCommand::List
            | TasksCommand::Show { .. }
            | TasksCommand::Proposals { command: None },
        )
        | None => false,
    };
    if changes {
        for warning in dead_run::put_right(&project, &loaded)? {
            screen::warn(&warning);
        }
    }
    match args.command.as_ref().unwrap_or(&TasksCommand::List) {
        TasksCommand::Validate(args) => return context.validate(plan, args),
        TasksCommand::List => {
            let file = context.open(plan)?;
            context.list(&file, context.open_proposals(&loaded, &file));
        }
        TasksCommand::Show { id } => context.show(&context.open(plan)?, id)?,
        TasksCommand::Proposals { command } => {
            proposals::main(&context, &loaded, context.open(plan)?, command.as_ref())?;
        }
        TasksCommand::Add(add) => context.add(context.open(plan)?, add)?,
        TasksCommand::SetStatus(status) => context.set_status(context.open(plan)?, status)?,
    }
    Ok(ExitStatus::Complete)
}

/// What all these commands need.
struct Desk<'a> {
    common: &'a CommonArgs,
    json: bool,
    project: &'a Project,
    settings: &'a Settings,
}

impl Desk<'_> {
    fn open(&self, plan: Option<&Path>) -> Result<TaskFile, Complaint> {
        task_file::open(self.project, self.settings, plan)
    }

    /// Returns how many proposals about a task file wait for the user; 0 if they cannot be read.
    fn open_proposals(&self, loaded: &Loaded, file: &TaskFile) -> usize {
        let repository = self.project.repository(&Watch::detached()).ok().flatten();
        let layout = self.project.layout_in(loaded, repository.as_ref());
        layout.map_or(0, |layout| store::proposals::count_open(layout.state(), file.path()))
    }

    fn list(&self, file: &TaskFile, proposals: usize) {
        let list = file.list();
        let next = list.next(self.review(), self.retrying());
        if self.json {
            let done = done_ids(list);
            return print(&json!({
                "file": self.name(file.path()),
                "form": file.dialect().tasks(),
                "project": list.project,
                "description": list.description,
                "branch": list.branch,
                "maxIterations": list.max_iterations,
                "validationStrategy": list.validation_strategy,
                "verifyCommands": list.verify_commands,
                "progress": progress(list),
                "proposals": proposals,
                "next": next.work().map(|(role, task)| json!({"role": role, "task": task.id})),
                "blocked": blocked(&next),
                "tasks": list.tasks.iter().map(|task| facts(task, &done)).collect::<Vec<_>>(),
            }));
        }
        let screen = Screen::for_stdout(self.common, &self.settings.ui);
        let mut text = ralph_ui::tasks::list(list, &next, &screen.style);
        text.push_str(&proposals::remind(proposals));
        screen::print_data(&text);
    }

    fn show(&self, file: &TaskFile, id: &str) -> Result<(), Complaint> {
        let task = find(file.list(), id)?;
        self.tell(file, task);
        Ok(())
    }

    fn add(&self, mut file: TaskFile, args: &TasksAddArgs) -> Result<(), Complaint> {
        let list = file.list();
        let id = TaskId(args.id.clone().unwrap_or_else(|| free_id(list, file.dialect())));
        for known in args.depends_on.iter().chain(&args.after) {
            find(list, known)?;
        }
        let task = Task {
            description: args.description.clone().unwrap_or_else(|| args.title.clone()),
            acceptance_criteria: args.criterion.clone(),
            order: args.order,
            depends_on: args.depends_on.iter().cloned().map(TaskId).collect(),
            ..Task::new(id.0.clone(), args.title.clone())
        };
        let after = args.after.clone().map(TaskId);
        write(&mut file, &[TaskChange::Add { task: Box::new(task), after }])?;
        self.tell(&file, find(file.list(), &id.0)?);
        Ok(())
    }

    fn set_status(&self, mut file: TaskFile, args: &TasksStatusArgs) -> Result<(), Complaint> {
        let task = find(file.list(), &args.id)?;
        let status = wanted(&args.status)?;
        if status.is_done() {
            let waits = file.list().waits_for(task);
            if let Some(first) = waits.first() {
                let message = format!("`{}` cannot be done: it waits for `{first}`", task.id);
                return Err(Complaint::input(message)
                    .hint(format!("`ralph tasks set-status {first} done` comes first")));
            }
        }
        let changes = by_hand(task, status, args.note.as_deref(), self.review());
        write(&mut file, &changes)?;
        self.tell(&file, find(file.list(), &args.id)?);
        Ok(())
    }

    fn validate(
        &self,
        plan: Option<&Path>,
        args: &TasksValidateArgs,
    ) -> Result<ExitStatus, Complaint> {
        let path = task_file::find(self.project, self.settings, plan)?;
        let checked = TaskFile::read(&path).and_then(|file| {
            if args.untouched {
                file.check_untouched()?;
            }
            file.check_skills(|name| self.has_skill(name))?;
            Ok(file)
        });
        let problems = checked.as_ref().err().cloned().unwrap_or_default();
        if self.json {
            print(&json!({
                "file": self.name(&path),
                "valid": problems.is_empty(),
                "problems": problems.iter().map(problem_facts).collect::<Vec<_>>(),
            }));
            let is_valid = problems.is_empty();
            return Ok(if is_valid { ExitStatus::Complete } else { ExitStatus::BadInput });
        }
        let file = checked.map_err(|problems| task_file::complain(self.project, &problems))?;
        let (tasks, name) = (file.list().tasks.len(), self.name(&path));
        let noun = if tasks == 1 { "task" } else { "tasks" };
        screen::print_data(&if args.untouched {
            format!("{}\n{name}: nothing has begun, no mistakes\n", summed_up(&file))
        } else {
            format!("{name}: {tasks} {noun}, no mistakes\n")
        });
        Ok(ExitStatus::Complete)
    }

    /// Returns whether the project has a usable skill of this name.
    fn has_skill(&self, name: &str) -> bool {
        let directory = Path::new(&self.settings.skills_dir);
        matches!(prompts::skill(&self.project.directory, directory, name), Ok(Some(_)))
    }

    fn tell(&self, file: &TaskFile, task: &Task) {
        if self.json {
            let task = facts(task, &done_ids(file.list()));
            return print(&json!({"file": self.name(file.path()), "task": task}));
        }
        let screen = Screen::for_stdout(self.common, &self.settings.ui);
        screen::print_data(&ralph_ui::tasks::show(task, file.list(), &screen.style));
    }

    fn name(&self, path: &Path) -> String {
        path.strip_prefix(&self.project.directory).unwrap_or(path).display().to_string()
    }

    fn review(&self) -> ReviewPolicy {
        let review = &self.settings.review;
        if review.enabled { ReviewPolicy::Fresh { cap: review.cap } } else { ReviewPolicy::Skip }
    }

    fn retrying(&self) -> Retrying {
        Retrying::WhileAttemptsLeft { usual: self.settings.tasks.max_attempts }
    }
}

/// Returns a short description of a list, such as `4 stories for notes`.
fn summed_up(file: &TaskFile) -> String {
    let tasks = file.list().tasks.len();
    let noun = match (file.dialect(), tasks) {
        (Dialect::Stories, 1) => "story",
        (Dialect::Stories, _) => "stories",
        (Dialect::Plan, 1) => "task",
        (Dialect::Plan, _) => "tasks",
    };
    match file.list().project.trim() {
        "" => format!("{tasks} {noun}"),
        project => format!("{tasks} {noun} for {}", text::glance(project, 40)),
    }
}

/// Applies changes and writes the file. Fails if the result would be invalid.
fn write(file: &mut TaskFile, changes: &[TaskChange]) -> Result<(), Complaint> {
    file.apply(changes).map_err(|error| Complaint::of(ExitStatus::BadInput, &error))?;
    file.check().map_err(|problems| {
        // Without lines and columns, which are those of the unwritten text.
        let mistakes: Vec<String> =
            problems.iter().map(|problem| problem.message.clone()).collect();
        Complaint::input(format!("that would be a mistake: {}", mistakes.join("; ")))
            .hint("the file was not changed")
    })?;
    file.write().map_err(|error| {
        let complaint = Complaint::of(ExitStatus::BadInput, &error);
        match error {
            WriteError::Changed(_) => complaint.hint("try again"),
            WriteError::Io { .. } | WriteError::Unfit(_) => complaint,
        }
    })
}

/// Parses a status that the user may set.
fn wanted(word: &str) -> Result<TaskStatus, Complaint> {
    let by_hand = "pending, done, failed or skipped";
    match TaskStatus::from_name(&word.replace('-', "_")) {
        Some(TaskStatus::InProgress) => Err(Complaint::input(
            "`in_progress` cannot be set by hand: it is the sign of a run at work",
        )
        .hint(format!("set {by_hand}"))),
        Some(status) => Ok(status),
        None => {
            let complaint = Complaint::input(format!("there is no status `{word}`"));
            Err(match nearest(word, TaskStatus::ALL.map(TaskStatus::name)) {
                Some(near) => complaint.hint(format!("did you mean `{near}`?")),
                None => complaint.hint(format!("it is {by_hand}")),
            })
        }
    }
}

/// Returns the changes for a status set by hand: attempts and reviews must agree with it.
fn by_hand(
    task: &Task,
    status: TaskStatus,
    note: Option<&str>,
    policy: ReviewPolicy,
) -> Vec<TaskChange> {
    let id = || task.id.clone();
    let mut changes = vec![TaskChange::SetStatus { task: id(), status }];
    let review = match status {
        // A user's decision needs no review.
        TaskStatus::Done => match policy {
            ReviewPolicy::Skip if !task.review.status.is_open() => task.review.status,
            ReviewPolicy::Skip | ReviewPolicy::Fresh { .. } => ReviewStatus::Approved,
        },
        TaskStatus::Pending => ReviewStatus::None,
        TaskStatus::InProgress | TaskStatus::Failed | TaskStatus::Skipped => {
            match task.review.status {
                ReviewStatus::Approved => ReviewStatus::None,
                open @ (ReviewStatus::None
                | ReviewStatus::NeedsReview
                | ReviewStatus::ChangesRequested) => open,
            }
        }
    };
    if review != task.review.status {
        let review =
            ReviewState { status: review, count: task.review.count, feedback: String::new() };
        changes.push(TaskChange::SetReview { task: id(), review });
    }
    if status == TaskStatus::Pending {
        changes.push(TaskChange::SetAttempts { task: id(), attempts: 0 });
    }
    let is_silent = status.is_done() && task.notes.trim().is_empty();
    let note = note.or(is_silent.then_some("Set to done by hand."));
    if let Some(note) = note {
        let notes = format!("{}\n{note}", task.notes).trim_start().to_owned();
        changes.push(TaskChange::SetNotes { task: id(), notes });
    }
    changes
}

pub(super) fn find<'a>(list: &'a TaskList, id: &str) -> Result<&'a Task, Complaint> {
    let id = TaskId(id.into());
    list.task(&id).ok_or_else(|| {
        let names = list.tasks.iter().map(|task| task.id.0.as_str());
        let near = nearest(&id.0, names).map(|near| format!("did you mean `{near}`?"));
        let complaint = Complaint::of(ExitStatus::BadInput, &ChangeError::UnknownTask(id));
        complaint.hint(near.unwrap_or_else(|| "`ralph tasks list` shows all".into()))
    })
}

/// Returns the next free id, numbered like that of the last task.
fn free_id(list: &TaskList, dialect: Dialect) -> String {
    let first = match dialect {
        Dialect::Plan => "TASK-000",
        Dialect::Stories => "US-000",
    };
    let model = list.tasks.last().map_or(first, |task| task.id.0.as_str());
    let prefix = model.trim_end_matches(|it: char| it.is_ascii_digit());
    let width = model.len() - prefix.len();
    let numbers = list.tasks.iter().filter_map(|task| task.id.0.strip_prefix(prefix));
    let greatest = numbers.filter_map(|number| number.parse::<u64>().ok()).max().unwrap_or(0);
    let prefix = if width == 0 { format!("{prefix}-") } else { prefix.to_owned() };
    let mut number = greatest;
    loop {
        number = number.saturating_add(1);
        let id = format!("{prefix}{number:0width$}");
        if list.task(&TaskId(id.clone())).is_none() || number == u64::MAX {
            return id;
        }
    }
}

fn print(value: &Value) {
    screen::print_data(&format!("{value:#}\n"));
}

fn progress(list: &TaskList) -> Value {
    let progress = list.progress();
    json!({
        "total": progress.total,
        "pending": progress.pending,
        "inProgress": progress.in_progress,
        "done": progress.done,
        "failed": progress.failed,
        "skipped": progress.skipped,
    })
}

fn blocked(next: &Next<'_>) -> Value {
    match next {
        Next::Nothing { blocked } => json!(blocked),
        Next::Fix(_) | Next::Review(_) | Next::Implement(_) | Next::AllDone => json!([]),
    }
}

fn done_ids(list: &TaskList) -> BTreeSet<&TaskId> {
    list.tasks.iter().filter(|task| task.status.is_done()).map(|task| &task.id).collect()
}

fn facts(task: &Task, done: &BTreeSet<&TaskId>) -> Value {
    let waits_for: Vec<&TaskId> = task.depends_on.iter().filter(|id| !done.contains(id)).collect();
    json!({
        "id": task.id,
        "title": task.title,
        "description": task.description,
        "acceptanceCriteria": task.acceptance_criteria,
        "status": task.status,
        "order": task.order,
        "dependsOn": task.depends_on,
        "waitsFor": waits_for,
        "skills": task.skills,
        "libraries": task.libraries,
        "needsDocs": task.needs_docs,
        "maxTurns": task.max_turns,
        "maxRetries": task.max_retries,
        "attempts": task.attempts,
        "review": task.review,
        "notes": task.notes,
    })
}

fn problem_facts(problem: &FileProblem) -> Value {
    json!({
        "path": problem.at,
        "line": problem.position.map(|position| position.line),
        "column": problem.position.map(|position| position.column),
        "message": problem.message,
        "remedy": problem.remedy,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_id_continues_the_existing_numbers() {
        for (ids, dialect, expect) in [
            (&[][..], Dialect::Plan, "TASK-001"),
            (&[], Dialect::Stories, "US-001"),
            (&["TASK-009", "TASK-003"], Dialect::Plan, "TASK-010"),
            (&["US-999"], Dialect::Stories, "US-1000"),
            (&["a", "setup"], Dialect::Plan, "setup-1"),
            (&["setup-1", "setup"], Dialect::Plan, "setup-2"),
            (&["7"], Dialect::Plan, "8"),
        ] {
            let tasks = ids.iter().map(|id| Task::new(*id, "t")).collect();
            let list = TaskList { tasks, ..TaskList::default() };
            assert_eq!(free_id(&list, dialect), expect, "{ids:?}");
        }
    }
}
