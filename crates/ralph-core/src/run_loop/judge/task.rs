//! Judges an attempt at a task: done, to be tried again, or given up.

use ralph_model::agent_output::Reply;
use ralph_model::attempt::{Attempt, AttemptLog, FailedAttempt, FailedOutput, GiveUpReason};
use ralph_model::failure::Failure;
use ralph_model::gate::{Gate, GateKind, GateResult, GateStatus, Severity};
use ralph_model::handoff::{FileTouched, Handoff};
use ralph_model::ids::{Role, TaskId};
use ralph_model::judgement::{Feedback, Judgement, Landing, Verdict, describe_incomplete};
use ralph_model::recipe::TaskWork;
use ralph_model::review::{ReviewPolicy, ReviewState, ReviewStatus};
use ralph_model::run::{AgentCallEnd, Iteration, RunState};
use ralph_model::stuck::{ErrorHash, Escalation};
use ralph_model::task::{ListOwner, TaskChange, TaskStatus};
use ralph_model::task_state::TaskState;
use ralph_model::text;
use ralph_model::worktree::Checkpoint;

use super::{hand_in, judge_cut_off, judge_failed_checks, select_failure_landing};
use crate::checking::stuck::ErrorHasher;
use crate::memory::handoff_reading as read;
use crate::run_loop::settle::build_attempt_change;
use crate::tasks::amend;
use crate::tasks::attempt::{assess_escalation, cut_output};

/// Judges an attempt at a task.
pub(super) fn judge_attempt(
    state: &RunState,
    tasks: &TaskState,
    work: &TaskWork,
    task: &TaskId,
    current: &Iteration,
    end: &AgentCallEnd,
) -> Judgement {
    let attempt = AttemptContext { state, tasks, work, task, current };
    match end {
        AgentCallEnd::Answered(reply) => attempt.judge_answer(reply),
        AgentCallEnd::FailedAttempt(failure) | AgentCallEnd::Hopeless(failure) => {
            attempt.judge_cut_off(failure)
        }
    }
}

/// An attempt and everything needed to judge it.
pub(super) struct AttemptContext<'a> {
    pub(super) state: &'a RunState,
    pub(super) tasks: &'a TaskState,
    pub(super) work: &'a TaskWork,
    pub(super) task: &'a TaskId,
    pub(super) current: &'a Iteration,
}

/// Why an attempt failed.
pub(super) struct AttemptFailureCause {
    gate: String,
    exit_code: i32,
    hash: ErrorHash,
    failing: Vec<String>,
    outputs: Vec<FailedOutput>,
}

