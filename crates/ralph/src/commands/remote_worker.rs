//! `ralph worker`: does a job of a run on another machine.
//!
//! The job decides what is to be done; this machine's user decides with which agents, in which
//! sandbox, and whether the project's settings are trusted.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Component, Path};
use std::thread;

use ralph_core::tasks::remote_job::{MachineValues, apply_machine_values};
use ralph_io::git::{REF_PREFIX, RemoteError, RemoteRefs, clone_project};
use ralph_io::process::{StopStage, Watch};
use ralph_io::store::{ProjectLayout, RunDir};
use ralph_io::workers::{
    FetchedJob, HostOwner, HostedWorkers, RemoteEnd, RemoteWorker, WantedJob, check_job_name,
    fetch_earlier_work, fetch_job, find_machine_name,
};
use ralph_model::agent::AgentKind;
use ralph_model::attempt_label::AttemptLabel;
use ralph_model::gate::GateCheck;
use ralph_model::outcome::{ExitStatus, Outcome};
use ralph_model::recipe::ParallelPolicy;
use ralph_model::remote_job::{JobEnd, RemoteVersion};
use ralph_model::worker::{EarlierWork, Job, WorkerEvent};
use ralph_model::worker_protocol::HostReport;

use super::git_worker_host::{choose_remote, open_repository};
use crate::cli::{CommonArgs, RemoteWorkerArgs};
use crate::cli_error::CliError;
use crate::project::Project;
use crate::session::worker_run::{build_worker_spawn, choose_gate_slots};
use crate::settings::LoadedSettings;
use crate::{recipe, screen, secrets};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The directory of jobs in the state directory of a clone.
const JOBS: &str = "jobs";

/// Does a job.
pub(crate) fn main(common: &CommonArgs, args: &RemoteWorkerArgs) -> Result<ExitStatus, CliError> {
    check_job_name(&args.job).map_err(|error| {
        to_error(&error).with_hint("`--job` takes the whole name, as the start command gets it")
    })?;
    let watch = Watch::install(|_| {}).map_err(|error| build_error("watch for signals", &error))?;
    if args.lifeline {
        start_lifeline(&watch)?;
    }
    let clone = open_clone(common, args)?;
    let repository = open_repository(&clone)?;
    let remote = choose_remote(&repository, args.remote.as_deref())?;
    let mut refs = RemoteRefs { repository, remote, prefix: REF_PREFIX.to_owned() };
    let fetched =
        fetch_job(&mut refs, &args.job, args.attempt.as_ref()).map_err(|error| to_error(&error))?;
    let fetched = match settle(fetched, args)? {
        Ok(fetched) => fetched,
        Err(status) => return Ok(status),
    };
    let machine = args.name.clone().unwrap_or_else(find_machine_name);
    let mut report = |event: &WorkerEvent| print_report(event, args.json);
    // The settings say where the state is; whether they are trusted comes later.
    let untrusted = clone.load_settings(None, Vec::new())?;
    let root = clone.find_state_root(&untrusted)?;
    let layout = clone.find_layout_in(&untrusted, Some(&refs.repository))?;
    let files = layout.state().join(JOBS).join(&fetched.package.job.assignment.worker.0);
    fs::create_dir_all(&files).map_err(|error| build_error("create a directory", &error))?;
    // The same job twice on this machine: the second waits for the result of the first.
    let lock = File::create(files.join("lock"));
    let lock = lock.and_then(|lock| lock.lock().map(|()| lock));
    let _lock = lock.map_err(|error| build_error("lock the job", &error))?;
    let again =
        fetch_job(&mut refs, &args.job, args.attempt.as_ref()).map_err(|error| to_error(&error))?;
    let fetched = match settle(again, args)? {
        Ok(fetched) => fetched,
        Err(status) => return Ok(status),
    };
    let masker = secrets::build_masker(&clone.env, &fetched.package.job.recipe);
    let attempt = args.attempt.clone().unwrap_or_else(|| fetched.package.attempt.clone());
    let prepared = prepare_job(&clone, &refs, &fetched, &layout, &files);
    let prepared = prepared.map(|(mut job, workers)| {
        job.earlier = find_earlier_work(&refs, &job, &attempt, &files, &mut report);
        (job, workers)
    });
    let masker = match &prepared {
        // The agents' own variables are those of this machine.
        Ok((job, _)) => secrets::build_masker(&clone.env, &job.recipe),
        Err(_) => masker,
    };
    let mut worker = RemoteWorker {
        refs: &refs,
        name: &args.job,
        fetched,
        attempt,
        machine: &machine,
        version: VERSION,
        root: &root,
        masker: &masker,
        patience: args.patience.into(),
        watch: &watch,
        report: &mut report,
    };
    let end = match prepared {
        Ok((job, mut workers)) => worker.do_job(&mut workers, &job),
        Err(error) => worker.refuse(&error.message),
    };
    finish(end, &watch, &refs)
}

