//! Builds OpenTelemetry spans and metrics from the events of a run.
//!
//! Each run is one trace. Every id is derived from the run and the position in it, so a run that is
//! resumed, or exported again later, continues the same trace. Spans contain no prompts, answers or
//! gate output. Encoding is in `otlp`; sending is elsewhere.

mod metrics;
pub mod otlp;
mod words;

use crate::event::{Event, Landed, Purpose, Recorded};
use crate::fingerprint::hash;
use crate::gate::{GateResult, GateStatus};
use crate::ids::{AskNumber, IterationNumber, Role, TaskId};
use crate::judge::Judgement;
use crate::outcome::Outcome;
use crate::reading::{Reply, Usage};
use crate::recipe::AgentKind;
use crate::run::RunState;
use crate::units::{Millis, Timestamp};

use metrics::Meter;
pub use metrics::{Histogram, Metric, Points};
use words::{agent_attributes, outcome_name, usage_attributes, verdict_name};

/// The name of an attribute and its value.
pub type Attribute = (&'static str, Value);

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(String),
    Int(i64),
    Double(f64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Int(i64::from(number))
    }
}

/// A timed operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// The trace id: 16 bytes, not all zero.
    pub trace: u128,
    /// The span id: 8 bytes, not all zero.
    pub id: u64,
    /// The parent span; `None` for the root of the trace.
    pub parent: Option<u64>,
    /// Its name, from a small set.
    pub name: String,
    pub kind: SpanKind,
    pub start: Timestamp,
    pub end: Timestamp,
    pub attributes: Vec<Attribute>,
    pub status: Status,
}

/// The kind of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// Done by ralph itself.
    Internal,
    /// A call to another program.
    Client,
}

/// The status of a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    Unset,
    Ok,
    Error(String),
}

/// Builds spans and metrics from the events of a run.
#[derive(Debug, Clone, Default)]
pub struct Telemetry {
    trace: u128,
    goes: u32,
    go: Option<Open>,
    first_go: Option<u64>,
    iteration: Option<OpenIteration>,
    ask: Option<OpenAsk>,
    wait: Option<(Timestamp, u64, &'static str)>,
    last: Timestamp,
    meter: Meter,
}

/// A span that has not ended.
#[derive(Debug, Clone)]
struct Open {
    id: u64,
    start: Timestamp,
}

#[derive(Debug, Clone)]
struct OpenIteration {
    open: Open,
    parent: Option<u64>,
    number: IterationNumber,
    role: Role,
    task: Option<TaskId>,
    verdict: Option<&'static str>,
    commit: Option<String>,
}

#[derive(Debug, Clone)]
struct OpenAsk {
    open: Open,
    go: u32,
    number: AskNumber,
    role: Role,
    purpose: Purpose,
    agent: AgentKind,
}

impl Telemetry {
    /// Applies an event, with the state after it. Returns the spans that end with it.
    pub fn apply(&mut self, recorded: &Recorded, state: &RunState) -> Vec<Span> {
        let mut ended = Vec::new();
        if let Some((start, seq, reason)) = self.wait.take() {
            ended.push(self.waited(start, seq, reason, recorded.at));
        }
        match &recorded.event {
            Event::RunStarted { .. } => self.begin(recorded.at, state),
            Event::RunResumed { .. } => {
                ended.extend(self.cut_off(state));
                self.begin(recorded.at, state);
            }
            Event::RunEnded { outcome, .. } => {
                ended.extend(self.finish(recorded.at, outcome, state));
            }
            Event::IterationStarted { iteration, role, task } => {
                self.iteration = Some(OpenIteration {
                    open: self.open(recorded.at, &["iteration", &iteration.0.to_string()]),
                    parent: self.go_id(),
                    number: *iteration,
                    role: *role,
                    task: task.clone(),
                    verdict: None,
                    commit: None,
                });
            }
            Event::Asked { ask, role, purpose, agent, .. } => {
                let iteration = state.iterations.to_string();
                self.ask = Some(OpenAsk {
                    open: self.open(recorded.at, &["ask", &iteration, &ask.0.to_string()]),
                    go: self.goes,
                    number: *ask,
                    role: *role,
                    purpose: purpose.clone(),
                    agent: *agent,
                });
            }
            Event::Replied { ask, reply } => {
                ended.extend(self.replied(*ask, reply, recorded.at, state));
            }
            Event::GateChecked { result } | Event::BaselineChecked { result } => {
                ended.push(self.checked(result, recorded));
            }
            Event::Judged { judgement } => self.judged(judgement),
            Event::Landed { landed: Landed::Committed { commit, .. } } => {
                if let Some(iteration) = &mut self.iteration {
                    iteration.commit = Some(commit.0.clone());
                }
            }
            Event::IterationEnded { .. } => ended.extend(self.iterated(recorded.at)),
            Event::Waiting { reason, .. } => {
                self.wait = Some((recorded.at, recorded.seq, words::wait(*reason)));
            }
            Event::Paused => self.wait = Some((recorded.at, recorded.seq, "pause")),
            Event::Landed { .. }
            | Event::TasksRead { .. }
            | Event::TasksWritten
            | Event::BaselineStarted { .. }
            | Event::Checkpointed { .. }
            | Event::Observed { .. }
            | Event::PlanSeen { .. }
            | Event::Claimed { .. }
            | Event::Wished { .. }
            | Event::TaskSkipped { .. }
            | Event::Warned { .. } => {}
        }
        self.last = recorded.at;
        ended
    }

