//! Sends the spans and metrics of a run to a collector, as OTLP over HTTP in JSON.
//!
//! An [`Exporter`] receives the events of a run like a view. Its spans wait in a bounded queue for
//! a thread that sends them in batches: a slow or unreachable collector never holds up a run.
//! Nothing is sent unless the user switched it on. Not here: which spans there are and how they
//! are encoded (`ralph_core::reporting::telemetry`).

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use ralph_core::ports::{Activity, Ui};
use ralph_core::reporting::telemetry::otlp::{self, OtlpResource};
use ralph_core::reporting::telemetry::{Metric, Telemetry, TraceSpan};
use ralph_model::agent_output::AgentEvent;
use ralph_model::event::{Event, Recorded};
use ralph_model::ids::WorkerId;
use ralph_model::run::RunState;
use ralph_model::units::Timestamp;
use serde_json::Value;

use crate::http::{HttpReach, PauseEnd, PostError, PostTerms, Poster, RetryTimer, Roots};
use crate::store::layout::find_worker_run;
use crate::store::{RunDir, journal};

/// How many spans may wait; an hour of quick iterations.
const QUEUE: usize = 4096;

/// How many spans are sent at once.
const BATCH: usize = 512;

/// How long a span may wait before its batch is sent.
const BATCH_DELAY: Duration = Duration::from_secs(5);

/// Where spans and metrics go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collector {
    /// Its URL, to which `/v1/traces` and `/v1/metrics` are added.
    pub endpoint: String,
    /// Headers of each request.
    pub headers: Vec<(String, String)>,
    pub service: String,
    /// How long a request may take.
    pub timeout: Duration,
    /// The trusted certificate authorities.
    pub roots: Roots,
}

/// Turns the events of a run into spans and sends them. Clones share the queue.
#[derive(Debug, Clone)]
pub struct Exporter {
    shared: Arc<ExporterShared>,
}

#[derive(Debug)]
struct ExporterShared {
    state: Mutex<ExporterState>,
    changed: Condvar,
    rest: RetryTimer,
}

#[derive(Debug)]
struct ExporterState {
    telemetry: Telemetry,
    /// The state directory of all projects, with the journals of workers.
    root: PathBuf,
    resource: OtlpResource,
    waiting: VecDeque<TraceSpan>,
    /// Since when the oldest span waits.
    since: Option<Instant>,
    dropped: u64,
    /// Whether no more spans will come.
    is_closed: bool,
    is_done: bool,
    last_failure: Option<String>,
}

/// What is sent at once.
struct SpanBatch {
    resource: OtlpResource,
    spans: Vec<TraceSpan>,
    metrics: Vec<Metric>,
    at: Timestamp,
}

impl Exporter {
    /// Starts the sending thread. `root` is the state directory of all projects.
    pub fn start(collector: &Collector, root: &Path) -> io::Result<Self> {
        let shared = Arc::new(ExporterShared {
            state: Mutex::new(ExporterState::new(collector, root)),
            changed: Condvar::new(),
            rest: RetryTimer::default(),
        });
        let (theirs, sender) = (Arc::clone(&shared), OtlpSender::new(collector));
        // Never joined: it may hang for as long as a collector does.
        thread::Builder::new()
            .name("telemetry".to_owned())
            .spawn(move || theirs.send_batches(&sender))?;
        Ok(Self { shared })
    }

    /// Processes an event of a resumed run that an earlier process has sent.
    pub fn replay_event(&self, recorded: &Recorded, state: &RunState) {
        self.shared.lock().apply_event(recorded, state);
    }

