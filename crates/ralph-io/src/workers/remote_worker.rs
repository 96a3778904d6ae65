//! The machine's side of a job that came over git: does it in the local worker host, and pushes
//! progress, journal and result.
//!
//! The job's ref says whether it is still wanted. A result is created and never replaced. Not here:
//! the other side (`git_host`), and what this machine's user allows.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ralph_core::ports::{FetchOutcome, VcsError, Workers};
use ralph_model::attempt_label::AttemptLabel;
use ralph_model::ids::{RunId, WorkerId};
use ralph_model::outcome::Outcome;
use ralph_model::remote_job::{
    JobEnd, RemoteJob, RemoteProgress, RemoteResult, RemoteVersion, UnfinishedWork,
};
use ralph_model::units::Millis;
use ralph_model::worker::{Job, JobAssignment, WorkerEvent};
use ralph_model::worktree::CommitId;

use super::git_host::files::{
    JOB_FILE, JOURNAL_FILE, PROGRESS_FILE, RESULT_FILE, WORK_FILE, read_json,
};
use super::git_host::push_patiently;
use super::unfinished_work::collect_work;
use crate::clock;
use crate::git::{RefUpdate, RemoteError, RemoteRefs, is_object_id};
use crate::mask::Masker;
use crate::process::{StopStage, Watch};
use crate::store::RunDir;
use crate::store::layout::find_worker_run;

/// What is pushed of a journal. The beginning of a longer one is still a journal.
const LONGEST_JOURNAL: u64 = 8 << 20;

/// How long a job may take to be fetched.
const FETCH_PATIENCE: Duration = Duration::from_secs(60);

/// A job as it is on the remote.
#[derive(Debug, Clone)]
pub struct FetchedJob {
    pub package: RemoteJob,
    pub commit: CommitId,
}

/// What the remote says of a job.
#[derive(Debug, Clone)]
pub enum WantedJob {
    Wanted(Box<FetchedJob>),
    /// This attempt has a result.
    Done,
    /// It was canceled, or another attempt has begun.
    Needless {
        reason: String,
    },
}

/// A worker for another machine's run.
pub struct RemoteWorker<'a> {
    pub refs: &'a RemoteRefs,
    /// The full name of the job's ref.
    pub name: &'a str,
    pub fetched: FetchedJob,
    /// The label in the names of what is pushed.
    pub attempt: AttemptLabel,
    /// How people call this machine.
    pub machine: &'a str,
    pub version: &'a str,
    /// The state directory of all projects.
    pub root: &'a Path,
    pub masker: &'a Masker,
    pub patience: Duration,
    pub watch: &'a Watch,
    /// Takes what the worker reports.
    pub report: &'a mut dyn FnMut(&WorkerEvent),
}

/// How the work on a job ended on this machine.
#[derive(Debug, PartialEq)]
pub enum RemoteEnd {
    /// The result is on the remote, also if another process was first.
    Pushed(JobEnd),
    Needless {
        reason: String,
    },
    /// The result could not be pushed. The work stays in the clone.
    Unpushed(RemoteError),
}

/// What the worker reported so far.
struct ReportedProgress {
    reports: Vec<WorkerEvent>,
    iterations: u32,
    /// Whether there is something to push.
    is_due: bool,
}

/// Whether a job still runs: only then another machine may continue it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JobStage {
    Running,
    Ended,
}

/// Returns how this machine calls itself.
pub fn find_machine_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "machine".to_owned() } else { name }
}

/// Returns the worker in the name of a job's ref, and the namespace before it.
fn split_job_name(name: &str) -> Option<(&str, &str)> {
    let (rest, worker) = name.rsplit_once('/')?;
    Some((rest.strip_suffix("/jobs")?, worker))
}

/// Fails if a name cannot be that of a job's ref.
pub fn check_job_name(name: &str) -> Result<(), RemoteError> {
    match split_job_name(name) {
        Some((prefix, worker)) if prefix.starts_with("refs/") && !worker.is_empty() => Ok(()),
        Some(_) | None => {
            let message = format!("`{name}` is not the ref of a job, such as `refs/ralph/jobs/…`");
            Err(RemoteError::BadJob { message })
        }
    }
}

