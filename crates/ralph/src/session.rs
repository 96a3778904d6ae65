//! Starts or resumes a run and connects its parts; nothing else does.
//!
//! Both take the same stages: [`OpenedRun`] holds the lock and knows the recipe, the `preflight`
//! checks pass, [`IsolatedRun`] has a directory and a sandbox, and the engine runs. What differs is in
//! [`RunOrigin`].
//!
//! Not here: any decision. The engine makes those; this module gives it its ports and turns its
//! outcome into an exit code.

mod preflight;
mod stopped_run;
pub(crate) mod worker_run;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ralph_core::ports::{NoWorkers, Ports, Ui, Vcs, Workers};
use ralph_core::run_loop::engine::{Engine, EngineError, RunStart};
use ralph_io::agent_runner::AgentRunner;
use ralph_io::clock;
use ralph_io::control::Inbox;
use ralph_io::environment::Variables;
use ralph_io::gates::{CommandGates, GateSlots};
use ralph_io::git::NoRepository;
use ralph_io::mask::Masker;
use ralph_io::process::{RUN_ID_VARIABLE, Warden};
use ralph_io::run_clock::RunClock;
use ralph_io::sandbox::ProgramSource;
use ralph_io::sleep_inhibitor::SleepInhibitor;
use ralph_io::store::active::{self, ACTIVE_VARIABLE, WINDOW_VARIABLE};
use ralph_io::store::draft::RunDraft;
use ralph_io::store::{Journal, ProjectLayout, RunStore, run_id};
use ralph_io::workers::HostedWorkers;
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
use crate::run_context::{DirtyPlan, FormerAttempt, GitSandbox, RunContext};
use crate::run_stats::keep_run_stats;
use crate::session::stopped_run::remove_remains;
use crate::session::worker_run::{WorkerRun, build_host_spawn, choose_gate_slots};
use crate::settings::LoadedSettings;
use crate::start_warnings::collect_start_warnings;
use crate::subscribers::{RunSubscribers, SubscriberSettings};
use crate::{guard_self_test, memory_setup, plugin, secrets, toolchain_files};

pub(crate) use preflight::{PreflightInputs, check_start};
pub(crate) use stopped_run::read_stopped_run;

/// The version of this binary.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The hidden command of a run's warden.
pub(crate) const WARDEN_COMMAND: &str = "__warden";

/// Options of the command line that are not part of the recipe.
#[derive(Debug, Clone)]
pub(crate) struct StartOptions {
    /// What to do with uncommitted changes if the run makes commits.
    pub(crate) dirty: DirtyPlan,
    /// The exit status of a run whose work is not complete.
    pub(crate) incomplete: ExitStatus,
    /// What to do with the failure branches of tasks that are tried again.
    pub(crate) former_attempts: Vec<FormerAttempt>,
    /// The settings file of the command line.
    pub(crate) config: Option<PathBuf>,
    /// What differs if the run is a worker of another one.
    pub(crate) worker: Option<WorkerRun>,
}

/// What the user asked for.
#[derive(Clone, Copy)]
struct Invocation<'a> {
    common: &'a CommonArgs,
    project: &'a Project,
    loaded: &'a LoadedSettings,
    options: &'a StartOptions,
}

/// The run that the user asked for.
enum RunRequest<'a> {
    New(Box<Recipe>),
    Resume { run: &'a RunId, change: &'a RecipeChange<'a> },
}

/// Returns the changed recipe of a run that is resumed, if the user changes it.
type RecipeChange<'a> = dyn Fn(&Recipe) -> Result<Option<Recipe>, CliError> + 'a;

/// Where a run comes from. Its stages are the same for a new run and a resumed one.
enum RunOrigin {
    New,
    Resumed(Box<RunState>),
}

/// A run that holds the lock of the work tree, with the recipe that it is to follow.
struct OpenedRun<'a> {
    invocation: Invocation<'a>,
    plan: SubscriberSettings,
    context: RunContext,
    origin: RunOrigin,
    /// The journal of a resumed run; a new run has none yet.
    journal: Option<Journal>,
    recipe: Recipe,
    warnings: Vec<String>,
}

/// A run with its own directory and sandbox.
struct IsolatedRun<'a> {
    options: &'a StartOptions,
    context: RunContext,
    origin: RunOrigin,
    setup: RunSetup,
    warnings: Vec<String>,
}