    /// Waits until everything is sent, at most for `patience`. Returns the last failure of the run,
    /// if there was one.
    pub fn finish(&self, patience: Duration) -> Option<String> {
        let deadline = Instant::now() + patience;
        self.shared.rest.set_deadline(deadline);
        let mut state = self.shared.lock();
        state.is_closed = true;
        self.shared.changed.notify_all();
        while !state.is_done {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let last = state.last_failure.clone();
                let last = last.map(|it| format!(" ({it})")).unwrap_or_default();
                return Some(format!("telemetry was not sent in time{last}"));
            }
            let woken = self.shared.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        match (&state.last_failure, state.dropped) {
            (None, 0) => None,
            (Some(why), 0) => Some(format!("telemetry did not arrive: {why}")),
            (Some(why), dropped) => {
                Some(format!("telemetry did not arrive: {why}; {dropped} spans are lost"))
            }
            (None, dropped) => Some(format!("telemetry was too much: {dropped} spans are lost")),
        }
    }
}

impl Ui for Exporter {
    fn show_event(&mut self, recorded: &Recorded, state: &RunState) {
        let mut shared = self.shared.lock();
        let spans = shared.apply_event(recorded, state);
        shared.queue_spans(spans);
        drop(shared);
        self.shared.changed.notify_all();
    }

    fn show_agent_event(&mut self, _event: &AgentEvent) {}

    fn show_activity(&mut self, _activity: &Activity<'_>) {}
}

impl ExporterShared {
    fn lock(&self) -> MutexGuard<'_, ExporterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends batches until the run is over and everything is sent.
    fn send_batches(&self, sender: &OtlpSender) {
        while let Some(batch) = self.wait_for_batch() {
            let lost = batch.spans.len() as u64;
            if let Err(why) = sender.send_batch(&batch, &mut |span| self.rest.pause(span)) {
                let mut state = self.lock();
                state.dropped += lost;
                state.last_failure = Some(why);
            }
        }
        self.lock().is_done = true;
        self.changed.notify_all();
    }

