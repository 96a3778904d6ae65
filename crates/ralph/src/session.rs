//! Starts or resumes a run and connects its parts; nothing else does.
//!
//! Not here: any decision. The engine makes those; this module gives it its ports and turns its
//! outcome into an exit code.

use std::path::{Path, PathBuf};

use ralph_core::ports::{Ports, Ui, Vcs};
use ralph_core::run_loop::engine::{Engine, EngineError, RunStart};
use ralph_io::agent_runner::AgentRunner;
use ralph_io::clock;
use ralph_io::control::Inbox;
use ralph_io::gates::CommandGates;
use ralph_io::git::NoRepository;
use ralph_io::mask::Masker;
use ralph_io::process::{self, RUN_ID_VARIABLE, Warden};
use ralph_io::run_clock::RunClock;
use ralph_io::sandbox::{BackendConfig, ChosenBackend, ProgramSource};
use ralph_io::sleep_inhibitor::SleepInhibitor;
use ralph_io::store::active::{self, ACTIVE_VARIABLE, WINDOW_VARIABLE};
use ralph_io::store::draft::RunDraft;
use ralph_io::store::{Journal, ProjectLayout, RunStore, journal, run_id};
use ralph_model::hook_state::HookState;
use ralph_model::ids::RunId;
use ralph_model::outcome::{ExitStatus, Outcome};
use ralph_model::recipe::Recipe;
use ralph_model::run::RunState;
use ralph_model::sandbox::RequestedBackend;
use ralph_model::units::Millis;
use ralph_ui::view::Fanout;

use crate::agent_versions::{VersionSource, with_agent_versions};
use crate::cli::CommonArgs;
use crate::cli_error::{CliError, to_engine_error};
use crate::isolation::{self, RunIsolation, SandboxContext};
use crate::project::{Project, find_own_executable};
use crate::run_context::{DirtyPlan, FormerAttempt, RunContext};
use crate::settings::LoadedSettings;
use crate::subscribers::{self, RunSubscribers};
use crate::{guard_self_test, memory_setup, plugin, secrets};

/// The version of this binary.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Options of the command line that are not part of the recipe.
#[derive(Debug, Clone)]
pub(crate) struct StartOptions {
    /// What to do with uncommitted changes if the run makes commits.
    pub(crate) dirty: DirtyPlan,
    /// The exit status of a run whose work is not complete.
    pub(crate) incomplete: ExitStatus,
    /// What to do with the failure branch of a task that is tried again.
    pub(crate) former_attempt: Option<FormerAttempt>,
}

/// Starts a run and drives it to its end.
pub(crate) fn start_run(
    common: &CommonArgs,
    project: &Project,
    loaded: &LoadedSettings,
    recipe: Recipe,
    options: &StartOptions,
) -> Result<ExitStatus, CliError> {
    let is_open = isolation::may_be_elsewhere(&recipe.sandbox, &project.env);
    if !is_open {
        project.check_agents_exist(&recipe)?;
        project.check_gates_exist(&recipe)?;
    }
    let plan = subscribers::SubscriberSettings::from_settings(&project.env, loaded)?;
    let mut context = RunContext::open(common, project, loaded)?;
    context.check_repository_exists(&recipe)?;
    context.register_task_file(&recipe);
    context.check_no_git_operation_for(&recipe)?;
    context.check_can_commit(&recipe)?;
    let still_aside = context.restore_orphaned_set_aside()?;
    context.check_tree_is_clean(&recipe, options.dirty)?;
    let chosen = {
        let site = build_sandbox_context(&context, project, loaded, context.layout.state())?;
        let chosen = isolation::choose_recipe_backend(&site, &recipe)?;
        match isolation::find_program_location(&chosen) {
            ProgramSource::Machine if is_open => {
                project.check_agents_exist(&recipe)?;
                project.check_gates_exist(&recipe)?;
            }
            ProgramSource::Machine => {}
            ProgramSource::Image => {
                let mut programs = Project::list_programs_needed_by(&recipe);
                programs.extend(site.repository.map(|_| "git"));
                isolation::check_image_programs(&site, &recipe, &chosen, &programs)?;
            }
        }
        chosen
    };
    let ground = isolation::find_program_location(&chosen);
    let recipe = with_agent_versions(project, recipe, choose_version_source(ground, &context));
    let recipe = memory_setup::with_memory(&context.layout, recipe);
    guard_self_test::run(&context, &recipe)?;
    let (run, files) =
        run_id::create_run(&context.layout, clock::now()).map_err(CliError::from_input_error)?;
    let journal = Journal::create(&files.journal_path()).map_err(CliError::from_input_error)?;
    let (mut recipe, servers) = memory_setup::choose_servers(project, files.path(), recipe)?;
    memory_setup::write_server_files(&servers)?;
    // A run that cannot be isolated has not begun: its files are removed.
    let isolation = build_isolation(&context, project, loaded, &run, &recipe, chosen)
        .inspect_err(|_| drop(std::fs::remove_dir_all(files.path())))?;
    context.set_aside(&run, options.dirty)?;
    context.handle_failure_branch(&run, options.former_attempt.as_ref())?;
    context.begin_draft(&run, &recipe)?;
    // A resumed run must not be isolated less.
    recipe.sandbox.backend = RequestedBackend::This(isolation.backend);
    let mut warnings = context.collect_warnings(loaded, &recipe);
    warnings.extend(isolation.warnings.clone());
    warnings.extend(still_aside);
    let setup = RunSetup {
        run: run.clone(),
        journal,
        before: Millis::ZERO,
        draft: context.find_draft(&run, &recipe),
        recipe: recipe.clone(),
        isolation,
        masker: secrets::build_masker(&context.env, &recipe),
        incomplete: options.incomplete,
        plan,
    };
    let project = project.directory.clone();
    let start = RunStart { run, project, recipe, version: VERSION.to_owned() };
    drive_run(&context, setup, |ports, subscribers| {
        run_to_completion(Engine::start_run(ports, start)?, warnings, subscribers)
    })
}