/// Returns the job, or what to exit with if there is nothing to do.
fn settle(
    wanted: WantedJob,
    args: &RemoteWorkerArgs,
) -> Result<Result<FetchedJob, ExitStatus>, CliError> {
    match wanted {
        WantedJob::Wanted(fetched) => Ok(Ok(*fetched)),
        WantedJob::Done => {
            if !args.json {
                screen::print_line("This attempt has a result already.");
            }
            Ok(Err(ExitStatus::Complete))
        }
        WantedJob::Needless { reason } => Err(CliError::new(ExitStatus::Busy, reason)),
    }
}

/// Returns the job with the values of this machine, and what does it.
fn prepare_job(
    clone: &Project,
    refs: &RemoteRefs,
    fetched: &FetchedJob,
    layout: &ProjectLayout,
    files: &Path,
) -> Result<(Job, HostedWorkers), CliError> {
    let package = &fetched.package;
    RemoteVersion::new(VERSION).check(&package.made_by).map_err(CliError::for_input)?;
    let mut job = package.job.clone();
    let missing = || CliError::for_input("the job names no commit to start from");
    let base = job.assignment.base.clone().ok_or_else(missing)?;
    refs.repository.prepare_machine_clone(&refs.remote, &base).map_err(CliError::from_git_error)?;
    if !job.project.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(CliError::for_input("the job names a directory outside of the project"));
    }
    let directory = refs.repository.top().join(&job.project);
    let project = Project::new(directory, clone.env.clone());
    let loaded = project.load_trusted_settings(None, Vec::new())?;
    apply_machine_values(&mut job, &collect_machine_values(&loaded)?)
        .map_err(CliError::for_input)?;
    let list = job.task_file.file_name().unwrap_or("tasks.json".as_ref());
    job.task_file = files.join(list);
    fs::write(&job.task_file, &package.list)
        .map_err(|error| build_error("write the list", &error))?;
    job.project.clone_from(&project.directory);
    let gate_slots = loaded.settings.parallel.gate_slots;
    let policy = ParallelPolicy { gate_slots, ..ParallelPolicy::new(1) };
    let slots = choose_gate_slots(&policy, &RunDir::from_path(layout.state()));
    let spawn = build_worker_spawn(&project, "__workers", &slots, None)?;
    let workers = HostedWorkers::new(spawn, HostOwner::Ralph, files.join("host.log"), VERSION);
    Ok((job, workers))
}

/// Returns the work of an earlier attempt on another machine, if there is some.
fn find_earlier_work(
    refs: &RemoteRefs,
    job: &Job,
    attempt: &AttemptLabel,
    files: &Path,
    report: &mut dyn FnMut(&WorkerEvent),
) -> Option<Box<EarlierWork>> {
    let found = fetch_earlier_work(refs, &job.assignment.worker, attempt, files, VERSION);
    let found = found.inspect_err(|error| {
        let text = format!("the work of other machines is not continued: {error}");
        report(&WorkerEvent::Warning { text });
    });
    found.ok().flatten().map(Box::new)
}

/// Returns what the settings of this machine say about jobs.
fn collect_machine_values(loaded: &LoadedSettings) -> Result<MachineValues, CliError> {
    let settings = &loaded.settings;
    // A machine whose settings name no agent has the usual programs.
    let agents = match settings.agent.command {
        Some(_) => recipe::choose_agents(loaded)?,
        None => BTreeMap::new(),
    };
    let gates =
        recipe::gates::build_gates(loaded, &[])?.into_iter().filter_map(|gate| match gate.check {
            GateCheck::Agent(agent) => Some(*agent),
            GateCheck::Command(_) => None,
        });
    let escalation = recipe::choose_escalation(loaded)?;
    Ok(MachineValues {
        sandbox: recipe::build_sandbox_policy(loaded),
        guard: settings.guard.to_policy(),
        clones: settings.parallel.build_clone_policy(),
        agents,
        others: gates.chain(escalation).collect(),
        find_program: find_usual_program,
    })
}