    /// Returns the metrics since the start of the run, as of its last event.
    pub fn metrics(&self) -> Vec<Metric> {
        self.meter.metrics()
    }

    /// Returns the time of the last event.
    pub fn last(&self) -> Timestamp {
        self.last
    }

    fn begin(&mut self, at: Timestamp, state: &RunState) {
        let started = state.started.0.to_string();
        // Run ids only contain a second and four letters; the exact start time makes the trace id
        // unique.
        self.trace = hash(["trace", state.run.0.as_str(), &started]).max(1);
        self.goes += 1;
        let segment = self.open(at, &["run", &self.goes.to_string()]);
        self.first_go.get_or_insert(segment.id);
        self.go = Some(segment);
    }

    /// Ends the segment that a crash or a kill interrupted, at its last event.
    fn cut_off(&mut self, state: &RunState) -> Option<Span> {
        let segment = self.go.take()?;
        let attributes = run_attributes(state);
        let status = Status::Error("cut off".to_owned());
        Some(Span { attributes, status, ..self.run_span(&segment, self.last) })
    }

    fn finish(&mut self, at: Timestamp, outcome: &Outcome, state: &RunState) -> Option<Span> {
        let segment = self.go.take()?;
        let mut attributes = run_attributes(state);
        attributes.push(("ralph.outcome", outcome_name(outcome).into()));
        attributes.push(("ralph.exit_code", u64::from(outcome.exit_code().code()).into()));
        let status = match outcome_name(outcome) {
            "complete" => Status::Ok,
            "interrupted" => Status::Unset,
            name => Status::Error(name.to_owned()),
        };
        Some(Span { attributes, status, ..self.run_span(&segment, at) })
    }

    fn run_span(&self, segment: &Open, end: Timestamp) -> Span {
        let parent = self.first_go.filter(|first| *first != segment.id);
        self.span(segment, parent, "ralph run".to_owned(), end)
    }

    fn replied(
        &mut self,
        ask: AskNumber,
        reply: &Reply,
        at: Timestamp,
        state: &RunState,
    ) -> Option<Span> {
        let asked = self.ask.take().filter(|asked| asked.number == ask)?;
        // A reply that is read again after a crash was given before it.
        let end = if asked.go == self.goes { at } else { asked.open.start.plus(reply.end.ran) };
        let requested = state.recipe.agent_for(asked.role).model.clone();
        let mut attributes = agent_attributes(asked.agent, requested.as_deref(), reply);
        attributes.push(("ralph.role", asked.role.name().into()));
        attributes.push(("ralph.purpose", words::purpose(&asked.purpose).into()));
        attributes.push(("ralph.tools", reply.tools.into()));
        attributes.push(("ralph.tool_errors", reply.tool_errors.into()));
        let status = match &reply.failure {
            Some(failure) => Status::Error(failure.class.name().to_owned()),
            None => Status::Unset,
        };
        self.meter.asked(asked.agent, requested.as_deref(), reply, end.since(asked.open.start));
        let parent = self.iteration.as_ref().map(|it| it.open.id).or(self.go_id());
        let name = format!("invoke_agent {}", asked.agent.name());
        let span = self.span(&asked.open, parent, name, end);
        Some(Span { kind: SpanKind::Client, attributes, status, ..span })
    }

