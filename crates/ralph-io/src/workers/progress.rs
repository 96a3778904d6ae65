//! What a worker reports while it works: after each iteration, and when it begins something else.
//!
//! The reports are part of the journal of the whole run, so they are few: agents' single actions
//! are in the worker's own files.

use ralph_core::ports::{Activity, Ui};
use ralph_model::agent::AgentKind;
use ralph_model::agent_output::{AgentEvent, Usage};
use ralph_model::event::{Event, Recorded, WaitReason};
use ralph_model::failure::FailureClass;
use ralph_model::gate::GateStatus;
use ralph_model::ids::{Role, TaskId, WorkerId};
use ralph_model::judgement::Verdict;
use ralph_model::outcome::Outcome;
use ralph_model::review::ReviewResult;
use ralph_model::run::RunState;
use ralph_model::units::{Millis, Timestamp};
use ralph_model::worker::{WorkerEvent, WorkerLimitKind};
use ralph_model::worker_protocol::HostReport;

use super::host::write_report;

/// Where a worker reports.
#[derive(Debug, Clone)]
pub struct WorkerOutput {
    pub worker: WorkerId,
}

impl WorkerOutput {
    /// Writes a report.
    pub fn report(&self, event: WorkerEvent) {
        write_report(&HostReport::Event(event));
    }
}

/// A view that reports what a worker's run does.
#[derive(Debug)]
pub struct ProgressView {
    output: WorkerOutput,
    /// The agent of the last call.
    agent: Option<AgentKind>,
    usage: Usage,
    iterations: u32,
    ran: Millis,
    doing: String,
    /// The task and the result of the open iteration, once it is judged.
    judged: Option<(TaskId, String)>,
}

impl ProgressView {
    /// Returns the view of a worker's run.
    pub fn new(output: WorkerOutput) -> Self {
        let (usage, ran) = (Usage::default(), Millis::ZERO);
        let doing = String::new();
        Self { output, agent: None, usage, iterations: 0, ran, doing, judged: None }
    }

    fn report_progress(&self) {
        self.output.report(WorkerEvent::Progressed {
            worker: self.output.worker.clone(),
            usage: self.usage,
            iterations: self.iterations,
            ran: self.ran,
            doing: self.doing.clone(),
        });
    }

    /// Reports that the agent of the last call takes no calls.
    fn report_limit(&self, kind: WorkerLimitKind, until: Option<Timestamp>) {
        if let Some(agent) = self.agent {
            let worker = self.output.worker.clone();
            self.output.report(WorkerEvent::Limited { worker, agent, until, kind });
        }
    }

    /// Passes on a warning about the work. What concerns the whole run was said by the run itself.
    fn warn(&self, state: &RunState, text: &str) {
        if let Some(task) = state.current.as_ref().and_then(|current| current.task.as_ref()) {
            self.output.report(WorkerEvent::Warning { text: format!("{task}: {text}") });
        }
    }

    fn begin(&mut self, doing: String) {
        if self.doing != doing {
            self.doing = doing;
            self.report_progress();
        }
    }
}

