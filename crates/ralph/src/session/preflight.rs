//! The checks before a run. When one fails, nothing was paid for and no work was changed.

use ralph_core::ports::Vcs;
use ralph_core::run_loop::engine::{EngineError, check_unchanged_since_end};
use ralph_io::git::{GitRepository, check_can_clone, find_needed_space};
use ralph_io::store::ProjectLayout;
use ralph_io::worker_slots::{find_free_space, list_slots};
use ralph_model::outcome::ExitStatus;
use ralph_model::recipe::{CommitPolicy, ParallelPolicy, Recipe};
use ralph_model::run::RunState;
use ralph_model::sandbox::{Backend, RequestedBackend};
use ralph_model::worktree::CommitId;
use ralph_ui::size::ByteSize;

use super::has_own_work;
use crate::cli_error::{CliError, to_engine_error};
use crate::crash_recovery::{CheckoutChange, find_checkout_change};
use crate::isolation;
use crate::project::Project;
use crate::run_context::{self, DirtyPlan};
use crate::settings::LoadedSettings;

/// What a run would start with.
pub(crate) struct PreflightInputs<'a> {
    pub(crate) project: &'a Project,
    pub(crate) loaded: &'a LoadedSettings,
    pub(crate) layout: &'a ProjectLayout,
    pub(crate) repository: Option<&'a GitRepository>,
    pub(crate) recipe: &'a Recipe,
    pub(crate) dirty: DirtyPlan,
    /// The state of a run that is resumed.
    pub(crate) resumed: Option<&'a RunState>,
}

/// The program behind the worker host `fleet`.
const FLEET: &str = "ralph-fleet";

