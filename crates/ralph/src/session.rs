//! Starts or resumes a run and connects its parts; nothing else does.
//!
//! Not here: any decision. The engine makes those; this module gives it its ports and turns its
//! outcome into an exit code.

use std::path::{Path, PathBuf};

use ralph_core::active::Active;
use ralph_core::engine::{Engine, EngineError, Start};
use ralph_core::event::CheckedOut;
use ralph_core::ids::RunId;
use ralph_core::outcome::{ExitStatus, Outcome};
use ralph_core::ports::{Ports, Ui, Vcs};
use ralph_core::recipe::Recipe;
use ralph_core::run::RunState;
use ralph_core::sandbox::Wanted;
use ralph_core::units::Millis;
use ralph_io::awake::Awake;
use ralph_io::caller::{AgentCaller, HookNews};
use ralph_io::clock::{self, RunClock};
use ralph_io::control::Inbox;
use ralph_io::gates::CommandGates;
use ralph_io::git::NoRepository;
use ralph_io::mask::Masker;
use ralph_io::process::{self, RUN_ID_VARIABLE, Warden};
use ralph_io::sandbox::{Chosen, Ground, Wall};
use ralph_io::store::active::{self, ACTIVE_VARIABLE, WINDOW_VARIABLE};
use ralph_io::store::draft::Draft;
use ralph_io::store::{Journal, RunStore, journal, run_id};
use ralph_ui::view::Fanout;

use crate::calls;
use crate::canary;
use crate::cli::CommonArgs;
use crate::complaint::Complaint;
use crate::desk::{Desk, DirtyPlan, Shelved};
use crate::equip::{Asking, equipped};
use crate::isolation::{self, Isolation, Site};
use crate::plugin;
use crate::project::{Project, complain_of_layout};
use crate::remembering;
use crate::secrets;
use crate::settings::Loaded;
use crate::telling::{self, Telling};

/// The version of this binary.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Options of the command line that are not part of the recipe.
#[derive(Debug, Clone)]
pub(crate) struct Wishes {
    /// What to do with uncommitted changes if the run makes commits.
    pub(crate) dirty: DirtyPlan,
    pub(crate) incomplete: Incomplete,
    /// What to do with the failure branch of a task that is tried again.
    pub(crate) shelf: Option<Shelved>,
}

/// Exit code of an incomplete run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Incomplete {
    /// 1.
    Fails,
    /// 0 (`--allow-incomplete`).
    IsFine,
}

impl From<bool> for Incomplete {
    fn from(allow_incomplete: bool) -> Self {
        if allow_incomplete { Self::IsFine } else { Self::Fails }
    }
}

/// Starts a run and drives it to its end.
pub(crate) fn start(
    common: &CommonArgs,
    project: &Project,
    loaded: &Loaded,
    recipe: Recipe,
    options: &Wishes,
) -> Result<ExitStatus, Complaint> {
    let is_open = isolation::may_be_elsewhere(&recipe.sandbox, &project.env);
    if !is_open {
        project.agents_are_there(&recipe)?;
        project.gates_are_there(&recipe)?;
    }
    let plan = telling::Plan::of(&project.env, loaded)?;
    let mut context = Desk::open(common, project, loaded)?;
    context.repository_is_there(&recipe)?;
    context.keeps_list_of(&recipe);
    context.nothing_is_under_way(&recipe)?;
    context.can_commit(&recipe)?;
    let still_aside = context.bring_back()?;
    context.tree_is_clean(&recipe, options.dirty)?;
    let chosen = {
        let site = site(&context, project, loaded, context.layout.state())?;
        let chosen = isolation::look_for(&site, &recipe)?;
        match isolation::ground(&chosen) {
            Ground::Machine if is_open => {
                project.agents_are_there(&recipe)?;
                project.gates_are_there(&recipe)?;
            }
            Ground::Machine => {}
            Ground::Image => {
                let mut programs = Project::programs_of(&recipe);
                programs.extend(site.repository.map(|_| "git"));
                isolation::image_has(&site, &recipe, &chosen, &programs)?;
            }
        }
        chosen
    };
    let ground = isolation::ground(&chosen);
    let recipe = equipped(project, recipe, asking(ground, &context));
    canary::sings(&context, &recipe)?;
    let (run, files) =
        run_id::begin(&context.layout, clock::now()).map_err(|error| complain_of_layout(&error))?;
    let journal = Journal::create(&files.journal())
        .map_err(|error| Complaint::of(ExitStatus::BadInput, &error))?;
    let recipe = remembering::with_memory(&context.layout, &run, recipe);
    let mut recipe = remembering::with_servers(project, &files, recipe)?;
    // A run that cannot be isolated has not begun: its files are removed.
    let isolation = isolate(&context, project, loaded, &run, &recipe, chosen)
        .inspect_err(|_| drop(std::fs::remove_dir_all(files.path())))?;
    context.set_aside(&run, options.dirty)?;
    context.unshelve(&run, options.shelf.as_ref())?;
    context.begin_draft(&run, &recipe)?;
    // A resumed run must not be isolated less.
    recipe.sandbox.backend = Wanted::This(isolation.backend);
    let mut warnings = context.warnings(loaded, &recipe);
    warnings.extend(isolation.warnings.clone());
    warnings.extend(still_aside);
    let setup = Journey {
        run: run.clone(),
        journal,
        before: Millis::ZERO,
        draft: context.draft(&run, &recipe),
        recipe: recipe.clone(),
        isolation,
        masker: secrets::masker(&context.env, &recipe),
        incomplete: options.incomplete,
        plan,
    };
    let project = project.directory.clone();
    let start = Start { run, project, recipe, version: VERSION.to_owned() };
    drive(&context, setup, |ports, subscribers| {
        to_the_end(Engine::start(ports, start)?, warnings, subscribers)
    })
}

