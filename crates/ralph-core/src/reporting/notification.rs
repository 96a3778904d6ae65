//! Notifications for users who are not watching: which events are worth one, and its text.
//!
//! A pure function of an event and the state that follows from it. Not here: how a notification
//! is delivered, and which were sent before.

use std::collections::BTreeSet;

use ralph_model::agent_output::Usage;
use ralph_model::attempt::GiveUpReason;
use ralph_model::event::{Event, Recorded, WaitReason};
use ralph_model::handoff::BlockedReason;
use ralph_model::ids::{RunId, TaskId};
use ralph_model::judgement::{Judgement, Verdict};
use ralph_model::occasion::Occasion;
use ralph_model::outcome::Outcome;
use ralph_model::run::RunState;
use ralph_model::stuck::Escalation;
use ralph_model::task::Progress;
use ralph_model::task_state::TaskState;
use ralph_model::text::{choose_plural, join_to_line};
use ralph_model::units::{Millis, Timestamp};
use ralph_model::worker::WorkerLimitKind;
use serde::Serialize;

/// The version of the facts' format. Fields are added, never renamed.
const FACTS_VERSION: u32 = 1;

/// What fits on the screen of a phone; the journal has the rest.
const LONGEST_MESSAGE: usize = 500;

/// When a notification is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotificationPolicy {
    pub on: BTreeSet<Occasion>,
    /// Shorter waits are not worth one.
    pub long_wait: Millis,
}

/// A notification for the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    /// The same for the same thing, however often the run is resumed.
    pub id: String,
    pub occasion: Occasion,
    pub title: String,
    /// One or two sentences.
    pub message: String,
    pub facts: NotificationFacts,
}

/// The same for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotificationFacts {
    pub version: u32,
    /// `None` in a test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub project: String,
    /// When it happened, in milliseconds since the Unix epoch.
    pub at: Timestamp,
    /// How long the run has been running, in milliseconds.
    pub ran: Millis,
    pub iterations: u32,
    /// Task counts by status, if there is a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    pub usage: Usage,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// What a person is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
}

/// What differs between notifications.
struct NotificationDraft {
    id: String,
    occasion: Occasion,
    what: String,
    detail: String,
    task: Option<TaskId>,
    needs: Option<String>,
    until: Option<Timestamp>,
}

impl NotificationDraft {
    fn new(
        id: String,
        occasion: Occasion,
        what: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        let (what, detail) = (what.into(), detail.into());
        Self { id, occasion, what, detail, task: None, needs: None, until: None }
    }
}

/// Returns the notification that an event is worth, if any. `state` is the one that follows from
/// the event.
#[expect(clippy::wildcard_enum_match_arm, reason = "most events are not worth one")]
pub fn build_notification(
    policy: &NotificationPolicy,
    recorded: &Recorded,
    state: &RunState,
) -> Option<Notification> {
    let news = match &recorded.event {
        Event::RunEnded { outcome, .. } => describe_end(recorded.seq, outcome)?,
        Event::Judged { judgement } => describe_judgement(judgement, state)?,
        Event::Waiting { until, reason: WaitReason::UsageLimit } => {
            describe_wait(policy, recorded.at, *until, state)?
        }
        Event::WorkerLimited { kind: WorkerLimitKind::UsageLimit, .. } => {
            let until = find_end_of_holds(recorded.at, state)?;
            describe_wait(policy, recorded.at, until, state)?
        }
        Event::Paused => NotificationDraft::new(
            format!("paused-{}", recorded.seq),
            Occasion::Person,
            "paused",
            "it waits until a user resumes it",
        ),
        _ => return None,
    };
    policy.on.contains(&news.occasion).then(|| finish_notification(news, recorded, state))
}

/// Returns the notification that tests the delivery.
pub fn build_test_notification(project: &str, at: Timestamp) -> Notification {
    Notification {
        id: format!("test-{}", at.0),
        occasion: Occasion::Test,
        title: format!("ralph: {}: a test", find_project_name(project)),
        message: "This is what a notice of ralph looks like.".to_owned(),
        facts: NotificationFacts {
            version: FACTS_VERSION,
            run: None,
            project: project.to_owned(),
            at,
            ran: Millis::ZERO,
            iterations: 0,
            progress: None,
            usage: Usage::default(),
            task: None,
            needs: None,
            until: None,
            outcome: None,
            exit_code: None,
        },
    }
}

