//! The workers port: starts a worker host and passes requests and reports.
//!
//! A host that dies takes its workers with it. It is started again with the next job, a few times.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use ralph_core::ports::{Workers, WorkersError};
use ralph_model::control::ControlRequest;
use ralph_model::ids::WorkerId;
use ralph_model::units::{Millis, Timestamp};
use ralph_model::worker::{Job, WorkerEvent};
use ralph_model::worker_protocol::{HostReport, HostRequest, LONGEST_LINE, PROTOCOL};

use super::host::read_last_line;
use crate::clock;
use crate::process::{Companion, Spawn};

/// How often a host is started. After that something is wrong that no repetition cures.
const MOST_STARTS: u32 = 4;

/// How long a poll takes at most: the user's requests are read in between.
const POLL: Duration = Duration::from_millis(250);

/// How long workers on this machine have to stop when the run ends.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a host of the user has to tell other machines that the run ends: a push for each job.
/// Otherwise their agents work on, and cost.
const REMOTE_END_TIMEOUT: Duration = Duration::from_secs(30);

/// The workers of a run, in a worker host.
#[derive(Debug)]
pub struct HostedWorkers {
    spawn: Spawn,
    /// What the host prints as errors.
    log: PathBuf,
    version: String,
    owner: HostOwner,
    host: Option<HostLink>,
    starts: u32,
}

/// Whose worker host it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostOwner {
    /// This program's own: its workers end with the run.
    Ralph,
    /// A command of the user: its jobs may continue on other machines.
    User,
}

/// A worker host that runs.
#[derive(Debug)]
struct HostLink {
    process: Companion,
    owner: HostOwner,
    /// Whether it passes requests to workers.
    is_sending: bool,
    input: ChildStdin,
    reports: Receiver<Result<HostReport, String>>,
}

impl HostedWorkers {
    /// Returns workers in a host that this starts, once there is a job. The host must be of this
    /// version.
    pub fn new(spawn: Spawn, owner: HostOwner, log: PathBuf, version: &str) -> Self {
        Self { spawn, log, version: version.to_owned(), owner, host: None, starts: 0 }
    }

    fn open_host(&mut self) -> Result<&mut HostLink, WorkersError> {
        if self.host.is_none() {
            if self.starts == MOST_STARTS {
                let message = format!("the worker host ended {MOST_STARTS} times");
                return Err(WorkersError { message });
            }
            self.starts += 1;
            let started = HostLink::start(&self.spawn, self.owner, &self.log, &self.version);
            self.host = Some(started.map_err(|WorkersError { message }| {
                let line = read_last_line(&self.log).map(|line| format!(": {line}"));
                WorkersError { message: message + &line.unwrap_or_default() }
            })?);
        }
        let message = "the worker host does not run".to_owned();
        self.host.as_mut().ok_or(WorkersError { message })
    }

    /// Ends the host after an error, and with it all workers.
    fn drop_host(&mut self, reason: &str) -> WorkerEvent {
        self.host = None;
        WorkerEvent::Lost { worker: None, reason: reason.to_owned() }
    }
}

impl HostLink {
    fn start(
        spawn: &Spawn,
        owner: HostOwner,
        log: &Path,
        version: &str,
    ) -> Result<Self, WorkersError> {
        let refused = |why: String| WorkersError { message: format!("no worker host: {why}") };
        let errors = create_log(log).map_or_else(|_| Stdio::null(), Stdio::from);
        let started = match owner {
            HostOwner::Ralph => Companion::start_piped(spawn, errors),
            HostOwner::User => Companion::start_job_starter(spawn, errors),
        };
        let (process, input, output) = started.map_err(|error| refused(error.to_string()))?;
        let (sender, reports) = mpsc::channel();
        thread::Builder::new()
            .name("workers".to_owned())
            .spawn(move || read_reports(output, &sender))
            .map_err(|error| refused(error.to_string()))?;
        let mut link = Self { process, owner, is_sending: true, input, reports };
        link.send(&HostRequest::Hello { protocol: PROTOCOL, version: version.to_owned() })?;
        match link.reports.recv_timeout(Duration::from_secs(10)) {
            Ok(Ok(HostReport::Hello { protocol: PROTOCOL, version: theirs, send }))
                if theirs == version =>
            {
                link.is_sending = send;
                Ok(link)
            }
            Ok(Ok(HostReport::Hello { protocol, version: theirs, .. })) => Err(refused(format!(
                "it is ralph {theirs} with protocol {protocol}, and this is ralph {version} with \
                 protocol {PROTOCOL}"
            ))),
            Ok(Ok(HostReport::Event(_))) => Err(refused("it did not introduce itself".to_owned())),
            Ok(Err(why)) => Err(refused(why)),
            Err(_) => Err(refused("it does not answer".to_owned())),
        }
    }

