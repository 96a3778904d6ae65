//! Which events are worth a notification, as a table.

use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::attempt::{Attempt, FailedAttempt};
use ralph_model::budget::ExhaustedBudget;
use ralph_model::handoff::BlockedReason;
use ralph_model::ids::{IterationNumber, Role};
use ralph_model::judgement::{Landing, Verdict};
use ralph_model::recipe::{Recipe, TaskWork, Work};
use ralph_model::review::Divergence;
use ralph_model::stuck::ErrorHash;
use ralph_model::task::{Task, TaskList};
use ralph_model::units::UsdMicros;

use super::*;
use crate::run_loop::fold::fold_events;

fn policy(on: &[Occasion]) -> NotificationPolicy {
    NotificationPolicy { on: on.iter().copied().collect(), long_wait: Millis::from_mins(10) }
}

/// The events of a run on two tasks, in its first iteration, and then one more.
fn events(last: Event) -> Vec<Recorded> {
    let agent = AgentChoice::new(AgentKind::Text, "agent");
    let tasks = vec![Task::new("T1", "Write the parser"), Task::new("T2", "Use it")];
    let events = [
        Event::RunStarted {
            journal: 1,
            version: "0".into(),
            run: RunId("r".into()),
            project: "/projects/shop".into(),
            recipe: Box::new(Recipe::new(Work::Tasks(TaskWork::new("tasks.json")), agent)),
        },
        Event::TasksRead {
            list: Box::new(TaskList { tasks, ..TaskList::default() }),
            remarks: Vec::new(),
        },
        Event::IterationStarted {
            iteration: IterationNumber(1),
            role: Role::Implement,
            task: Some(TaskId("T1".into())),
        },
        last,
    ];
    let recorded = |(event, seq): (Event, u64)| Recorded {
        seq,
        at: Timestamp(1_000),
        ran: Millis(65_000),
        event,
    };
    events.into_iter().zip(1..).map(recorded).collect()
}

fn notice_of(last: Event, on: &[Occasion]) -> Option<Notification> {
    let events = events(last);
    let state = fold_events(&events).expect("the events fit");
    build_notification(&policy(on), events.last().expect("there is one"), &state)
}

/// Checks id, occasion and title; an empty expectation means no notification.
#[track_caller]
fn check(last: Event, expect: &str) {
    let found = notice_of(last, &Occasion::SETTINGS);
    let shown = found.map(|it| format!("{} {} {}", it.id, it.occasion.name(), it.title));
    assert_eq!(shown.unwrap_or_default(), expect);
}

fn ended_by(outcome: Outcome) -> Event {
    Event::RunEnded { outcome, left: None }
}

fn attempt(next: Escalation, gives_up: Option<GiveUpReason>) -> Event {
    let failed = FailedAttempt {
        attempt: Attempt {
            iteration: IterationNumber(1),
            gate: "test".into(),
            exit_code: 1,
            hash: ErrorHash("0".into()),
            failing: Vec::new(),
            tree: None,
            summary: String::new(),
            files: Vec::new(),
            escalation: Escalation::None,
        },
        outputs: Vec::new(),
        next,
        blocked: None,
        warnings: 0,
        gives_up,
    };
    judged_as(Some(failed), None)
}

/// The last attempt at a task, whose agent needs something.
fn asking_for(needs: &str) -> Event {
    let Event::Judged { judgement } =
        attempt(Escalation::None, Some(GiveUpReason::AttemptsUsed { limit: 1 }))
    else {
        unreachable!("an attempt is judged");
    };
    let blocked = Some(BlockedReason { needs: needs.into(), why: "none".into() });
    let failed = judgement.failed.map(|failed| FailedAttempt { blocked, ..failed });
    judged_as(failed, None)
}

fn judged_as(failed: Option<FailedAttempt>, divergence: Option<Divergence>) -> Event {
    Event::Judged {
        judgement: Box::new(Judgement {
            verdict: Verdict::NothingChanged,
            landing: Landing::Keep,
            feedback: Vec::new(),
            changes: Vec::new(),
            amended: Vec::new(),
            handoff: None,
            failed,
            complaint: None,
            divergence,
            rejected_open_items: None,
            compacted: None,
        }),
    }
}

fn wait(minutes: u64, reason: WaitReason) -> Event {
    Event::Waiting { until: Timestamp(1_000).saturating_add(Millis::from_mins(minutes)), reason }
}

#[test]
fn the_end_of_a_run_is_reported_by_its_outcome() {
    let exhausted = ExhaustedBudget::Cost { used: UsdMicros(2), limit: UsdMicros(1) };
    let lost = || Outcome::GitFailed { message: "no".into() };
    for (outcome, expect) in [
        (Outcome::Complete, "end-4 finish ralph: shop: complete"),
        (Outcome::IterationsUsedUp { limit: 3 }, "end-4 budget ralph: shop: iterations used up"),
        (Outcome::BudgetUsedUp { exhausted }, "end-4 budget ralph: shop: budget used up"),
        (
            Outcome::LimitTooLong { resets_at: None, message: "x".into() },
            "end-4 failure ralph: shop: stopped",
        ),
        (
            Outcome::TasksLeft { failed: Vec::new(), waiting: Vec::new() },
            "end-4 failure ralph: shop: stopped",
        ),
        (lost(), "end-4 failure ralph: shop: stopped"),
        (Outcome::Interrupted, ""),
    ] {
        check(ended_by(outcome), expect);
    }
}