/// Describes how a run ended. A user who interrupts a run knows it already.
fn describe_end(seq: u64, outcome: &Outcome) -> Option<NotificationDraft> {
    let (occasion, what) = match outcome {
        Outcome::Complete => (Occasion::Finish, "complete"),
        Outcome::IterationsUsedUp { .. } => (Occasion::Budget, "iterations used up"),
        Outcome::BudgetUsedUp { .. } => (Occasion::Budget, "budget used up"),
        Outcome::LimitTooLong { .. }
        | Outcome::NothingChanges { .. }
        | Outcome::SameFailure { .. }
        | Outcome::AgentFailed { .. }
        | Outcome::NoCommitMessage
        | Outcome::ScmFailed { .. }
        | Outcome::GitFailed { .. }
        | Outcome::PromptLost { .. }
        | Outcome::PlanMissing
        | Outcome::TasksLeft { .. }
        | Outcome::ApprovedAtCap { .. }
        | Outcome::BaselineBroken { .. }
        | Outcome::SandboxBlocked { .. }
        | Outcome::WorkersFailed { .. }
        | Outcome::LandingBlocked { .. }
        | Outcome::TasksLost { .. } => (Occasion::Failure, "stopped"),
        Outcome::Interrupted => return None,
    };
    let detail = if *outcome == Outcome::Complete { String::new() } else { outcome.to_string() };
    Some(NotificationDraft::new(format!("end-{seq}"), occasion, what, detail))
}

/// Describes a task that failed, is stuck or needs a person.
fn describe_judgement(judgement: &Judgement, state: &RunState) -> Option<NotificationDraft> {
    let task = state.current.as_ref()?.task.clone()?;
    let failed = judgement.failed.as_ref();
    // Whatever ended the attempts: if the agent asked for something, the question is reported.
    let asks = failed.and_then(|failed| failed.blocked.as_ref());
    let news = match (failed.and_then(|failed| failed.gives_up.as_ref()), asks) {
        (Some(GiveUpReason::Blocked(blocked)), _) | (Some(_), Some(blocked)) => {
            describe_question(&task, blocked)
        }
        (Some(why @ GiveUpReason::Stuck { .. }), None) => NotificationDraft::new(
            format!("given-up-{task}"),
            Occasion::Stuck,
            format!("task {task} is given up"),
            why.to_note(),
        ),
        (Some(why @ (GiveUpReason::AttemptsUsed { .. } | GiveUpReason::TimeUp)), None) => {
            NotificationDraft::new(
                format!("given-up-{task}"),
                Occasion::Blocked,
                format!("task {task} is given up"),
                why.to_note(),
            )
        }
        (None, _) if is_last_requeue(judgement, state) => NotificationDraft::new(
            format!("last-round-{task}"),
            Occasion::Stuck,
            format!("task {task} starts its last round"),
            "its work did not land, and no other work lands before it",
        ),
        (None, _) => match (failed.map(|failed| failed.next), &judgement.divergence) {
            (Some(Escalation::StrategyShift), _) => NotificationDraft::new(
                format!("stuck-{task}"),
                Occasion::Stuck,
                format!("task {task} is stuck"),
                "the same failure repeats; another approach is requested",
            ),
            (_, Some(divergence)) => NotificationDraft::new(
                format!("reviews-{task}"),
                Occasion::Stuck,
                format!("reviews of task {task} do not converge"),
                divergence.description(),
            ),
            (
                Some(Escalation::None | Escalation::ContextExpansion | Escalation::HardStop) | None,
                None,
            ) => return None,
        },
    };
    Some(NotificationDraft { task: Some(task), ..news })
}