    fn send(&mut self, request: &HostRequest) -> Result<(), WorkersError> {
        let refused = |why: String| WorkersError { message: format!("no worker host: {why}") };
        let line = request.to_line().map_err(|error| refused(error.to_string()))?;
        if line.len() as u64 > LONGEST_LINE {
            return Err(refused("the job is too large".to_owned()));
        }
        let sent = self.input.write_all(line.as_bytes()).and_then(|()| self.input.flush());
        sent.map_err(|error| refused(error.to_string()))
    }
}

impl Workers for HostedWorkers {
    fn start_job(&mut self, job: &Job) -> Result<(), WorkersError> {
        let request = HostRequest::Start { job: Box::new(job.clone()) };
        self.open_host()?.send(&request).inspect_err(|_| self.host = None)
    }

    fn poll_events(&mut self, until: Timestamp, tick: &mut dyn FnMut(Millis)) -> Vec<WorkerEvent> {
        let Some(host) = &self.host else {
            return vec![self.drop_host("the worker host does not run")];
        };
        let left = Duration::from(until.elapsed_since(clock::now()));
        tick(left.into());
        let mut events = Vec::new();
        let mut next = host.reports.recv_timeout(left.min(POLL));
        loop {
            match next {
                Ok(Ok(HostReport::Event(event))) => events.push(event),
                Ok(Ok(HostReport::Hello { .. })) => {}
                Ok(Err(why)) => {
                    events.push(self.drop_host(&why));
                    return events;
                }
                Err(RecvTimeoutError::Timeout) => return events,
                Err(RecvTimeoutError::Disconnected) => {
                    events.push(self.drop_host("the worker host has ended"));
                    return events;
                }
            }
            next = host.reports.recv_timeout(Duration::ZERO);
        }
    }

    fn send_request(&mut self, worker: &WorkerId, request: &ControlRequest) {
        let (worker, request) = (worker.clone(), request.clone());
        match &mut self.host {
            // A host that is gone is reported by the next poll.
            Some(host) if host.is_sending => {
                let _ = host.send(&HostRequest::Send { worker, request });
            }
            // Its jobs continue; `resume` gets their results.
            Some(_) if matches!(request, ControlRequest::Stop | ControlRequest::StopNow) => {
                self.host = None;
            }
            Some(_) | None => {}
        }
    }

    fn cancel_worker(&mut self, worker: &WorkerId) {
        let request = HostRequest::Cancel { worker: worker.clone() };
        let _ = self.host.as_mut().map(|it| it.send(&request));
    }
}

impl Drop for HostLink {
    /// Lets workers stop; then the process is ended.
    fn drop(&mut self) {
        if self.send(&HostRequest::Bye).is_ok() {
            let limit = match self.owner {
                HostOwner::Ralph => END_TIMEOUT,
                HostOwner::User => REMOTE_END_TIMEOUT,
            };
            let _ = self.process.wait_for_exit(limit);
        }
    }
}

/// Opens the log of a host, empty: what an earlier one printed explains nothing.
fn create_log(log: &Path) -> io::Result<File> {
    if let Some(directory) = log.parent() {
        fs::create_dir_all(directory)?;
    }
    File::create(log)
}

/// Reads the reports of a host until its output ends.
fn read_reports(output: ChildStdout, reports: &Sender<Result<HostReport, String>>) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        match output.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let report = serde_json::from_slice(&line)
            .map_err(|error| format!("the worker host reports what nothing can read: {error}"));
        if reports.send(report).is_err() {
            return;
        }
    }
}
