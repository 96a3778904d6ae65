//! The git worker host: jobs go to other machines as refs of the project's git remote, and a
//! command of the user starts each of them.
//!
//! What must survive this process is in the repository of the project: the job and, once it was
//! accepted, the result, on refs of the run. Not here: what happens on the other machine
//! (`remote_worker`), and the files (`git::RemoteRefs`).

mod commands;
pub(super) mod files;
mod inbound;
mod outbound;

use std::collections::BTreeMap;
use std::io::{self, BufReader};
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use ralph_model::attempt_label::AttemptLabel;
use ralph_model::control::ControlRequest;
use ralph_model::ids::{RunId, WorkerId};
use ralph_model::recipe::Recipe;
use ralph_model::remote_job::RemoteJob;
use ralph_model::worker::WorkerEvent;
use ralph_model::worker_protocol::{HostReport, HostRequest, PROTOCOL};
use ralph_model::worktree::CommitId;

use self::commands::{CommandEnd, StartCommand};
pub(super) use self::outbound::push_patiently;
use super::host::{read_line, write_report};
use crate::git::RemoteRefs;
use crate::mask::Masker;
use crate::process::{self, Spawn};

/// What a git worker host is started with.
pub struct GitWorkerHost {
    pub refs: RemoteRefs,
    /// Runs a command line of the user, which is its last argument.
    pub shell: Spawn,
    /// Starts a worker; `{}` is the ref of its job.
    pub start: String,
    /// Tells the service behind `start` that a job is not needed any more.
    pub cancel: Option<String>,
    pub start_kind: StartKind,
    pub poll: Duration,
    /// A job without a result or a sign of life for so long is lost.
    pub lost_after: Duration,
    /// How long a push is tried while the remote does not work.
    pub patience: Duration,
    pub version: String,
    /// The state directory of all projects.
    pub root: PathBuf,
    /// The directory of the runs of this project.
    pub runs: PathBuf,
    /// Returns what masks the secrets of this machine.
    pub build_masker: Box<dyn Fn(&Recipe) -> Masker>,
}

/// What the end of the start command means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartKind {
    /// It has submitted the job.
    Submits,
    /// It runs as long as the job does.
    Attached,
}

/// The jobs of a host.
struct GitJobs<'a> {
    host: &'a GitWorkerHost,
    open: BTreeMap<WorkerId, OpenJob>,
    messages: Sender<HostMessage>,
    next_poll: Instant,
    /// Whether the last look at the remote failed; it is reported once.
    is_failing: bool,
}

/// A job without a result.
struct OpenJob {
    package: RemoteJob,
    /// The commit that its ref points to.
    commit: CommitId,
    /// When there was a sign of it.
    last_sign: Instant,
    /// The last commit with its progress, and what was reported of it.
    progress: Option<CommitId>,
    reported: Vec<WorkerEvent>,
    command: Option<StartCommand>,
    /// How its start command ended, if that ran as long as the job.
    ended: Option<CommandEnd>,
    /// Whether this process made it, rather than an earlier one.
    is_new: bool,
    /// Made with the agents of this machine, which the package does not have.
    masker: Masker,
}

/// What the loop of a host waits for.
enum HostMessage {
    Request(Box<HostRequest>),
    /// The run is gone.
    InputEnded,
    /// The output of a start command has ended.
    OutputEnded {
        worker: WorkerId,
        attempt: AttemptLabel,
        last_line: Option<String>,
    },
}

/// Serves jobs from stdin until it ends.
pub fn serve_jobs_over_git(host: &GitWorkerHost) -> io::Result<()> {
    // Commands that continue by themselves are not of the run's agents.
    process::adopt_orphans()?;
    let (messages, inbox) = mpsc::channel();
    let input = messages.clone();
    thread::Builder::new().name("requests".to_owned()).spawn(move || read_requests(&input))?;
    let open = BTreeMap::new();
    let mut jobs = GitJobs { host, open, messages, next_poll: Instant::now(), is_failing: false };
    loop {
        let left = jobs.next_poll.saturating_duration_since(Instant::now());
        match inbox.recv_timeout(left) {
            Ok(HostMessage::Request(request)) => match *request {
                HostRequest::Hello { .. } => {
                    let version = host.version.clone();
                    write_report(&HostReport::Hello { protocol: PROTOCOL, version, send: true });
                }
                HostRequest::Start { job } => jobs.start_job(*job),
                HostRequest::Send { worker, request } => jobs.send_request(&worker, request),
                HostRequest::Cancel { worker } => jobs.cancel_job(&worker),
                HostRequest::Bye => {
                    jobs.stop_all();
                    return Ok(());
                }
            },
            Ok(HostMessage::OutputEnded { worker, attempt, last_line }) => {
                jobs.end_command(&worker, &attempt, last_line.as_deref());
            }
            Ok(HostMessage::InputEnded) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                process::reap_dead_orphans();
                jobs.check_remote();
                jobs.next_poll = Instant::now() + host.poll;
            }
        }
    }
}

fn read_requests(messages: &Sender<HostMessage>) {
    let mut input = BufReader::new(io::stdin().lock());
    let mut line = Vec::new();
    while read_line(&mut input, &mut line).unwrap_or(false) {
        let Ok(request) = serde_json::from_slice(&line) else { break };
        if messages.send(HostMessage::Request(Box::new(request))).is_err() {
            return;
        }
    }
    let _ = messages.send(HostMessage::InputEnded);
}

impl OpenJob {
    fn new(package: RemoteJob, commit: CommitId, is_new: bool, masker: Masker) -> Self {
        Self {
            package,
            commit,
            last_sign: Instant::now(),
            progress: None,
            reported: Vec::new(),
            command: None,
            ended: None,
            is_new,
            masker,
        }
    }

    fn worker(&self) -> &WorkerId {
        &self.package.job.assignment.worker
    }

    fn run(&self) -> &RunId {
        &self.package.job.run
    }

    /// Adds a request. False if it is the last one again; notes are never repeated.
    fn add_request(&mut self, request: ControlRequest) -> bool {
        let requests = &mut self.package.requests;
        let is_note =
            matches!(request, ControlRequest::Note { .. } | ControlRequest::TaskNote { .. });
        if !is_note && requests.last() == Some(&request) {
            return false;
        }
        requests.push(request);
        true
    }
}

fn report(event: WorkerEvent) {
    write_report(&HostReport::Event(event));
}

fn warn(text: String) {
    report(WorkerEvent::Warning { text });
}