/// Resumes a run.
pub(crate) fn resume_run(
    common: &CommonArgs,
    project: &Project,
    loaded: &LoadedSettings,
    run: &RunId,
    change: impl FnOnce(&Recipe) -> Result<Option<Recipe>, CliError>,
    options: &StartOptions,
) -> Result<ExitStatus, CliError> {
    let plan = subscribers::SubscriberSettings::from_settings(&project.env, loaded)?;
    let mut context = RunContext::open(common, project, loaded)?;
    let path = context.layout.run_dir(run).journal_path();
    // The journal is opened before it is read: opening drops a torn last line.
    let journal = Journal::open_for_append(&path).map_err(CliError::from_input_error)?;
    let state = read_stopped_run(project, loaded, &context.layout, run)?;
    let changed = change(&state.recipe)?;
    let wanted = changed.as_ref().unwrap_or(&state.recipe);
    let chosen = {
        let site = build_sandbox_context(&context, project, loaded, context.layout.state())?;
        isolation::choose_recipe_backend(&site, wanted)?
    };
    let ground = isolation::find_program_location(&chosen);
    // In an image, the first call reports what is missing inside.
    if ground == ProgramSource::Machine {
        project.check_agents_exist(wanted)?;
    }
    // The agents may have been updated since.
    let with_versions =
        with_agent_versions(project, wanted.clone(), choose_version_source(ground, &context));
    let (updated, servers) =
        memory_setup::choose_servers(project, context.layout.run_dir(run).path(), with_versions)?;
    memory_setup::write_server_files(&servers)?;
    let changed = (updated != state.recipe).then_some(updated);
    let recipe = changed.as_ref().unwrap_or(&state.recipe);
    let mut isolation = build_isolation(&context, project, loaded, run, recipe, chosen)?;
    isolation.remove_leftovers(&context.watch);
    guard_self_test::run(&context, recipe)?;
    context.check_repository_exists(recipe)?;
    context.check_can_commit(recipe)?;
    context.register_task_file(recipe);
    // Uncommitted work belongs to the run, between two attempts as well.
    if state.current.is_none() && state.base.is_none() {
        context.check_tree_is_clean(recipe, options.dirty)?;
        context.set_aside(run, options.dirty)?;
    }
    context.restore_draft(run, recipe)?;
    // The warden has most likely done this already, when the run was killed.
    process::sweep_run(&run.0);
    let mut warnings = match &state.outcome {
        Some(_) => {
            context.check_history_unmoved(&state)?;
            Vec::new()
        }
        None => context.unlock_repository(&state)?,
    };
    warnings.extend(isolation.warnings.clone());
    let setup = RunSetup {
        run: run.clone(),
        journal,
        before: state.ran,
        draft: context.find_draft(run, recipe),
        recipe: recipe.clone(),
        isolation,
        masker: secrets::build_masker(&context.env, recipe),
        incomplete: options.incomplete,
        plan,
    };
    drive_run(&context, setup, |ports, subscribers| {
        subscribers.replay_past_events(&path);
        let engine = Engine::resume_run(ports, state, VERSION.to_owned(), changed)?;
        run_to_completion(engine, warnings, subscribers)
    })
}