/// Returns whether a merge failed and the next round of its task is the last one.
fn is_last_requeue(judgement: &Judgement, state: &RunState) -> bool {
    let (Verdict::Requeued { .. }, Some(policy)) = (&judgement.verdict, &state.recipe.parallel)
    else {
        return false;
    };
    let checking = state.current.as_ref().and_then(|it| it.checking());
    let merged = checking.and_then(|it| it.merge.as_ref());
    merged.is_some_and(|merged| policy.is_last_round(merged.round + 1))
}

/// Returns when workers can continue, if all agents of the run are at a limit.
fn find_end_of_holds(now: Timestamp, state: &RunState) -> Option<Timestamp> {
    let holds = &state.parallel.as_ref()?.holds;
    let ends: Option<Vec<Timestamp>> = state
        .recipe
        .callable_agents()
        .iter()
        .map(|agent| holds.get(&agent.kind).copied().filter(|until| *until > now))
        .collect();
    ends?.into_iter().min()
}

/// Describes what a person is asked for.
fn describe_question(task: &TaskId, blocked: &BlockedReason) -> NotificationDraft {
    let needs = blocked.description();
    NotificationDraft {
        needs: Some(needs.clone()),
        ..NotificationDraft::new(
            format!("question-{task}"),
            Occasion::Person,
            format!("task {task} needs you"),
            format!("it {needs}"),
        )
    }
}

/// Reports a wait for a limit; once in an iteration, however often the call is repeated.
fn describe_wait(
    policy: &NotificationPolicy,
    at: Timestamp,
    until: Timestamp,
    state: &RunState,
) -> Option<NotificationDraft> {
    let span = until.elapsed_since(at);
    (span >= policy.long_wait).then(|| NotificationDraft {
        until: Some(until),
        ..NotificationDraft::new(
            format!("waiting-{}", state.iterations),
            Occasion::Waiting,
            "waiting for a usage limit",
            format!("it continues at {} (in {span})", until.to_utc()),
        )
    })
}

fn finish_notification(
    news: NotificationDraft,
    recorded: &Recorded,
    state: &RunState,
) -> Notification {
    let project = state.project.to_string_lossy();
    let title_of = |task: &TaskId| {
        let list = &state.tasks.as_ref()?.list;
        Some(list.find_task(task)?.title.clone())
    };
    let about = news.task.as_ref().and_then(title_of);
    let parts = [about, Some(news.detail).filter(|it| !it.is_empty()), Some(format_figures(state))];
    let message = parts.into_iter().flatten().collect::<Vec<_>>().join(". ");
    let progress = state.tasks.as_ref().map(TaskState::progress);
    Notification {
        id: news.id,
        occasion: news.occasion,
        title: join_to_line(
            &format!("ralph: {}: {}", find_project_name(&project), news.what),
            LONGEST_MESSAGE,
        ),
        message: join_to_line(&message, LONGEST_MESSAGE),
        facts: NotificationFacts {
            version: FACTS_VERSION,
            run: Some(state.run.clone()),
            project: project.into_owned(),
            at: recorded.at,
            ran: state.ran,
            iterations: state.iterations,
            progress,
            usage: state.total_usage(),
            task: news.task,
            needs: news.needs,
            until: news.until,
            outcome: state.outcome.clone(),
            exit_code: state.outcome.as_ref().map(|outcome| outcome.exit_code().code()),
        },
    }
}

/// Returns the name of a project's directory.
fn find_project_name(project: &str) -> &str {
    let name = project.trim_end_matches('/').rsplit('/').next();
    name.filter(|name| !name.is_empty()).unwrap_or("project")
}

/// Returns the progress of a run, such as `3 of 4 tasks done, 12 iterations, $5.76, 2h 3m`.
fn format_figures(state: &RunState) -> String {
    let tasks = state.tasks.as_ref().map(|task_state| {
        let progress = task_state.progress();
        format!("{} of {} tasks done{}", progress.done, progress.total, progress.shortfall())
    });
    let plural = choose_plural(state.iterations as usize);
    let iterations = format!("{} iteration{plural}", state.iterations);
    let cost = state.total_usage().cost.map(|cost| cost.to_string());
    let parts = [tasks, Some(iterations), cost, Some(state.ran.to_string())];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