/// Starts a run and drives it to its end.
pub(crate) fn start_run(
    common: &CommonArgs,
    project: &Project,
    loaded: &LoadedSettings,
    recipe: Recipe,
    options: &StartOptions,
) -> Result<ExitStatus, CliError> {
    let invocation = Invocation { common, project, loaded, options };
    OpenedRun::open(invocation, RunRequest::New(Box::new(recipe)))?.drive_to_end()
}

/// Resumes a run and drives it to its end.
pub(crate) fn resume_run(
    common: &CommonArgs,
    project: &Project,
    loaded: &LoadedSettings,
    run: &RunId,
    change: &RecipeChange<'_>,
    options: &StartOptions,
) -> Result<ExitStatus, CliError> {
    let invocation = Invocation { common, project, loaded, options };
    OpenedRun::open(invocation, RunRequest::Resume { run, change })?.drive_to_end()
}

impl<'a> OpenedRun<'a> {
    /// Takes the lock of the work tree and reads the run.
    fn open(invocation: Invocation<'a>, request: RunRequest<'_>) -> Result<Self, CliError> {
        let Invocation { common, project, loaded, .. } = invocation;
        // Before anything is written.
        if let RunRequest::New(recipe) = &request
            && !isolation::may_be_elsewhere(&recipe.sandbox, &project.env)
        {
            preflight::check_programs_exist(project, recipe, None)?;
        }
        let plan = SubscriberSettings::from_settings(&project.env, loaded)?;
        let mut context = RunContext::open(common, project, loaded)?;
        let (origin, journal, recipe) = match request {
            RunRequest::New(mut recipe) => {
                let dirty = invocation.options.dirty;
                recipe.uncommitted_before = context.list_uncommitted(&recipe, dirty)?;
                (RunOrigin::New, None, *recipe)
            }
            RunRequest::Resume { run, change } => {
                // The journal is opened before it is read: opening drops a torn last line.
                let path = context.layout.run_dir(run).journal_path();
                let journal =
                    Journal::open_for_append(&path).map_err(CliError::from_input_error)?;
                let state = read_stopped_run(project, loaded, &context.layout, run)?;
                let recipe = change(&state.recipe)?.unwrap_or_else(|| state.recipe.clone());
                (RunOrigin::Resumed(Box::new(state)), Some(journal), recipe)
            }
        };
        context.register_own_files(&recipe);
        let warnings = match &origin {
            RunOrigin::New => context.restore_orphaned_set_aside()?,
            RunOrigin::Resumed(state) => remove_remains(&context, state),
        };
        Ok(Self { invocation, plan, context, origin, journal, recipe, warnings })
    }