impl AttemptContext<'_> {
    fn judge_answer(&self, reply: &Reply) -> Judgement {
        let mut handoff = self.read_handoff(reply);
        let has_changed_nothing = self.has_changed_nothing();
        handoff.changed_nothing = has_changed_nothing && self.is_rebuttal(&handoff);
        let judgement = if let Some(blocked) = &handoff.blocked {
            self.judge_blocked(&handoff, blocked.clone())
        } else if let Some(failed) = judge_failed_checks(self.state, self.current) {
            self.add_failed_attempt(failed, &handoff, self.build_checks_cause())
        } else if self.work.keeper == ListOwner::Ralph && handoff.is_incomplete() {
            self.judge_incomplete(&handoff)
        } else if has_changed_nothing && !handoff.changed_nothing {
            let verdict = Judgement::new(
                Verdict::NothingChanged,
                Landing::Keep,
                vec![Feedback::from_text(NOTHING_CHANGED)],
            );
            self.add_failed_attempt(verdict, &handoff, build_cause("no change", NOTHING_CHANGED))
        } else {
            let reasons = hand_in::find_hand_in_faults(self);
            if reasons.is_empty() {
                self.judge_passed(&handoff)
            } else {
                self.judge_not_handed_in(reasons, &handoff)
            }
        };
        Judgement { handoff: Some(Box::new(handoff)), ..judgement }
    }

    pub(super) fn read_handoff(&self, reply: &Reply) -> Handoff {
        let files = self.list_changed_files();
        let token = self.current.work().and_then(|call| call.token.as_deref());
        let found = read::find_handoff(reply, token).ok();
        read::read_handoff(found, &reply.text, self.task, &files)
    }

    /// Returns whether the attempt changed nothing. Without a repository that is unknown,
    /// so false.
    fn has_changed_nothing(&self) -> bool {
        let is_document = |path: &str| self.work.is_document(&self.state.project, path);
        self.current.observation().is_some_and(|observation| {
            observation.more_files == 0
                && observation.files.iter().all(|file| is_document(&file.path))
        })
    }

    /// Returns the files that changed, without those that ralph itself writes between two
    /// attempts.
    fn list_changed_files(&self) -> Vec<FileTouched> {
        let is_ours = |file: &FileTouched| match self.work.keeper {
            ListOwner::Ralph => self.work.is_document(&self.state.project, &file.path),
            ListOwner::Agent => false,
        };
        self.current.remaining_files().filter(|file| !is_ours(file)).cloned().collect()
    }

    /// Returns whether a fix that changed nothing answers the review instead: the next
    /// review reads what it says. An agent that owns the list asks for that review in the
    /// list, which the hand-in checks.
    fn is_rebuttal(&self, handoff: &Handoff) -> bool {
        let is_answer = match self.work.keeper {
            ListOwner::Ralph => !handoff.derived,
            ListOwner::Agent => true,
        };
        self.current.role == Role::Fix
            && is_answer
            && !handoff.task_completed.summary.trim().is_empty()
    }

    /// Judges work that passed the gates and whose author says that something is left.
    fn judge_incomplete(&self, handoff: &Handoff) -> Judgement {
        let unfinished = handoff.unfinished_business.iter();
        let left: Vec<String> = unfinished
            .map(|it| text::join_to_line(&format!("{} ({})", it.item, it.reason), ITEM_CHARS))
            .take(MOST_ITEMS)
            .collect();
        let reason = describe_incomplete(&left);
        let feedback = format!("The checks passed, but {reason}. Finish the task.");
        let verdict = Judgement::new(
            Verdict::Incomplete { left },
            self.select_unfinished_landing(),
            vec![Feedback::from_text(feedback)],
        );
        self.add_failed_attempt(verdict, handoff, build_cause("completeness", &reason))
    }

    /// Returns the landing of work that passed the gates and does not count yet. An agent's
    /// own commits stay; ralph's corrections of the list are committed after them.
    fn select_unfinished_landing(&self) -> Landing {
        let ownership = self.state.recipe.ownership();
        if ownership.do_agents_commit() {
            ownership.success_landing()
        } else {
            select_failure_landing(&self.state.recipe)
        }
    }

    /// Judges work that passed the gates and was not handed in correctly.
    pub(super) fn judge_not_handed_in(&self, reasons: Vec<String>, handoff: &Handoff) -> Judgement {
        let text = reasons.join("\n");
        let feedback =
            format!("The previous iteration did not hand in its work correctly:\n{text}");
        let verdict = Judgement::new(
            Verdict::NotHandedIn { reasons },
            self.select_unfinished_landing(),
            vec![Feedback::from_text(feedback)],
        );
        let mut judgement =
            self.add_failed_attempt(verdict, handoff, build_cause("hand-in", &text));
        if !judgement.gives_up() {
            let (changes, amended) = hand_in::collect_other_changes(self);
            judgement.changes.extend(changes);
            judgement.amended = amended;
            judgement.feedback.extend(hand_in::build_surplus_feedback(self, &judgement.amended));
        }
        judgement
    }

    fn judge_passed(&self, handoff: &Handoff) -> Judgement {
        match self.work.keeper {
            ListOwner::Ralph => self.judge_passed_by_handoff(handoff),
            ListOwner::Agent => hand_in::accept_hand_in(self, handoff),
        }
    }

    fn judge_passed_by_handoff(&self, handoff: &Handoff) -> Judgement {
        let Some(task) = self.tasks.list.find_task(self.task) else {
            return Judgement::new(Verdict::Passed { signal: None }, Landing::Keep, Vec::new());
        };
        let id = || self.task.clone();
        let mut changes = vec![match self.work.review {
            ReviewPolicy::Skip => TaskChange::SetStatus { task: id(), status: TaskStatus::Done },
            ReviewPolicy::Fresh { .. } => TaskChange::SetReview {
                task: id(),
                review: ReviewState {
                    status: ReviewStatus::NeedsReview,
                    count: task.review.count,
                    feedback: String::new(),
                },
            },
        }];
        let summary = &handoff.task_completed.summary;
        if !summary.trim().is_empty() {
            let notes = task.with_note(summary);
            changes.push(TaskChange::SetNotes { task: id(), notes });
        }
        let mut changes = hand_in::add_default_note(self, changes, "");
        if self.work.review == ReviewPolicy::Skip && task.review.status.is_open() {
            changes.push(TaskChange::SetReview {
                task: id(),
                review: task.review.close_open_review(),
            });
        }
        let failed = task.attempts.max(self.attempt_log().counted());
        if failed != task.attempts {
            changes.push(TaskChange::SetAttempts { task: id(), attempts: failed });
        }
        let weighed = amend::decide_amendments(
            &self.tasks.list,
            &handoff.plan_amendments,
            self.task,
            self.work.amendment_policy,
            self.work.amendments,
        );
        changes.extend(weighed.changes);
        let feedback = build_amendment_feedback(&weighed.log);
        Judgement {
            changes,
            amended: weighed.log,
            ..Judgement::new(
                Verdict::Passed { signal: None },
                self.state.recipe.ownership().success_landing(),
                feedback,
            )
        }
    }

    /// Judges an attempt whose agent reports that it is blocked. It is asked once more;
    /// then the user has to help.
    fn judge_blocked(
        &self,
        handoff: &Handoff,
        blocked: ralph_model::handoff::BlockedReason,
    ) -> Judgement {
        let verdict = Judgement::new(
            Verdict::Blocked { blocked: blocked.clone() },
            select_failure_landing(&self.state.recipe),
            vec![Feedback::from_text(format!(
                "The previous attempt reported that it is blocked: it needs {} ({}). \
                 Look again: is the answer in the requirements, the code or the history? If so, do the task. \
                 If not, report the blocker again.",
                blocked.needs, blocked.why
            ))],
        );
        let cause = build_cause("blocked", &format!("{}\n{}", blocked.needs, blocked.why));
        let is_confirmed = self.attempt_log().blocked.is_some() || self.current.role == Role::Fix;
        let mut judgement = self.add_failed_attempt(verdict, handoff, cause);
        if let Some(failed) = &mut judgement.failed {
            failed.blocked = Some(blocked.clone());
            if is_confirmed {
                failed.gives_up = Some(GiveUpReason::Blocked(blocked));
            }
            if failed.gives_up.is_some() {
                self.give_up(&mut judgement);
            }
        }
        judgement
    }

    fn judge_cut_off(&self, failure: &Failure) -> Judgement {
        let cause = build_cause(failure.class.name(), &failure.message);
        let handoff = read::read_handoff([], &failure.message, self.task, &[]);
        self.add_failed_attempt(judge_cut_off(failure), &handoff, cause)
    }

    /// Adds the attempt record to a judgement of failed work, and whether the task is
    /// given up.
    pub(super) fn add_failed_attempt(
        &self,
        judgement: Judgement,
        handoff: &Handoff,
        cause: AttemptFailureCause,
    ) -> Judgement {
        let log = self.attempt_log();
        let summary = handoff.task_completed.summary.clone();
        let mut failed = self.build_failed_attempt(cause, summary);
        let next = assess_escalation(&log, &failed.attempt, &failed.outputs, self.work.stuck);
        let limit = self.work.attempt_limit(&self.tasks.list, self.task);
        let spent = log.spent.saturating_add(self.state.ran_in_iteration());
        let gives_up = if next == Escalation::HardStop {
            Some(GiveUpReason::Stuck { alike: log.alike + 1 })
        } else if log.counted() + 1 >= limit {
            Some(GiveUpReason::AttemptsUsed { limit })
        } else if spent >= self.work.hard_limit {
            Some(GiveUpReason::TimeUp)
        } else {
            None
        };
        let is_over = gives_up.is_some();
        (failed.next, failed.gives_up) = (next, gives_up);
        let count = build_attempt_change(&self.state.recipe, self.tasks, self.task);
        let mut judgement =
            Judgement { changes: count.into_iter().collect(), failed: Some(failed), ..judgement };
        if is_over {
            self.give_up(&mut judgement);
        }
        judgement
    }

    /// Returns the record of a failed attempt, before it is decided what follows from it.
    pub(super) fn build_failed_attempt(
        &self,
        cause: AttemptFailureCause,
        summary: String,
    ) -> FailedAttempt {
        let is_soft_failure = |result: &&GateResult| {
            result.severity == Severity::Soft && result.status == GateStatus::Failed
        };
        let warnings = self.current.gates().iter().filter(is_soft_failure).count();
        let attempt = Attempt {
            iteration: self.current.number,
            gate: cause.gate,
            exit_code: cause.exit_code,
            hash: cause.hash,
            failing: cause.failing,
            tree: self.current.observed_tree().cloned(),
            summary,
            files: self.list_changed_files().into_iter().map(|file| file.path).collect(),
            escalation: self.attempt_log().escalation,
        };
        FailedAttempt {
            attempt,
            outputs: cause.outputs,
            next: Escalation::None,
            blocked: None,
            warnings: u32::try_from(warnings).unwrap_or(u32::MAX),
            gives_up: None,
        }
    }

    pub(super) fn build_checks_cause(&self) -> AttemptFailureCause {
        let refused = self.current.refusals();
        let failed = || self.current.gates().iter().filter(|result| result.is_hard_failure());
        let refused_outputs = refused.iter().map(|refusal| FailedOutput {
            title: format!("{} Output (verbatim)", capitalize(refusal.kind.name())),
            text: cut_output(&refusal.output),
        });
        let outputs = refused_outputs.chain(failed().map(|result| FailedOutput {
            title: format_output_title(self.state.recipe.find_gate(&result.gate), result),
            text: cut_output(&result.output),
        }));
        let (gate, exit_code, hash) = match (refused.first(), failed().next()) {
            (Some(refusal), _) => (refusal.kind.name().to_owned(), 1, Some(refusal.hash.clone())),
            (None, Some(result)) => (result.gate.clone(), result.exit_code(), result.hash.clone()),
            (None, None) => (String::new(), 0, None),
        };
        let hash = hash.unwrap_or_else(|| {
            let mut hasher = ErrorHasher::new(&gate);
            failed().for_each(|result| hasher.feed_text(&result.output));
            hasher.finish_hash()
        });
        let mut failing: Vec<String> = failed().flat_map(|result| result.failing.clone()).collect();
        failing.sort();
        AttemptFailureCause { gate, exit_code, hash, failing, outputs: outputs.collect() }
    }

    /// Saves the work of a given-up task to a failure branch and drops its feedback,
    /// which does not apply to the next task. Without a repository the work stays where
    /// it is.
    fn give_up(&self, judgement: &mut Judgement) {
        judgement.landing = match self.state.base {
            // Reviewed work is committed already.
            Some(Checkpoint::Git { .. }) if self.current.role == Role::Review => Landing::Commit,
            Some(Checkpoint::Git { .. }) => Landing::FailureBranch,
            Some(Checkpoint::None) | None => Landing::Keep,
        };
        judgement.feedback = Vec::new();
    }

    pub(super) fn attempt_log(&self) -> AttemptLog {
        self.tasks.attempt_log(self.task)
    }
}

