//! A span for each time that a worker of a parallel run was at work, and the figures of merges.

use std::collections::BTreeMap;

use ralph_model::agent_output::Usage;
use ralph_model::event::{Event, Recorded};
use ralph_model::ids::WorkerId;
use ralph_model::run::RunState;
use ralph_model::units::{Millis, Timestamp};
use ralph_model::worker::{JobAssignment, WorkerOrigin};

use super::span_names::{list_usage_attributes, name_outcome};
use super::{Attribute, OpenSpan, SpanStatus, Telemetry, TraceSpan};

/// The spans of workers that are at work, and sums over merges.
#[derive(Debug, Clone, Default)]
pub(super) struct WorkerSpans {
    open: BTreeMap<WorkerId, OpenWorkerSpan>,
    requeues: u32,
    merge_time: Millis,
}

#[derive(Debug, Clone)]
struct OpenWorkerSpan {
    open: OpenSpan,
    parent: Option<u64>,
    assignment: JobAssignment,
    slot: Option<String>,
    origin: WorkerOrigin,
    usage: Usage,
    iterations: u32,
}

impl Telemetry {
    /// Applies an event of a worker. Returns the spans that end with it.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the caller sorts the events")]
    pub(super) fn apply_worker_event(&mut self, recorded: &Recorded) -> Vec<TraceSpan> {
        let at = recorded.at;
        match &recorded.event {
            Event::JobAssigned { assignment } => {
                let place = ["worker", assignment.worker.0.as_str(), &recorded.seq.to_string()];
                let span = OpenWorkerSpan {
                    open: self.open_span(at, &place),
                    parent: self.segment_id(),
                    assignment: (**assignment).clone(),
                    slot: None,
                    origin: WorkerOrigin::default(),
                    usage: Usage::default(),
                    iterations: 0,
                };
                self.workers.open.insert(assignment.worker.clone(), span);
            }
            Event::WorkerStarted { worker, place, origin } => {
                if let Some(span) = self.workers.open.get_mut(worker) {
                    span.slot = Some(place.clone());
                    span.origin.clone_from(origin);
                }
            }
            Event::WorkerProgressed { worker, usage, iterations, .. } => {
                if let Some(span) = self.workers.open.get_mut(worker) {
                    (span.usage, span.iterations) = (*usage, *iterations);
                }
            }
            Event::WorkerEnded { worker, result } => {
                if let Some(span) = self.workers.open.get_mut(worker) {
                    (span.usage, span.iterations) = (result.usage, result.iterations);
                }
                return self.end_worker(worker, at, name_outcome(&result.outcome));
            }
            Event::WorkerLost { worker: Some(worker), .. } => {
                return self.end_worker(worker, at, LOST);
            }
            Event::WorkerLost { worker: None, .. } => return self.end_lost_workers(at),
            Event::WorkerCanceled { worker } => return self.end_worker(worker, at, "canceled"),
            _ => {}
        }
        Vec::new()
    }

    /// Ends the spans of workers that are gone.
    pub(super) fn end_lost_workers(&mut self, at: Timestamp) -> Vec<TraceSpan> {
        let workers: Vec<WorkerId> = self.workers.open.keys().cloned().collect();
        workers.iter().flat_map(|worker| self.end_worker(worker, at, LOST)).collect()
    }

    fn end_worker(&mut self, worker: &WorkerId, at: Timestamp, result: &str) -> Vec<TraceSpan> {
        let Some(span) = self.workers.open.remove(worker) else { return Vec::new() };
        let mut attributes: Vec<Attribute> = vec![
            ("ralph.worker.id", worker.0.as_str().into()),
            ("ralph.task.id", span.assignment.task.0.as_str().into()),
            ("ralph.worker.round", span.assignment.round.into()),
            ("ralph.worker.result", result.into()),
            ("ralph.iterations", span.iterations.into()),
        ];
        attributes.extend(span.slot.map(|slot| ("ralph.worker.slot", slot.into())));
        let WorkerOrigin { machine, attempt, taken_over } = span.origin;
        attributes.extend(machine.map(|it| ("ralph.worker.machine", it.into())));
        attributes.extend(attempt.map(|it| ("ralph.worker.attempt", it.as_str().into())));
        attributes.extend(taken_over.map(|it| ("ralph.worker.taken_over_from", it.machine.into())));
        attributes.extend(list_usage_attributes(span.usage));
        let status = match result {
            LOST => SpanStatus::Error(LOST.to_owned()),
            _ => SpanStatus::Unset,
        };
        let closed = self.close_span(&span.open, span.parent, "worker".to_owned(), at);
        vec![TraceSpan { attributes, status, ..closed }]
    }

    /// Counts a merge by its verdict.
    pub(super) fn count_merge(&mut self, verdict: &str, took: Millis) {
        self.workers.requeues += u32::from(verdict == "requeued");
        self.workers.merge_time = self.workers.merge_time.saturating_add(took);
    }

    /// Returns the attributes of a run with workers.
    pub(super) fn list_parallel_attributes(&self, state: &RunState) -> Vec<Attribute> {
        let Some(policy) = &state.recipe.parallel else { return Vec::new() };
        vec![
            ("ralph.jobs", policy.jobs.into()),
            ("ralph.requeues", self.workers.requeues.into()),
            ("ralph.merge.duration_ms", self.workers.merge_time.0.into()),
        ]
    }
}

/// The result of a worker that is gone.
const LOST: &str = "lost";
