//! A span for each time that a worker of a parallel run was at work, the spans of the worker's own
//! run in it, and the figures of merges.

use std::collections::{BTreeMap, BTreeSet};

use ralph_model::agent_output::Usage;
use ralph_model::event::{Event, Recorded};
use ralph_model::ids::WorkerId;
use ralph_model::run::RunState;
use ralph_model::units::{Millis, Timestamp};
use ralph_model::worker::{JobAssignment, WorkerOrigin};

use super::metrics::Meter;
use super::span_names::{list_usage_attributes, name_outcome};
use super::{Attribute, OpenSpan, OuterSpan, SpanStatus, Telemetry, TraceSpan};
use crate::run_loop::fold::{apply_event, start_state};

/// The spans of workers that are at work, and sums over merges.
#[derive(Debug, Clone, Default)]
pub(super) struct WorkerSpans {
    open: BTreeMap<WorkerId, OpenWorkerSpan>,
    /// The first span of each worker, which its own run is a part of.
    first: BTreeMap<WorkerId, u64>,
    /// The figures of the runs of workers.
    meters: BTreeMap<WorkerId, Meter>,
    /// The spans of those runs, by id.
    known: BTreeSet<u64>,
    requeues: u32,
    merge_time: Millis,
}

impl WorkerSpans {
    /// Returns the figures of the runs of workers.
    pub(super) fn list_meters(&self) -> impl Iterator<Item = &Meter> {
        self.meters.values()
    }
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
                self.workers.first.entry(assignment.worker.clone()).or_insert(span.open.id);
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
                return self.end_worker(worker, at, &name_outcome(&result.outcome));
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

    /// Adds the journal of a worker that has ended, as far as it can be read. Returns the spans of
    /// its run, without those of an earlier end of the same worker.
    pub fn add_worker_run(
        &mut self,
        worker: &WorkerId,
        journal: impl IntoIterator<Item = Recorded>,
    ) -> Vec<TraceSpan> {
        let Some(id) = self.workers.first.get(worker).copied() else { return Vec::new() };
        let outer = Some(OuterSpan { trace: self.trace, id });
        let mut telemetry = Self { outer, ..Self::default() };
        let (mut state, mut spans) = (None::<RunState>, Vec::new());
        for recorded in journal {
            let applied = match &mut state {
                Some(state) => apply_event(state, &recorded),
                None => start_state(&recorded).map(|first| state = Some(first)),
            };
            // On another machine anyone who can push to the remote may have written it.
            let (Ok(()), Some(state)) = (applied, &state) else { break };
            spans.extend(telemetry.apply_event(&recorded, state));
        }
        self.workers.meters.insert(worker.clone(), telemetry.meter);
        spans.retain(|span| self.workers.known.insert(span.id));
        spans
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
