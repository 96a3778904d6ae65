//! The input of a worker: its job, then control requests. The end of the input means that the run
//! is gone, and stops the worker.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use ralph_model::control::ControlRequest;
use ralph_model::worker::Job;
use ralph_model::worker_protocol::HostRequest;

use super::host::read_line;
use crate::control;

/// How long a worker may take to stop once the run is gone. Its warden ends what is left.
const STOP_TIMEOUT: Duration = Duration::from_millis(900);

/// Reads the job of this worker, the first line of its input.
pub fn read_job() -> io::Result<Job> {
    let mut line = Vec::new();
    // No byte after the line may be lost in a buffer.
    if !read_line(&mut io::stdin().lock(), &mut line)? {
        return Err(io::Error::other("there is no job on stdin"));
    }
    match serde_json::from_slice(&line)? {
        HostRequest::Start { job } => Ok(*job),
        HostRequest::Hello { .. }
        | HostRequest::Send { .. }
        | HostRequest::Cancel { .. }
        | HostRequest::Bye => Err(io::Error::other("the first line is not a job")),
    }
}

/// Reads the rest of the input on a thread of its own.
#[derive(Debug, Clone, Default)]
pub struct Lifeline {
    state: Arc<Mutex<LifelineState>>,
}

#[derive(Debug, Default)]
struct LifelineState {
    /// The directory of the run, once there is one.
    run: Option<PathBuf>,
    /// Requests that came before.
    early: Vec<ControlRequest>,
    /// The last request, which may be repeated.
    last: Option<ControlRequest>,
}

impl Lifeline {
    /// Starts reading.
    pub fn start() -> io::Result<Self> {
        let lifeline = Self::default();
        let there = lifeline.clone();
        thread::Builder::new().name("lifeline".to_owned()).spawn(move || there.read_input())?;
        Ok(lifeline)
    }

    /// Passes requests to this run from now on, and those that came before.
    pub fn set_run(&self, directory: &Path) {
        let mut state = self.lock_state();
        for request in std::mem::take(&mut state.early) {
            pass_request(directory, &request);
        }
        state.run = Some(directory.to_owned());
    }

    fn read_input(&self) {
        let mut input = io::stdin().lock();
        let mut line = Vec::new();
        while read_line(&mut input, &mut line).unwrap_or(false) {
            match serde_json::from_slice(&line) {
                Ok(HostRequest::Send { request, .. }) => self.pass_once(request),
                Ok(HostRequest::Cancel { .. } | HostRequest::Bye) => break,
                Ok(HostRequest::Hello { .. } | HostRequest::Start { .. }) | Err(_) => {}
            }
        }
        self.stop_now();
    }

    /// Passes a request, unless it is the last one again. Notes are never repeated.
    fn pass_once(&self, request: ControlRequest) {
        let mut state = self.lock_state();
        let is_note = matches!(request, ControlRequest::Note { .. });
        if !is_note && state.last.as_ref() == Some(&request) {
            return;
        }
        match &state.run {
            Some(directory) => pass_request(directory, &request),
            None => state.early.push(request.clone()),
        }
        state.last = Some(request);
    }

    /// Stops the run, and the process if that takes too long.
    fn stop_now(&self) {
        let directory = self.lock_state().run.clone();
        if let Some(directory) = directory {
            pass_request(&directory, &ControlRequest::StopNow);
            thread::sleep(STOP_TIMEOUT);
        }
        std::process::exit(1);
    }

    fn lock_state(&self) -> MutexGuard<'_, LifelineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts a request into the inbox of the run. If that fails, the worker is stopped from outside.
fn pass_request(directory: &Path, request: &ControlRequest) {
    let _ = control::send_as(directory, request, None);
}