    fn checked(&mut self, result: &GateResult, recorded: &Recorded) -> Span {
        let ran = result.end.as_ref().map_or(Millis::ZERO, |end| end.ran);
        let start = Timestamp(recorded.at.0.saturating_sub(i64::try_from(ran.0).unwrap_or(0)));
        let open = self.open(start, &["gate", &recorded.seq.to_string()]);
        let parent = self.iteration.as_ref().map(|it| it.open.id).or(self.go_id());
        let word = words::gate_status(result.status);
        self.meter.checked(&result.gate, word, ran);
        let mut attributes: Vec<Attribute> = vec![
            ("ralph.gate.name", result.gate.as_str().into()),
            ("ralph.gate.status", word.into()),
            ("ralph.gate.severity", words::severity(result.severity).into()),
        ];
        if result.end.is_some() {
            let code = i64::from(result.exit_code());
            attributes.push(("process.exit.code", Value::Int(code)));
        }
        let status = match result.status {
            GateStatus::Passed | GateStatus::Cached => Status::Unset,
            GateStatus::Failed => Status::Error("failed".to_owned()),
        };
        let span = self.span(&open, parent, format!("gate {}", result.gate), recorded.at);
        Span { attributes, status, ..span }
    }

    fn judged(&mut self, judgement: &Judgement) {
        if let Some(iteration) = &mut self.iteration {
            iteration.verdict = Some(verdict_name(&judgement.verdict));
        }
    }

    fn iterated(&mut self, at: Timestamp) -> Option<Span> {
        let iteration = self.iteration.take()?;
        let verdict = iteration.verdict.unwrap_or("none");
        self.meter.iterated(iteration.role, verdict, at.since(iteration.open.start));
        let mut attributes: Vec<Attribute> = vec![
            ("ralph.iteration", iteration.number.0.into()),
            ("ralph.role", iteration.role.name().into()),
            ("ralph.verdict", verdict.into()),
        ];
        attributes.extend(iteration.task.map(|task| ("ralph.task.id", task.0.into())));
        attributes.extend(iteration.commit.map(|commit| ("ralph.commit", commit.into())));
        let name = format!("iteration {}", iteration.role);
        let status = match verdict {
            "gates_failed" | "attempt_failed" => Status::Error(verdict.to_owned()),
            _ => Status::Unset,
        };
        let span = self.span(&iteration.open, iteration.parent, name, at);
        Some(Span { attributes, status, ..span })
    }

    fn waited(&self, start: Timestamp, seq: u64, reason: &str, end: Timestamp) -> Span {
        let open = self.open(start, &["wait", &seq.to_string()]);
        let parent = self.iteration.as_ref().map(|it| it.open.id).or(self.go_id());
        let attributes = vec![("ralph.wait.reason", reason.into())];
        Span { attributes, ..self.span(&open, parent, format!("wait {reason}"), end) }
    }

    fn go_id(&self) -> Option<u64> {
        self.go.as_ref().map(|segment| segment.id)
    }

    /// Starts a span whose id is derived from its position in the run.
    fn open(&self, start: Timestamp, place: &[&str]) -> Open {
        let trace = format!("{:032x}", self.trace);
        let texts = std::iter::once(trace.as_str()).chain(place.iter().copied());
        let bytes = hash(texts).to_le_bytes();
        let mut half = [0; 8];
        half.copy_from_slice(&bytes[..8]);
        Open { id: u64::from_le_bytes(half).max(1), start }
    }

    fn span(&self, open: &Open, parent: Option<u64>, name: String, end: Timestamp) -> Span {
        Span {
            trace: self.trace,
            id: open.id,
            parent,
            name,
            kind: SpanKind::Internal,
            start: open.start,
            end: end.max(open.start),
            attributes: Vec::new(),
            status: Status::Unset,
        }
    }
}

/// Returns the attributes of a run.
fn run_attributes(state: &RunState) -> Vec<Attribute> {
    let name = state.project.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut attributes: Vec<Attribute> = vec![
        ("ralph.run.id", state.run.0.as_str().into()),
        ("ralph.project", name.into()),
        ("ralph.work", words::work(&state.recipe.work).into()),
        ("ralph.iterations", state.iterations.into()),
        ("ralph.commits", state.totals.commits.into()),
    ];
    attributes.extend(usage_attributes(state.totals.usage));
    attributes
}

/// Returns all input tokens including cached ones, as the semantic conventions count them.
fn input_tokens(usage: Usage) -> u64 {
    usage.input.plus(usage.cache_read).plus(usage.cache_write).0
}

#[cfg(test)]
mod tests;