/// How many unfinished items the reason of a failed attempt names.
const MOST_ITEMS: usize = 10;

/// Limit of an unfinished item: a few sentences.
const ITEM_CHARS: usize = 400;

/// Feedback for an attempt that changed nothing.
const NOTHING_CHANGED: &str = "The previous attempt changed nothing in the work tree, so there was nothing to check or to keep. Do the task, or report what blocks you.";

pub(super) fn build_cause(gate: &str, output: &str) -> AttemptFailureCause {
    let mut hasher = ErrorHasher::new(gate);
    hasher.feed_text(output);
    AttemptFailureCause {
        gate: gate.to_owned(),
        exit_code: 1,
        hash: hasher.finish_hash(),
        failing: Vec::new(),
        outputs: vec![FailedOutput {
            title: format!("{} (verbatim)", capitalize(gate)),
            text: cut_output(output),
        }],
    }
}

fn format_output_title(gate: Option<&Gate>, result: &GateResult) -> String {
    match gate.map(|gate| gate.kind) {
        Some(GateKind::Spec) => "Spec Reviewer Output (verbatim)".to_owned(),
        Some(GateKind::Quality) => "Quality Reviewer Output (verbatim)".to_owned(),
        Some(GateKind::Test) => "Test Output (verbatim)".to_owned(),
        Some(GateKind::Lint) => "Lint Output (verbatim)".to_owned(),
        Some(GateKind::Custom) | None => format!("{} Output (verbatim)", capitalize(&result.gate)),
    }
}

fn capitalize(words: &str) -> String {
    let mut letters = words.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

fn build_amendment_feedback(log: &[ralph_model::amendment::AmendmentRecord]) -> Vec<Feedback> {
    let refused: Vec<String> = log
        .iter()
        .filter_map(|amended| {
            let refusal = amended.refusal.as_ref()?;
            Some(format!("- {}: {refusal}", amended.proposal))
        })
        .collect();
    if refused.is_empty() {
        return Vec::new();
    }
    vec![Feedback::from_note(format!(
        "The previous iteration requested these changes of the task list, and they were refused. Ignore this unless your own task needs them:\n{}",
        refused.join("\n")
    ))]
}
