//! Judging a review: what a fresh agent's verdict makes of a task.

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

/// Judges a review. The tree goes back to what was reviewed, whatever the reviewer did to it.
pub(super) fn judge(
    state: &RunState,
    board: &Board,
    work: &TaskWork,
    task: &TaskId,
    current: &Iteration,
    end: &AskingEnd,
) -> Judgement {
    let reply = match end {
        AskingEnd::Answered(reply) => reply,
        AskingEnd::FailedAttempt(failure) if current.work.wrong.is_some() => {
            return unusable(&Try { state, board, work, task, current }, failure);
        }
        AskingEnd::FailedAttempt(failure) | AskingEnd::Hopeless(failure) => {
            return Judgement {
                landing: Landing::Rollback,
                feedback: Vec::new(),
                ..cut_off(failure)
            };
        }
    };
    let review = Try { state, board, work, task, current };
    let answer = match work.keeper {
        Keeper::Ralph => review::answer(reply, current.work.token.as_deref()),
        Keeper::Agent => claimed(&review),
    };
    match answer {
        Some(answer) => decided(&review, &answer),
        None => undecided(&review, reply),
    }
}

/// Returns what a verdict makes of the task.
fn decided(review: &Try<'_>, answer: &ReviewAnswer) -> Judgement {
    let Try { board, work, task, .. } = review;
    let before = board.list.task(task).map_or(0, |task| task.review.count);
    let count = before.saturating_add(1);
    let cap = match work.review {
        ReviewPolicy::Skip => u32::MAX,
        ReviewPolicy::Fresh { cap } => cap,
    };
    let (status, feedback) = match answer.verdict {
        // A reviewer that keeps the list may say itself that it is the last one.
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
            let tree = board.work.get(*task).map(|(_, to)| to.clone());
            Some(Complaint::new(count, &answer.feedback, &answer.criteria, tree))
        }
    };
    let earlier = board.complaints.get(*task).map_or(&[][..], Vec::as_slice);
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
    let came_to = match status {
        ReviewStatus::Approved => ReviewVerdict::Approved,
        ReviewStatus::None | ReviewStatus::NeedsReview | ReviewStatus::ChangesRequested => {
            ReviewVerdict::ChangesRequested
        }
    };
    let mut told = hand_in::told(review);
    let (beside, amended) = hand_in::beside(review);
    told.extend(hand_in::surplus(review, &amended));
    changes.extend(beside);
    if work.keeper == Keeper::Agent && status == ReviewStatus::Approved {
        changes = hand_in::noted(review, changes, "");
    }
    Judgement {
        changes,
        amended,
        complaint,
        divergence,
        ..Judgement::new(Verdict::Reviewed { verdict: came_to, feedback }, Landing::Commit, told)
    }
}

/// Judges a review whose answer could not be used, however often it was asked for. It counts as a
/// failed attempt, so that a task whose reviewers never answer is given up in the end.
fn unusable(review: &Try<'_>, failure: &Failure) -> Judgement {
    let judgement =
        Judgement { landing: Landing::Rollback, feedback: Vec::new(), ..cut_off(failure) };
    let said = format!("The review gave no usable verdict: {}", failure.words);
    let handoff = read::read(None, &said, review.task, &[]);
    review.failed(judgement, &handoff, named_cause("review", &said))
}

/// Returns the verdict that a reviewer gave in the task list.
fn claimed(review: &Try<'_>) -> Option<ReviewAnswer> {
    let known = &review.board.list;
    let (claim, before) = (review.current.claim.as_ref()?, known.task(review.task)?);
    let after = claim.task(known, review.task)?;
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

/// Judges a review without a verdict. In an answer it was asked for again, so it does not come
/// this far; in the list it is asked for in the next iteration, as often as work is tried.
fn undecided(review: &Try<'_>, reply: &Reply) -> Judgement {
    let verdict = Verdict::Passed { signal: None };
    match review.work.keeper {
        Keeper::Ralph => Judgement::new(
            verdict,
            Landing::Rollback,
            vec![Feedback::after("The review gave no verdict.")],
        ),
        Keeper::Agent => {
            let told = hand_in::told(review);
            let mut reasons: Vec<String> = told.iter().map(|told| told.text.clone()).collect();
            if reasons.is_empty() {
                reasons.push(format!(
                    "The review of `{}` left no verdict in the task list. Add one to its review count, and set its review status to \"approved\" (and mark it as done) or to \"changes_requested\" with feedback that says exactly what to mend.",
                    review.task
                ));
            }
            let said = reasons.join("\n");
            let judgement = Judgement::new(
                Verdict::NotHandedIn { reasons },
                Landing::Commit,
                vec![Feedback::after(said.clone())],
            );
            let handoff = review.handoff(reply);
            review.failed(judgement, &handoff, named_cause("review", &said))
        }
    }
}