/// Resumes a run.
pub(crate) fn resume(
    common: &CommonArgs,
    project: &Project,
    loaded: &Loaded,
    run: &RunId,
    change: impl FnOnce(&Recipe) -> Result<Option<Recipe>, Complaint>,
    options: &Wishes,
) -> Result<ExitStatus, Complaint> {
    let plan = telling::Plan::of(&project.env, loaded)?;
    let mut context = Desk::open(common, project, loaded)?;
    let path = context.layout.run(run).journal();
    let unreadable = |error| Complaint::of(ExitStatus::BadInput, &error);
    // The journal is opened before it is read: opening drops a torn last line.
    let journal = Journal::open_for_append(&path).map_err(unreadable)?;
    let mut state = journal::fold(&path).map_err(unreadable)?;
    secrets::refill(&mut state.recipe, &loaded.settings, &context.env)?;
    // A commit hook may have refused the message, so the user may have changed it.
    state.recipe.landing.commit_message.clone_from(&loaded.settings.commit_message);
    belongs_here(&state, project)?;
    let changed = change(&state.recipe)?;
    let wanted = changed.as_ref().unwrap_or(&state.recipe);
    let chosen = {
        let site = site(&context, project, loaded, context.layout.state())?;
        isolation::look_for(&site, wanted)?
    };
    let ground = isolation::ground(&chosen);
    match ground {
        Ground::Machine => project.agents_are_there(wanted)?,
        // The first call reports what is missing inside.
        Ground::Image => {}
    }
    // The agents may have been updated since.
    let with_versions = equipped(project, wanted.clone(), asking(ground, &context));
    let updated = remembering::with_servers(project, &context.layout.run(run), with_versions)?;
    let changed = (updated != state.recipe).then_some(updated);
    let recipe = changed.as_ref().unwrap_or(&state.recipe);
    let mut isolation = isolate(&context, project, loaded, run, recipe, chosen)?;
    isolation.sweep(&context.watch);
    canary::sings(&context, recipe)?;
    context.repository_is_there(recipe)?;
    context.can_commit(recipe)?;
    context.keeps_list_of(recipe);
    // Uncommitted work belongs to the run, between two attempts as well.
    if state.current.is_none() && state.base.is_none() {
        context.tree_is_clean(recipe, options.dirty)?;
        context.set_aside(run, options.dirty)?;
    }
    context.take_up_draft(run, recipe)?;
    // The warden has most likely done this already, when the run was killed.
    process::sweep_run(&run.0);
    let mut warnings = match &state.outcome {
        Some(_) => {
            context.history_is_as_left(&state)?;
            Vec::new()
        }
        None => context.free_repository(&state)?,
    };
    warnings.extend(isolation.warnings.clone());
    let setup = Journey {
        run: run.clone(),
        journal,
        before: state.ran,
        draft: context.draft(run, recipe),
        recipe: recipe.clone(),
        isolation,
        masker: secrets::masker(&context.env, recipe),
        incomplete: options.incomplete,
        plan,
    };
    drive(&context, setup, |ports, subscribers| {
        subscribers.catch_up(&path);
        let engine = Engine::resume(ports, state, VERSION.to_owned(), changed)?;
        to_the_end(engine, warnings, subscribers)
    })
}

/// Restores what a run that was killed after its end had set aside. Errors are ignored: the next
/// run reports them.
pub(crate) fn bring_back(common: &CommonArgs, project: &Project, loaded: &Loaded) {
    if let Ok(context) = Desk::open(common, project, loaded) {
        let _ = context.bring_back();
        context.finish();
    }
}

