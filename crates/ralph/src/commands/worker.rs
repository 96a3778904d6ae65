//! The hidden commands of parallel runs: a worker, which does one job in its own clone as an
//! ordinary run, and the local worker host, which starts workers.

mod takeover;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use ralph_core::tasks::job_result::{build_job_result, must_continue};
use ralph_guard::normalize_lexically;
use ralph_io::gates::GateSlots;
use ralph_io::git::{
    CloneError, CloneRequest, GitRepository, find_object_directories, prepare_clone,
};
use ralph_io::process::Watch;
use ralph_io::store::{ProjectLayout, RunDir, journal};
use ralph_io::worker_slots::{
    SlotError, SlotRequest, WorkerSlot, find_due_setup, find_free_space, record_setup,
};
use ralph_io::workers::{self, Lifeline, WorkerHost, WorkerOutput};
use ralph_model::agent::{AgentChoice, AgentOrigin};
use ralph_model::ids::RunId;
use ralph_model::outcome::{ExitStatus, Outcome};
use ralph_model::recipe::{ClonePolicy, Recipe, Work};
use ralph_model::run::RunState;
use ralph_model::sandbox::SandboxPolicy;
use ralph_model::work_figures::WorkFigures;
use ralph_model::worker::{Job, JobResult, WorkerEvent, WorkerOrigin};
use ralph_model::worktree::{CommitId, TreeId};

use crate::cli::CommonArgs;
use crate::cli_error::CliError;
use crate::project::Project;
use crate::run_context::DirtyPlan;
use crate::run_stats::read_run_stats;
use crate::session::worker_run::{CloneSetup, WorkerRun, build_worker_spawn};
use crate::session::{self, StartOptions};
use crate::settings::LoadedSettings;
use crate::settings::types::Settings;
use crate::settings::types::notify::{NotifySettings, OtelSettings};

/// The directory of a worker's own task list, in the directory of its run.
const LIST_DIRECTORY: &str = "list";

/// How long a worker whose host is gone may take to stop, with room for a loaded machine.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The variable with the name of the clone, for gates that need a port or a database each.
const SLOT_VARIABLE: &str = "RALPH_SLOT";