    fn preflight_inputs(&self) -> PreflightInputs<'_> {
        let Invocation { project, loaded, options, .. } = self.invocation;
        PreflightInputs {
            project,
            loaded,
            layout: &self.context.layout,
            repository: self.context.repository(),
            recipe: &self.recipe,
            dirty: options.dirty,
            resumed: self.origin.state(),
        }
    }

    /// Takes the run through the other stages.
    fn drive_to_end(self) -> Result<ExitStatus, CliError> {
        preflight::run_checks(&self.preflight_inputs())?;
        let mut isolated = self.isolate()?;
        isolated.prepare_tree()?;
        isolated.drive()
    }

    /// Chooses the sandbox, and completes the recipe with what depends on it.
    fn isolate(self) -> Result<IsolatedRun<'a>, CliError> {
        let Self { invocation, plan, context, origin, journal, mut recipe, mut warnings } = self;
        let Invocation { project, loaded, options, .. } = invocation;
        warnings.extend(project.add_package_hosts(&mut recipe.sandbox));
        let borrowed = options.worker.as_ref().map_or(&[][..], |worker| &worker.borrowed);
        let site =
            build_sandbox_context(&context, project, loaded, context.layout.state(), borrowed)?;
        let chosen = isolation::choose_recipe_backend(&site, &mut recipe)?;
        let location = isolation::find_program_location(&chosen);
        match (location, &origin) {
            (ProgramSource::Machine, _) => {
                preflight::check_programs_exist(project, &recipe, origin.state())?;
            }
            (ProgramSource::Image, RunOrigin::New) => {
                let mut programs = Project::list_programs_needed_by(&recipe);
                programs.extend(site.repository.map(|_| "git"));
                isolation::check_image_programs(&site, &recipe, &chosen, &programs)?;
            }
            // The first call reports what is missing inside.
            (ProgramSource::Image, RunOrigin::Resumed(_)) => {}
        }
        // Only programs on this machine can be started; they may have been updated since.
        let versions = match location {
            ProgramSource::Machine => VersionSource::Programs(&context.watch),
            ProgramSource::Image => VersionSource::Unknown,
        };
        let recipe = with_agent_versions(project, recipe, versions);
        guard_self_test::run(&context, &recipe)?;
        let recipe = match &origin {
            RunOrigin::New => memory_setup::with_earlier_runs(&context.layout, recipe),
            RunOrigin::Resumed(_) => recipe,
        };
        let (run, journal) = match (&origin, journal) {
            (RunOrigin::Resumed(state), Some(journal)) => (state.run.clone(), journal),
            (_, _) => create_run(&context.layout, options.worker.as_ref())?,
        };
        let files = context.layout.run_dir(&run);
        let (mut recipe, servers) = memory_setup::choose_servers(project, files.path(), recipe)?;
        memory_setup::write_server_files(&servers)?;
        let site = build_sandbox_context(&context, project, loaded, files.path(), borrowed)?;
        let mut isolation = RunIsolation::for_run(&site, &recipe, chosen).inspect_err(|_| {
            // A run that cannot be isolated has not begun.
            if matches!(origin, RunOrigin::New) {
                drop(std::fs::remove_dir_all(files.path()));
            }
        })?;
        let masker = secrets::build_masker(&context.env, &recipe);
        match &origin {
            RunOrigin::New => {
                secrets::mask_gate_names(&mut recipe, &masker);
                // A resumed run must not be isolated less.
                recipe.sandbox.backend = RequestedBackend::This(isolation.backend);
                isolation::drop_unenforced_protection(
                    &mut recipe,
                    site.repository,
                    isolation.backend,
                );
                let mut first = collect_start_warnings(&context.start_place(loaded), &recipe);
                if location == ProgramSource::Machine {
                    first.extend(toolchain_files::list_warnings(project));
                }
                warnings.splice(0..0, first);
            }
            RunOrigin::Resumed(_) => isolation.remove_leftovers(&context.watch),
        }
        warnings.extend(isolation.warnings.clone());
        let mut setup = RunSetup {
            draft: context.find_draft(&run, &recipe),
            masker,
            incomplete: options.incomplete,
            run,
            journal,
            recipe,
            isolation: Rc::new(isolation),
            plan,
            gate_slots: options.worker.as_ref().map(|worker| worker.gate_slots.clone()),
            worker: options.worker.clone(),
            workers: None,
        };
        if let Some(policy) = &setup.recipe.parallel {
            let (slots, config) = (choose_gate_slots(policy, &files), options.config.as_deref());
            let log = slots.directory.join("host.log");
            let (spawn, owner) = build_host_spawn(project, policy, &slots, config)?;
            setup.workers = Some(HostedWorkers::new(spawn, owner, log, VERSION));
            setup.gate_slots = Some(slots);
        }
        Ok(IsolatedRun { options, context, origin, setup, warnings })
    }
}

impl IsolatedRun<'_> {
    /// Prepares the work tree: the user's uncommitted work, and what earlier attempts left.
    fn prepare_tree(&mut self) -> Result<(), CliError> {
        let Self { options, context, origin, setup, .. } = self;
        let sandboxed = setup.build_git_sandbox(context);
        let clone_setup = options.worker.as_ref().and_then(|worker| worker.setup.as_ref());
        if let Some(clone_setup) = clone_setup {
            clone_setup.run(context, setup)?;
        }
        let RunSetup { run, recipe, .. } = setup;
        if !origin.state().is_some_and(has_own_work) {
            context.set_aside(run, options.dirty, sandboxed.clone())?;
        }
        match origin {
            RunOrigin::New => {
                for former in &options.former_attempts {
                    let work = context.handle_failure_branch(run, former, sandboxed.clone())?;
                    let Some(work) = work else { continue };
                    *recipe = memory_setup::with_former_work(recipe.clone(), &former.task, &work);
                }
                if let Some(worker) = &options.worker {
                    worker.restore_start_tree(context, sandboxed, recipe)?;
                }
                context.begin_draft(run, recipe)
            }
            RunOrigin::Resumed(_) => context.restore_draft(run, recipe),
        }
    }

    /// Runs the engine.
    fn drive(self) -> Result<ExitStatus, CliError> {
        let Self { context, origin, setup, warnings, .. } = self;
        let (run, recipe, version) = (setup.run.clone(), setup.recipe.clone(), VERSION.to_owned());
        let project = context.layout.project().to_owned();
        let files = context.layout.run_dir(&run);
        let before = origin.ran();
        let ended = drive_run(&context, setup, before, |ports, subscribers| {
            let engine = match origin {
                RunOrigin::New => {
                    Engine::start_run(ports, RunStart { run, project, recipe, version })?
                }
                RunOrigin::Resumed(state) => {
                    subscribers.replay_past_events(&files.journal_path());
                    let changed = (recipe != state.recipe).then_some(recipe);
                    Engine::resume_run(ports, *state, version, changed)?
                }
            };
            run_to_completion(engine, warnings, subscribers)
        });
        keep_run_stats(&files);
        ended
    }
}