/// Runs the loop, then waits for notifications and telemetry. Failed deliveries become warnings.
fn to_the_end(
    mut engine: Engine<'_>,
    warnings: Vec<String>,
    subscribers: &Telling,
) -> Result<Outcome, EngineError> {
    for warning in warnings {
        engine.warn(warning)?;
    }
    let outcome = engine.run();
    let undelivered = subscribers.finish();
    let outcome = outcome?;
    for warning in undelivered {
        engine.warn(warning)?;
    }
    Ok(outcome)
}

/// Builds the sandbox of a run.
fn isolate(
    context: &Desk,
    project: &Project,
    loaded: &Loaded,
    run: &RunId,
    recipe: &Recipe,
    chosen: Chosen<Wall>,
) -> Result<Isolation, Complaint> {
    let files = context.layout.run(run);
    Isolation::begin(&site(context, project, loaded, files.path())?, recipe, chosen)
}

/// Returns how to find agent versions: only programs on this machine can be started.
fn asking(ground: Ground, context: &Desk) -> Asking<'_> {
    match ground {
        Ground::Machine => Asking::Programs(&context.watch),
        Ground::Image => Asking::Nobody,
    }
}

fn site<'a>(
    context: &'a Desk,
    project: &'a Project,
    loaded: &Loaded,
    run: &'a Path,
) -> Result<Site<'a>, Complaint> {
    Ok(Site {
        project: &project.directory,
        repository: context.repository(),
        state: context.layout.state(),
        state_root: project.state_root(loaded)?,
        run,
        env: &context.env,
        watch: &context.watch,
    })
}

/// Fails if the run belongs to another directory of the same work tree. A run whose directory no
/// longer exists was moved here.
fn belongs_here(state: &RunState, project: &Project) -> Result<(), Complaint> {
    if state.project == project.directory || !state.project.is_dir() {
        return Ok(());
    }
    let place = state.project.display();
    Err(Complaint::input(format!("run {} belongs to `{place}`", state.run))
        .hint(format!("ralph resume -C {place}")))
}

/// What is specific to one run.
struct Journey {
    run: RunId,
    journal: Journal,
    before: Millis,
    draft: Option<Draft>,
    recipe: Recipe,
    isolation: Isolation,
    masker: Masker,
    incomplete: Incomplete,
    plan: telling::Plan,
}

