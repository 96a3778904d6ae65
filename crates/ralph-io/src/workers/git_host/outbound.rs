//! From the run to other machines: jobs, requests, and that a job is not needed any more.

use std::thread;
use std::time::{Duration, Instant};

use ralph_core::ports::VcsError;
use ralph_core::tasks::remote_job::{StartDecision, decide_start, strip_machine_values};
use ralph_model::attempt_label::AttemptLabel;
use ralph_model::control::ControlRequest;
use ralph_model::ids::{RunId, WorkerId};
use ralph_model::remote_job::{JobEnd, RemoteJob, RemoteResult, RemoteVersion};
use ralph_model::worker::{Job, WorkerEvent};
use ralph_model::worktree::CommitId;

use super::files::{JOB_FILE, RESULT_FILE, read_json};
use super::{GitJobs, OpenJob, StartKind, report, warn};
use crate::formats::TaskFile;
use crate::git::{RefUpdate, RemoteError, RemoteRefs};
use crate::mask::Masker;

/// How often a push is tried that the remote refuses.
const MOST_REFUSALS: u32 = 3;

/// How long to wait between tries, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Returns the refs of the project for a job and its result.
pub(super) fn build_local_name(kind: &str, run: &RunId, worker: &WorkerId) -> String {
    format!("refs/ralph/{kind}/{run}/{worker}")
}

impl GitJobs<'_> {
    /// Starts a job, or attaches to it. The same job twice is one job.
    pub(super) fn start_job(&mut self, job: Job) {
        let worker = job.assignment.worker.clone();
        if self.open.contains_key(&worker) {
            return;
        }
        if let Err(reason) = self.try_start(job) {
            report(WorkerEvent::Lost { worker: Some(worker), reason });
        }
    }

    fn try_start(&mut self, job: Job) -> Result<(), String> {
        let refs = &self.host.refs;
        let worker = job.assignment.worker.clone();
        let masker = (self.host.build_masker)(&job.recipe);
        let previous = self.read_previous(&job).map_err(|error| error.message)?;
        let known = previous.as_ref().map(|(_, package, end)| (&package.attempt, end.as_ref()));
        let open = match (decide_start(known, &job), previous) {
            (StartDecision::Return(result), _) => {
                self.report_result(&job, *result);
                return Ok(());
            }
            (StartDecision::Attach, Some((commit, package, _))) => {
                OpenJob::new(package, commit, false, masker)
            }
            (StartDecision::Attach, None) => return Err("there is no job to attach to".to_owned()),
            (StartDecision::Begin(attempt), _) => {
                let run = job.run.clone();
                let parents = self.collect_parents(&job).map_err(|error| error.message)?;
                let package = self.build_package(job, attempt)?;
                let commit = commit_job(refs, &package, &parents, &masker)?;
                let name = refs.build_name("jobs", &worker.0);
                let mut updates = vec![RefUpdate::Move { name, commit: commit.clone() }];
                // Later jobs need not send the same objects again.
                updates.extend(parents.first().map(|base| RefUpdate::Move {
                    name: refs.build_name("bases", &run.0),
                    commit: base.clone(),
                }));
                push_patiently(refs, &updates, self.host.patience, &mut warn, &|| false)
                    .map_err(|error| error.to_string())?;
                OpenJob::new(package, commit, true, masker)
            }
        };
        self.run_or_watch(open)
    }

    /// Runs the start command, unless the job was submitted before.
    fn run_or_watch(&mut self, mut job: OpenJob) -> Result<(), String> {
        if job.is_new || self.host.start_kind == StartKind::Attached {
            let started = self.run_start_command(&job);
            job.command =
                Some(started.map_err(|error| format!("cannot run the start command: {error}"))?);
        }
        if job.is_new {
            // Not before: without this ref, a later process starts the job.
            let local = build_local_name("jobs", job.run(), job.worker());
            self.host.refs.set_local(&local, &job.commit).map_err(|error| error.message)?;
        }
        self.open.insert(job.worker().clone(), job);
        Ok(())
    }

    /// Reads the last attempt of a job, and its end if that was accepted.
    fn read_previous(
        &self,
        job: &Job,
    ) -> Result<Option<(CommitId, RemoteJob, Option<JobEnd>)>, VcsError> {
        let refs = &self.host.refs;
        let [job_ref, result_ref] = ["jobs", "results"]
            .map(|kind| build_local_name(kind, &job.run, &job.assignment.worker));
        let Some(commit) = refs.find_local(&job_ref)? else { return Ok(None) };
        let Some(package) = read_json::<RemoteJob>(refs, &commit, JOB_FILE)? else {
            return Ok(None);
        };
        let result = match refs.find_local(&result_ref)? {
            Some(commit) => read_json::<RemoteResult>(refs, &commit, RESULT_FILE)?,
            None => None,
        };
        let result = result.filter(|it| it.attempt.is_try_of(&package.attempt));
        Ok(Some((commit, package, result.map(|it| it.end))))
    }

    /// Returns the base of a job, and a commit with its merged tree.
    fn collect_parents(&self, job: &Job) -> Result<Vec<CommitId>, VcsError> {
        let assignment = &job.assignment;
        let Some(base) = &assignment.base else {
            return Err(VcsError { message: "the job names no commit to start from".to_owned() });
        };
        let tree = assignment.start_tree.as_ref();
        let merged = tree.map(|tree| self.host.refs.commit_tree(&tree.0, base)).transpose()?;
        Ok([base.clone()].into_iter().chain(merged).collect())
    }

    fn build_package(&self, mut job: Job, attempt: AttemptLabel) -> Result<RemoteJob, String> {
        let read = TaskFile::read(&job.project.join(&job.task_file));
        let file = read.map_err(|problems| {
            problems.first().map_or_else(|| "unreadable".to_owned(), ToString::to_string)
        })?;
        let list = file.cut_to_task(&job.assignment.task);
        strip_machine_values(&mut job, self.host.refs.repository.top());
        let poll = self.host.poll.into();
        let made_by = RemoteVersion::new(&self.host.version);
        Ok(RemoteJob { made_by, attempt, poll, job, list, requests: Vec::new() })
    }

    /// Passes a request to the worker of a job, by a new commit on the job's ref.
    pub(super) fn send_request(&mut self, worker: &WorkerId, request: ControlRequest) {
        let Some(job) = self.open.get_mut(worker) else { return };
        if !job.add_request(request) {
            return;
        }
        if let Err(reason) = self.push_requests([worker.clone()]) {
            warn(format!("a request did not reach {worker}: {reason}"));
        }
    }

    /// Asks all workers to stop: the user ends the run.
    pub(super) fn stop_all(&mut self) {
        for job in self.open.values_mut() {
            job.add_request(ControlRequest::StopNow);
        }
        let open: Vec<WorkerId> = self.open.keys().cloned().collect();
        // The run does not read reports any more.
        let _ = self.push_requests(open);
        self.open.clear();
    }

    fn push_requests(&mut self, workers: impl IntoIterator<Item = WorkerId>) -> Result<(), String> {
        let refs = &self.host.refs;
        let mut updates = Vec::new();
        for worker in workers {
            let Some(job) = self.open.get_mut(&worker) else { continue };
            let parents = refs.list_parents(&job.commit).map_err(|error| error.message)?;
            // What it contains was masked when it was made; a note may have a secret.
            job.commit = commit_job(refs, &job.package, &parents, &job.masker)?;
            let name = refs.build_name("jobs", &worker.0);
            updates.push(RefUpdate::Move { name, commit: job.commit.clone() });
        }
        if updates.is_empty() {
            return Ok(());
        }
        refs.push_refs(&updates).map_err(|error| error.to_string())
    }

    /// Ends a job that is not needed any more.
    pub(super) fn cancel_job(&mut self, worker: &WorkerId) {
        let Some(job) = self.open.remove(worker) else { return };
        let name = self.host.refs.build_name("jobs", &worker.0);
        if let Err(error) = self.host.refs.push_refs(&[RefUpdate::Delete { name }]) {
            warn(format!("{worker} may continue: {error}"));
        }
        self.record_loss(&job, "it was canceled");
        self.run_cancel_command(&job);
    }

    /// Gives a job up. Its next start is another attempt.
    pub(super) fn give_up_job(&mut self, worker: &WorkerId, reason: String) {
        let Some(job) = self.open.remove(worker) else { return };
        self.record_loss(&job, &reason);
        report(WorkerEvent::Lost { worker: Some(worker.clone()), reason });
    }

    fn record_loss(&self, job: &OpenJob, reason: &str) {
        let refs = &self.host.refs;
        let result = RemoteResult {
            made_by: RemoteVersion::new(&self.host.version),
            attempt: job.package.attempt.clone(),
            end: JobEnd::Lost { reason: reason.to_owned() },
        };
        let local = build_local_name("results", job.run(), job.worker());
        let text = serde_json::to_vec(&result).unwrap_or_default();
        let recorded = refs
            .commit_files(&[(RESULT_FILE, &text)], &[], "ralph: a lost job")
            .and_then(|commit| refs.set_local(&local, &commit));
        if let Err(error) = recorded {
            warn(format!("cannot record that {} is lost: {error}", job.worker()));
        }
    }
}