/// Restores what a run that was killed after its end had set aside. Errors are ignored: the next
/// run reports them.
pub(crate) fn restore_set_aside(common: &CommonArgs, project: &Project, loaded: &LoadedSettings) {
    if let Ok(context) = RunContext::open(common, project, loaded) {
        let _ = context.restore_orphaned_set_aside();
        context.flush_terminal();
    }
}

/// Runs the loop, then waits for notifications and telemetry. Failed deliveries become warnings.
fn run_to_completion(
    mut engine: Engine<'_>,
    warnings: Vec<String>,
    subscribers: &RunSubscribers,
) -> Result<Outcome, EngineError> {
    for warning in warnings {
        engine.warn(warning)?;
    }
    let outcome = engine.run();
    let undelivered = subscribers.wait_for_delivery();
    let outcome = outcome?;
    for warning in undelivered {
        engine.warn(warning)?;
    }
    Ok(outcome)
}

/// Builds the sandbox of a run.
fn build_isolation(
    context: &RunContext,
    project: &Project,
    loaded: &LoadedSettings,
    run: &RunId,
    recipe: &Recipe,
    chosen: ChosenBackend<BackendConfig>,
) -> Result<RunIsolation, CliError> {
    let files = context.layout.run_dir(run);
    RunIsolation::for_run(
        &build_sandbox_context(context, project, loaded, files.path())?,
        recipe,
        chosen,
    )
}

/// Returns how to find agent versions: only programs on this machine can be started.
fn choose_version_source(ground: ProgramSource, context: &RunContext) -> VersionSource<'_> {
    match ground {
        ProgramSource::Machine => VersionSource::Programs(&context.watch),
        ProgramSource::Image => VersionSource::Unknown,
    }
}

fn build_sandbox_context<'a>(
    context: &'a RunContext,
    project: &'a Project,
    loaded: &LoadedSettings,
    run: &'a Path,
) -> Result<SandboxContext<'a>, CliError> {
    Ok(SandboxContext {
        project: &project.directory,
        repository: context.repository(),
        state: context.layout.state(),
        state_root: project.find_state_root(loaded)?,
        run,
        env: &context.env,
        watch: &context.watch,
    })
}

/// Reads the state of a run that is to be resumed, with the secrets of its agents.
pub(crate) fn read_stopped_run(
    project: &Project,
    loaded: &LoadedSettings,
    layout: &ProjectLayout,
    run: &RunId,
) -> Result<RunState, CliError> {
    let path = layout.run_dir(run).journal_path();
    let mut state = journal::fold_journal(&path).map_err(CliError::from_input_error)?;
    secrets::restore_secrets(&mut state.recipe, &loaded.settings, &project.env)?;
    // A commit hook may have refused the message, so the user may have changed it.
    state.recipe.landing.commit_message.clone_from(&loaded.settings.commit_message);
    check_belongs_here(&state, project)?;
    Ok(state)
}

/// Fails if the run belongs to another directory of the same work tree. A run whose directory no
/// longer exists was moved here.
fn check_belongs_here(state: &RunState, project: &Project) -> Result<(), CliError> {
    if state.project == project.directory || !state.project.is_dir() {
        return Ok(());
    }
    let place = state.project.display();
    Err(CliError::for_input(format!("run {} belongs to `{place}`", state.run))
        .with_hint(format!("ralph resume -C {place}")))
}

/// What is specific to one run.
struct RunSetup {
    run: RunId,
    journal: Journal,
    before: Millis,
    draft: Option<RunDraft>,
    recipe: Recipe,
    isolation: RunIsolation,
    masker: Masker,
    incomplete: ExitStatus,
    plan: subscribers::SubscriberSettings,
}