/// Runs the engine, with everything around it that must not outlive the run.
fn drive(
    context: &Desk,
    mut setup: Journey,
    engine: impl FnOnce(Ports<'_>, &Telling) -> Result<Outcome, EngineError>,
) -> Result<ExitStatus, Complaint> {
    let cannot = |what: &str, error: std::io::Error| {
        Complaint::new(ExitStatus::Incomplete, format!("cannot {what}: {error}"))
    };
    let self_exe =
        std::env::current_exe().map_err(|error| cannot("find ralph's own executable", error))?;
    let run = setup.run.clone();
    let warden = Warden::start(&self_exe, &["__warden"], &run.0)
        .map_err(|error| cannot("start the warden process", error))?;
    let awake = context.keeps_awake.then(|| Awake::keep(context.layout.project(), &context.env));
    let first = Active::new(run.clone(), std::process::id(), clock::now());
    // For users and hooks; the lock is authoritative.
    let _ = active::publish(&context.layout.active(), &first);
    let (incomplete, draft) = (setup.incomplete, setup.draft.take());
    let outcome = connect(context, setup, self_exe, engine);
    drop(awake);
    let _ = active::withdraw(&context.layout.active());
    warden.release();
    context.withdraw(draft.as_ref(), &outcome);
    context.put_back(&run, &outcome);
    context.finish();
    Ok(match (outcome?.exit_code(), incomplete) {
        (ExitStatus::Incomplete, Incomplete::IsFine) => ExitStatus::Complete,
        (status, _) => status,
    })
}

/// Builds the ports and runs the engine with them.
fn connect(
    context: &Desk,
    setup: Journey,
    self_exe: PathBuf,
    engine: impl FnOnce(Ports<'_>, &Telling) -> Result<Outcome, EngineError>,
) -> Result<Outcome, Complaint> {
    let Journey { run, journal, before, recipe, isolation, masker, draft: _, incomplete, plan } =
        setup;
    let mut env = context.env.clone();
    let ours = [RUN_ID_VARIABLE, ACTIVE_VARIABLE, WINDOW_VARIABLE];
    env.retain(|(name, _)| !ours.iter().any(|ours| name == ours));
    env.push((RUN_ID_VARIABLE.into(), run.0.clone().into()));
    // The hooks in an agent find the run by these; gates do not get them.
    let mut agent_env = env.clone();
    agent_env.push((ACTIVE_VARIABLE.into(), context.layout.active().into()));
    agent_env.extend(
        context.context_window.map(|window| (WINDOW_VARIABLE.into(), window.to_string().into())),
    );
    let project = context.layout.project();
    let watch = &context.watch;
    let mut agent = AgentCaller {
        watch: watch.clone(),
        project: project.to_owned(),
        files: context.layout.run(&run),
        env: agent_env,
        self_exe,
        zone: jiff::tz::TimeZone::system(),
        plugin: context.layout.state().parent().map(plugin::for_runs),
        hooks: HookNews::Untold,
        masker: masker.clone(),
        walls: isolation.walls(),
        confined: isolation.agents(context.layout.state()),
    };
    let (launcher, gate_env) = isolation.gates(&recipe, &env);
    let mut gates =
        CommandGates::new(context.layout.clone(), gate_env, watch.clone(), &recipe.gates)
            .masking(masker.clone())
            .launched_by(launcher)
            .printing_at_most(isolation.output())
            .writing_at_most(isolation.space());
    let sandboxed = isolation.git(&env);
    let mut git = context
        .git(&run, sandboxed.clone())
        .map(|git| git.refusing(masker.clone(), recipe.secrets_allowed.clone()))
        .map(|git| git.guarding(&isolation::protected_files(&recipe, project)))
        .map(|git| if isolation.exposes_refs(&recipe) { git.keeping_refs() } else { git });
    let mut none = NoRepository::new(project, env.clone(), watch.clone());
    if let Some((launcher, env)) = sandboxed {
        none = none.launched_by(launcher, env);
    }
    let vcs: &mut dyn Vcs = match &mut git {
        Some(git) => git,
        None => &mut none,
    };
    let files = context.layout.run(&run);
    let (skills, prompts) = (context.skills.clone(), context.prompts.clone());
    let subscribers = Telling::begin(plan, context, &env, &files, &masker);
    let mut views: Vec<Box<dyn Ui>> = vec![Box::new(context.views(&run, incomplete, &masker))];
    views.extend(subscribers.views());
    let mut ui = Fanout::new(views);
    let mut store =
        RunStore::new(context.layout.clone(), journal, files, skills, prompts).masking(masker);
    let inbox = Inbox::new(context.layout.run(&run).path());
    let mut clock = RunClock::new(watch.clone(), before).listening(inbox);
    let ports = Ports {
        agent: &mut agent,
        gates: &mut gates,
        vcs,
        store: &mut store,
        clock: &mut clock,
        ui: &mut ui,
    };
    engine(ports, &subscribers).map_err(|error| complaint(&error))
}

/// Returns the error for a run that cannot continue.
pub(crate) fn complaint(error: &EngineError) -> Complaint {
    match error {
        EngineError::Journal(_) | EngineError::Fold(_) => {
            Complaint::of(ExitStatus::Incomplete, error)
                .hint("nothing is lost: `ralph resume` continues once the journal can be written")
        }
        EngineError::Git(_) => Complaint::of(ExitStatus::GitFailed, error)
            .hint("nothing is lost: `ralph resume` continues once `git status` works here"),
        EngineError::Moved { left, now } => moved(error, left, now),
        EngineError::Protected { paths, left } => Complaint::of(ExitStatus::BadInput, error)
            .hint("a resumed run uses the settings and gates it was started with")
            .hint(format!(
                "`git restore --source={} -- {}` restores the old files; keep a copy of yours, and move new files away",
                left.0,
                calls::quoted(paths)
            ))
            .hint("or begin a new run, which takes them as they are"),
    }
}

/// Returns the error for a history that the user moved, with hints how to resume.
fn moved(error: &EngineError, left: &CheckedOut, now: &CheckedOut) -> Complaint {
    let mut complaint = Complaint::of(ExitStatus::BadInput, error)
        .hint("the run has work that has not landed, and would take your commits for its agent's");
    match (left.short_branch(), &left.head) {
        (Some(branch), _) if left.branch != now.branch => {
            let branch = calls::quoted(&[branch.to_owned()]);
            let hint = format!("`git switch {branch}` goes back, then the run can be resumed");
            complaint = complaint.hint(hint);
        }
        (Some(_), Some(head)) => {
            let head = &head.0;
            complaint = complaint
                .hint(format!("`git log -p {head}..` shows what came since"))
                .hint(format!(
                    "`git reset --soft {head}` makes it a part of that work, then the run can be resumed"
                ));
        }
        (None, Some(head)) => {
            complaint = complaint.hint(format!("`git switch --detach {}` goes back", head.0));
        }
        (_, None) => {}
    }
    complaint.hint(
        "or begin a new run, which starts from what is there; `--include-dirty` takes along what is not committed",
    )
}
