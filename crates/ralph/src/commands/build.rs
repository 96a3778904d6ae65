//! `ralph build`: does the tasks of a list, one verified commit at a time.
//!
//! Not here: work by a plan that the agent maintains.

use std::path::Path;

use ralph_core::nearest::find_nearest;
use ralph_io::formats::TaskFile;
use ralph_io::git::GitRepository;
use ralph_io::store::layout::ProjectLayout;
use ralph_model::ids::TaskId;
use ralph_model::outcome::ExitStatus;
use ralph_model::recipe::{PlanPart, Retry};
use ralph_model::task::{TaskList, TaskStatus};
use serde_json::{Value, json};

use super::{dry_run, resume, run, specs};
use crate::cli::{BuildArgs, CommonArgs, StartArgs};
use crate::cli_error::CliError;
use crate::project::Project;
use crate::run_context::{self, DirtyPlan, FailureBranchPlan, FormerAttempt};
use crate::session::{self, StartOptions};
use crate::settings::{FlagSetting, LoadedSettings};
use crate::task_branch::{self, BranchChange};
use crate::workflow::WorkflowBasis;
use crate::{recipe, screen, task_file};

/// Runs the command.
pub(crate) fn main(common: &CommonArgs, args: &BuildArgs) -> Result<ExitStatus, CliError> {
    if let Some(prompt) = args.print_prompt {
        screen::print_data(prompt.template());
        return Ok(ExitStatus::Complete);
    }
    start_build(common, args, BranchStep::Settle)
}

/// Whether the branch is still to be settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BranchStep {
    Settle,
    Done,
}

fn start_build(
    common: &CommonArgs,
    args: &BuildArgs,
    branch: BranchStep,
) -> Result<ExitStatus, CliError> {
    let project = Project::open_for_work(common)?;
    let mut loaded = run::load_for_start(&project, &args.start, read_flags(args)?)?;
    if let Some(run) = run::choose_resume(&project, &mut loaded, &args.start)? {
        return resume::resume_instead(common, &run, &args.start);
    }
    match (WorkflowBasis::detect(&project, &loaded), find_task_flag(args)) {
        (WorkflowBasis::Specs, Some(flag)) if args.plan.is_none() => {
            return Err(CliError::for_input(format!(
                "{flag} is about a task list, and this is work by specifications"
            ))
            .with_hint(
                "`\"workflow\": \"tasks\"` in the settings, or --plan FILE, means a task list",
            ));
        }
        (WorkflowBasis::Tasks, _) | (WorkflowBasis::Specs | WorkflowBasis::Unknown, Some(_)) => {}
        (WorkflowBasis::Specs | WorkflowBasis::Unknown, None) => {
            return specs::main(common, &project, loaded, &args.start, PlanPart::Follows);
        }
    }
    let file = task_file::read_task_file(&project, &loaded.settings, args.plan.as_deref())?;
    if file.list().tasks.is_empty() {
        let list = format_task_file(&project, &file);
        let mut complaint = CliError::for_input(format!("`{list}` has no tasks"))
            .with_hint("`ralph plan` makes them from the requirements, `ralph tasks add` adds one");
        for other in task_file::find_other_task_files(&project, &list) {
            complaint = complaint.with_hint(format!(
                "`{other}` exists too: `\"tasks\": {{ \"file\": \"{other}\" }}` in the settings uses it"
            ));
        }
        return Err(complaint);
    }
    let StartArgs { include_dirty, set_aside, limits, dry_run, .. } = &args.start;
    let options = run::read_start_options(*include_dirty, *set_aside, limits);
    if branch == BranchStep::Settle && !dry_run {
        let flag = args.branch.as_deref();
        match settle_list_branch(&project, &mut loaded, &file, flag, options.dirty)? {
            BranchChange::Kept => {}
            // The settings and the list may be others there.
            BranchChange::Switched => return start_build(common, args, BranchStep::Done),
        }
    }
    let only = args.task.as_ref().map(|name| find_task_id(file.list(), name)).transpose()?;
    let retry = match (&only, args.retry_failed) {
        (Some(task), _) => Retry::Only(task.clone()),
        (None, true) => Retry::All,
        (None, false) => Retry::Nothing,
    };
    let place = (file.path().to_owned(), file.dialect().list_form());
    let mut recipe = recipe::for_tasks(&loaded, place, file.list(), only.clone(), retry)?;
    project.add_locked_paths(&mut recipe, &loaded);
    if *dry_run {
        return dry_run::print_start(&project, &loaded, recipe, &options);
    }
    let plan = choose_failure_branch_plan(args);
    let retried = file.list().tasks.iter().filter(|task| {
        task.status == TaskStatus::Failed
            && only.as_ref().map_or(args.retry_failed, |only| *only == task.id)
    });
    let former = retried.map(|task| FormerAttempt { task: task.id.clone(), plan }).collect();
    let config = args.start.config.clone();
    let options = StartOptions { former_attempts: former, config, ..options };
    session::start_run(common, &project, &loaded, recipe, &options)
}