impl Ui for ProgressView {
    #[expect(clippy::wildcard_enum_match_arm, reason = "only some events begin something else")]
    fn show_event(&mut self, recorded: &Recorded, state: &RunState) {
        (self.usage, self.iterations, self.ran) =
            (state.totals.usage, state.iterations, recorded.ran);
        match &recorded.event {
            Event::Asked { agent, .. } => {
                self.agent = Some(*agent);
                let role = state.current.as_ref().map(|current| current.role);
                self.begin(role.map_or("asking", describe_role).to_owned());
            }
            Event::Replied { reply, .. } => {
                let class = reply.failure.as_ref().map(|failure| &failure.class);
                if class == Some(&FailureClass::Overloaded) {
                    self.report_limit(WorkerLimitKind::Overload, None);
                }
            }
            Event::Waiting { until, reason: WaitReason::UsageLimit } => {
                // The run knows of a limit that it asked this worker to wait for.
                if state.control.holds.values().any(|held| held == until) {
                    self.begin("waits for a limit of its agent".to_owned());
                } else {
                    self.report_limit(WorkerLimitKind::UsageLimit, Some(*until));
                    self.begin("waits for a usage limit".to_owned());
                }
            }
            // A limit that it does not wait for.
            Event::RunEnded { outcome: Outcome::LimitTooLong { resets_at, .. }, .. } => {
                let is_known = |until| state.control.holds.values().any(|held| *held == until);
                if !resets_at.is_some_and(is_known) {
                    self.report_limit(WorkerLimitKind::UsageLimit, *resets_at);
                }
            }
            Event::Judged { judgement } => {
                let task = state.current.as_ref().and_then(|current| current.task.clone());
                self.judged = task.zip(Some(describe_verdict(&judgement.verdict, state)));
            }
            Event::IterationEnded { .. } => {
                self.doing = describe_end(self.judged.take(), state);
                self.report_progress();
            }
            Event::Paused => self.begin("paused".to_owned()),
            Event::GateChecked { result, .. } if result.status == GateStatus::Passed => {
                let numbers = result.tests.and_then(|_| state.test_numbers.get(&result.gate));
                if let Some(fall) = numbers.and_then(|numbers| numbers.describe_fall()) {
                    self.warn(state, &format!("gate {}: {fall}", result.gate));
                }
            }
            Event::Warned { text } => self.warn(state, text),
            _ => {}
        }
    }

    fn show_agent_event(&mut self, _: &AgentEvent) {}

    fn show_activity(&mut self, activity: &Activity<'_>) {
        if let Activity::Gate(gate) = activity {
            self.begin(format!("gate {}", gate.name));
        }
    }
}

/// Returns the result of an iteration and, after a failed attempt, the number of the next one.
fn describe_end(judged: Option<(TaskId, String)>, state: &RunState) -> String {
    let Some((task, result)) = judged else { return "between attempts".to_owned() };
    let failed = state.tasks.as_ref().map_or(0, |tasks| tasks.attempt_log(&task).counted());
    let has_failed = failed > 0 && result.ends_with("failed");
    if has_failed { format!("{result}; attempt {} is next", failed + 1) } else { result }
}

fn describe_role(role: Role) -> &'static str {
    match role {
        Role::Implement => "implementing",
        Role::Fix => "fixing what the review found",
        Role::Review => "in review",
        Role::Compact => "compacting the memory",
        Role::Message => "writing the commit message",
        Role::Merge => "merging",
        Role::Prompt | Role::Plan | Role::Build => "working",
    }
}

fn describe_verdict(verdict: &Verdict, state: &RunState) -> String {
    let is_review = state.current.as_ref().is_some_and(|it| it.role == Role::Review);
    match verdict {
        Verdict::Complete | Verdict::Passed { .. } if state.recipe.gates.is_empty() => {
            "work done".to_owned()
        }
        Verdict::Complete | Verdict::Passed { .. } => "gates passed".to_owned(),
        Verdict::GatesFailed { gates } => format!("gate {} failed", gates.join(", ")),
        Verdict::Reviewed { verdict, feedback } => {
            format!("review: {}", ReviewResult::new(*verdict, feedback).name())
        }
        Verdict::AttemptFailed { .. } if is_review => {
            "no usable verdict: the review failed".to_owned()
        }
        Verdict::AttemptFailed { failure } => {
            format!("{}: the attempt failed", failure.class.name())
        }
        Verdict::NothingChanged => "nothing was changed: the attempt failed".to_owned(),
        Verdict::NotHandedIn { .. } => "not handed in as required: the attempt failed".to_owned(),
        Verdict::Incomplete { .. } => "not fully complete: the attempt failed".to_owned(),
        Verdict::Blocked { .. } => "a person is needed: the attempt failed".to_owned(),
        Verdict::Skipped { .. } => "skipped".to_owned(),
        Verdict::Requeued { .. } => "starts again".to_owned(),
        Verdict::Held { .. } => "waits to land".to_owned(),
        Verdict::Compacted { .. } => "compacted".to_owned(),
    }
}
