//! What people are told who are not looking: which events are worth a notice, and its words.
//!
//! A pure function of an event and the state that follows from it. Not here: how a notice reaches
//! anybody, and which were sent before.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::board::Board;
use crate::event::{Event, Recorded, WaitReason};
use crate::handoff::Blocked;
use crate::ids::{RunId, TaskId};
use crate::judge::Judgement;
use crate::outcome::Outcome;
use crate::reading::Usage;
use crate::run::RunState;
use crate::settle::GiveUp;
use crate::stuck::Escalation;
use crate::task::Progress;
use crate::text::one_line;
use crate::units::{Millis, Timestamp};

/// The version of the facts' form. Fields are added, never renamed.
const VERSION: u32 = 1;

/// A screen of a telephone; what is longer is in the journal.
const LONGEST_MESSAGE: usize = 500;

/// What somebody may want to be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Occasion {
    /// The work is complete.
    Finish,
    /// The run stopped before completion.
    Failure,
    /// A task was given up: what depends on it cannot go on.
    Blocked,
    /// The same failure, or the same complaint of reviews, comes again and again.
    Stuck,
    /// A usage limit is waited for, and not for a moment.
    Waiting,
    /// Iterations, money, tokens or time are used up.
    Budget,
    /// Nothing goes on without a person.
    Person,
    /// Somebody tries whether notices arrive.
    Test,
}

impl Occasion {
    /// Returns the word used in settings and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Finish => "finish",
            Self::Failure => "failure",
            Self::Blocked => "blocked",
            Self::Stuck => "stuck",
            Self::Waiting => "waiting",
            Self::Budget => "budget",
            Self::Person => "person",
            Self::Test => "test",
        }
    }
}

/// What a notice is given for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticePolicy {
    /// On these occasions.
    pub on: BTreeSet<Occasion>,
    /// Waits that are shorter are not worth one.
    pub long_wait: Millis,
}

/// Something that people are told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// The same for the same thing, however often the run is resumed.
    pub id: String,
    /// Why it is given.
    pub occasion: Occasion,
    /// One line.
    pub title: String,
    /// What is known, in one or two sentences.
    pub message: String,
    /// The same for programs.
    pub facts: Facts,
}

/// What a program may want to know of a notice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// The version of this form.
    pub version: u32,
    /// The run; none in a test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The project directory.
    pub project: String,
    /// When it happened, in milliseconds since the Unix epoch.
    pub at: Timestamp,
    /// How long the run has been running, in milliseconds.
    pub ran: Millis,
    /// How many iterations have begun.
    pub iterations: u32,
    /// How many tasks are how far, where there is a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Tokens and money.
    pub usage: Usage,
    /// The task it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// What a person is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs: Option<String>,
    /// Until when is waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// How the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The exit code of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
}

/// What is particular to one notice.
struct News {
    id: String,
    occasion: Occasion,
    what: String,
    detail: String,
    task: Option<TaskId>,
    needs: Option<String>,
    until: Option<Timestamp>,
}

