//! The checks before a run. When one fails, nothing was paid for and no work was changed.

use ralph_io::git::{GitRepository, check_can_clone, find_needed_space};
use ralph_io::worker_slots::{find_free_space, list_slots};
use ralph_model::recipe::{CommitPolicy, ParallelPolicy};
use ralph_model::sandbox::{Backend, RequestedBackend};
use ralph_model::worktree::CommitId;
use ralph_ui::size::ByteSize;

use super::{Invocation, OpenedRun, RunOrigin};
use crate::cli_error::CliError;
use crate::run_context::{self, DirtyPlan};

/// The program behind the worker host `fleet`.
const FLEET: &str = "ralph-fleet";

/// A check before a run.
struct PreflightCheck {
    applies: AppliesTo,
    check: fn(&OpenedRun<'_>) -> Result<(), CliError>,
}

/// The runs that a check is for.
enum AppliesTo {
    Both,
    New,
    Resumed,
}

/// The checks, in their order.
const PREFLIGHT: [PreflightCheck; 9] = [
    PreflightCheck { applies: AppliesTo::Both, check: check_repository_exists },
    PreflightCheck { applies: AppliesTo::Both, check: check_can_have_workers },
    PreflightCheck { applies: AppliesTo::Both, check: check_worker_host_exists },
    PreflightCheck { applies: AppliesTo::New, check: check_no_git_operation },
    PreflightCheck { applies: AppliesTo::Both, check: check_no_git_lock },
    PreflightCheck { applies: AppliesTo::Both, check: check_can_commit },
    PreflightCheck { applies: AppliesTo::Resumed, check: check_history_unmoved },
    PreflightCheck { applies: AppliesTo::Both, check: check_tree_is_clean },
    PreflightCheck { applies: AppliesTo::New, check: check_refused_paths_restored },
];

fn check_refused_paths_restored(run: &OpenedRun<'_>) -> Result<(), CliError> {
    run.context.check_refused_paths_restored()
}

fn check_repository_exists(run: &OpenedRun<'_>) -> Result<(), CliError> {
    run.context.check_repository_exists(&run.recipe)
}

/// Fails if the run is to work on several tasks at once and cannot.
fn check_can_have_workers(run: &OpenedRun<'_>) -> Result<(), CliError> {
    let (recipe, options) = (&run.recipe, run.invocation.options);
    let Some(policy) = &recipe.parallel else { return Ok(()) };
    let refuse = |why: &str, hint: &str| Err(build_refusal(policy, why).with_hint(hint));
    if recipe.is_list_owned_by_agent() {
        return refuse(
            "the agent keeps the task list, and several agents cannot write one list",
            "`\"tasks\": { \"keeper\": \"ralph\" }` in the settings makes ralph keep it",
        );
    }
    if recipe.landing.commit != CommitPolicy::Ralph {
        return refuse(
            "the settings do not let ralph itself commit, and only its own commits can be merged",
            "`\"commit\": \"ralph\"` in the settings, without `scm`, makes ralph commit",
        );
    }
    if options.dirty == DirtyPlan::Include {
        return refuse(
            "--include-dirty makes uncommitted changes part of one task, and workers start from \
             the last commit",
            "commit them, or pass --set-aside",
        );
    }
    let is_local = policy.host.is_none();
    if is_local && recipe.sandbox.backend == RequestedBackend::This(Backend::Sbx) {
        return refuse(
            "a VM does not see the git objects that a worker's clone borrows",
            "--sandbox=native or another backend works",
        );
    }
    let Some(repository) = run.context.repository() else {
        return refuse("there is no git repository", "`git init` makes one");
    };
    if let Err(obstacle) = check_can_clone(repository, &policy.clones) {
        let refusal = build_refusal(policy, &obstacle.reason);
        return Err(obstacle.hint.into_iter().fold(refusal, CliError::with_hint));
    }
    if is_local { check_clones_fit(run, policy, repository) } else { Ok(()) }
}

fn build_refusal(policy: &ParallelPolicy, why: &str) -> CliError {
    let message = format!("--jobs {} does not work here: {why}", policy.jobs);
    CliError::for_input(message).with_hint("--jobs 1 works on one task at a time")
}

/// Fails if there is too little disk space for the clones that are not there yet.
fn check_clones_fit(
    run: &OpenedRun<'_>,
    policy: &ParallelPolicy,
    repository: &GitRepository,
) -> Result<(), CliError> {
    let Invocation { project, loaded, .. } = run.invocation;
    let root = match &policy.clones.directory {
        Some(directory) => project.directory.join(directory),
        None => project.find_state_root(loaded)?,
    };
    let slots = list_slots(&root, repository.top()).len() as u64;
    let missing = u64::from(policy.jobs).saturating_sub(slots);
    let head = CommitId("HEAD".to_owned());
    let one = find_needed_space(repository, &head, &policy.clones.include)
        .map_err(CliError::from_git_error)?;
    let needed = one.saturating_mul(missing).saturating_add(policy.clones.keep_free);
    // Where it cannot be known, each worker checks again.
    let Ok(free) = find_free_space(&root) else { return Ok(()) };
    if free >= needed {
        return Ok(());
    }
    let why = format!(
        "{missing} new clones in `{}` need {}, {} must stay free, and {} are free",
        root.display(),
        ByteSize(one.saturating_mul(missing)),
        ByteSize(policy.clones.keep_free),
        ByteSize(free)
    );
    Err(build_refusal(policy, &why).with_hint(
        "`parallel.directory` moves the clones to another disk, `parallel.keepFree` sets what stays \
         free",
    ))
}

/// Fails if the worker host is a single word, and neither a name of the settings nor a program: it
/// would be run as a command, and every worker would be lost.
fn check_worker_host_exists(run: &OpenedRun<'_>) -> Result<(), CliError> {
    let Some(host) = run.recipe.parallel.as_ref().and_then(|policy| policy.host.as_deref()) else {
        return Ok(());
    };
    let program = host.strip_suffix(" workers").filter(|it| *it == FLEET).unwrap_or(host);
    let is_word = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    if !program.chars().all(is_word) || run.invocation.project.find_program(program).is_ok() {
        return Ok(());
    }
    let complaint = CliError::for_input(format!("there is no worker host `{host}`"));
    Err(if program == FLEET {
        complaint.with_hint(format!("`{FLEET}` must be on the `PATH` of this machine"))
    } else {
        complaint.with_hint(format!(
            "`{program}` is not in `parallel.workerHosts` and no program has this name"
        ))
    })
}

fn check_no_git_lock(run: &OpenedRun<'_>) -> Result<(), CliError> {
    run.context.check_no_git_lock(&run.recipe)
}

fn check_no_git_operation(run: &OpenedRun<'_>) -> Result<(), CliError> {
    run.context.check_no_git_operation_for(&run.recipe)
}

fn check_can_commit(run: &OpenedRun<'_>) -> Result<(), CliError> {
    run.context.check_can_commit(&run.recipe)
}

fn check_history_unmoved(run: &OpenedRun<'_>) -> Result<(), CliError> {
    match &run.origin {
        RunOrigin::New => Ok(()),
        RunOrigin::Resumed(state) => run.context.check_history_unmoved(state),
    }
}

fn check_tree_is_clean(run: &OpenedRun<'_>) -> Result<(), CliError> {
    if run.origin.has_own_work() {
        return Ok(());
    }
    let (context, dirty) = (&run.context, run.invocation.options.dirty);
    // What a resumed run finds is not the work of another one.
    let others = match run.origin {
        RunOrigin::New => Some(context.layout.state()),
        RunOrigin::Resumed(_) => None,
    };
    run_context::check_tree_is_clean(context.repository(), others, &run.recipe, dirty)
}

/// Runs the checks that apply to a run, up to the first that fails.
pub(super) fn run_checks(run: &OpenedRun<'_>) -> Result<(), CliError> {
    for PreflightCheck { applies, check } in PREFLIGHT {
        match (applies, &run.origin) {
            (AppliesTo::New, RunOrigin::Resumed(_)) | (AppliesTo::Resumed, RunOrigin::New) => {}
            (AppliesTo::Both | AppliesTo::New | AppliesTo::Resumed, _) => check(run)?,
        }
    }
    Ok(())
}