/// Runs the worker host: starts a process for each job on stdin.
pub(crate) fn serve_jobs(
    common: &CommonArgs,
    slots: &GateSlots,
    config: Option<&Path>,
) -> Result<ExitStatus, CliError> {
    let project = Project::open(common)?;
    let host = WorkerHost {
        worker: build_worker_spawn(&project, "__worker", slots, config)?,
        logs: slots.directory.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    workers::serve_jobs(&host).map_err(|error| to_worker_error("the worker host", &error))?;
    Ok(ExitStatus::Complete)
}

/// Does the job on stdin, and reports on stdout.
pub(crate) fn main(
    common: &CommonArgs,
    slots: GateSlots,
    config: Option<&Path>,
) -> Result<ExitStatus, CliError> {
    let job = workers::read_job().map_err(|error| to_worker_error("the job", &error))?;
    let lifeline = Lifeline::start().map_err(|error| to_worker_error("a thread", &error))?;
    let output = WorkerOutput { worker: job.assignment.worker.clone() };
    let done = do_job(common, config, job, slots, &lifeline, &output);
    let worker = output.worker.clone();
    output.report(match &done {
        Ok(result) => WorkerEvent::Ended { worker, result: Box::new(result.clone()) },
        Err(error) => WorkerEvent::Lost { worker: Some(worker), reason: error.message.clone() },
    });
    done.map(|_| ExitStatus::Complete)
}

/// Does a job, or continues it. Returns how its run ended.
fn do_job(
    common: &CommonArgs,
    config: Option<&Path>,
    job: Job,
    slots: GateSlots,
    lifeline: &Lifeline,
    output: &WorkerOutput,
) -> Result<JobResult, CliError> {
    let project = Project::open(common)?;
    let mut loaded = project.load_settings(config, Vec::new())?;
    adapt_settings(&mut loaded.settings, &project);
    let source = project.find_repository(&Watch::new_detached())?;
    let source = source.ok_or_else(|| CliError::for_input("there is no git repository"))?;
    let root = project.find_state_root(&loaded)?;
    let clones = job.clones.directory.as_ref().map(|path| project.directory.join(path));
    let clones = clones.unwrap_or_else(|| root.clone());
    let slot = acquire_slot(build_slot_request(&clones, &source, &job))
        .map_err(|error| CliError::from_error(ExitStatus::Incomplete, &error))?;
    let mut run = WorkerJob { job, source, slot, root, clones, slots, is_taken_over: false };
    let mut state = run.read_state().filter(|_| run.has_clone(&project));
    let mut origin = WorkerOrigin::default();
    if let Some((taken, from)) = run.take_over(&project, state.as_ref(), output) {
        (state, origin.taken_over) = (taken, from);
    }
    let made = if state.is_none() { run.make_new_clone(output) } else { Ok(()) };
    let place = run.slot.name().to_owned();
    let worker = output.worker.clone();
    output.report(WorkerEvent::Started { worker, place: place.clone(), origin });
    if let Err(error) = made {
        let outcome = Outcome::WorkersFailed { message: error.message };
        return Ok(JobResult::without_work(outcome, &place, run.slot.clone_path()));
    }
    let state = match state {
        Some(state) if !must_continue(&state, &run.job) => state,
        state => match run.do_work(common, &project, &loaded, state.as_ref(), lifeline, output) {
            Err(error) if run.read_state().is_none() => {
                let outcome = Outcome::WorkersFailed { message: error.message };
                return Ok(JobResult::without_work(outcome, &place, run.slot.clone_path()));
            }
            done => done?,
        },
    };
    let unfinished = || CliError::new(ExitStatus::Incomplete, "the worker's run has not ended");
    let result = build_job_result(&state, &run.job.assignment.task, &place, run.slot.clone_path());
    let mut result = result.ok_or_else(unfinished)?;
    let figures = run.find_files().and_then(|files| read_run_stats(&files));
    result.figures = figures.map(|it| Box::new(WorkFigures { rows: it.rows, gates: it.gates }));
    if run.slot.has_leftovers() {
        // An agent of an earlier job may have written what these gates ran: the run's own decide.
        result.passed.clear();
    }
    Ok(result)
}

/// A job, and where it is done.
struct WorkerJob {
    job: Job,
    /// The repository of the run that the worker belongs to.
    source: GitRepository,
    slot: WorkerSlot,
    root: PathBuf,
    /// Where the slots are.
    clones: PathBuf,
    slots: GateSlots,
    /// Whether the run began on another machine.
    is_taken_over: bool,
}

/// What is in the clone of a worker at first.
struct CloneStart {
    base: CommitId,
    branch: Option<String>,
    /// Uncommitted work.
    tree: Option<TreeId>,
}

fn build_slot_request<'a>(
    clones: &'a Path,
    source: &'a GitRepository,
    job: &'a Job,
) -> SlotRequest<'a> {
    SlotRequest {
        root: clones,
        work_tree: source.top(),
        worker: &job.assignment.worker,
        keep: &job.keep,
        most: job.jobs.and_then(|jobs| usize::try_from(jobs).ok()),
    }
}

/// Acquires a slot. A process may still be about to leave one: that did the same job before, if its
/// host was killed, or whose task was skipped.
fn acquire_slot(mut request: SlotRequest<'_>) -> Result<WorkerSlot, SlotError> {
    let begun = Instant::now();
    loop {
        if begun.elapsed() >= STOP_TIMEOUT {
            request.most = None;
        }
        match WorkerSlot::acquire(request) {
            Err(SlotError::Full { .. }) => {}
            Err(SlotError::Busy { .. }) if begun.elapsed() < STOP_TIMEOUT => {}
            slot => return slot,
        }
        thread::sleep(Duration::from_millis(20));
    }
}

impl WorkerJob {
    fn run_id(&self) -> RunId {
        RunId(self.job.assignment.worker.0.clone())
    }

    /// Returns the project directory in the clone.
    fn find_directory(&self) -> PathBuf {
        let inside = self.job.project.strip_prefix(self.source.top());
        inside.map_or_else(
            |_| self.slot.clone_path().to_owned(),
            |it| self.slot.clone_path().join(it),
        )
    }

    /// Returns where the task file of the run is in the clone.
    fn find_list(&self) -> PathBuf {
        let file = &self.job.task_file;
        self.find_directory().join(file.strip_prefix(&self.job.project).unwrap_or(file))
    }

    /// Returns the files of the worker's run, if its clone exists.
    fn find_files(&self) -> Option<RunDir> {
        let directory = self.find_directory();
        let layout = ProjectLayout::for_project(&directory, self.slot.clone_path(), &self.root);
        Some(layout.ok()?.run_dir(&self.run_id()))
    }

