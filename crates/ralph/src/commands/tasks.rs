//! `ralph tasks`: shows a task file and changes it by hand.
//!
//! Not here: working on the tasks, and how a list is drawn.

pub(crate) mod proposals;

use std::collections::BTreeSet;
use std::path::Path;

use ralph_core::nearest::find_nearest;
use ralph_core::tasks::next_work::{NextWork, RetryPolicy, choose_next_work};
use ralph_core::tasks::side_by_side::find_side_by_side;
use ralph_io::formats::{FileProblem, ListDialect, TaskFile, WriteError};
use ralph_io::process::Watch;
use ralph_io::store::{self, prompts};
use ralph_model::ids::TaskId;
use ralph_model::outcome::ExitStatus;
use ralph_model::review::{ReviewPolicy, ReviewState, ReviewStatus};
use ralph_model::task::{ChangeError, Task, TaskChange, TaskList, TaskStatus};
use ralph_model::text;
use serde_json::{Value, json};

use crate::cli::{
    CommonArgs, TasksAddArgs, TasksArgs, TasksCommand, TasksStatusArgs, TasksValidateArgs,
};
use crate::cli_error::CliError;
use crate::project::Project;
use crate::screen::{self, OutputStyle};
use crate::settings::{LoadedSettings, Settings};
use crate::{crash_recovery, task_file};

/// Runs the command.
pub(crate) fn main(common: &CommonArgs, args: &TasksArgs) -> Result<ExitStatus, CliError> {
    let project = Project::open_nearest(common)?;
    let loaded = project.load_settings(None, Vec::new())?;
    let settings = &loaded.settings;
    let plan = args.plan.as_deref();
    let context = TaskCommandContext {
        common,
        json: args.json,
        project: &project,
        loaded: &loaded,
        settings,
    };
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
        for warning in crash_recovery::end_killed_run(&project, &loaded)? {
            screen::print_warning(&warning);
        }
    }
    match args.command.as_ref().unwrap_or(&TasksCommand::List) {
        TasksCommand::Validate(args) => return context.validate_file(plan, args),
        TasksCommand::List => {
            let file = context.open_task_file(plan)?;
            context.print_list(&file, context.count_open_proposals(&file));
        }
        TasksCommand::Show { id } => {
            context.print_task_by_id(&context.open_task_file(plan)?, id)?;
        }
        TasksCommand::Proposals { command } => {
            proposals::main(&context, context.open_task_file(plan)?, command.as_ref())?;
        }
        TasksCommand::Add(add) => context.add_task(context.open_task_file(plan)?, add)?,
        TasksCommand::SetStatus(status) => {
            context.set_task_status(context.open_task_file(plan)?, status)?;
        }
    }
    Ok(ExitStatus::Complete)
}

/// What all these commands need.
struct TaskCommandContext<'a> {
    common: &'a CommonArgs,
    json: bool,
    project: &'a Project,
    loaded: &'a LoadedSettings,
    settings: &'a Settings,
}

