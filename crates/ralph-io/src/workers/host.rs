//! The local worker host: one process for each job, with the lines of all of them in one stream.
//!
//! It adopts the orphans of killed workers, so that the run's own process never sees them. Not
//! here: what a worker does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ralph_model::ids::WorkerId;
use ralph_model::text::shorten_to_line;
use ralph_model::worker::{Job, WorkerEvent};
use ralph_model::worker_protocol::{HostReport, HostRequest, LONGEST_LINE, PROTOCOL};

use crate::process::{self, Companion, Spawn};

/// How long workers have to stop when the run ends or is gone.
const STOP_TIMEOUT: Duration = Duration::from_millis(2500);

/// How long a worker may take to exit after its last report.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// How often exited orphans are reaped.
const REAP_INTERVAL: Duration = Duration::from_secs(2);

/// The last line of a log that is reported.
const LONGEST_REASON: usize = 300;

/// What a host is started with.
#[derive(Debug)]
pub struct WorkerHost {
    /// How a worker is started.
    pub worker: Spawn,
    /// The directory for what workers print.
    pub logs: PathBuf,
    pub version: String,
}

/// The workers that run, by name, with their input.
type RunningWorkers = Arc<Mutex<BTreeMap<WorkerId, Option<ChildStdin>>>>;

/// What workers warned about. Each of them would warn about the same slot.
static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Serves jobs from stdin until it ends.
pub fn serve_jobs(host: &WorkerHost) -> io::Result<()> {
    process::adopt_orphans()?;
    fs::create_dir_all(&host.logs)?;
    let running = RunningWorkers::default();
    thread::spawn(|| {
        loop {
            thread::sleep(REAP_INTERVAL);
            process::reap_dead_orphans();
        }
    });
    let mut input = BufReader::new(io::stdin().lock());
    let mut line = Vec::new();
    while read_line(&mut input, &mut line)? {
        match serde_json::from_slice(&line)? {
            HostRequest::Hello { .. } => {
                let version = host.version.clone();
                write_report(&HostReport::Hello { protocol: PROTOCOL, version, send: true });
            }
            HostRequest::Start { job } => {
                let worker = job.assignment.worker.clone();
                if let Err(error) = start_worker(host, *job, &running) {
                    report_loss(&worker, format!("the worker cannot be started: {error}"));
                }
            }
            HostRequest::Send { ref worker, .. } | HostRequest::Cancel { ref worker } => {
                if let Some(Some(input)) = lock_workers(&running).get_mut(worker) {
                    // A worker that has just ended reads nothing.
                    let _ = input.write_all(&line);
                }
            }
            HostRequest::Bye => break,
        }
    }
    // The end of their input stops the workers.
    lock_workers(&running).values_mut().for_each(|input| *input = None);
    let begun = Instant::now();
    while !lock_workers(&running).is_empty() && begun.elapsed() < STOP_TIMEOUT {
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn lock_workers(
    running: &RunningWorkers,
) -> MutexGuard<'_, BTreeMap<WorkerId, Option<ChildStdin>>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the process of a job, and a thread that passes its reports.
fn start_worker(host: &WorkerHost, job: Job, running: &RunningWorkers) -> io::Result<()> {
    let worker = job.assignment.worker.clone();
    let mut workers = lock_workers(running);
    // The same job twice is one job.
    if workers.contains_key(&worker) {
        return Ok(());
    }
    let log = host.logs.join(format!("{worker}.log"));
    let errors = OpenOptions::new().create(true).append(true).open(&log)?;
    let (process, mut input, output) = Companion::start_piped(&host.worker, Stdio::from(errors))
        .map_err(|error| io::Error::other(error.to_string()))?;
    let line = HostRequest::Start { job: Box::new(job) }.to_line()?;
    // Its output is read from now on, so it can always read its input.
    let (name, others) = (worker.clone(), Arc::clone(running));
    thread::Builder::new()
        .name("worker".to_owned())
        .spawn(move || pass_reports(&name, process, output, &log, &others))?;
    let sent = input.write_all(line.as_bytes());
    workers.insert(worker, Some(input));
    sent
}

/// Passes the reports of a worker. The last one waits for the exit of the process, whose clone
/// is free only then.
fn pass_reports(
    worker: &WorkerId,
    mut process: Companion,
    output: ChildStdout,
    log: &Path,
    running: &RunningWorkers,
) {
    let mut output = BufReader::new(output);
    let (mut line, mut last) = (Vec::new(), None);
    while read_line(&mut output, &mut line).unwrap_or(false) {
        match serde_json::from_slice(&line) {
            Ok(HostReport::Event(
                event @ (WorkerEvent::Ended { .. } | WorkerEvent::Lost { .. }),
            )) => {
                last = Some(event);
            }
            Ok(HostReport::Event(WorkerEvent::Warning { text })) => {
                let mut warned = WARNED.lock().unwrap_or_else(PoisonError::into_inner);
                if warned.insert(text.clone()) {
                    write_report(&HostReport::Event(WorkerEvent::Warning { text }));
                }
            }
            Ok(report @ HostReport::Event(_)) => write_report(&report),
            Ok(HostReport::Hello { .. }) | Err(_) => {}
        }
    }
    let status = process.wait_for_exit(EXIT_TIMEOUT);
    drop(process);
    lock_workers(running).remove(worker);
    match (last, status) {
        (Some(event), _) => write_report(&HostReport::Event(event)),
        (None, status) => {
            let how = status.map_or_else(|| "it hangs".to_owned(), |status| status.to_string());
            let line = read_last_line(log);
            let line = line.map(|line| format!(": {line}")).unwrap_or_default();
            report_loss(worker, format!("its process ended with {how}{line}"));
        }
    }
}

fn report_loss(worker: &WorkerId, reason: String) {
    let worker = Some(worker.clone());
    write_report(&HostReport::Event(WorkerEvent::Lost { worker, reason }));
}

/// Reads a line into a buffer; false at the end.
pub(super) fn read_line(input: &mut impl io::BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    Ok(input.by_ref().take(LONGEST_LINE).read_until(b'\n', line)? > 0)
}

/// Writes a report to stdout. Does nothing if no one reads.
pub(super) fn write_report(report: &HostReport) {
    if let Ok(line) = report.to_line() {
        let mut out = io::stdout().lock();
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    }
}

/// Returns the last line that a worker printed.
pub(super) fn read_last_line(log: &Path) -> Option<String> {
    let mut file = File::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    io::Seek::seek(&mut file, io::SeekFrom::Start(length.saturating_sub(4096))).ok()?;
    let mut bytes = Vec::new();
    file.take(4096).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(shorten_to_line(line.trim(), LONGEST_REASON))
}
