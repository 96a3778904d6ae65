//! `ralph build`: does the tasks of a list, one verified commit at a time.
//!
//! Not here: work by a plan that the agent maintains.

use std::path::Path;

use ralph_core::ids::TaskId;
use ralph_core::nearest::nearest;
use ralph_core::outcome::ExitStatus;
use ralph_core::recipe::{PlanPart, Retry};
use ralph_core::task::{TaskList, TaskStatus};
use ralph_io::formats::TaskFile;
use serde_json::{Value, json};

use super::{dry_run, run, specs};
use crate::cli::{BuildArgs, CommonArgs};
use crate::complaint::Complaint;
use crate::desk::{ShelfPlan, Shelved};
use crate::equip::{Asking, equipped};
use crate::project::Project;
use crate::recipe;
use crate::screen;
use crate::session::{self, Wishes};
use crate::settings::FlagValue;
use crate::task_file;
use crate::workflow::Basis;

/// Runs the command.
pub(crate) fn main(common: &CommonArgs, args: &BuildArgs) -> Result<ExitStatus, Complaint> {
    if let Some(prompt) = args.print_prompt {
        screen::print_data(prompt.template());
        return Ok(ExitStatus::Complete);
    }
    let project = Project::open_for_work(common)?;
    let loaded = run::load(&project, &args.start, flags(args)?)?;
    match (Basis::of(&project, &loaded), of_tasks(args)) {
        (Basis::Specs, Some(flag)) if args.plan.is_none() => {
            return Err(Complaint::input(format!(
                "{flag} is about a task list, and this is work by specifications"
            ))
            .hint("`\"workflow\": \"tasks\"` in the settings, or --plan FILE, means a task list"));
        }
        (Basis::Tasks, _) | (Basis::Specs | Basis::Unknown, Some(_)) => {}
        (Basis::Specs | Basis::Unknown, None) => {
            return specs::main(common, &project, loaded, &args.start, PlanPart::Follows);
        }
    }
    let file = task_file::open(&project, &loaded.settings, args.plan.as_deref())?;
    if file.list().tasks.is_empty() {
        let list = shown(&project, &file);
        let mut complaint = Complaint::input(format!("`{list}` has no tasks"))
            .hint("`ralph plan` makes them from the requirements, `ralph tasks add` adds one");
        for other in task_file::others(&project, &list) {
            complaint = complaint.hint(format!(
                "`{other}` is there too: `\"tasks\": {{ \"file\": \"{other}\" }}` in the settings uses it"
            ));
        }
        return Err(complaint);
    }
    let only = args.task.as_ref().map(|name| known(file.list(), name)).transpose()?;
    let retry = match (&only, args.retry_failed) {
        (Some(task), _) => Retry::Only(task.clone()),
        (None, true) => Retry::All,
        (None, false) => Retry::Nothing,
    };
    let place = (file.path().to_owned(), file.dialect().form());
    let mut recipe = recipe::for_tasks(&loaded, place, file.list(), only.clone(), retry)?;
    project.lock(&mut recipe, &loaded);
    if args.start.dry_run {
        let recipe = equipped(&project, recipe, Asking::Memory);
        return dry_run::main(&project, &loaded, &recipe);
    }
    let has_failed =
        |id: &TaskId| file.list().task(id).is_some_and(|task| task.status == TaskStatus::Failed);
    let former = only.filter(has_failed).map(|task| Shelved { task, plan: shelf_plan(args) });
    let options = Wishes { shelf: former, ..run::wishes(&args.start) };
    session::start(common, &project, &loaded, recipe, &options)
}

/// Returns the first given flag that needs a task list.
fn of_tasks(args: &BuildArgs) -> Option<&'static str> {
    let flags = [
        (args.plan.is_some(), "--plan"),
        (args.task.is_some(), "--task"),
        (args.skip_review, "--skip-review"),
        (args.review_cap.is_some(), "--review-cap"),
        (args.retry_failed, "--retry-failed"),
    ];
    flags.into_iter().find_map(|(is_there, name)| is_there.then_some(name))
}

fn shelf_plan(args: &BuildArgs) -> ShelfPlan {
    match (args.from_shelf, args.fresh) {
        (true, _) => ShelfPlan::Take,
        (false, true) => ShelfPlan::Archive,
        (false, false) => ShelfPlan::Ask,
    }
}

fn shown(project: &Project, file: &TaskFile) -> String {
    let path: &Path = file.path();
    path.strip_prefix(&project.directory).unwrap_or(path).display().to_string()
}

/// Returns the task that a flag names.
pub(super) fn known(list: &TaskList, name: &str) -> Result<TaskId, Complaint> {
    let id = TaskId(name.to_owned());
    if list.task(&id).is_some() {
        return Ok(id);
    }
    let complaint = Complaint::input(format!("there is no task `{name}`"));
    Err(match nearest(name, list.tasks.iter().map(|task| task.id.0.as_str())) {
        Some(meant) => complaint.hint(format!("did you mean `{meant}`?")),
        None => complaint.hint("`ralph tasks list` shows the tasks there are"),
    })
}

/// Returns the values of the flags, the last layer of the settings.
fn flags(args: &BuildArgs) -> Result<Vec<FlagValue>, Complaint> {
    let mut flags = run::start_flags(&args.start)?;
    if args.task.is_none() {
        flags.extend(run::count_flag(args.count, &args.start, "build")?);
    }
    let mut set = |name: &str, path: &str, value: Value| {
        flags.push(FlagValue { name: name.to_owned(), path: path.to_owned(), value });
    };
    if let (Some(attempts), Some(_)) = (args.count, &args.task) {
        set("N", "tasks.maxAttempts", json!(attempts));
    }
    if args.skip_review {
        set("--skip-review", "review.enabled", json!(false));
    }
    if let Some(cap) = args.review_cap {
        set("--review-cap", "review.cap", json!(cap));
    }
    if let Some(factor) = args.timeout_multiplier {
        if !(factor.is_finite() && (0.01..=1000.0).contains(&factor)) {
            return Err(Complaint::input(format!(
                "--timeout-multiplier {factor} is not between 0.01 and 1000"
            )));
        }
        set("--timeout-multiplier", "timeoutMultiplier", json!(factor));
    }
    Ok(flags)
}
