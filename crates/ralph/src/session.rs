//! A run from start to end: the parts are connected here, and nowhere else.
//!
//! Not here: any decision. The engine has those; this room gives it its ports and turns its
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

/// How the user wants a run to be treated.
#[derive(Debug, Clone)]
pub(crate) struct Wishes {
    /// What to do with uncommitted changes where ralph is going to commit.
    pub(crate) dirty: DirtyPlan,
    /// What exit code an incomplete run has.
    pub(crate) incomplete: Incomplete,
    /// What becomes of the work of a task that failed before and is tried again.
    pub(crate) shelf: Option<Shelved>,
}

/// What exit code an incomplete run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Incomplete {
    /// 1.
    Fails,
    /// 0, because the user said so.
    IsFine,
}

impl From<bool> for Incomplete {
    fn from(allow_incomplete: bool) -> Self {
        if allow_incomplete { Self::IsFine } else { Self::Fails }
    }
}

/// Begins a run and drives it to its end.
pub(crate) fn start(
    common: &CommonArgs,
    project: &Project,
    loaded: &Loaded,
    recipe: Recipe,
    wishes: &Wishes,
) -> Result<ExitStatus, Complaint> {
    let is_open = isolation::may_be_elsewhere(&recipe.sandbox, &project.env);
    if !is_open {
        project.agents_are_there(&recipe)?;
        project.gates_are_there(&recipe)?;
    }
    let plan = telling::Plan::of(&project.env, loaded)?;
    let mut desk = Desk::open(common, project, loaded)?;
    desk.repository_is_there(&recipe)?;
    desk.keeps_list_of(&recipe);
    desk.nothing_is_under_way(&recipe)?;
    desk.can_commit(&recipe)?;
    let still_aside = desk.bring_back()?;
    desk.tree_is_clean(&recipe, wishes.dirty)?;
    let chosen = {
        let site = site(&desk, project, loaded, desk.layout.state())?;
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
    let recipe = equipped(project, recipe, asking(ground, &desk));
    canary::sings(&desk, &recipe)?;
    let (run, files) =
        run_id::begin(&desk.layout, clock::now()).map_err(|error| complain_of_layout(&error))?;
    let journal = Journal::create(&files.journal())
        .map_err(|error| Complaint::of(ExitStatus::BadInput, &error))?;
    let recipe = remembering::with_memory(&desk.layout, &run, recipe);
    let mut recipe = remembering::with_servers(project, &files, recipe)?;
    // A run that cannot be isolated after all has not begun: nothing of it stays.
    let isolation = isolate(&desk, project, loaded, &run, &recipe, chosen)
        .inspect_err(|_| drop(std::fs::remove_dir_all(files.path())))?;
    desk.set_aside(&run, wishes.dirty)?;
    desk.unshelve(&run, wishes.shelf.as_ref())?;
    desk.begin_draft(&run, &recipe)?;
    // Going on with the run later must not mean less.
    recipe.sandbox.backend = Wanted::This(isolation.backend);
    let mut warnings = desk.warnings(loaded, &recipe);
    warnings.extend(isolation.warnings.clone());
    warnings.extend(still_aside);
    let journey = Journey {
        run: run.clone(),
        journal,
        before: Millis::ZERO,
        draft: desk.draft(&run, &recipe),
        recipe: recipe.clone(),
        isolation,
        masker: secrets::masker(&desk.env, &recipe),
        incomplete: wishes.incomplete,
        plan,
    };
    let project = project.directory.clone();
    let start = Start { run, project, recipe, version: VERSION.to_owned() };
    drive(&desk, journey, |ports, telling| {
        to_the_end(Engine::start(ports, start)?, warnings, telling)
    })
}

/// Goes on with a run.
pub(crate) fn resume(
    common: &CommonArgs,
    project: &Project,
    loaded: &Loaded,
    run: &RunId,
    change: impl FnOnce(&Recipe) -> Result<Option<Recipe>, Complaint>,
    wishes: &Wishes,
) -> Result<ExitStatus, Complaint> {
    let plan = telling::Plan::of(&project.env, loaded)?;
    let mut desk = Desk::open(common, project, loaded)?;
    let path = desk.layout.run(run).journal();
    let unreadable = |error| Complaint::of(ExitStatus::BadInput, &error);
    // The journal is opened before it is read: opening drops a torn last line.
    let journal = Journal::open_for_append(&path).map_err(unreadable)?;
    let mut state = journal::fold(&path).map_err(unreadable)?;
    secrets::refill(&mut state.recipe, &loaded.settings, &desk.env)?;
    // Who was refused because of the message resumes with another one.
    state.recipe.landing.commit_message.clone_from(&loaded.settings.commit_message);
    belongs_here(&state, project)?;
    let changed = change(&state.recipe)?;
    let wanted = changed.as_ref().unwrap_or(&state.recipe);
    let chosen = {
        let site = site(&desk, project, loaded, desk.layout.state())?;
        isolation::look_for(&site, wanted)?
    };
    let ground = isolation::ground(&chosen);
    match ground {
        Ground::Machine => project.agents_are_there(wanted)?,
        // What is missing inside is said by the first call.
        Ground::Image => {}
    }
    // The agents may have been updated since.
    let equipped = equipped(project, wanted.clone(), asking(ground, &desk));
    let equipped = remembering::with_servers(project, &desk.layout.run(run), equipped)?;
    let changed = (equipped != state.recipe).then_some(equipped);
    let recipe = changed.as_ref().unwrap_or(&state.recipe);
    let mut isolation = isolate(&desk, project, loaded, run, recipe, chosen)?;
    isolation.sweep(&desk.watch);
    canary::sings(&desk, recipe)?;
    desk.repository_is_there(recipe)?;
    desk.can_commit(recipe)?;
    desk.keeps_list_of(recipe);
    // What has not landed yet is the run's own, between two attempts as well.
    if state.current.is_none() && state.base.is_none() {
        desk.tree_is_clean(recipe, wishes.dirty)?;
        desk.set_aside(run, wishes.dirty)?;
    }
    desk.take_up_draft(run, recipe)?;
    // The warden has most likely done this already, when the run died.
    process::sweep_run(&run.0);
    let mut warnings = match &state.outcome {
        Some(_) => {
            desk.history_is_as_left(&state)?;
            Vec::new()
        }
        None => desk.free_repository(&state)?,
    };
    warnings.extend(isolation.warnings.clone());
    let journey = Journey {
        run: run.clone(),
        journal,
        before: state.ran,
        draft: desk.draft(run, recipe),
        recipe: recipe.clone(),
        isolation,
        masker: secrets::masker(&desk.env, recipe),
        incomplete: wishes.incomplete,
        plan,
    };
    drive(&desk, journey, |ports, telling| {
        telling.catch_up(&path);
        let engine = Engine::resume(ports, state, VERSION.to_owned(), changed)?;
        to_the_end(engine, warnings, telling)
    })
}

/// Puts back what a run that was killed after its end had set aside. Whoever is in the way of that
/// is told about by the next run.
pub(crate) fn bring_back(common: &CommonArgs, project: &Project, loaded: &Loaded) {
    if let Ok(desk) = Desk::open(common, project, loaded) {
        let _ = desk.bring_back();
        desk.finish();
    }
}

/// Runs the loop, and sees to it that everybody is told. Who could not be is a warning.
fn to_the_end(
    mut engine: Engine<'_>,
    warnings: Vec<String>,
    telling: &Telling,
) -> Result<Outcome, EngineError> {
    for warning in warnings {
        engine.warn(warning)?;
    }
    let outcome = engine.run();
    let untold = telling.finish();
    let outcome = outcome?;
    for warning in untold {
        engine.warn(warning)?;
    }
    Ok(outcome)
}

/// Makes the sandbox of a run.
fn isolate(
    desk: &Desk,
    project: &Project,
    loaded: &Loaded,
    run: &RunId,
    recipe: &Recipe,
    chosen: Chosen<Wall>,
) -> Result<Isolation, Complaint> {
    let files = desk.layout.run(run);
    Isolation::begin(&site(desk, project, loaded, files.path())?, recipe, chosen)
}

/// Returns whom to ask for the versions of agents: only those of this machine can be.
fn asking(ground: Ground, desk: &Desk) -> Asking<'_> {
    match ground {
        Ground::Machine => Asking::Programs(&desk.watch),
        Ground::Image => Asking::Nobody,
    }
}