    /// Returns the state of the worker's run, if it has begun.
    fn read_state(&self) -> Option<RunState> {
        journal::fold_journal(&self.find_files()?.journal_path()).ok()
    }

    /// Returns whether git can read the clone. If not, the job begins again in a new one.
    fn has_clone(&self, main: &Project) -> bool {
        let clone = Project::new(self.slot.clone_path().to_owned(), main.env.clone());
        let resolve = |path: &Path| path.canonicalize().ok();
        match clone.find_repository(&Watch::new_detached()) {
            Ok(Some(it)) => resolve(it.top()) == resolve(self.slot.clone_path()),
            Ok(None) => false,
            // git does not run; the work in the clone is not lost for that.
            Err(_) => true,
        }
    }

    /// Starts the worker's run, or resumes it. Returns its state at the end.
    fn do_work(
        &self,
        common: &CommonArgs,
        main: &Project,
        loaded: &LoadedSettings,
        state: Option<&RunState>,
        lifeline: &Lifeline,
        output: &WorkerOutput,
    ) -> Result<RunState, CliError> {
        let assignment = &self.job.assignment;
        let due_setup = find_due_setup(&self.slot, &self.job.clones);
        let options = StartOptions {
            dirty: DirtyPlan::Include,
            incomplete: ExitStatus::Incomplete,
            former_attempts: Vec::new(),
            config: None,
            worker: Some(WorkerRun {
                run: self.run_id(),
                start_tree: assignment.start_tree.clone(),
                list: self.find_list(),
                borrowed: find_object_directories(&self.source),
                setup: due_setup
                    .as_ref()
                    .filter(|_| state.is_none() || self.is_taken_over)
                    .and_then(|_| self.build_setup()),
                gate_slots: self.slots.clone(),
                output: output.clone(),
            }),
        };
        let mut env = main.env.clone();
        env.push((SLOT_VARIABLE.into(), self.slot.name().into()));
        let project = Project::new(self.find_directory(), env);
        let missing = || CliError::for_input("the clone of the worker is not there");
        let files = self.find_files().ok_or_else(missing)?;
        if state.is_some() {
            lifeline.set_run(files.path());
            let limits = &self.job.recipe.limits;
            let change =
                |recipe: &Recipe| Ok(Some(Recipe { limits: limits.clone(), ..recipe.clone() }));
            session::resume_run(common, &project, loaded, &self.run_id(), &change, &options)?;
        } else {
            let recipe = self.build_recipe(main, &files)?;
            lifeline.set_run(files.path());
            session::start_run(common, &project, loaded, recipe, &options)?;
        }
        if let Some(done) = due_setup {
            // It runs again if this fails.
            let _ = record_setup(&self.slot, &done);
        }
        journal::fold_journal(&files.journal_path()).map_err(CliError::from_input_error)
    }

    /// Makes the clone for a new job.
    fn make_new_clone(&mut self, output: &WorkerOutput) -> Result<(), CliError> {
        let missing = || CliError::for_input("the job names no commit to start from");
        let base = self.job.assignment.base.clone().ok_or_else(missing)?;
        let branch = self.source.current_branch().map_err(CliError::from_git_error)?;
        // The start tree is written by the run, which counts changes from the base.
        self.make_clone(CloneStart { base, branch, tree: None }, output)
    }

    /// Makes a clone. A slot with work that cannot be saved is not used.
    fn make_clone(&mut self, start: CloneStart, output: &WorkerOutput) -> Result<(), CliError> {
        let free = find_free_space(self.slot.directory());
        if free.is_ok_and(|free| free < self.job.clones.keep_free) {
            return Err(CliError::for_input(format!(
                "less than `parallel.keepFree` of the disk with `{}` is free",
                self.slot.directory().display()
            )));
        }
        let ClonePolicy { include, copy_limit, .. } = self.job.clones.clone();
        let CloneStart { base, branch, tree } = start;
        let request = CloneRequest { base, branch, start_tree: tree, include, copy_limit };
        loop {
            match prepare_clone(&self.source, &self.slot, &request) {
                Ok(prepared) => {
                    for text in prepared.warnings {
                        output.report(WorkerEvent::Warning { text });
                    }
                    return Ok(());
                }
                Err(CloneError::NotSaved { place, worker, reason }) => {
                    // Short, and the same for each job.
                    let reason = reason.split(": ").next().unwrap_or_default();
                    let text = format!(
                        "{place} is not used: the work of {worker} in it could not be saved \
                         ({reason}); `ralph clones` shows what is in it"
                    );
                    output.report(WorkerEvent::Warning { text });
                    self.job.keep.extend(self.slot.owner());
                    let request = build_slot_request(&self.clones, &self.source, &self.job);
                    self.slot
                        .replace(SlotRequest { most: None, ..request })
                        .map_err(|error| CliError::from_error(ExitStatus::Incomplete, &error))?;
                }
                Err(error @ CloneError::Failed { .. }) => {
                    return Err(CliError::from_error(ExitStatus::GitFailed, &error));
                }
            }
        }
    }