/// Fetches a job. `refs` gets the namespace that its name has.
pub fn fetch_job(
    refs: &mut RemoteRefs,
    name: &str,
    attempt: Option<&AttemptLabel>,
) -> Result<WantedJob, RemoteError> {
    check_job_name(name)?;
    let (prefix, worker) = split_job_name(name).unwrap_or_default();
    prefix.clone_into(&mut refs.prefix);
    let begun = Instant::now();
    loop {
        match find_job(refs, name, worker, attempt) {
            Err(RemoteError::Failed { .. }) if begun.elapsed() < FETCH_PATIENCE => {
                std::thread::sleep(Duration::from_secs(2));
            }
            looked => return looked,
        }
    }
}

/// Checks the ids of a job, which become parts of paths and arguments of git: the worker must have
/// the name of the ref, which git allows no `..` in.
fn check_ids(assignment: &JobAssignment, worker: &str) -> Result<(), String> {
    let JobAssignment { worker: named, base, start_tree, .. } = assignment;
    if named.0 != worker {
        return Err(format!("the job of the ref `{worker}` names another worker: {:?}", named.0));
    }
    let ids = base.iter().map(|it| &it.0).chain(start_tree.iter().map(|it| &it.0));
    match ids.into_iter().find(|it| !is_object_id(it)) {
        Some(id) => Err(format!("the job names {id:?}, which is no object of git")),
        None => Ok(()),
    }
}

/// Looks for a job and for the result of an attempt, and fetches the job.
fn find_job(
    refs: &RemoteRefs,
    name: &str,
    worker: &str,
    attempt: Option<&AttemptLabel>,
) -> Result<WantedJob, RemoteError> {
    let results = refs.build_name("results", worker);
    let found = refs.list_refs(&[name.to_owned(), format!("{results}/*")])?;
    let Some(commit) = found.get(name) else {
        let reason = format!("there is no job `{name}` on the remote any more");
        return Ok(WantedJob::Needless { reason });
    };
    let local = format!("refs/ralph/jobs/here/{worker}");
    if refs.find_local(&local)?.as_ref() != Some(commit) {
        refs.fetch_commit(commit, &local)?;
    }
    let Some(package) = read_json::<RemoteJob>(refs, commit, JOB_FILE)? else {
        let message = format!("`{name}` has no job that this version of ralph can read");
        return Err(RemoteError::BadJob { message });
    };
    check_ids(&package.job.assignment, worker)
        .map_err(|message| RemoteError::BadJob { message })?;
    let label = attempt.unwrap_or(&package.attempt);
    if !label.is_try_of(&package.attempt) {
        let reason = format!("attempt {} has begun, and this is {label}", package.attempt);
        return Ok(WantedJob::Needless { reason });
    }
    if found.contains_key(&format!("{results}/{label}")) {
        return Ok(WantedJob::Done);
    }
    Ok(WantedJob::Wanted(Box::new(FetchedJob { package, commit: commit.clone() })))
}