fn site<'a>(
    desk: &'a Desk,
    project: &'a Project,
    loaded: &Loaded,
    run: &'a Path,
) -> Result<Site<'a>, Complaint> {
    Ok(Site {
        project: &project.directory,
        repository: desk.repository(),
        state: desk.layout.state(),
        state_root: project.state_root(loaded)?,
        run,
        env: &desk.env,
        watch: &desk.watch,
    })
}

/// Refuses to go on with a run of another directory in the same work tree. One whose directory
/// is gone was moved here.
fn belongs_here(state: &RunState, project: &Project) -> Result<(), Complaint> {
    if state.project == project.directory || !state.project.is_dir() {
        return Ok(());
    }
    let place = state.project.display();
    Err(Complaint::input(format!("run {} belongs to `{place}`", state.run))
        .hint(format!("ralph resume -C {place}")))
}

/// What is particular to one run.
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
    desk: &Desk,
    mut journey: Journey,
    engine: impl FnOnce(Ports<'_>, &Telling) -> Result<Outcome, EngineError>,
) -> Result<ExitStatus, Complaint> {
    let cannot = |what: &str, error: std::io::Error| {
        Complaint::new(ExitStatus::Incomplete, format!("cannot {what}: {error}"))
    };
    let self_exe =
        std::env::current_exe().map_err(|error| cannot("find ralph's own executable", error))?;
    let run = journey.run.clone();
    let warden = Warden::start(&self_exe, &["__warden"], &run.0)
        .map_err(|error| cannot("start the warden process", error))?;
    let awake = desk.keeps_awake.then(|| Awake::keep(desk.layout.project(), &desk.env));
    let first = Active::new(run.clone(), std::process::id(), clock::now());
    // For people and hooks; the lock is what counts.
    let _ = active::publish(&desk.layout.active(), &first);
    let (incomplete, draft) = (journey.incomplete, journey.draft.take());
    let outcome = connect(desk, journey, self_exe, engine);
    drop(awake);
    let _ = active::withdraw(&desk.layout.active());
    warden.release();
    desk.withdraw(draft.as_ref(), &outcome);
    desk.put_back(&run, &outcome);
    desk.finish();
    Ok(match (outcome?.exit_code(), incomplete) {
        (ExitStatus::Incomplete, Incomplete::IsFine) => ExitStatus::Complete,
        (status, _) => status,
    })
}