    /// Returns the command that sets up the clone.
    fn build_setup(&self) -> Option<CloneSetup> {
        let command = self.job.clones.setup.clone()?;
        let variables = [
            (SLOT_VARIABLE, self.slot.name().into()),
            ("RALPH_CLONE", self.slot.clone_path().as_os_str().to_owned()),
        ];
        Some(CloneSetup { command, variables: variables.map(|(name, value)| (name.into(), value)) })
    }

    /// Returns the recipe of the worker's run, with a task list of its own.
    fn build_recipe(&self, main: &Project, files: &RunDir) -> Result<Recipe, CliError> {
        let cannot = |error: std::io::Error| to_worker_error("the task list", &error);
        let mut recipe = (*self.job.recipe).clone();
        // A start that was cut off before its first event.
        if files.path().exists() {
            fs::remove_dir_all(files.path()).map_err(cannot)?;
        }
        let directory = files.path().join(LIST_DIRECTORY);
        fs::create_dir_all(&directory).map_err(cannot)?;
        let list = directory.join(self.job.task_file.file_name().unwrap_or_default());
        fs::copy(main.directory.join(&self.job.task_file), &list).map_err(cannot)?;
        if let Work::Tasks(work) = &mut recipe.work {
            work.file = list;
        }
        for agent in recipe.list_agents_mut() {
            take_agent_files(agent, &main.directory);
        }
        let SandboxPolicy { rw, ro, hide, .. } = &mut recipe.sandbox;
        for setting in rw.iter_mut().chain(ro).chain(hide) {
            *setting = self.find_in_clone(main, setting);
        }
        Ok(recipe)
    }

    /// Returns a path in the settings of the sandbox as the path that it means for the clone: the
    /// settings were written for the work tree of the run.
    fn find_in_clone(&self, main: &Project, setting: &str) -> String {
        let home =
            main.env.iter().find(|(name, _)| name == "HOME").map(|(_, home)| Path::new(home));
        let path = match (setting.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => main.directory.join(setting),
        };
        let path = path.canonicalize().unwrap_or_else(|_| normalize_lexically(&path));
        let path = match path.strip_prefix(self.source.top()) {
            Ok(inside) => self.slot.clone_path().join(inside),
            Err(_) => path,
        };
        path.into_os_string().into_string().unwrap_or_else(|_| setting.to_owned())
    }
}

/// Makes an agent use the project's own files: those were trusted, and a clone may have others, of an
/// earlier job in it, or none, if they are in no commit.
fn take_agent_files(agent: &mut AgentChoice, main: &Path) {
    for file in [&mut agent.mcp_config, &mut agent.system_prompt].into_iter().flatten() {
        *file = main.join(&*file);
    }
    // A plain name is looked up on the `PATH`.
    if (agent.command.contains('/') || agent.kind.origin() == AgentOrigin::BuiltIn)
        && let Some(program) = main.join(&agent.command).to_str()
    {
        program.clone_into(&mut agent.command);
    }
}

/// Makes the settings those of a worker: what people see comes from the run that it belongs to,
/// and ralph's own files are those of the project.
fn adapt_settings(settings: &mut Settings, project: &Project) {
    settings.notify = NotifySettings::default();
    settings.otel = OtelSettings::default();
    settings.ui.tui = false;
    settings.prevent_sleep = false;
    settings.stream_agent_output = false;
    for directory in [&mut settings.skills_dir, &mut settings.prompts_dir] {
        *directory = project.directory.join(&*directory).to_string_lossy().into_owned();
    }
}

fn to_worker_error(what: &str, error: &std::io::Error) -> CliError {
    CliError::new(ExitStatus::Incomplete, format!("cannot use {what}: {error}"))
}