    /// Waits until a batch is due.
    fn wait_for_batch(&self) -> Option<SpanBatch> {
        let mut state = self.lock();
        loop {
            let is_over = state.is_closed;
            let waits = state.since.map(|since| BATCH_DELAY.saturating_sub(since.elapsed()));
            let is_due = waits.is_some_and(|left| left.is_zero()) || state.waiting.len() >= BATCH;
            if (is_due || is_over) && !state.waiting.is_empty() {
                return Some(state.take_batch());
            }
            if is_over {
                return None;
            }
            let woken = self.changed.wait_timeout(state, waits.unwrap_or(BATCH_DELAY));
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl ExporterState {
    fn new(collector: &Collector, root: &Path) -> Self {
        Self {
            telemetry: Telemetry::default(),
            root: root.to_owned(),
            resource: OtlpResource {
                service: collector.service.clone(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                run: String::new(),
                started: Timestamp(0),
            },
            waiting: VecDeque::new(),
            since: None,
            dropped: 0,
            is_closed: false,
            is_done: false,
            last_failure: None,
        }
    }

    fn apply_event(&mut self, recorded: &Recorded, state: &RunState) -> Vec<TraceSpan> {
        if self.resource.run.is_empty() {
            self.resource.run.clone_from(&state.run.0);
            self.resource.started = state.started;
        }
        let mut spans = self.telemetry.apply_event(recorded, state);
        if let Event::WorkerEnded { worker, .. } = &recorded.event {
            spans.extend(self.add_worker_run(worker));
        }
        spans
    }

    /// Returns the spans of a worker's own run, whose journal may be gone.
    fn add_worker_run(&mut self, worker: &WorkerId) -> Vec<TraceSpan> {
        let files = find_worker_run(&self.root, worker)
            .map(|known| RunDir::from_path(known.state.join("runs").join(&worker.0)));
        let reader = files.and_then(|it| journal::open_for_reading(&it.journal_path()).ok());
        let events = reader.into_iter().flatten().map_while(Result::ok);
        self.telemetry.add_worker_run(worker, events)
    }

    fn queue_spans(&mut self, spans: Vec<TraceSpan>) {
        for span in spans {
            if self.waiting.len() == QUEUE {
                self.dropped += 1;
            } else {
                self.waiting.push_back(span);
                self.since.get_or_insert_with(Instant::now);
            }
        }
    }

    fn take_batch(&mut self) -> SpanBatch {
        let count = self.waiting.len().min(BATCH);
        let spans = self.waiting.drain(..count).collect();
        self.since = (!self.waiting.is_empty()).then(Instant::now);
        SpanBatch {
            resource: self.resource.clone(),
            spans,
            metrics: self.telemetry.metrics(),
            at: self.telemetry.last_event_time(),
        }
    }
}

/// Sends a finished run to a collector.
#[derive(Debug)]
pub struct Shipment {
    state: ExporterState,
    sender: OtlpSender,
    sent: usize,
}

impl Shipment {
    /// Starts a new shipment. `root` is the state directory of all projects.
    pub fn new(collector: &Collector, root: &Path) -> Self {
        let state = ExporterState::new(collector, root);
        Self { state, sender: OtlpSender::new(collector), sent: 0 }
    }

    /// Processes an event with the state that follows from it, and sends full batches.
    pub fn add_event(&mut self, recorded: &Recorded, after: &RunState) -> Result<(), String> {
        let spans = self.state.apply_event(recorded, after);
        self.state.waiting.extend(spans);
        if self.state.waiting.len() >= BATCH { self.send_pending() } else { Ok(()) }
    }

    /// Sends the remaining spans. Returns the number of spans sent in total.
    pub fn finish(mut self) -> Result<usize, String> {
        self.send_pending()?;
        Ok(self.sent)
    }

    fn send_pending(&mut self) -> Result<(), String> {
        let batch = self.state.take_batch();
        self.sent += batch.spans.len();
        self.sender.send_batch(&batch, &mut |span| {
            thread::sleep(span);
            PauseEnd::Elapsed
        })
    }
}

/// Sends batches to a collector.
#[derive(Debug)]
struct OtlpSender {
    traces: Poster,
    metrics: Poster,
    headers: Vec<(String, String)>,
}

impl OtlpSender {
    fn new(collector: &Collector) -> Self {
        let terms = PostTerms {
            // The user chose the collector, and most are on this machine.
            reach: HttpReach::Any,
            timeout: collector.timeout,
            retries: 3,
            backoff: Duration::from_millis(500),
            roots: collector.roots.clone(),
        };
        let base = collector.endpoint.trim_end_matches('/');
        let poster = |path: &str| Poster::new(format!("{base}{path}"), terms.clone());
        Self {
            traces: poster("/v1/traces"),
            metrics: poster("/v1/metrics"),
            headers: collector.headers.clone(),
        }
    }

    fn send_batch(
        &self,
        batch: &SpanBatch,
        pause: &mut dyn FnMut(Duration) -> PauseEnd,
    ) -> Result<(), String> {
        if !batch.spans.is_empty() {
            let body = otlp::encode_traces(&batch.resource, &batch.spans);
            self.post_body(&self.traces, &body, "rejectedSpans", pause)?;
        }
        if batch.metrics.is_empty() {
            return Ok(());
        }
        let body = otlp::encode_metrics(&batch.resource, &batch.metrics, batch.at);
        self.post_body(&self.metrics, &body, "rejectedDataPoints", pause)
    }

    fn post_body(
        &self,
        poster: &Poster,
        body: &Value,
        rejected: &str,
        pause: &mut dyn FnMut(Duration) -> PauseEnd,
    ) -> Result<(), String> {
        let headers = || self.headers.clone();
        let answer = poster
            .post(body.to_string().as_bytes(), &headers, pause)
            .map_err(|error: PostError| error.to_string())?;
        let answered: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        let partial = &answered["partialSuccess"];
        let count = &partial[rejected];
        match count.as_u64().or_else(|| count.as_str()?.parse().ok()) {
            None | Some(0) => Ok(()),
            Some(count) => {
                let why = partial["errorMessage"].as_str().unwrap_or_default();
                Err(format!("{} rejected {count} entries: {why}", poster.host()))
            }
        }
    }
}