impl TaskCommandContext<'_> {
    fn open_task_file(&self, plan: Option<&Path>) -> Result<TaskFile, CliError> {
        task_file::read_task_file(self.project, self.settings, plan)
    }

    /// Returns how many proposals about a task file wait for the user; 0 if they cannot be read.
    fn count_open_proposals(&self, file: &TaskFile) -> usize {
        let repository = self.project.find_repository(&Watch::new_detached()).ok().flatten();
        let layout = self.project.find_layout_in(self.loaded, repository.as_ref());
        layout.map_or(0, |layout| store::proposals::count_open(layout.state(), file.path()))
    }

    fn print_list(&self, file: &TaskFile, proposals: usize) {
        let list = file.list();
        let next = choose_next_work(list, self.review_policy(), self.retry_policy());
        let together = find_side_by_side(list, self.review_policy());
        if self.json {
            let done = collect_done_ids(list);
            return print_json(&json!({
                "file": self.format_path(file.path()),
                "form": file.dialect().tasks_key(),
                "project": list.project,
                "description": list.description,
                "branch": list.branch,
                "maxIterations": list.max_iterations,
                "validationStrategy": list.validation_strategy,
                "verifyCommands": list.verify_commands,
                "progress": convert_progress_to_json(list),
                "proposals": proposals,
                "next": next.role_and_task().map(|(role, task)| json!({"role": role, "task": task.id})),
                "sideBySide": together.together.iter().map(|task| &task.id).collect::<Vec<_>>(),
                "blocked": convert_blocked_to_json(&next),
                "tasks": list.tasks.iter().map(|task| convert_task_to_json(task, &done)).collect::<Vec<_>>(),
            }));
        }
        let screen = OutputStyle::for_stdout(self.common, &self.settings.ui);
        let mut text = ralph_ui::tasks::format_list(list, &next, &screen.style);
        text.push_str(&ralph_ui::tasks::format_side_by_side(&together));
        text.push_str(&proposals::format_reminder(proposals));
        screen::print_data(&text);
    }

    fn print_task_by_id(&self, file: &TaskFile, id: &str) -> Result<(), CliError> {
        let task = find_task(file.list(), id)?;
        self.print_task(file, task);
        Ok(())
    }

    fn add_task(&self, mut file: TaskFile, args: &TasksAddArgs) -> Result<(), CliError> {
        let list = file.list();
        let id = TaskId(args.id.clone().unwrap_or_else(|| find_free_id(list, file.dialect())));
        for known in args.depends_on.iter().chain(&args.after) {
            find_task(list, known)?;
        }
        let task = Task {
            description: args.description.clone().unwrap_or_else(|| args.title.clone()),
            acceptance_criteria: args.criterion.clone(),
            order: args.order,
            depends_on: args.depends_on.iter().cloned().map(TaskId).collect(),
            ..Task::new(id.0.clone(), args.title.clone())
        };
        let after = args.after.clone().map(TaskId);
        self.write_changes(&mut file, &[TaskChange::Add { task: Box::new(task), after }])?;
        self.print_task(&file, find_task(file.list(), &id.0)?);
        Ok(())
    }

    fn set_task_status(&self, mut file: TaskFile, args: &TasksStatusArgs) -> Result<(), CliError> {
        let task = find_task(file.list(), &args.id)?;
        let status = parse_status(&args.status)?;
        if status.is_done() {
            let waits = file.list().find_unmet_dependencies(task);
            if let Some(first) = waits.first() {
                let message = format!("`{}` cannot be done: it waits for `{first}`", task.id);
                return Err(CliError::for_input(message)
                    .with_hint(format!("`ralph tasks set-status {first} done` comes first")));
            }
        }
        let changes =
            build_changes_by_hand(task, status, args.note.as_deref(), self.review_policy());
        self.write_changes(&mut file, &changes)?;
        self.print_task(&file, find_task(file.list(), &args.id)?);
        Ok(())
    }

    /// Applies changes and writes the file. Fails if the result would be invalid.
    fn write_changes(&self, file: &mut TaskFile, changes: &[TaskChange]) -> Result<(), CliError> {
        file.apply_changes(changes).map_err(CliError::from_input_error)?;
        file.check_list().map_err(|problems| {
            // Without lines and columns, which are those of the unwritten text.
            let mistakes: Vec<String> =
                problems.iter().map(|problem| problem.message.clone()).collect();
            CliError::for_input(format!("that would be a mistake: {}", mistakes.join("; ")))
                .with_hint("the file was not changed")
        })?;
        let layout = self.project.find_layout(self.loaded)?;
        let backup = layout.prepare_backup_path(file.path()).map_err(CliError::from_input_error)?;
        file.write(&backup).map_err(|error| {
            let complaint = CliError::from_error(ExitStatus::BadInput, &error);
            match error {
                WriteError::Changed(_) => complaint.with_hint("try again"),
                WriteError::Io { .. } | WriteError::InvalidChange(_) => complaint,
            }
        })
    }

    fn validate_file(
        &self,
        plan: Option<&Path>,
        args: &TasksValidateArgs,
    ) -> Result<ExitStatus, CliError> {
        let path = task_file::find_task_file(self.project, self.settings, plan)?;
        task_file::check_link(self.project, &path)?;
        let checked = TaskFile::read(&path).and_then(|file| {
            if args.untouched {
                file.check_untouched()?;
            }
            file.check_keeps_commands(&args.keeps)?;
            file.check_skills(|name| self.has_skill(name))?;
            Ok(file)
        });
        let problems = checked.as_ref().err().cloned().unwrap_or_default();
        if self.json {
            print_json(&json!({
                "file": self.format_path(&path),
                "valid": problems.is_empty(),
                "problems": problems.iter().map(convert_problem_to_json).collect::<Vec<_>>(),
            }));
            let is_valid = problems.is_empty();
            return Ok(if is_valid { ExitStatus::Complete } else { ExitStatus::BadInput });
        }
        let file =
            checked.map_err(|problems| task_file::to_problems_error(self.project, &problems))?;
        let (tasks, name) = (file.list().tasks.len(), self.format_path(&path));
        let noun = if tasks == 1 { "task" } else { "tasks" };
        screen::print_data(&if args.untouched {
            format!("{}\n{name}: nothing has begun, no mistakes\n", summarize_list(&file))
        } else {
            format!("{name}: {tasks} {noun}, no mistakes\n")
        });
        Ok(ExitStatus::Complete)
    }

    /// Returns whether the project has a usable skill of this name.
    fn has_skill(&self, name: &str) -> bool {
        let directory = Path::new(&self.settings.skills_dir);
        matches!(prompts::read_skill(&self.project.directory, directory, name), Ok(Some(_)))
    }

    fn print_task(&self, file: &TaskFile, task: &Task) {
        if self.json {
            let task = convert_task_to_json(task, &collect_done_ids(file.list()));
            return print_json(&json!({"file": self.format_path(file.path()), "task": task}));
        }
        let screen = OutputStyle::for_stdout(self.common, &self.settings.ui);
        screen::print_data(&ralph_ui::tasks::format_task(task, file.list(), &screen.style));
    }

    fn format_path(&self, path: &Path) -> String {
        path.strip_prefix(&self.project.directory).unwrap_or(path).display().to_string()
    }

    fn review_policy(&self) -> ReviewPolicy {
        let review = &self.settings.review;
        if review.enabled { ReviewPolicy::Fresh { cap: review.cap } } else { ReviewPolicy::Skip }
    }

    fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy::WhileAttemptsLeft { usual: self.settings.tasks.max_attempts }
    }
}