/// Returns the program of a product that the settings do not name.
fn find_usual_program(kind: AgentKind) -> Option<&'static str> {
    let name = kind.name();
    let is_product = ralph_agents::find_adapter(kind).env.is_some();
    (is_product && ralph_agents::infer_agent_kind(name) == kind).then_some(name)
}

/// Opens the clone of the project; an empty or missing directory becomes one.
fn open_clone(common: &CommonArgs, args: &RemoteWorkerArgs) -> Result<Project, CliError> {
    let directory = common.directory();
    let is_empty = match fs::read_dir(directory) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => !directory.exists(),
    };
    if is_empty {
        let shown = directory.display();
        let Some(address) = &args.remote else {
            return Err(CliError::for_input(format!("`{shown}` is not a clone of the project"))
                .with_hint("--remote ADDRESS clones the project into it"));
        };
        let env = std::env::vars_os().collect();
        clone_project(directory, address, env).map_err(CliError::from_git_error)?;
    }
    Project::open(common)
}

/// Ends the worker when stdin does.
fn start_lifeline(watch: &Watch) -> Result<(), CliError> {
    let watch = watch.clone();
    let started = thread::Builder::new().name("lifeline".to_owned()).spawn(move || {
        let mut rest = [0; 1024];
        while std::io::stdin().read(&mut rest).is_ok_and(|count| count > 0) {}
        watch.end_now();
    });
    started.map(drop).map_err(|error| build_error("start a thread", &error))
}

/// Turns the end of the work into an exit status.
fn finish(end: RemoteEnd, watch: &Watch, refs: &RemoteRefs) -> Result<ExitStatus, CliError> {
    match end {
        RemoteEnd::Pushed(JobEnd::Ended(_)) => Ok(ExitStatus::Complete),
        RemoteEnd::Pushed(JobEnd::Refused { reason }) => {
            Err(CliError::for_input(format!("the job is refused: {reason}")))
        }
        RemoteEnd::Pushed(JobEnd::Lost { reason }) => {
            let is_stopped = watch.stage() > StopStage::Running;
            let status = if is_stopped { ExitStatus::Interrupted } else { ExitStatus::Incomplete };
            Err(CliError::new(status, reason))
        }
        RemoteEnd::Needless { reason } => Err(CliError::new(ExitStatus::Busy, reason)),
        RemoteEnd::Unpushed(error) => {
            let clone = refs.repository.top().display();
            let message = format!("the result could not be pushed: {error}");
            Err(CliError::new(ExitStatus::GitFailed, message)
                .with_hint(format!("the work is kept in `{clone}`, under refs/ralph/candidates/"))
                .with_hint("the same command pushes it later; no agent is asked again"))
        }
    }
}

fn print_report(event: &WorkerEvent, as_json: bool) {
    let line = if as_json {
        HostReport::Event(event.clone()).to_line().ok()
    } else {
        describe_report(event).map(|line| format!("{line}\n"))
    };
    if let Some(line) = line {
        screen::print_event(&line);
    }
}

fn describe_report(event: &WorkerEvent) -> Option<String> {
    Some(match event {
        WorkerEvent::Started { worker, place, origin } => match &origin.taken_over {
            Some(taken) => format!("{worker} works in {place}, {taken}."),
            None => format!("{worker} works in {place}."),
        },
        WorkerEvent::Progressed { doing, .. } if doing.is_empty() => return None,
        WorkerEvent::Progressed { doing, .. } => format!("  {doing}"),
        WorkerEvent::Limited { agent, .. } => format!("  a limit of {}", agent.name()),
        WorkerEvent::Warning { text } => format!("warning: {text}"),
        WorkerEvent::Ended { result, .. } if result.outcome == Outcome::Complete => {
            "The task is done; the run merges it.".to_owned()
        }
        WorkerEvent::Ended { result, .. } => format!("It ended: {}.", result.outcome),
        WorkerEvent::Lost { reason, .. } => format!("lost: {reason}"),
    })
}

fn to_error(error: &RemoteError) -> CliError {
    let status = match error {
        RemoteError::Refused { .. } | RemoteError::BadJob { .. } => ExitStatus::BadInput,
        RemoteError::Exists { .. } | RemoteError::Failed { .. } => ExitStatus::GitFailed,
    };
    CliError::new(status, error.to_string())
}

fn build_error(what: &str, error: &std::io::Error) -> CliError {
    CliError::new(ExitStatus::Incomplete, format!("cannot {what}: {error}"))
}
