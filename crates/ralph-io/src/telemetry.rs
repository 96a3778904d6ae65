//! Sends the spans and metrics of a run to a collector, as OTLP over HTTP in JSON.
//!
//! An [`Exporter`] receives the events of a run like a view. Its spans wait in a bounded queue for
//! a thread that sends them in batches: a slow or unreachable collector never holds up a run.
//! Nothing is sent unless the user switched it on. Not here: which spans there are and how they
//! are encoded (`ralph_core::telemetry`).

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ralph_core::event::Recorded;
use ralph_core::ports::{Activity, Ui};
use ralph_core::reading::AgentEvent;
use ralph_core::run::RunState;
use ralph_core::telemetry::otlp::{self, Resource};
use ralph_core::telemetry::{Metric, Span, Telemetry};
use ralph_core::units::Timestamp;
use serde_json::Value;

use crate::http::{Patience, PostError, Poster, Reach, Rest, Roots, Terms};

/// How many spans may wait; an hour of quick iterations.
const QUEUE: usize = 4096;

/// How many spans are sent at once.
const BATCH: usize = 512;

/// How long a span may wait before its batch is sent.
const RHYTHM: Duration = Duration::from_secs(5);

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
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    rest: Rest,
}

#[derive(Debug)]
struct State {
    telemetry: Telemetry,
    resource: Resource,
    waiting: VecDeque<Span>,
    /// Since when the oldest span waits.
    since: Option<Instant>,
    dropped: u64,
    /// Whether no more spans will come.
    is_closed: bool,
    is_done: bool,
    last_failure: Option<String>,
}

/// What is sent at once.
struct Batch {
    resource: Resource,
    spans: Vec<Span>,
    metrics: Vec<Metric>,
    at: Timestamp,
}

impl Exporter {
    /// Starts the sending thread.
    pub fn start(collector: &Collector) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new(collector)),
            changed: Condvar::new(),
            rest: Rest::default(),
        });
        let (theirs, sender) = (Arc::clone(&shared), Sender::new(collector));
        // Never joined: it may hang for as long as a collector does.
        thread::Builder::new().name("telemetry".to_owned()).spawn(move || theirs.serve(&sender))?;
        Ok(Self { shared })
    }

    /// Processes an event of a resumed run that an earlier process has sent.
    pub fn catch_up(&self, recorded: &Recorded, state: &RunState) {
        self.shared.lock().take_in(recorded, state);
    }

    /// Waits until everything is sent, at most for `patience`. Returns the last failure of the run,
    /// if there was one.
    pub fn finish(&self, patience: Duration) -> Option<String> {
        let deadline = Instant::now() + patience;
        self.shared.rest.end_at(deadline);
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
    fn tell(&mut self, recorded: &Recorded, state: &RunState) {
        let mut shared = self.shared.lock();
        let spans = shared.take_in(recorded, state);
        shared.queue(spans);
        drop(shared);
        self.shared.changed.notify_all();
    }

    fn hear(&mut self, _event: &AgentEvent) {}

    fn doing(&mut self, _activity: &Activity<'_>) {}
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends batches until the run is over and everything is sent.
    fn serve(&self, sender: &Sender) {
        while let Some(batch) = self.next() {
            let lost = batch.spans.len() as u64;
            if let Err(why) = sender.send(&batch, &mut |span| self.rest.pause(span)) {
                let mut state = self.lock();
                state.dropped += lost;
                state.last_failure = Some(why);
            }
        }
        self.lock().is_done = true;
        self.changed.notify_all();
    }

    /// Waits until a batch is due.
    fn next(&self) -> Option<Batch> {
        let mut state = self.lock();
        loop {
            let is_over = state.is_closed;
            let waits = state.since.map(|since| RHYTHM.saturating_sub(since.elapsed()));
            let is_due = waits.is_some_and(|left| left.is_zero()) || state.waiting.len() >= BATCH;
            if (is_due || is_over) && !state.waiting.is_empty() {
                return Some(state.batch());
            }
            if is_over {
                return None;
            }
            let woken = self.changed.wait_timeout(state, waits.unwrap_or(RHYTHM));
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    fn new(collector: &Collector) -> Self {
        Self {
            telemetry: Telemetry::default(),
            resource: Resource {
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

    fn take_in(&mut self, recorded: &Recorded, state: &RunState) -> Vec<Span> {
        if self.resource.run.is_empty() {
            self.resource.run.clone_from(&state.run.0);
            self.resource.started = state.started;
        }
        self.telemetry.apply(recorded, state)
    }

    fn queue(&mut self, spans: Vec<Span>) {
        for span in spans {
            if self.waiting.len() == QUEUE {
                self.dropped += 1;
            } else {
                self.waiting.push_back(span);
                self.since.get_or_insert_with(Instant::now);
            }
        }
    }

    fn batch(&mut self) -> Batch {
        let count = self.waiting.len().min(BATCH);
        let spans = self.waiting.drain(..count).collect();
        self.since = (!self.waiting.is_empty()).then(Instant::now);
        Batch {
            resource: self.resource.clone(),
            spans,
            metrics: self.telemetry.metrics(),
            at: self.telemetry.last(),
        }
    }
}

/// Sends a finished run to a collector.
#[derive(Debug)]
pub struct Shipment {
    state: State,
    sender: Sender,
    sent: usize,
}

impl Shipment {
    /// Starts a new shipment.
    pub fn new(collector: &Collector) -> Self {
        Self { state: State::new(collector), sender: Sender::new(collector), sent: 0 }
    }

    /// Processes an event with the state that follows from it, and sends full batches.
    pub fn add(&mut self, recorded: &Recorded, after: &RunState) -> Result<(), String> {
        let spans = self.state.take_in(recorded, after);
        self.state.waiting.extend(spans);
        if self.state.waiting.len() >= BATCH { self.send() } else { Ok(()) }
    }

    /// Sends the remaining spans. Returns the number of spans sent in total.
    pub fn finish(mut self) -> Result<usize, String> {
        self.send()?;
        Ok(self.sent)
    }

    fn send(&mut self) -> Result<(), String> {
        let batch = self.state.batch();
        self.sent += batch.spans.len();
        self.sender.send(&batch, &mut |span| {
            thread::sleep(span);
            Patience::Left
        })
    }
}

/// Sends batches to a collector.
#[derive(Debug)]
struct Sender {
    traces: Poster,
    metrics: Poster,
    headers: Vec<(String, String)>,
}

impl Sender {
    fn new(collector: &Collector) -> Self {
        let terms = Terms {
            // The user chose the collector, and most are on this machine.
            reach: Reach::Any,
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

    fn send(
        &self,
        batch: &Batch,
        pause: &mut dyn FnMut(Duration) -> Patience,
    ) -> Result<(), String> {
        if !batch.spans.is_empty() {
            let body = otlp::traces(&batch.resource, &batch.spans);
            self.post(&self.traces, &body, "rejectedSpans", pause)?;
        }
        if batch.metrics.is_empty() {
            return Ok(());
        }
        let body = otlp::metrics(&batch.resource, &batch.metrics, batch.at);
        self.post(&self.metrics, &body, "rejectedDataPoints", pause)
    }

    fn post(
        &self,
        poster: &Poster,
        body: &Value,
        rejected: &str,
        pause: &mut dyn FnMut(Duration) -> Patience,
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