impl RunOrigin {
    /// Returns the state of a run that is resumed.
    fn state(&self) -> Option<&RunState> {
        match self {
            Self::New => None,
            Self::Resumed(state) => Some(state),
        }
    }

    /// Returns the running time so far.
    fn ran(&self) -> Millis {
        match self {
            Self::New => Millis::ZERO,
            Self::Resumed(state) => state.ran,
        }
    }
}

/// Returns whether uncommitted work belongs to the run, between two attempts as well.
fn has_own_work(state: &RunState) -> bool {
    state.current.is_some() || state.base.is_some()
}

/// Creates the directory and the journal of a new run. A worker's run has the name of its job.
fn create_run(
    layout: &ProjectLayout,
    worker: Option<&WorkerRun>,
) -> Result<(RunId, Journal), CliError> {
    let (run, files) = match worker {
        Some(worker) => (worker.run.clone(), layout.run_dir(&worker.run)),
        None => run_id::create_run(layout, clock::now()).map_err(CliError::from_input_error)?,
    };
    let journal = Journal::create(&files.journal_path()).map_err(CliError::from_input_error)?;
    Ok((run, journal))
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

fn build_sandbox_context<'a>(
    context: &'a RunContext,
    project: &'a Project,
    loaded: &LoadedSettings,
    run: &'a Path,
    borrowed: &'a [PathBuf],
) -> Result<SandboxContext<'a>, CliError> {
    Ok(SandboxContext {
        project: &project.directory,
        repository: context.repository(),
        borrowed,
        state: context.layout.state(),
        state_root: project.find_state_root(loaded)?,
        run,
        env: &context.env,
        watch: &context.watch,
    })
}

/// What is specific to one run.
struct RunSetup {
    run: RunId,
    journal: Journal,
    draft: Option<RunDraft>,
    recipe: Recipe,
    /// It ends with the last git command of the run, which restores what was set aside.
    isolation: Rc<RunIsolation>,
    masker: Masker,
    incomplete: ExitStatus,
    plan: SubscriberSettings,
    /// The limit on gates that run at the same time, if there are workers.
    gate_slots: Option<GateSlots>,
    /// What differs if the run is a worker of another one.
    worker: Option<WorkerRun>,
    /// The workers, if the run has any; their host starts with the first job.
    workers: Option<HostedWorkers>,
}

impl RunSetup {
    /// Returns how git is started on the work tree.
    fn build_git_sandbox(&self, context: &RunContext) -> GitSandbox {
        self.isolation.build_git_launcher(&build_child_env(&context.env, &self.run))
    }
}