/// Runs the engine, with everything around it that must not outlive the run.
fn drive_run(
    context: &RunContext,
    mut setup: RunSetup,
    engine: impl FnOnce(Ports<'_>, &RunSubscribers) -> Result<Outcome, EngineError>,
) -> Result<ExitStatus, CliError> {
    let self_exe = find_own_executable()?;
    let run = setup.run.clone();
    let warden = Warden::start(&self_exe, &["__warden"], &run.0).map_err(|error| {
        let message = format!("cannot start the warden process: {error}");
        CliError::new(ExitStatus::Incomplete, message)
    })?;
    let awake =
        context.keeps_awake.then(|| SleepInhibitor::start(context.layout.project(), &context.env));
    let first = HookState::new(run.clone(), std::process::id(), clock::now());
    // For users and hooks; the lock is authoritative.
    let _ = active::write_active(&context.layout.active_path(), &first);
    let (incomplete, draft) = (setup.incomplete, setup.draft.take());
    let outcome = connect_ports(context, setup, self_exe, engine);
    drop(awake);
    let _ = active::remove_active(&context.layout.active_path());
    warden.release();
    context.withdraw_draft(draft.as_ref(), &outcome);
    context.restore_set_aside(&run, &outcome);
    context.flush_terminal();
    let status = outcome?.exit_code();
    Ok(if status == ExitStatus::Incomplete { incomplete } else { status })
}

/// Builds the ports and runs the engine with them.
fn connect_ports(
    context: &RunContext,
    setup: RunSetup,
    self_exe: PathBuf,
    engine: impl FnOnce(Ports<'_>, &RunSubscribers) -> Result<Outcome, EngineError>,
) -> Result<Outcome, CliError> {
    let RunSetup { run, journal, before, recipe, isolation, masker, draft: _, incomplete, plan } =
        setup;
    let mut env = context.env.clone();
    let ours = [RUN_ID_VARIABLE, ACTIVE_VARIABLE, WINDOW_VARIABLE];
    env.retain(|(name, _)| !ours.iter().any(|ours| name == ours));
    env.push((RUN_ID_VARIABLE.into(), run.0.clone().into()));
    // The hooks in an agent find the run by these; gates do not get them.
    let mut agent_env = env.clone();
    agent_env.push((ACTIVE_VARIABLE.into(), context.layout.active_path().into()));
    agent_env.extend(
        context.context_window.map(|window| (WINDOW_VARIABLE.into(), window.to_string().into())),
    );
    let project = context.layout.project();
    let watch = &context.watch;
    let mut agent = AgentRunner {
        watch: watch.clone(),
        project: project.to_owned(),
        files: context.layout.run_dir(&run),
        env: agent_env,
        self_exe,
        zone: jiff::tz::TimeZone::system(),
        plugin: context.layout.state().parent().map(plugin::for_runs),
        has_warned_of_hooks: false,
        masker: masker.clone(),
        walls: isolation.sandbox_kind(),
        confined: isolation.build_agent_sandbox(context.layout.state()),
    };
    let (launcher, gate_env) = isolation.build_gate_launcher(&recipe, &env);
    let mut gates =
        CommandGates::new(context.layout.clone(), gate_env, watch.clone(), &recipe.gates)
            .with_masker(masker.clone())
            .with_launcher(launcher)
            .with_output_limit(isolation.output_limit())
            .with_space_limit(isolation.disk_limit());
    let sandboxed = isolation.build_git_launcher(&env);
    let mut git = context
        .open_git(&run, sandboxed.clone())
        .map(|git| git.with_secret_scan(masker.clone(), recipe.secrets_allowed.clone()))
        .map(|git| git.with_guarded_files(&isolation::find_protected_files(&recipe, project)))
        .map(|git| if isolation.exposes_refs(&recipe) { git.with_ref_protection() } else { git });
    let mut none = NoRepository::new(project, env.clone(), watch.clone());
    if let Some((launcher, env)) = sandboxed {
        none = none.with_launcher(launcher, env);
    }
    let vcs: &mut dyn Vcs = match &mut git {
        Some(git) => git,
        None => &mut none,
    };
    let files = context.layout.run_dir(&run);
    let (skills, prompts) = (context.skills.clone(), context.prompts.clone());
    let subscribers = RunSubscribers::start(plan, context, &env, &files, &masker);
    let mut views: Vec<Box<dyn Ui>> =
        vec![Box::new(context.build_views(&run, incomplete, &masker))];
    views.extend(subscribers.views());
    let mut ui = Fanout::new(views);
    let mut store =
        RunStore::new(context.layout.clone(), journal, files, skills, prompts).with_masker(masker);
    let inbox = Inbox::new(context.layout.run_dir(&run).path());
    let mut clock = RunClock::new(watch.clone(), before).with_inbox(inbox);
    let ports = Ports {
        agent: &mut agent,
        gates: &mut gates,
        vcs,
        store: &mut store,
        clock: &mut clock,
        ui: &mut ui,
    };
    engine(ports, &subscribers).map_err(|error| to_engine_error(&error))
}