/// Settles the branch of a list, unless uncommitted changes refuse the run on any branch.
fn settle_list_branch(
    project: &Project,
    loaded: &mut LoadedSettings,
    file: &TaskFile,
    flag: Option<&str>,
    dirty: DirtyPlan,
) -> Result<BranchChange, CliError> {
    let place = (file.path().to_owned(), file.dialect().list_form());
    // If this list makes no run, that of the other branch still may.
    let recipe = recipe::for_tasks(loaded, place, file.list(), None, Retry::Nothing).ok();
    let check = |repository: &mut GitRepository, layout: &ProjectLayout| {
        let Some(recipe) = &recipe else { return Ok(()) };
        run_context::register_task_documents(repository, layout.project(), recipe);
        run_context::check_tree_is_clean(Some(&*repository), Some(layout.state()), recipe, dirty)
    };
    task_branch::settle_branch(project, loaded, file.list().branch.as_deref(), flag, check)
}

/// Returns the first given flag that needs a task list.
fn find_task_flag(args: &BuildArgs) -> Option<&'static str> {
    let flags = [
        (args.plan.is_some(), "--plan"),
        (args.task.is_some(), "--task"),
        (args.skip_review, "--skip-review"),
        (args.review_cap.is_some(), "--review-cap"),
        (args.retry_failed, "--retry-failed"),
        (args.branch.is_some(), "--branch"),
        (args.jobs.is_some_and(|jobs| jobs > 1), "--jobs"),
        (args.worker_host.is_some(), "--worker-host"),
    ];
    flags.into_iter().find_map(|(is_there, name)| is_there.then_some(name))
}

fn choose_failure_branch_plan(args: &BuildArgs) -> FailureBranchPlan {
    match (args.from_shelf, args.fresh) {
        (true, _) => FailureBranchPlan::Take,
        (false, true) => FailureBranchPlan::Archive,
        (false, false) if args.task.is_none() => FailureBranchPlan::Archive,
        (false, false) => FailureBranchPlan::Ask,
    }
}

fn format_task_file(project: &Project, file: &TaskFile) -> String {
    let path: &Path = file.path();
    path.strip_prefix(&project.directory).unwrap_or(path).display().to_string()
}

/// Returns the task that a flag names.
pub(super) fn find_task_id(list: &TaskList, name: &str) -> Result<TaskId, CliError> {
    let id = TaskId(name.to_owned());
    if list.find_task(&id).is_some() {
        return Ok(id);
    }
    let complaint = CliError::for_input(format!("there is no task `{name}`"));
    Err(match find_nearest(name, list.tasks.iter().map(|task| task.id.0.as_str())) {
        Some(meant) => complaint.with_hint(format!("did you mean `{meant}`?")),
        None => complaint.with_hint("`ralph tasks list` shows all tasks"),
    })
}

/// Returns the values of the flags, the last layer of the settings.
fn read_flags(args: &BuildArgs) -> Result<Vec<FlagSetting>, CliError> {
    let mut flags = run::read_start_flags(&args.start)?;
    if args.task.is_none() {
        flags.extend(run::read_count_flag(args.count, &args.start, "build")?);
    }
    let mut set = |name: &str, path: &str, value: Value| {
        flags.push(FlagSetting::new(name, path, value));
    };
    if let (Some(attempts), Some(_)) = (args.count, &args.task) {
        set("N", "tasks.maxAttempts", json!(attempts));
    }
    if let Some(jobs) = args.jobs {
        set("--jobs", "parallel.jobs", json!(jobs));
    }
    if let Some(host) = &args.worker_host {
        set("--worker-host", "parallel.workerHost", json!(host));
    }
    if args.skip_review {
        set("--skip-review", "review.enabled", json!(false));
    }
    if let Some(cap) = args.review_cap {
        set("--review-cap", "review.cap", json!(cap));
    }
    if let Some(factor) = args.timeout_multiplier {
        if !(factor.is_finite() && (0.01..=1000.0).contains(&factor)) {
            return Err(CliError::for_input(format!(
                "--timeout-multiplier {factor} is not between 0.01 and 1000"
            )));
        }
        set("--timeout-multiplier", "timeoutMultiplier", json!(factor));
    }
    Ok(flags)
}