/// Returns a short description of a list, such as `4 stories for notes`.
fn summarize_list(file: &TaskFile) -> String {
    let tasks = file.list().tasks.len();
    let noun = match (file.dialect(), tasks) {
        (ListDialect::Stories, 1) => "story",
        (ListDialect::Stories, _) => "stories",
        (ListDialect::Plan, 1) => "task",
        (ListDialect::Plan, _) => "tasks",
    };
    match file.list().project.trim() {
        "" => format!("{tasks} {noun}"),
        project => format!("{tasks} {noun} for {}", text::shorten_to_line(project, 40)),
    }
}

/// Parses a status that the user may set.
fn parse_status(word: &str) -> Result<TaskStatus, CliError> {
    let by_hand = "pending, done, failed or skipped";
    match TaskStatus::from_name(&word.replace('-', "_")) {
        Some(TaskStatus::InProgress) => {
            Err(CliError::for_input("`in_progress` cannot be set by hand: only a run sets it")
                .with_hint(format!("set {by_hand}")))
        }
        Some(status) => Ok(status),
        None => {
            let complaint = CliError::for_input(format!("there is no status `{word}`"));
            Err(match find_nearest(word, TaskStatus::ALL.map(TaskStatus::name)) {
                Some(near) => complaint.with_hint(format!("did you mean `{near}`?")),
                None => complaint.with_hint(format!("it is {by_hand}")),
            })
        }
    }
}

/// Returns the changes for a status set by hand: attempts and reviews must agree with it.
fn build_changes_by_hand(
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
            // Only a task that is done is approved.
            if task.review.status == ReviewStatus::Approved {
                ReviewStatus::None
            } else {
                task.review.status
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

pub(super) fn find_task<'a>(list: &'a TaskList, id: &str) -> Result<&'a Task, CliError> {
    let id = TaskId(id.into());
    list.find_task(&id).ok_or_else(|| {
        let names = list.tasks.iter().map(|task| task.id.0.as_str());
        let near = find_nearest(&id.0, names).map(|near| format!("did you mean `{near}`?"));
        let complaint = CliError::from_error(ExitStatus::BadInput, &ChangeError::UnknownTask(id));
        complaint.with_hint(near.unwrap_or_else(|| "`ralph tasks list` shows all".into()))
    })
}

/// Returns the next free id, numbered like that of the last task.
fn find_free_id(list: &TaskList, dialect: ListDialect) -> String {
    let first = match dialect {
        ListDialect::Plan => "TASK-000",
        ListDialect::Stories => "US-000",
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
        if list.find_task(&TaskId(id.clone())).is_none() || number == u64::MAX {
            return id;
        }
    }
}

fn print_json(value: &Value) {
    screen::print_data(&format!("{value:#}\n"));
}

fn convert_progress_to_json(list: &TaskList) -> Value {
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

fn convert_blocked_to_json(next: &NextWork<'_>) -> Value {
    match next {
        NextWork::Nothing { blocked } => json!(blocked),
        NextWork::Fix(_) | NextWork::Review(_) | NextWork::Implement(_) | NextWork::AllDone => {
            json!([])
        }
    }
}

fn collect_done_ids(list: &TaskList) -> BTreeSet<&TaskId> {
    list.tasks.iter().filter(|task| task.status.is_done()).map(|task| &task.id).collect()
}

fn convert_task_to_json(task: &Task, done: &BTreeSet<&TaskId>) -> Value {
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
        "touches": task.touches,
        "libraries": task.libraries,
        "needsDocs": task.needs_docs,
        "maxTurns": task.max_turns,
        "maxRetries": task.max_retries,
        "attempts": task.attempts,
        "review": task.review,
        "notes": task.notes,
    })
}

fn convert_problem_to_json(problem: &FileProblem) -> Value {
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
            (&[][..], ListDialect::Plan, "TASK-001"),
            (&[], ListDialect::Stories, "US-001"),
            (&["TASK-009", "TASK-003"], ListDialect::Plan, "TASK-010"),
            (&["US-999"], ListDialect::Stories, "US-1000"),
            (&["a", "setup"], ListDialect::Plan, "setup-1"),
            (&["setup-1", "setup"], ListDialect::Plan, "setup-2"),
            (&["7"], ListDialect::Plan, "8"),
        ] {
            let tasks = ids.iter().map(|id| Task::new(*id, "t")).collect();
            let list = TaskList { tasks, ..TaskList::default() };
            assert_eq!(find_free_id(&list, dialect), expect, "{ids:?}");
        }
    }
}
