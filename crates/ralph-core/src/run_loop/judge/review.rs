//! Judges a review: applies a fresh agent's verdict to the task.

use ralph_model::agent_output::Reply;
use ralph_model::attempt::REVIEW_CAUSE;
use ralph_model::failure::Failure;
use ralph_model::ids::TaskId;
use ralph_model::judgement::{Feedback, Judgement, Landing, Verdict};
use ralph_model::recipe::TaskWork;
use ralph_model::review::{
    AUTO_APPROVED_PREFIX, ReviewAnswer, ReviewPolicy, ReviewState, ReviewStatus, ReviewVerdict,
};
use ralph_model::run::{AgentCallEnd, Iteration, RunState};
use ralph_model::task::{ListOwner, TaskChange, TaskStatus};
use ralph_model::task_state::TaskState;

use super::task::{AttemptContext, build_cause};
use super::{hand_in, judge_cut_off};
use crate::asking::prompt::follow_up::{QUOTED_CHARS, quote_answer};
use crate::checking::review;
use crate::checking::review::convergence::{self, build_complaint};
use crate::memory::handoff_reading as read;

/// Judges a review. The tree is restored to what was reviewed, whatever the reviewer did
/// to it.
pub(super) fn judge_review(
    state: &RunState,
    tasks: &TaskState,
    work: &TaskWork,
    task: &TaskId,
    current: &Iteration,
    end: &AgentCallEnd,
) -> Judgement {
    let reply = match end {
        AgentCallEnd::Answered(reply) => reply,
        AgentCallEnd::FailedAttempt(failure)
            if current.work().is_some_and(|call| call.wrong.is_some()) =>
        {
            return judge_unusable_answer(
                &AttemptContext { state, tasks, work, task, current },
                failure,
            );
        }
        AgentCallEnd::FailedAttempt(failure) | AgentCallEnd::Hopeless(failure) => {
            return Judgement {
                landing: Landing::Rollback,
                feedback: Vec::new(),
                ..judge_cut_off(failure)
            };
        }
    };
    let review = AttemptContext { state, tasks, work, task, current };
    let answer = match work.keeper {
        ListOwner::Ralph => {
            let token = current.work().and_then(|call| call.token.as_deref());
            review::parse_review_answer(reply, token)
        }
        ListOwner::Agent => read_list_verdict(&review),
    };
    match answer {
        Some(answer) => judge_verdict(&review, &answer),
        None => judge_missing_verdict(&review, reply),
    }
}

/// Returns the judgement for a verdict.
fn judge_verdict(review: &AttemptContext<'_>, answer: &ReviewAnswer) -> Judgement {
    let AttemptContext { tasks, work, task, .. } = review;
    let before = tasks.list.find_task(task).map_or(0, |task| task.review.count);
    let count = before.saturating_add(1);
    let cap = match work.review {
        ReviewPolicy::Skip => u32::MAX,
        ReviewPolicy::Fresh { cap } => cap,
    };
    let (status, feedback) = match answer.verdict {
        // A reviewer that owns the list may mark its own verdict as the last one.
        ReviewVerdict::Approved
            if answer.feedback.starts_with(AUTO_APPROVED_PREFIX) && count >= cap =>
        {
            (ReviewStatus::Approved, answer.feedback.clone())
        }
        ReviewVerdict::Approved => (ReviewStatus::Approved, String::new()),
        ReviewVerdict::ChangesRequested if count >= cap => {
            (ReviewStatus::Approved, format!("{AUTO_APPROVED_PREFIX} {}", answer.feedback))
        }
        ReviewVerdict::ChangesRequested => {
            (ReviewStatus::ChangesRequested, answer.feedback.clone())
        }
    };
    let complaint = match answer.verdict {
        ReviewVerdict::Approved => None,
        ReviewVerdict::ChangesRequested => {
            let tree = tasks.review_ranges.get(*task).map(|(_, to)| to.clone());
            Some(build_complaint(count, &answer.feedback, &answer.criteria, tree))
        }
    };
    let earlier = tasks.complaints.get(*task).map_or(&[][..], Vec::as_slice);
    let divergence = complaint.as_ref().and_then(|new| convergence::find_divergence(earlier, new));
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
    let mut review_feedback = hand_in::build_refusal_feedback(review);
    let (other_changes, amended) = hand_in::collect_other_changes(review);
    review_feedback.extend(hand_in::build_surplus_feedback(review, &amended));
    changes.extend(other_changes);
    if work.keeper == ListOwner::Agent && status == ReviewStatus::Approved {
        changes = hand_in::add_default_note(review, changes, "");
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
fn judge_unusable_answer(review: &AttemptContext<'_>, failure: &Failure) -> Judgement {
    let judgement =
        Judgement { landing: Landing::Rollback, feedback: Vec::new(), ..judge_cut_off(failure) };
    let message = format!("The review gave no usable verdict: {}", failure.message);
    let handoff = read::read_handoff(None, &message, review.task, &[]);
    review.add_failed_attempt(judgement, &handoff, build_cause(REVIEW_CAUSE, &message))
}

/// Returns the verdict that a reviewer wrote into the task list.
fn read_list_verdict(review: &AttemptContext<'_>) -> Option<ReviewAnswer> {
    let known = &review.tasks.list;
    let (diff, before) = (review.current.list_diff()?, known.find_task(review.task)?);
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
fn judge_missing_verdict(review: &AttemptContext<'_>, reply: &Reply) -> Judgement {
    let verdict = Verdict::Passed { signal: None };
    match review.work.keeper {
        ListOwner::Ralph => Judgement::new(
            verdict,
            Landing::Rollback,
            vec![Feedback::from_text("The review gave no verdict.")],
        ),
        ListOwner::Agent => {
            let notes = hand_in::build_refusal_feedback(review);
            let mut reasons: Vec<String> = notes.iter().map(|note| note.text.clone()).collect();
            if reasons.is_empty() {
                reasons.push(format!(
                    "The review of `{}` left no verdict in the task list. Add one to its review count, and set its review status to \"approved\" (and mark it as done) or to \"changes_requested\" with feedback that says exactly what to fix.",
                    review.task
                ));
            }
            let text = reasons.join("\n");
            let answer = quote_answer(reply.text.trim(), QUOTED_CHARS);
            let feedback = format!("{text}\n\nThe review answered:\n\n{answer}");
            let judgement = Judgement::new(
                Verdict::NotHandedIn { reasons },
                Landing::Commit,
                vec![Feedback::from_text(feedback)],
            );
            let handoff = review.read_handoff(reply);
            review.add_failed_attempt(judgement, &handoff, build_cause(REVIEW_CAUSE, &text))
        }
    }
}