/// Runs the engine, with everything around it that must not outlive the run.
fn drive_run(
    context: &RunContext,
    mut setup: RunSetup,
    before: Millis,
    engine: impl FnOnce(Ports<'_>, &RunSubscribers) -> Result<Outcome, EngineError>,
) -> Result<ExitStatus, CliError> {
    let self_exe = find_own_executable()?;
    let run = setup.run.clone();
    let warden = Warden::start(&self_exe, &[WARDEN_COMMAND], &run.0).map_err(|error| {
        let message = format!("cannot start the warden process: {error}");
        CliError::new(ExitStatus::Incomplete, message)
    })?;
    let project = context.layout.project();
    let awake = context.keeps_awake.then(|| SleepInhibitor::start_soon(project, &context.env));
    let first = HookState::new(run.clone(), std::process::id(), clock::now());
    // For users and hooks; the lock is authoritative.
    let _ = active::write_active(&context.layout.active_path(), &first);
    let (incomplete, draft) = (setup.incomplete, setup.draft.take());
    let (isolation, sandboxed) = (Rc::clone(&setup.isolation), setup.build_git_sandbox(context));
    let outcome = connect_ports(context, setup, before, self_exe, engine);
    drop(awake);
    let _ = active::remove_active(&context.layout.active_path());
    warden.release();
    context.withdraw_draft(draft.as_ref(), &outcome);
    context.restore_set_aside(&run, &outcome, sandboxed);
    drop(isolation);
    context.flush_terminal();
    let status = outcome?.exit_code();
    Ok(if status == ExitStatus::Incomplete { incomplete } else { status })
}

/// Returns the environment of the children of a run.
pub(crate) fn build_child_env(env: &Variables, run: &RunId) -> Variables {
    let ours = [RUN_ID_VARIABLE, ACTIVE_VARIABLE, WINDOW_VARIABLE];
    let is_ours = |name: &OsString| ours.iter().any(|ours| name == ours);
    let others = env.iter().filter(|(name, _)| !is_ours(name)).cloned();
    others.chain([(RUN_ID_VARIABLE.into(), run.0.clone().into())]).collect()
}

/// Returns the environment of an agent: the hooks in it find the run by what gates do not get.
pub(crate) fn build_agent_env(
    mut env: Variables,
    layout: &ProjectLayout,
    window: Option<u64>,
) -> Variables {
    env.push((ACTIVE_VARIABLE.into(), layout.active_path().into()));
    env.extend(window.map(|window| (WINDOW_VARIABLE.into(), window.to_string().into())));
    env
}

/// Builds the ports and runs the engine with them.
fn connect_ports(
    context: &RunContext,
    setup: RunSetup,
    before: Millis,
    self_exe: PathBuf,
    engine: impl FnOnce(Ports<'_>, &RunSubscribers) -> Result<Outcome, EngineError>,
) -> Result<Outcome, CliError> {
    let RunSetup { run, journal, recipe, isolation, masker, incomplete, plan, .. } = setup;
    let env = build_child_env(&context.env, &run);
    let agent_env = build_agent_env(env.clone(), &context.layout, context.context_window);
    let project = context.layout.project();
    let watch = &context.watch;
    let mut agent = AgentRunner {
        watch: watch.clone(),
        project: project.to_owned(),
        files: context.layout.run_dir(&run),
        env: agent_env,
        self_exe,
        zone: clock::find_local_zone(),
        plugin: Some(plugin::for_runs(context.layout.root())),
        has_warned_of_hooks: false,
        masker: masker.clone(),
        outer_sandbox: isolation.sandbox_kind(),
        confined: isolation.build_agent_sandbox(context.layout.state()),
    };
    let (launcher, gate_env) = isolation.build_gate_launcher(&recipe, &env);
    let mut gates =
        CommandGates::new(context.layout.clone(), gate_env, watch.clone(), &recipe.gates)
            .with_masker(masker.clone())
            .with_launcher(launcher)
            .with_output_limit(isolation.output_limit())
            .with_space_limit(isolation.disk_limit())
            .with_proxy(isolation.gate_proxy())
            .with_slots(setup.gate_slots);
    let sandboxed = isolation.build_git_launcher(&env);
    let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let path = path.unwrap_or_default();
    let mut git = context
        .open_git(&run, sandboxed.clone())
        .map(|git| git.with_secret_scan(masker.clone(), recipe.secrets_allowed.clone()))
        .map(|git| git.with_guarded_files(&isolation::find_protected_files(&recipe, project)))
        .map(|git| git.with_watched_programs(project, &path, recipe.gate_programs.clone()))
        .map(|git| {
            if isolation.exposes_refs(&recipe) {
                git.with_ref_protection(context.layout.git_objects_path())
            } else {
                git
            }
        });
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
    views.extend(setup.worker.as_ref().map(WorkerRun::build_view));
    let mut ui = Fanout::new(views);
    let mut store =
        RunStore::new(context.layout.clone(), journal, files, skills, prompts).with_masker(masker);
    let inbox = Inbox::new(context.layout.run_dir(&run).path());
    let mut clock = RunClock::new(watch.clone(), before).with_inbox(inbox);
    let mut no_workers = NoWorkers;
    let mut hosted = setup.workers;
    let workers: &mut dyn Workers = match &mut hosted {
        Some(hosted) => hosted,
        None => &mut no_workers,
    };
    let ports = Ports {
        agent: &mut agent,
        gates: &mut gates,
        vcs,
        store: &mut store,
        clock: &mut clock,
        ui: &mut ui,
        workers,
    };
    engine(ports, &subscribers).map_err(|error| to_engine_error(&error))
}