impl RemoteWorker<'_> {
    fn worker(&self) -> &WorkerId {
        &self.fetched.package.job.assignment.worker
    }

    /// Does the job, which has the values of this machine.
    pub fn do_job(&mut self, workers: &mut dyn Workers, job: &Job) -> RemoteEnd {
        let mut progress = ReportedProgress { reports: Vec::new(), iterations: 0, is_due: false };
        let poll = Duration::from(self.fetched.package.poll);
        let mut next_look = Instant::now() + poll;
        if let Err(error) = workers.start_job(job) {
            return self.push_end(JobEnd::Lost { reason: error.message }, &progress);
        }
        for request in &self.fetched.package.requests {
            workers.send_request(self.worker(), request);
        }
        loop {
            let until = clock::now().saturating_add(Millis::from(poll));
            for event in workers.poll_events(until, &mut |_| {}) {
                let event = self.add_place(event);
                (self.report)(&event);
                match event {
                    WorkerEvent::Ended { result, .. } => {
                        return self.push_end(JobEnd::Ended(result), &progress);
                    }
                    WorkerEvent::Lost { reason, .. } => {
                        let reason = format!("{reason}, on {}", self.machine);
                        return self.push_end(JobEnd::Lost { reason }, &progress);
                    }
                    event @ (WorkerEvent::Started { .. }
                    | WorkerEvent::Progressed { .. }
                    | WorkerEvent::Limited { .. }
                    | WorkerEvent::Warning { .. }) => progress.add(event),
                }
            }
            if self.watch.stage() > StopStage::Running {
                let reason = format!("the worker was stopped on {}", self.machine);
                return self.push_end(JobEnd::Lost { reason }, &progress);
            }
            if progress.is_due {
                progress.is_due = false;
                self.push_progress(&progress);
            }
            if Instant::now() >= next_look {
                next_look = Instant::now() + poll;
                if let Some(reason) = self.check_changes(workers) {
                    return RemoteEnd::Needless { reason };
                }
            }
        }
    }

    /// Refuses the job: it may not be done here.
    pub fn refuse(&mut self, reason: &str) -> RemoteEnd {
        let reason = format!("{}: {reason}", self.machine);
        let nothing = ReportedProgress { reports: Vec::new(), iterations: 0, is_due: false };
        self.push_end(JobEnd::Refused { reason }, &nothing)
    }

    /// Passes new requests to the worker. Returns why the job is not wanted any more.
    fn check_changes(&mut self, workers: &mut dyn Workers) -> Option<String> {
        let (worker, delivered) = (self.worker().clone(), self.fetched.package.requests.len());
        // While the remote does not work, the worker continues.
        match find_job(self.refs, self.name, &worker.0, Some(&self.attempt)).ok()? {
            WantedJob::Needless { reason } => Some(reason),
            WantedJob::Done => Some("this attempt has a result already".to_owned()),
            WantedJob::Wanted(fetched) => {
                for request in fetched.package.requests.iter().skip(delivered) {
                    workers.send_request(&worker, request);
                }
                self.fetched = *fetched;
                None
            }
        }
    }

    /// Adds the machine to what an event names: the place, and why a worker cannot start.
    fn add_place(&self, mut event: WorkerEvent) -> WorkerEvent {
        let again = if self.attempt.is_first() {
            String::new()
        } else {
            format!(" ({})", self.attempt.shorten())
        };
        let extend = |place: &str| format!("{}/{place}{again}", self.machine);
        match &mut event {
            WorkerEvent::Started { place, origin, .. } => {
                *place = extend(place);
                origin.machine = Some(self.machine.to_owned());
                origin.attempt = Some(self.attempt.clone());
            }
            WorkerEvent::Ended { result, .. } => {
                result.place = extend(&result.place);
                // What is missing there, such as a name for git.
                if let Outcome::WorkersFailed { message } = &mut result.outcome {
                    *message = format!("{}: {message}", self.machine);
                }
            }
            WorkerEvent::Progressed { .. }
            | WorkerEvent::Limited { .. }
            | WorkerEvent::Lost { .. }
            | WorkerEvent::Warning { .. } => {}
        }
        event
    }

    fn push_progress(&mut self, progress: &ReportedProgress) {
        let pushed = self.commit_progress(progress, JobStage::Running).map_err(RemoteError::from);
        let pushed = pushed.and_then(|update| self.refs.push_refs(&[update]));
        if let Err(error) = pushed {
            self.warn(format!("{error}; the work continues"));
        }
    }

    fn warn(&mut self, text: String) {
        (self.report)(&WorkerEvent::Warning { text });
    }

    /// Writes a commit with what was reported so far, and with the journal.
    fn commit_progress(
        &self,
        progress: &ReportedProgress,
        stage: JobStage,
    ) -> Result<RefUpdate, VcsError> {
        let reports = RemoteProgress { reports: progress.reports.clone() };
        let reports = serde_json::to_vec(&reports).unwrap_or_default();
        let known = find_worker_run(self.root, self.worker());
        let journal = known.as_ref().map(|known| {
            RunDir::from_path(known.state.join("runs").join(&self.worker().0)).journal_path()
        });
        let journal = journal.and_then(|path| read_whole_lines(&path).ok());
        let journal = self.masker.mask_bytes(journal.as_deref().unwrap_or_default()).into_owned();
        let mut files = vec![(PROGRESS_FILE, self.masker.mask_bytes(&reports).into_owned())];
        let mut parents = Vec::new();
        // The machine that takes the job over begins with the first iteration without this.
        if let (JobStage::Running, Some(known)) = (stage, known)
            && let Some(work) = self.collect_work(&known.project, &journal)
        {
            parents.extend(work.checkpoints.values().cloned());
            files.push((WORK_FILE, serde_json::to_vec(&work).unwrap_or_default()));
        }
        if !journal.is_empty() {
            files.push((JOURNAL_FILE, journal));
        }
        let mut files: Vec<(&str, &[u8])> =
            files.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
        files.sort_unstable();
        let commit = self.refs.commit_files(&files, &parents, "ralph: progress")?;
        Ok(RefUpdate::Move { name: self.build_name("journals"), commit })
    }

    /// Returns what another machine needs to continue the work, if there is some.
    fn collect_work(&self, project: &Path, journal: &[u8]) -> Option<UnfinishedWork> {
        let below = self.fetched.package.job.project.components().count();
        let clone = project.ancestors().nth(below)?;
        let by = (self.machine, self.version);
        collect_work(self.refs, self.worker(), clone, journal, by).ok().flatten()
    }

    fn build_name(&self, kind: &str) -> String {
        self.refs.build_name(kind, &format!("{}/{}", self.worker(), self.attempt))
    }

    /// Pushes how the job ended, with the commits of the worker.
    fn push_end(&mut self, end: JobEnd, progress: &ReportedProgress) -> RemoteEnd {
        let (end, commits) = self.fetch_from_clone(end);
        let updates = match self.build_updates(&end, &commits, progress) {
            Ok(updates) => updates,
            Err(error) => return RemoteEnd::Unpushed(error.into()),
        };
        let is_needless = || false;
        let (refs, patience) = (self.refs, self.patience);
        // What stays if this fails only takes space.
        let _ = refs.repository.remove_checkpoints(&RunId(self.worker().0.clone()));
        let mut warn = |text: String| (self.report)(&WorkerEvent::Warning { text });
        match push_patiently(refs, &updates, patience, &mut warn, &is_needless) {
            // The first result of an attempt counts.
            Ok(()) | Err(RemoteError::Exists { .. }) => RemoteEnd::Pushed(end),
            Err(error) => RemoteEnd::Unpushed(error),
        }
    }

    /// Fetches the commits of a result from the worker's clone into the repository: the agent can
    /// write the configuration of the clone, so nothing is pushed from there. Returns them, the
    /// candidate first.
    fn fetch_from_clone(&self, end: JobEnd) -> (JobEnd, Vec<CommitId>) {
        let JobEnd::Ended(mut result) = end else { return (end, Vec::new()) };
        let repository = &self.refs.repository;
        let run = &self.fetched.package.job.run;
        let reason = match repository.fetch_candidate(run, self.worker(), &result) {
            Ok(FetchOutcome::Fetched) => {
                let branch = result.failure_branch.as_ref();
                let branch = branch.map(|it| format!("refs/heads/{it}"));
                let branch = branch.and_then(|it| self.refs.find_local(&it).ok().flatten());
                let commits = result.commit.clone().into_iter().chain(branch).collect();
                result.repository = PathBuf::new();
                return (JobEnd::Ended(result), commits);
            }
            Ok(FetchOutcome::Missing { reason }) => reason,
            Err(error) => error.message,
        };
        (JobEnd::Lost { reason: format!("its commits are gone: {reason}") }, Vec::new())
    }

    fn build_updates(
        &self,
        end: &JobEnd,
        commits: &[CommitId],
        progress: &ReportedProgress,
    ) -> Result<Vec<RefUpdate>, VcsError> {
        let result = RemoteResult {
            made_by: RemoteVersion::new(self.version),
            attempt: self.attempt.clone(),
            end: end.clone(),
        };
        let text = serde_json::to_vec(&result).unwrap_or_default();
        let text = self.masker.mask_bytes(&text);
        let files = [(RESULT_FILE, &*text)];
        let message = format!("ralph: result of {}", self.worker());
        let commit = self.refs.commit_files(&files, commits, &message)?;
        let mut updates = Vec::new();
        if let JobEnd::Ended(result) = end {
            updates.extend(result.commit.clone().map(|commit| {
                let name = self.build_name("candidates");
                RefUpdate::Create { name, commit }
            }));
            updates.push(self.commit_progress(progress, JobStage::Ended)?);
        }
        // The last one: a server sets one ref after the other, and the run may look in between.
        updates.push(RefUpdate::Create { name: self.build_name("results"), commit });
        Ok(updates)
    }
}

impl ReportedProgress {
    /// Takes a report. Progress within an iteration is not worth a push.
    fn add(&mut self, event: WorkerEvent) {
        match &event {
            WorkerEvent::Warning { .. } => return,
            WorkerEvent::Progressed { iterations, .. } => {
                self.is_due |= *iterations > self.iterations;
                self.iterations = *iterations;
            }
            WorkerEvent::Started { .. }
            | WorkerEvent::Limited { .. }
            | WorkerEvent::Ended { .. }
            | WorkerEvent::Lost { .. } => self.is_due = true,
        }
        self.reports.retain(|it| std::mem::discriminant(it) != std::mem::discriminant(&event));
        self.reports.push(event);
    }
}

/// Reads the beginning of a file, up to the end of a line.
fn read_whole_lines(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LONGEST_JOURNAL).read_to_end(&mut bytes)?;
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    bytes.truncate(end);
    Ok(bytes)
}
