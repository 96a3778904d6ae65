//! Builds OpenTelemetry spans and metrics from the events of a run.
//!
//! Each run is one trace. Every id is derived from the run and the position in it, so a run that is
//! resumed, or exported again later, continues the same trace. The runs of its workers, also of those
//! on other machines, are part of it. Spans contain no prompts, answers or gate output. Encoding is
//! in `otlp`; sending is elsewhere.

mod metrics;
pub mod otlp;
mod span_names;
mod worker_spans;

use metrics::Meter;
pub use metrics::{Histogram, Metric, MetricPoints};
use ralph_model::agent::AgentKind;
use ralph_model::agent_output::{Reply, Usage};
use ralph_model::event::{Event, Purpose, Recorded};
use ralph_model::fingerprint::hash_texts;
use ralph_model::gate::{GateResult, GateStatus};
use ralph_model::ids::{AskNumber, IterationNumber, Role, TaskId};
use ralph_model::judgement::Judgement;
use ralph_model::outcome::Outcome;
use ralph_model::run::RunState;
use ralph_model::units::{Millis, Timestamp};
use ralph_model::worktree::Landed;
use worker_spans::WorkerSpans;

use span_names::{list_agent_attributes, list_usage_attributes, name_outcome, name_verdict};

/// The name of an attribute and its value.
pub type Attribute = (&'static str, AttributeValue);

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum AttributeValue {
    Text(String),
    Int(i64),
    Double(f64),
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for AttributeValue {
    fn from(number: u64) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for AttributeValue {
    fn from(number: u32) -> Self {
        Self::Int(i64::from(number))
    }
}

/// A timed operation.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSpan {
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
    pub status: SpanStatus,
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
pub enum SpanStatus {
    Unset,
    Ok,
    Error(String),
}

/// Builds spans and metrics from the events of a run.
#[derive(Debug, Clone, Default)]
pub struct Telemetry {
    trace: u128,
    /// What the ids of spans are derived from: the trace, but for the run of a worker.
    seed: u128,
    /// The span of the worker whose run this is.
    outer: Option<OuterSpan>,
    segments: u32,
    segment: Option<OpenSpan>,
    first_segment: Option<u64>,
    iteration: Option<OpenIterationSpan>,
    ask: Option<OpenAgentCallSpan>,
    wait: Option<(Timestamp, u64, &'static str)>,
    last: Timestamp,
    meter: Meter,
    workers: WorkerSpans,
}

/// The span that another run is a part of.
#[derive(Debug, Clone, Copy)]
struct OuterSpan {
    trace: u128,
    id: u64,
}

/// A span that has not ended.
#[derive(Debug, Clone)]
struct OpenSpan {
    id: u64,
    start: Timestamp,
}

#[derive(Debug, Clone)]
struct OpenIterationSpan {
    open: OpenSpan,
    parent: Option<u64>,
    number: IterationNumber,
    role: Role,
    task: Option<TaskId>,
    verdict: Option<String>,
    commit: Option<String>,
    /// How many candidates waited when it began, in a parallel run.
    queue: Option<u64>,
}

#[derive(Debug, Clone)]
struct OpenAgentCallSpan {
    open: OpenSpan,
    segment: u32,
    number: AskNumber,
    role: Role,
    purpose: Purpose,
    agent: AgentKind,
}

impl Telemetry {
    /// Applies an event, with the state after it. Returns the spans that end with it.
    #[expect(clippy::wildcard_enum_match_arm, reason = "most events are no spans")]
    pub fn apply_event(&mut self, recorded: &Recorded, state: &RunState) -> Vec<TraceSpan> {
        let mut ended = Vec::new();
        if let Some((start, seq, reason)) = self.wait.take() {
            ended.push(self.new_wait_span(start, seq, reason, recorded.at));
        }
        match &recorded.event {
            Event::RunStarted { .. } => self.begin_segment(recorded.at, state),
            Event::RunResumed { .. } => {
                ended.extend(self.end_lost_workers(self.last));
                ended.extend(self.end_interrupted(state));
                self.begin_segment(recorded.at, state);
            }
            Event::RunEnded { outcome, .. } => {
                ended.extend(self.end_lost_workers(recorded.at));
                ended.extend(self.finish_segment(recorded.at, outcome, state));
            }
            Event::IterationStarted { iteration, role, task } => {
                self.iteration = Some(OpenIterationSpan {
                    open: self.open_span(recorded.at, &["iteration", &iteration.0.to_string()]),
                    parent: self.segment_id(),
                    number: *iteration,
                    role: *role,
                    task: task.clone(),
                    verdict: None,
                    commit: None,
                    queue: state.parallel.as_ref().map(|it| it.queue.len() as u64),
                });
            }
            Event::Asked { ask, role, purpose, agent, .. } => {
                let iteration = state.iterations.to_string();
                self.ask = Some(OpenAgentCallSpan {
                    open: self.open_span(recorded.at, &["ask", &iteration, &ask.0.to_string()]),
                    segment: self.segments,
                    number: *ask,
                    role: *role,
                    purpose: purpose.clone(),
                    agent: *agent,
                });
            }
            Event::Replied { ask, reply } => {
                ended.extend(self.end_agent_call(*ask, reply, recorded.at, state));
            }
            Event::GateChecked { result, survey: _ } | Event::BaselineChecked { result } => {
                ended.push(self.new_gate_span(result, recorded));
            }
            Event::Judged { judgement } => self.record_verdict(judgement),
            Event::Landed { landed: Landed::Committed { commit, .. } } => {
                if let Some(iteration) = &mut self.iteration {
                    iteration.commit = Some(commit.0.clone());
                }
            }
            Event::IterationEnded { .. } => ended.extend(self.end_iteration(recorded.at)),
            Event::Waiting { reason, .. } => {
                self.wait = Some((recorded.at, recorded.seq, span_names::name_wait(*reason)));
            }
            Event::Paused => self.wait = Some((recorded.at, recorded.seq, "pause")),
            Event::JobAssigned { .. }
            | Event::WorkerStarted { .. }
            | Event::WorkerProgressed { .. }
            | Event::WorkerLimited { .. }
            | Event::WorkerEnded { .. }
            | Event::WorkerLost { .. }
            | Event::WorkerCanceled { .. } => ended.extend(self.apply_worker_event(recorded)),
            _ => {}
        }
        self.last = recorded.at;
        ended
    }

    /// Returns the metrics since the start of the run, as of its last event.
    pub fn metrics(&self) -> Vec<Metric> {
        let mut all = self.meter.clone();
        self.workers.list_meters().for_each(|meter| all.add(meter));
        all.list_metrics()
    }

    /// Returns the time of the last event.
    pub fn last_event_time(&self) -> Timestamp {
        self.last
    }

    fn begin_segment(&mut self, at: Timestamp, state: &RunState) {
        let started = state.started.0.to_string();
        // Run ids only contain a second and four letters; the exact start time makes the trace id
        // unique.
        self.seed = hash_texts(["trace", state.run.0.as_str(), &started]).max(1);
        self.trace = self.outer.map_or(self.seed, |outer| outer.trace);
        self.segments += 1;
        let segment = self.open_span(at, &["run", &self.segments.to_string()]);
        self.first_segment.get_or_insert(segment.id);
        self.segment = Some(segment);
    }

    /// Ends the segment that a crash or a kill interrupted, at its last event.
    fn end_interrupted(&mut self, state: &RunState) -> Option<TraceSpan> {
        let segment = self.segment.take()?;
        let mut attributes = list_run_attributes(state);
        attributes.extend(self.list_parallel_attributes(state));
        let status = SpanStatus::Error("cut off".to_owned());
        Some(TraceSpan { attributes, status, ..self.new_run_span(&segment, self.last) })
    }

    fn finish_segment(
        &mut self,
        at: Timestamp,
        outcome: &Outcome,
        state: &RunState,
    ) -> Option<TraceSpan> {
        let segment = self.segment.take()?;
        let mut attributes = list_run_attributes(state);
        attributes.extend(self.list_parallel_attributes(state));
        let name = name_outcome(outcome);
        attributes.push(("ralph.outcome", name.as_str().into()));
        attributes.push(("ralph.exit_code", u64::from(outcome.exit_code().code()).into()));
        let status = match name.as_str() {
            "complete" => SpanStatus::Ok,
            "interrupted" => SpanStatus::Unset,
            _ => SpanStatus::Error(name),
        };
        Some(TraceSpan { attributes, status, ..self.new_run_span(&segment, at) })
    }

    fn new_run_span(&self, segment: &OpenSpan, end: Timestamp) -> TraceSpan {
        let first = self.first_segment.filter(|first| *first != segment.id);
        let parent = first.or(self.outer.map(|outer| outer.id));
        self.close_span(segment, parent, "ralph run".to_owned(), end)
    }

    fn end_agent_call(
        &mut self,
        ask: AskNumber,
        reply: &Reply,
        at: Timestamp,
        state: &RunState,
    ) -> Option<TraceSpan> {
        let asked = self.ask.take().filter(|asked| asked.number == ask)?;
        // A reply that is read again after a crash was given before it.
        let end = if asked.segment == self.segments {
            at
        } else {
            asked.open.start.saturating_add(reply.end.ran)
        };
        let requested = state.recipe.agent_for(asked.role).model.clone();
        let mut attributes = list_agent_attributes(asked.agent, requested.as_deref(), reply);
        attributes.push(("ralph.role", asked.role.name().into()));
        attributes.push(("ralph.purpose", span_names::name_purpose(&asked.purpose).into()));
        attributes.push(("ralph.tools", reply.tools.into()));
        attributes.push(("ralph.tool_errors", reply.tool_errors.into()));
        let status = match &reply.failure {
            Some(failure) => SpanStatus::Error(failure.class.name().to_owned()),
            None => SpanStatus::Unset,
        };
        self.meter.record_agent_call(
            asked.agent,
            requested.as_deref(),
            reply,
            end.elapsed_since(asked.open.start),
        );
        let parent = self.iteration.as_ref().map(|it| it.open.id).or(self.segment_id());
        let name = format!("invoke_agent {}", asked.agent.name());
        let span = self.close_span(&asked.open, parent, name, end);
        Some(TraceSpan { kind: SpanKind::Client, attributes, status, ..span })
    }

    fn new_gate_span(&mut self, result: &GateResult, recorded: &Recorded) -> TraceSpan {
        let ran = result.end.as_ref().map_or(Millis::ZERO, |end| end.ran);
        let start = Timestamp(recorded.at.0.saturating_sub(i64::try_from(ran.0).unwrap_or(0)));
        let open = self.open_span(start, &["gate", &recorded.seq.to_string()]);
        let parent = self.iteration.as_ref().map(|it| it.open.id).or(self.segment_id());
        let word = span_names::name_gate_status(result.status);
        self.meter.record_gate(&result.gate, word, ran);
        let mut attributes: Vec<Attribute> = vec![
            ("ralph.gate.name", result.gate.as_str().into()),
            ("ralph.gate.status", word.into()),
            ("ralph.gate.severity", span_names::name_severity(result.severity).into()),
        ];
        if result.end.is_some() && !result.is_verdict {
            let code = i64::from(result.exit_code());
            attributes.push(("process.exit.code", AttributeValue::Int(code)));
        }
        let status = match result.status {
            GateStatus::Passed | GateStatus::Cached => SpanStatus::Unset,
            GateStatus::Failed => SpanStatus::Error("failed".to_owned()),
        };
        let span = self.close_span(&open, parent, format!("gate {}", result.gate), recorded.at);
        TraceSpan { attributes, status, ..span }
    }

    fn record_verdict(&mut self, judgement: &Judgement) {
        if let Some(iteration) = &mut self.iteration {
            iteration.verdict = Some(name_verdict(&judgement.verdict));
        }
    }

    fn end_iteration(&mut self, at: Timestamp) -> Option<TraceSpan> {
        let iteration = self.iteration.take()?;
        let verdict = iteration.verdict.as_deref().unwrap_or("none");
        self.meter.record_iteration(
            iteration.role,
            verdict,
            at.elapsed_since(iteration.open.start),
        );
        let mut attributes: Vec<Attribute> = vec![
            ("ralph.iteration", iteration.number.0.into()),
            ("ralph.role", iteration.role.name().into()),
            ("ralph.verdict", verdict.into()),
        ];
        attributes.extend(iteration.task.map(|task| ("ralph.task.id", task.0.into())));
        attributes.extend(iteration.commit.map(|commit| ("ralph.commit", commit.into())));
        attributes.extend(iteration.queue.map(|queue| ("ralph.queue.length", queue.into())));
        if iteration.role == Role::Merge {
            self.count_merge(verdict, at.elapsed_since(iteration.open.start));
        }
        let name = format!("iteration {}", iteration.role);
        let status = match verdict {
            "gates_failed" | "attempt_failed" => SpanStatus::Error(verdict.to_owned()),
            _ => SpanStatus::Unset,
        };
        let span = self.close_span(&iteration.open, iteration.parent, name, at);
        Some(TraceSpan { attributes, status, ..span })
    }

    fn new_wait_span(&self, start: Timestamp, seq: u64, reason: &str, end: Timestamp) -> TraceSpan {
        let open = self.open_span(start, &["wait", &seq.to_string()]);
        let parent = self.iteration.as_ref().map(|it| it.open.id).or(self.segment_id());
        let attributes = vec![("ralph.wait.reason", reason.into())];
        TraceSpan { attributes, ..self.close_span(&open, parent, format!("wait {reason}"), end) }
    }

    fn segment_id(&self) -> Option<u64> {
        self.segment.as_ref().map(|segment| segment.id)
    }

    /// Starts a span whose id is derived from its position in the run.
    fn open_span(&self, start: Timestamp, place: &[&str]) -> OpenSpan {
        let seed = format!("{:032x}", self.seed);
        let texts = std::iter::once(seed.as_str()).chain(place.iter().copied());
        let bytes = hash_texts(texts).to_le_bytes();
        let mut half = [0; 8];
        half.copy_from_slice(&bytes[..8]);
        OpenSpan { id: u64::from_le_bytes(half).max(1), start }
    }

    fn close_span(
        &self,
        open: &OpenSpan,
        parent: Option<u64>,
        name: String,
        end: Timestamp,
    ) -> TraceSpan {
        TraceSpan {
            trace: self.trace,
            id: open.id,
            parent,
            name,
            kind: SpanKind::Internal,
            start: open.start,
            end: end.max(open.start),
            attributes: Vec::new(),
            status: SpanStatus::Unset,
        }
    }
}

/// Returns the attributes of a run.
fn list_run_attributes(state: &RunState) -> Vec<Attribute> {
    let name = state.project.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut attributes: Vec<Attribute> = vec![
        ("ralph.run.id", state.run.0.as_str().into()),
        ("ralph.project", name.into()),
        ("ralph.work", span_names::name_work(&state.recipe.work).into()),
        ("ralph.iterations", state.iterations.into()),
        ("ralph.commits", state.totals.commits.into()),
    ];
    attributes.extend(list_usage_attributes(state.total_usage()));
    attributes
}

/// Returns all input tokens including cached ones, as the semantic conventions count them.
fn count_input_tokens(usage: Usage) -> u64 {
    usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write).0
}

#[cfg(test)]
mod tests;