/// Writes the commit of a job.
fn commit_job(
    refs: &RemoteRefs,
    package: &RemoteJob,
    parents: &[CommitId],
    masker: &Masker,
) -> Result<CommitId, String> {
    let text = serde_json::to_vec(package).map_err(|error| error.to_string())?;
    let message = format!("ralph: job {}", package.job.assignment.worker);
    refs.commit_files(&[(JOB_FILE, &masker.mask_bytes(&text))], parents, &message)
        .map_err(|error| error.message)
}

/// Pushes refs, and tries again: a few times if the remote refuses, for a while if it does not
/// work. `warn` is called once. Ends early if it is not needed any more.
pub(in crate::workers) fn push_patiently(
    refs: &RemoteRefs,
    updates: &[RefUpdate],
    patience: Duration,
    warn: &mut dyn FnMut(String),
    is_needless: &dyn Fn() -> bool,
) -> Result<(), RemoteError> {
    let (begun, mut pause, mut refusals) = (Instant::now(), FIRST_PAUSE, 0);
    loop {
        let error = match refs.push_refs(updates) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let is_last = match &error {
            RemoteError::Exists { .. } | RemoteError::BadJob { .. } => true,
            RemoteError::Refused { .. } => {
                refusals += 1;
                refusals == MOST_REFUSALS
            }
            RemoteError::Failed { .. } => begun.elapsed() + pause > patience,
        };
        if is_last || is_needless() {
            return Err(error);
        }
        if pause == FIRST_PAUSE {
            warn(format!("{error}; trying again"));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
