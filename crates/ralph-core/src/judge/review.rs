//! Judging a review: what a fresh agent's verdict makes of a task.

use super::{Feedback, Judgement, Landing, Verdict, cut_off};
use crate::board::Board;
use crate::ids::TaskId;
use crate::recipe::TaskWork;
use crate::review::convergence::{self, Complaint};
use crate::review::{self, AT_CAP, ReviewPolicy, ReviewState, ReviewStatus, ReviewVerdict};
use crate::run::AskingEnd;
use crate::task::{TaskChange, TaskStatus};

/// Judges a review. The tree goes back to what was reviewed, whatever the reviewer did to it.
pub(super) fn judge(board: &Board, work: &TaskWork, task: &TaskId, end: &AskingEnd) -> Judgement {
    let reply = match end {
        AskingEnd::Answered(reply) => reply,
        AskingEnd::FailedAttempt(failure) | AskingEnd::Hopeless(failure) => {
            return Judgement {
                landing: Landing::Rollback,
                feedback: Vec::new(),
                ..cut_off(failure)
            };
        }
    };
    let Some(answer) = review::answer(reply) else {
        // An answer without a verdict is asked for again, so it does not come this far.
        return Judgement::new(
            Verdict::Passed { signal: None },
            Landing::Rollback,
            vec![Feedback::after("The review gave no verdict.")],
        );
    };
    let before = board.list.task(task).map_or(0, |task| task.review.count);
    let count = before.saturating_add(1);
    let cap = match work.review {
        ReviewPolicy::Skip => u32::MAX,
        ReviewPolicy::Fresh { cap } => cap,
    };
    let (status, feedback) = match answer.verdict {
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
            let tree = board.work.get(task).map(|(_, to)| to.clone());
            Some(Complaint::new(count, &answer.feedback, &answer.criteria, tree))
        }
    };
    let earlier = board.complaints.get(task).map_or(&[][..], Vec::as_slice);
    let divergence = complaint.as_ref().and_then(|new| convergence::assess(earlier, new));
    let id = || task.clone();
    let mut changes = vec![TaskChange::SetReview {
        task: id(),
        review: ReviewState { status, count, feedback: feedback.clone() },
    }];
    if status == ReviewStatus::Approved {
        changes.push(TaskChange::SetStatus { task: id(), status: TaskStatus::Done });
    }
    Judgement {
        changes,
        complaint,
        divergence,
        ..Judgement::new(
            Verdict::Reviewed { verdict: answer.verdict, feedback },
            Landing::Commit,
            Vec::new(),
        )
    }
}