#[test]
fn a_failing_task_is_reported_once_for_each_reason() {
    let blocked =
        GiveUpReason::Blocked(BlockedReason { needs: "a key".into(), why: "none".into() });
    for (event, expect) in [
        (attempt(Escalation::None, None), ""),
        (attempt(Escalation::ContextExpansion, None), ""),
        (attempt(Escalation::StrategyShift, None), "stuck-T1 stuck ralph: shop: task T1 is stuck"),
        (
            attempt(Escalation::HardStop, Some(GiveUpReason::Stuck { alike: 5 })),
            "given-up-T1 stuck ralph: shop: task T1 is given up",
        ),
        (
            attempt(Escalation::None, Some(GiveUpReason::AttemptsUsed { limit: 2 })),
            "given-up-T1 blocked ralph: shop: task T1 is given up",
        ),
        (
            attempt(Escalation::None, Some(GiveUpReason::TimeUp)),
            "given-up-T1 blocked ralph: shop: task T1 is given up",
        ),
        (
            attempt(Escalation::None, Some(blocked)),
            "question-T1 person ralph: shop: task T1 needs you",
        ),
        (
            judged_as(None, Some(Divergence::SameComplaint { times: 3 })),
            "reviews-T1 stuck ralph: shop: reviews of task T1 do not converge",
        ),
        (judged_as(None, None), ""),
        (asking_for("a key"), "question-T1 person ralph: shop: task T1 needs you"),
    ] {
        check(event, expect);
    }
}

#[test]
fn only_long_waits_for_a_limit_are_reported() {
    let expected = "waiting-1 waiting ralph: shop: waiting for a usage limit";
    check(wait(9, WaitReason::UsageLimit), "");
    check(wait(10, WaitReason::UsageLimit), expected);
    check(wait(90, WaitReason::Retry), "");
    check(wait(90, WaitReason::Delay), "");
}

#[test]
fn a_pause_waits_for_a_person() {
    check(Event::Paused, "paused-4 person ralph: shop: paused");
}

#[test]
fn disabled_occasions_are_not_reported() {
    for occasion in Occasion::SETTINGS {
        let others: Vec<Occasion> =
            Occasion::SETTINGS.into_iter().filter(|it| *it != occasion).collect();
        let event = match occasion {
            Occasion::Finish => ended_by(Outcome::Complete),
            Occasion::Failure => ended_by(Outcome::PlanMissing),
            Occasion::Blocked => attempt(Escalation::None, Some(GiveUpReason::TimeUp)),
            Occasion::Stuck => attempt(Escalation::StrategyShift, None),
            Occasion::Waiting => wait(60, WaitReason::UsageLimit),
            Occasion::Budget => ended_by(Outcome::IterationsUsedUp { limit: 1 }),
            Occasion::Person | Occasion::Test => attempt(
                Escalation::None,
                Some(GiveUpReason::Blocked(BlockedReason { needs: "x".into(), why: "y".into() })),
            ),
        };
        assert_eq!(notice_of(event.clone(), &others), None, "{occasion:?}");
        assert_eq!(notice_of(event, &[occasion]).map(|it| it.occasion), Some(occasion));
    }
}

#[test]
fn a_notification_has_its_subject_and_the_progress() {
    let blocked =
        GiveUpReason::Blocked(BlockedReason { needs: "a key\n".into(), why: "none".into() });
    let notice = notice_of(attempt(Escalation::None, Some(blocked)), &Occasion::SETTINGS);
    let text = serde_json::to_string_pretty(&notice).expect("plain data");
    expect_test::expect![[r#"
        {
          "id": "question-T1",
          "occasion": "person",
          "title": "ralph: shop: task T1 needs you",
          "message": "Write the parser. it needs a key (none). 0 of 2 tasks done, 1 iteration, 1m 5s",
          "facts": {
            "version": 1,
            "run": "r",
            "project": "/projects/shop",
            "at": 1000,
            "ran": 65000,
            "iterations": 1,
            "progress": {
              "total": 2,
              "pending": 1,
              "inProgress": 1,
              "done": 0,
              "failed": 0,
              "skipped": 0,
              "removed": 0,
              "added": 0
            },
            "usage": {
              "input": 0,
              "output": 0,
              "cache_read": 0,
              "cache_write": 0,
              "cost": null
            },
            "task": "T1",
            "needs": "needs a key (none)"
          }
        }"#]]
    .assert_eq(&text);
    let end = notice_of(ended_by(Outcome::IterationsUsedUp { limit: 1 }), &Occasion::SETTINGS);
    let end = end.expect("it is reported");
    assert_eq!(
        end.message,
        "not complete after 1 iteration. 0 of 2 tasks done, 1 iteration, 1m 5s"
    );
    assert_eq!((end.facts.exit_code, end.facts.task), (Some(1), None));
}