/// A check before a run.
struct PreflightCheck {
    applies: AppliesTo,
    check: fn(&PreflightInputs<'_>) -> Result<(), CliError>,
}

/// The runs that a check is for.
enum AppliesTo {
    Both,
    New,
    Resumed,
}

/// The checks, in their order.
const PREFLIGHT: [PreflightCheck; 8] = [
    PreflightCheck { applies: AppliesTo::Both, check: check_repository_exists },
    PreflightCheck { applies: AppliesTo::Both, check: check_can_have_workers },
    PreflightCheck { applies: AppliesTo::Both, check: check_worker_host_exists },
    PreflightCheck { applies: AppliesTo::New, check: check_no_git_operation },
    PreflightCheck { applies: AppliesTo::Both, check: check_no_git_lock },
    PreflightCheck { applies: AppliesTo::Both, check: check_can_commit },
    PreflightCheck { applies: AppliesTo::Resumed, check: check_history_unmoved },
    PreflightCheck { applies: AppliesTo::Both, check: check_tree_is_clean },
];

/// Fails if the recipe needs a repository that does not exist.
fn check_repository_exists(run: &PreflightInputs<'_>) -> Result<(), CliError> {
    if run.repository.is_some() || !run.recipe.needs_git() {
        return Ok(());
    }
    if let Err(reason) = run.project.find_program("git") {
        let message =
            format!("this run commits or restores work, and git cannot be started: {reason}");
        return Err(CliError::new(ExitStatus::GitFailed, message)
            .with_hint("install git, or add its directory to the PATH"));
    }
    let project = run.layout.project().display();
    Err(CliError::new(
        ExitStatus::GitFailed,
        format!("`{project}` is not in a git repository, and this run commits or restores work"),
    )
    .with_hint("run `git init` first")
    .with_hint(
        "only `ralph run` works without git, if the settings have no `scm`, `commit` and `onFailure`",
    ))
}

/// Fails if the run is to work on several tasks at once and cannot.
fn check_can_have_workers(run: &PreflightInputs<'_>) -> Result<(), CliError> {
    let recipe = run.recipe;
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
    if run.dirty == DirtyPlan::Include {
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
    let Some(repository) = run.repository else {
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
    run: &PreflightInputs<'_>,
    policy: &ParallelPolicy,
    repository: &GitRepository,
) -> Result<(), CliError> {
    let PreflightInputs { project, loaded, .. } = *run;
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
fn check_worker_host_exists(run: &PreflightInputs<'_>) -> Result<(), CliError> {
    let Some(host) = run.recipe.parallel.as_ref().and_then(|policy| policy.host.as_deref()) else {
        return Ok(());
    };
    let program = host.strip_suffix(" workers").filter(|it| *it == FLEET).unwrap_or(host);
    let is_word = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    if !program.chars().all(is_word) || run.project.find_program(program).is_ok() {
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

/// Fails if another git holds a lock on the index or the branch, so that the first commit of the run
/// would fail.
fn check_no_git_lock(run: &PreflightInputs<'_>) -> Result<(), CliError> {
    let repository = match run.repository {
        Some(repository) if run.recipe.commits_everything() => repository,
        Some(_) | None => return Ok(()),
    };
    let Some(lock) = repository.find_lasting_lock() else { return Ok(()) };
    let message = format!("git cannot commit here while the lock file `{}` exists", lock.display());
    Err(CliError::new(ExitStatus::GitFailed, message).with_hint(
        "another git program is at work here, or one crashed; if none is running, remove the file",
    ))
}

/// Fails if the run makes commits and a merge, rebase or the like is in progress.
fn check_no_git_operation(run: &PreflightInputs<'_>) -> Result<(), CliError> {
    if run.recipe.commits_everything() {
        run_context::check_no_git_operation(run.repository)
    } else {
        Ok(())
    }
}

/// Fails if git could not make the commits of the run because the identity or the signing key is
/// missing.
fn check_can_commit(run: &PreflightInputs<'_>) -> Result<(), CliError> {
    match run.repository {
        Some(repository) if run.recipe.commits_everything() => {
            repository.check_identity().map_err(CliError::from_git_error)
        }
        Some(_) | None => Ok(()),
    }
}

/// Fails if the user moved the history since, for a run that could not record where it ended.
fn check_history_unmoved(run: &PreflightInputs<'_>) -> Result<(), CliError> {
    let (Some(repository), Some(state)) = (run.repository, run.resumed) else { return Ok(()) };
    let is_noted = state.end_snapshot.as_ref().is_some_and(|left| left.repository.is_some());
    if state.outcome.is_some() && is_noted {
        return Ok(());
    }
    match find_checkout_change(repository, &run.layout.run_dir(&state.run), state)? {
        Some(CheckoutChange { left, now }) => {
            Err(to_engine_error(&EngineError::Moved { left, now }))
        }
        None => Ok(()),
    }
}

fn check_tree_is_clean(run: &PreflightInputs<'_>) -> Result<(), CliError> {
    if run.resumed.is_some_and(has_own_work) {
        return Ok(());
    }
    // What a resumed run finds is not the work of another one.
    let others = run.resumed.is_none().then(|| run.layout.state());
    run_context::check_tree_is_clean(run.repository, others, run.recipe, run.dirty)
}

/// Runs the checks that apply to a run, up to the first that fails.
pub(super) fn run_checks(run: &PreflightInputs<'_>) -> Result<(), CliError> {
    for PreflightCheck { applies, check } in PREFLIGHT {
        match (applies, run.resumed) {
            (AppliesTo::New, Some(_)) | (AppliesTo::Resumed, None) => {}
            (AppliesTo::Both | AppliesTo::New | AppliesTo::Resumed, _) => check(run)?,
        }
    }
    Ok(())
}

/// Fails as a start of the run would, for a preview.
pub(crate) fn check_start(
    run: &PreflightInputs<'_>,
    vcs: Option<&mut dyn Vcs>,
) -> Result<(), CliError> {
    if !isolation::may_be_elsewhere(&run.recipe.sandbox, &run.project.env) {
        check_programs_exist(run.project, run.recipe, run.resumed)?;
    }
    run_checks(run)?;
    match (run.resumed, vcs) {
        (Some(state), Some(vcs)) => {
            check_unchanged_since_end(state, vcs).map_err(|error| to_engine_error(&error))
        }
        (_, _) => Ok(()),
    }
}

/// Fails if a program that the run needs on this machine is missing. The gates of a resumed run
/// cannot be changed any more, so it is not stopped by them.
pub(super) fn check_programs_exist(
    project: &Project,
    recipe: &Recipe,
    resumed: Option<&RunState>,
) -> Result<(), CliError> {
    project.check_agents_exist(recipe)?;
    if resumed.is_none() { project.check_gates_exist(recipe) } else { Ok(()) }
}