impl News {
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

/// Returns the notice that an event is worth, if it is. `state` is the one that follows from it.
pub fn notice(policy: &NoticePolicy, recorded: &Recorded, state: &RunState) -> Option<Notice> {
    let news = match &recorded.event {
        Event::RunEnded { outcome, .. } => ended(recorded.seq, outcome)?,
        Event::Judged { judgement } => judged(judgement, state)?,
        Event::Waiting { until, reason: WaitReason::UsageLimit } => {
            waiting(policy, recorded.at, *until, state)?
        }
        Event::Paused => News::new(
            format!("paused-{}", recorded.seq),
            Occasion::Person,
            "paused",
            "it waits until somebody says to go on",
        ),
        Event::Waiting { reason: WaitReason::Retry | WaitReason::Delay, .. }
        | Event::RunStarted { .. }
        | Event::RunResumed { .. }
        | Event::TasksRead { .. }
        | Event::TasksWritten
        | Event::BaselineStarted { .. }
        | Event::BaselineChecked { .. }
        | Event::IterationStarted { .. }
        | Event::Checkpointed { .. }
        | Event::Asked { .. }
        | Event::Replied { .. }
        | Event::Observed { .. }
        | Event::PlanSeen { .. }
        | Event::Claimed { .. }
        | Event::GateChecked { .. }
        | Event::Landed { .. }
        | Event::IterationEnded { .. }
        | Event::Wished { .. }
        | Event::TaskSkipped { .. }
        | Event::Warned { .. } => return None,
    };
    policy.on.contains(&news.occasion).then(|| worded(news, recorded, state))
}

/// Returns the notice that shows whether notices arrive.
pub fn trial(project: &str, at: Timestamp) -> Notice {
    Notice {
        id: format!("test-{}", at.0),
        occasion: Occasion::Test,
        title: format!("ralph: {}: a test", name_of(project)),
        message: "This is what a notice of ralph looks like.".to_owned(),
        facts: Facts {
            version: VERSION,
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

/// Says how a run ended. Whoever interrupts one knows it.
fn ended(seq: u64, outcome: &Outcome) -> Option<News> {
    let (occasion, what) = match outcome {
        Outcome::Complete => (Occasion::Finish, "complete"),
        Outcome::IterationsUsedUp { .. } => (Occasion::Budget, "iterations used up"),
        Outcome::BudgetUsedUp { .. } => (Occasion::Budget, "budget used up"),
        Outcome::LimitTooLong { .. }
        | Outcome::NothingChanges { .. }
        | Outcome::AgentFailed { .. }
        | Outcome::NoCommitMessage
        | Outcome::ScmFailed { .. }
        | Outcome::GitFailed { .. }
        | Outcome::PromptLost { .. }
        | Outcome::PlanMissing
        | Outcome::TasksLeft { .. }
        | Outcome::BaselineBroken { .. }
        | Outcome::TasksLost { .. } => (Occasion::Failure, "stopped"),
        Outcome::Interrupted => return None,
    };
    let detail = if *outcome == Outcome::Complete { String::new() } else { outcome.to_string() };
    Some(News::new(format!("end-{seq}"), occasion, what, detail))
}

/// Says what became of a task that does not go well.
fn judged(judgement: &Judgement, state: &RunState) -> Option<News> {
    let task = state.current.as_ref()?.task.clone()?;
    let failed = judgement.failed.as_ref();
    // Whatever ended the attempts: somebody who asks for something gets an answer.
    let asks = failed.and_then(|failed| failed.blocked.as_ref());
    let news = match (failed.and_then(|failed| failed.gives_up.as_ref()), asks) {
        (Some(GiveUp::Blocked(blocked)), _) | (Some(_), Some(blocked)) => question(&task, blocked),
        (Some(why @ GiveUp::Stuck { .. }), None) => News::new(
            format!("given-up-{task}"),
            Occasion::Stuck,
            format!("task {task} is given up"),
            why.words(),
        ),
        (Some(why @ (GiveUp::AttemptsUsed { .. } | GiveUp::TimeUp)), None) => News::new(
            format!("given-up-{task}"),
            Occasion::Blocked,
            format!("task {task} is given up"),
            why.words(),
        ),
        (None, _) => match (failed.map(|failed| failed.next), &judgement.divergence) {
            (Some(Escalation::StrategyShift), _) => News::new(
                format!("stuck-{task}"),
                Occasion::Stuck,
                format!("task {task} is stuck"),
                "the same failure comes again and again; another approach is demanded",
            ),
            (_, Some(divergence)) => News::new(
                format!("reviews-{task}"),
                Occasion::Stuck,
                format!("reviews of task {task} do not converge"),
                divergence.words(),
            ),
            (
                Some(Escalation::None | Escalation::ContextExpansion | Escalation::HardStop) | None,
                None,
            ) => return None,
        },
    };
    Some(News { task: Some(task), ..news })
}

/// Says what a person is asked for.
fn question(task: &TaskId, blocked: &Blocked) -> News {
    let needs = blocked.words();
    News {
        needs: Some(needs.clone()),
        ..News::new(
            format!("question-{task}"),
            Occasion::Person,
            format!("task {task} needs you"),
            format!("it {needs}"),
        )
    }
}

/// Says that a limit is waited for; once in an iteration, however often it is asked again.
fn waiting(
    policy: &NoticePolicy,
    at: Timestamp,
    until: Timestamp,
    state: &RunState,
) -> Option<News> {
    let span = until.since(at);
    (span >= policy.long_wait).then(|| News {
        until: Some(until),
        ..News::new(
            format!("waiting-{}", state.iterations),
            Occasion::Waiting,
            "waiting for a usage limit",
            format!("it goes on at {} (in {span})", until.utc()),
        )
    })
}

fn worded(news: News, recorded: &Recorded, state: &RunState) -> Notice {
    let project = state.project.to_string_lossy();
    let title_of = |task: &TaskId| {
        let list = &state.board.as_ref()?.list;
        Some(list.task(task)?.title.clone())
    };
    let about = news.task.as_ref().and_then(title_of);
    let parts = [about, Some(news.detail).filter(|it| !it.is_empty()), Some(figures(state))];
    let message = parts.into_iter().flatten().collect::<Vec<_>>().join(". ");
    let progress = state.board.as_ref().map(Board::progress);
    Notice {
        id: news.id,
        occasion: news.occasion,
        title: one_line(&format!("ralph: {}: {}", name_of(&project), news.what), LONGEST_MESSAGE),
        message: one_line(&message, LONGEST_MESSAGE),
        facts: Facts {
            version: VERSION,
            run: Some(state.run.clone()),
            project: project.into_owned(),
            at: recorded.at,
            ran: state.ran,
            iterations: state.iterations,
            progress,
            usage: state.totals.usage,
            task: news.task,
            needs: news.needs,
            until: news.until,
            outcome: state.outcome.clone(),
            exit_code: state.outcome.as_ref().map(|outcome| outcome.exit_code().code()),
        },
    }
}

/// Returns the name that people know a project by.
fn name_of(project: &str) -> &str {
    let name = project.trim_end_matches('/').rsplit('/').next();
    name.filter(|name| !name.is_empty()).unwrap_or("project")
}

/// Returns how far a run is, such as `3 of 4 tasks done, 12 iterations, $5.76, 2h 3m`.
fn figures(state: &RunState) -> String {
    let tasks = state.board.as_ref().map(|board| {
        let progress = board.progress();
        format!("{} of {} tasks done{}", progress.done, progress.total, progress.shortfall())
    });
    let plural = if state.iterations == 1 { "" } else { "s" };
    let iterations = format!("{} iteration{plural}", state.iterations);
    let cost = state.totals.usage.cost.map(|cost| cost.to_string());
    let parts = [tasks, Some(iterations), cost, Some(state.ran.to_string())];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
