//! Judges a review: applies a fresh agent's verdict to the task.

use super::task::{Try, named_cause};
use super::{Feedback, Judgement, Landing, Verdict, cut_off, hand_in};
use crate::board::Board;
use crate::failure::Failure;
use crate::handoff::read;
use crate::ids::TaskId;
use crate::reading::Reply;
use crate::recipe::TaskWork;
use crate::review::convergence::{self, Complaint};
use crate::review::{
    self, AT_CAP, ReviewAnswer, ReviewPolicy, ReviewState, ReviewStatus, ReviewVerdict,
};
use crate::run::{AskingEnd, Iteration, RunState};
use crate::task::{Keeper, TaskChange, TaskStatus};

/// Judges a review. The tree is restored to what was reviewed, whatever the reviewer did
/// to it.
pub(super) fn judge(
    state: &RunState,
    tasks: &Board,
    work: &TaskWork,
    task: &TaskId,
    current: &Iteration,
    end: &AskingEnd,
) -> Judgement {
    let reply = match end {
        AskingEnd::Answered(reply) => reply,
        AskingEnd::FailedAttempt(failure) if current.work.wrong.is_some() => {
            return unusable(&Try { state, board: tasks, work, task, current }, failure);
        }
        AskingEnd::FailedAttempt(failure) | AskingEnd::Hopeless(failure) => {
            return Judgement {
                landing: Landing::Rollback,
                feedback: Vec::new(),
                ..cut_off(failure)
            };
        }
    };
    let review = Try { state, board: tasks, work, task, current };
    let answer = match work.keeper {
        Keeper::Ralph => review::answer(reply, current.work.token.as_deref()),
        Keeper::Agent => claimed(&review),
    };
    match answer {
        Some(answer) => decided(&review, &answer),
        None => undecided(&review, reply),
    }
}

/// Returns the judgement for a verdict.
fn decided(review: &Try<'_>, answer: &ReviewAnswer) -> Judgement {
    let Try { board: tasks, work, task, .. } = review;
    let before = tasks.list.task(task).map_or(0, |task| task.review.count);
    let count = before.saturating_add(1);
    let cap = match work.review {
        ReviewPolicy::Skip => u32::MAX,
        ReviewPolicy::Fresh { cap } => cap,
    };
    let (status, feedback) = match answer.verdict {
        // A reviewer that owns the list may mark its own verdict as the last one.
        ReviewVerdict::Approved if answer.feedback.starts_with(AT_CAP) && count >= cap => {
            (ReviewStatus::Approved, answer.feedback.clone())
        }
        ReviewVerdict::Approved => (ReviewStatus::Approved, String::new()),
        ReviewVerdict::ChangesRequested if count >= cap => {
            (ReviewStatus::Approved, format!("{AT_CAP} {}", answer.feedback))
        }
        ReviewVerdict::ChangesRequested => {
            (ReviewStatus::ChangesRequested, answer.feedback.clone())
        }
    };
    let complaint = match answer.verdict {
        ReviewVerdict::Approved => None,
        ReviewVerdict::ChangesRequested => {
            let tree = tasks.work.get(*task).map(|(_, to)| to.clone());
            Some(Complaint::new(count, &answer.feedback, &answer.criteria, tree))
        }
    };
    let earlier = tasks.complaints.get(*task).map_or(&[][..], Vec::as_slice);
    let divergence = complaint.as_ref().and_then(|new| convergence::assess(earlier, new));
    let id = || (*task).clone();
    let mut changes = Vec::new();
    if status == ReviewStatus::Approved {
        changes.push(TaskChange::SetStatus { task: id(), status: TaskStatus::Done });
    }
    changes.push(TaskChange::SetReview {
        task: id(),
        review: ReviewState { status, count, feedback: feedback.clone() },
    });
    let verdict = match status {
        ReviewStatus::Approved => ReviewVerdict::Approved,
        ReviewStatus::None | ReviewStatus::NeedsReview | ReviewStatus::ChangesRequested => {
            ReviewVerdict::ChangesRequested
        }
    };
    let mut review_feedback = hand_in::told(review);
    let (other_changes, amended) = hand_in::beside(review);
    review_feedback.extend(hand_in::surplus(review, &amended));
    changes.extend(other_changes);
    if work.keeper == Keeper::Agent && status == ReviewStatus::Approved {
        changes = hand_in::noted(review, changes, "");
    }
    Judgement {
        changes,
        amended,
        complaint,
        divergence,
        ..Judgement::new(Verdict::Reviewed { verdict, feedback }, Landing::Commit, review_feedback)
    }
}

/// Judges a review without a usable answer after all follow-ups. Counts as a failed
/// attempt, so that a task whose reviewers never answer is given up eventually.
fn unusable(review: &Try<'_>, failure: &Failure) -> Judgement {
    let judgement =
        Judgement { landing: Landing::Rollback, feedback: Vec::new(), ..cut_off(failure) };
    let message = format!("The review gave no usable verdict: {}", failure.words);
    let handoff = read::read(None, &message, review.task, &[]);
    review.failed(judgement, &handoff, named_cause("review", &message))
}

/// Returns the verdict that a reviewer wrote into the task list.
fn claimed(review: &Try<'_>) -> Option<ReviewAnswer> {
    let known = &review.board.list;
    let (diff, before) = (review.current.claim.as_ref()?, known.task(review.task)?);
    let after = diff.task(known, review.task)?;
    if after.review.count == before.review.count {
        return None;
    }
    let verdict = match after.review.status {
        ReviewStatus::Approved => ReviewVerdict::Approved,
        ReviewStatus::ChangesRequested => ReviewVerdict::ChangesRequested,
        ReviewStatus::None | ReviewStatus::NeedsReview => return None,
    };
    Some(ReviewAnswer { verdict, feedback: after.review.feedback, criteria: Vec::new() })
}

/// Judges a review without a verdict. Where the verdict is part of the answer, follow-ups
/// asked for it already; where it is in the list, the next iteration is asked for it, up
/// to the attempt limit.
fn undecided(review: &Try<'_>, reply: &Reply) -> Judgement {
    let verdict = Verdict::Passed { signal: None };
    match review.work.keeper {
        Keeper::Ralph => Judgement::new(
            verdict,
            Landing::Rollback,
            vec![Feedback::after("The review gave no verdict.")],
        ),
        Keeper::Agent => {
            let notes = hand_in::told(review);
            let mut reasons: Vec<String> = notes.iter().map(|note| note.text.clone()).collect();
            if reasons.is_empty() {
                reasons.push(format!(
                    "The review of `{}` left no verdict in the task list. Add one to its review count, and set its review status to \"approved\" (and mark it as done) or to \"changes_requested\" with feedback that says exactly what to fix.",
                    review.task
                ));
            }
            let text = reasons.join("\n");
            let judgement = Judgement::new(
                Verdict::NotHandedIn { reasons },
                Landing::Commit,
                vec![Feedback::after(text.clone())],
            );
            let handoff = review.handoff(reply);
            review.failed(judgement, &handoff, named_cause("review", &text))
        }
    }
}