/// Gives the engine its ports.
fn connect(
    desk: &Desk,
    journey: Journey,
    self_exe: PathBuf,
    engine: impl FnOnce(Ports<'_>, &Telling) -> Result<Outcome, EngineError>,
) -> Result<Outcome, Complaint> {
    let Journey { run, journal, before, recipe, isolation, masker, draft: _, incomplete, plan } =
        journey;
    let mut env = desk.env.clone();
    let ours = [RUN_ID_VARIABLE, ACTIVE_VARIABLE, WINDOW_VARIABLE];
    env.retain(|(name, _)| !ours.iter().any(|ours| name == ours));
    env.push((RUN_ID_VARIABLE.into(), run.0.clone().into()));
    // The hooks in an agent find the run by these; a gate has no business with them.
    let mut agent_env = env.clone();
    agent_env.push((ACTIVE_VARIABLE.into(), desk.layout.active().into()));
    agent_env.extend(
        desk.context_window.map(|window| (WINDOW_VARIABLE.into(), window.to_string().into())),
    );
    let project = desk.layout.project();
    let watch = &desk.watch;
    let mut agent = AgentCaller {
        watch: watch.clone(),
        project: project.to_owned(),
        files: desk.layout.run(&run),
        env: agent_env,
        self_exe,
        zone: jiff::tz::TimeZone::system(),
        plugin: desk.layout.state().parent().map(plugin::for_runs),
        hooks: HookNews::Untold,
        masker: masker.clone(),
        walls: isolation.walls(),
        confined: isolation.agents(desk.layout.state()),
    };
    let (launcher, gate_env) = isolation.gates(&recipe, &env);
    let mut gates = CommandGates::new(desk.layout.clone(), gate_env, watch.clone(), &recipe.gates)
        .masking(masker.clone())
        .launched_by(launcher)
        .printing_at_most(isolation.output())
        .writing_at_most(isolation.space());
    let cell = isolation.git(&env);
    let mut git = desk
        .git(&run, cell.clone())
        .map(|git| git.refusing(masker.clone(), recipe.secrets_allowed.clone()))
        .map(|git| git.guarding(&isolation::protected_files(&recipe, project)))
        .map(|git| if isolation.exposes_refs(&recipe) { git.keeping_refs() } else { git });
    let mut none = NoRepository::new(project, env.clone(), watch.clone());
    if let Some((launcher, env)) = cell {
        none = none.launched_by(launcher, env);
    }
    let vcs: &mut dyn Vcs = match &mut git {
        Some(git) => git,
        None => &mut none,
    };
    let files = desk.layout.run(&run);
    let (skills, prompts) = (desk.skills.clone(), desk.prompts.clone());
    let telling = Telling::begin(plan, desk, &env, &files, &masker);
    let mut views: Vec<Box<dyn Ui>> = vec![Box::new(desk.views(&run, incomplete, &masker))];
    views.extend(telling.views());
    let mut ui = Fanout::new(views);
    let mut store =
        RunStore::new(desk.layout.clone(), journal, files, skills, prompts).masking(masker);
    let inbox = Inbox::new(desk.layout.run(&run).path());
    let mut clock = RunClock::new(watch.clone(), before).listening(inbox);
    let ports = Ports {
        agent: &mut agent,
        gates: &mut gates,
        vcs,
        store: &mut store,
        clock: &mut clock,
        ui: &mut ui,
    };
    engine(ports, &telling).map_err(|error| complaint(&error))
}

/// Returns what a person is told whose run cannot go on.
pub(crate) fn complaint(error: &EngineError) -> Complaint {
    match error {
        EngineError::Journal(_) | EngineError::Fold(_) => {
            Complaint::of(ExitStatus::Incomplete, error)
                .hint("nothing is lost: `ralph resume` goes on once the journal can be written")
        }
        EngineError::Git(_) => Complaint::of(ExitStatus::GitFailed, error)
            .hint("nothing is lost: `ralph resume` goes on once `git status` works here"),
        EngineError::Moved { left, now } => moved(error, left, now),
        EngineError::Protected { paths, left } => Complaint::of(ExitStatus::BadInput, error)
            .hint("the run goes on with what it began with, settings and gates included")
            .hint(format!(
                "`git restore --source={} -- {}` puts back what was there; keep a copy of yours, and move away what is new",
                left.0,
                calls::quoted(paths)
            ))
            .hint("or begin a new run, which takes them as they are"),
    }
}

/// Says how a person and a run come to terms about the history.
fn moved(error: &EngineError, left: &CheckedOut, now: &CheckedOut) -> Complaint {
    let mut complaint = Complaint::of(ExitStatus::BadInput, error)
        .hint("the run has work that has not landed, and would take your commits for its agent's");
    match (left.short_branch(), &left.head) {
        (Some(branch), _) if left.branch != now.branch => {
            let branch = calls::quoted(&[branch.to_owned()]);
            let hint = format!("`git switch {branch}` goes back, and the run can go on");
            complaint = complaint.hint(hint);
        }
        (Some(_), Some(head)) => {
            let head = &head.0;
            complaint = complaint
                .hint(format!("`git log -p {head}..` shows what came since"))
                .hint(format!(
                    "`git reset --soft {head}` makes it a part of that work, and the run can go on"
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
