//! Judges an attempt at a task: done, to be tried again, or given up.

use super::{Judgement, Landing, Verdict, cut_off, gates_failed, hand_in, landing_of_failure};
use crate::amend;
use crate::answer;
use crate::attempt::{Attempt, AttemptLog, FailedOutput, verbatim};
use crate::board::Board;
use crate::event::Checkpoint;
use crate::failure::Failure;
use crate::gate::{Gate, GateKind, GateResult, GateStatus, Severity};
use crate::handoff::{Handoff, read};
use crate::ids::{Role, TaskId};
use crate::judge::{Feedback, landing_of_success};
use crate::reading::Reply;
use crate::recipe::{CommitPolicy, TaskWork};
use crate::review::{ReviewPolicy, ReviewState, ReviewStatus};
use crate::run::{AskingEnd, Iteration, RunState};
use crate::settle::{self, FailedAttempt, GiveUp};
use crate::stuck::{ErrorHash, ErrorHasher, Escalation};
use crate::task::{Keeper, TaskChange, TaskStatus};

/// Judges an attempt at a task.
pub(super) fn judge(
    state: &RunState,
    tasks: &Board,
    work: &TaskWork,
    task: &TaskId,
    current: &Iteration,
) -> Judgement {
    let attempt = Try { state, board: tasks, work, task, current };
    match &current.work.end {
        Some(AskingEnd::Answered(reply)) => attempt.answered(reply),
        Some(AskingEnd::FailedAttempt(failure) | AskingEnd::Hopeless(failure)) => {
            attempt.cut_off(failure)
        }
        None => unreachable!("an open question is not judged"),
    }
}

/// An attempt and everything needed to judge it.
pub(super) struct Try<'a> {
    pub(super) state: &'a RunState,
    pub(super) board: &'a Board,
    pub(super) work: &'a TaskWork,
    pub(super) task: &'a TaskId,
    pub(super) current: &'a Iteration,
}

/// Why an attempt failed.
pub(super) struct Cause {
    gate: String,
    exit_code: i32,
    hash: ErrorHash,
    failing: Vec<String>,
    outputs: Vec<FailedOutput>,
}

impl Try<'_> {
    fn answered(&self, reply: &Reply) -> Judgement {
        let handoff = self.handoff(reply);
        let judgement = if let Some(blocked) = &handoff.blocked {
            self.blocked(&handoff, blocked.clone())
        } else if let Some(failed) = gates_failed(self.state, &self.current.gates) {
            self.failed(failed, &handoff, self.gates_cause())
        } else if self.changed_nothing() {
            let verdict = Judgement::new(
                Verdict::NothingChanged,
                Landing::Keep,
                vec![Feedback::after(NOTHING_CHANGED)],
            );
            self.failed(verdict, &handoff, named_cause("no change", NOTHING_CHANGED))
        } else {
            let reasons = hand_in::shortcomings(self);
            if reasons.is_empty() { self.passed(&handoff) } else { self.kept(reasons, &handoff) }
        };
        Judgement { handoff: Some(Box::new(handoff)), ..judgement }
    }

    pub(super) fn handoff(&self, reply: &Reply) -> Handoff {
        let files: Vec<_> = self
            .current
            .observation()
            .map(|observation| observation.files.clone())
            .unwrap_or_default();
        let found = || answer::find(&reply.text, &read::schema()).ok();
        read::read(reply.structured.clone().or_else(found), &reply.text, self.task, &files)
    }

    /// Returns whether the attempt changed nothing. Without a repository that is unknown,
    /// so false.
    fn changed_nothing(&self) -> bool {
        let is_work = |path: &str| match self.work.keeper {
            Keeper::Ralph => true,
            Keeper::Agent => !self.work.is_document(&self.state.project, path),
        };
        self.current.observation().is_some_and(|observation| {
            observation.more_files == 0 && !observation.files.iter().any(|file| is_work(&file.path))
        })
    }

    /// Judges work that passed the gates and was not handed in correctly.
    pub(super) fn kept(&self, reasons: Vec<String>, handoff: &Handoff) -> Judgement {
        let text = reasons.join("\n");
        let feedback =
            format!("The previous iteration did not hand in its work correctly:\n{text}");
        // The agent's commits stay; ralph's corrections of the list are committed after
        // them.
        let landing = match self.state.recipe.landing.commit {
            CommitPolicy::Agent => landing_of_success(&self.state.recipe),
            CommitPolicy::Ralph | CommitPolicy::Scm(_) | CommitPolicy::Nobody => {
                landing_of_failure(&self.state.recipe)
            }
        };
        let verdict = Judgement::new(
            Verdict::NotHandedIn { reasons },
            landing,
            vec![Feedback::after(feedback)],
        );
        let mut judgement = self.failed(verdict, handoff, named_cause("hand-in", &text));
        if !judgement.gives_up() {
            (judgement.changes, judgement.amended) = hand_in::beside(self);
            judgement.feedback.extend(hand_in::surplus(self, &judgement.amended));
        }
        judgement
    }

    fn passed(&self, handoff: &Handoff) -> Judgement {
        match self.work.keeper {
            Keeper::Ralph => self.passed_by_account(handoff),
            Keeper::Agent => hand_in::accept(self, handoff),
        }
    }

    fn passed_by_account(&self, handoff: &Handoff) -> Judgement {
        let Some(task) = self.board.list.task(self.task) else {
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
            changes.push(TaskChange::SetNotes { task: id(), notes: summary.clone() });
        }
        let mut changes = hand_in::noted(self, changes, "");
        if self.work.review == ReviewPolicy::Skip && task.review.status.is_open() {
            changes.push(TaskChange::SetReview { task: id(), review: task.review.put_by() });
        }
        let failed = task.attempts.max(self.log().failed);
        if failed != task.attempts {
            changes.push(TaskChange::SetAttempts { task: id(), attempts: failed });
        }
        let weighed = amend::weigh(
            &self.board.list,
            &handoff.plan_amendments,
            self.task,
            self.work.amendment_policy,
            self.work.amendments,
        );
        changes.extend(weighed.changes);
        let feedback = refused_amendments(&weighed.log);
        Judgement {
            changes,
            amended: weighed.log,
            ..Judgement::new(
                Verdict::Passed { signal: None },
                landing_of_success(&self.state.recipe),
                feedback,
            )
        }
    }

    /// Judges an attempt whose agent reports that it is blocked. It is asked once more;
    /// then the user has to help.
    fn blocked(&self, handoff: &Handoff, blocked: crate::handoff::Blocked) -> Judgement {
        let verdict = Judgement::new(
            Verdict::Blocked { blocked: blocked.clone() },
            landing_of_failure(&self.state.recipe),
            vec![Feedback::after(format!(
                "The previous attempt reported that it is blocked: it needs {} ({}). Check again whether that is true. \
                 If there is a way around it, take it; if not, say `blocked` again in your handoff.",
                blocked.needs, blocked.why
            ))],
        );
        let cause = named_cause("blocked", &format!("{}\n{}", blocked.needs, blocked.why));
        let is_confirmed = self.log().blocked.is_some() || self.current.role == Role::Fix;
        let mut judgement = self.failed(verdict, handoff, cause);
        if let Some(failed) = &mut judgement.failed {
            failed.blocked = Some(blocked.clone());
            if is_confirmed {
                failed.gives_up = Some(GiveUp::Blocked(blocked));
            }
            if failed.gives_up.is_some() {
                self.give_up(&mut judgement);
            }
        }
        judgement
    }

    fn cut_off(&self, failure: &Failure) -> Judgement {
        let cause = named_cause(failure.class.name(), &failure.words);
        let handoff = read::read([], &failure.words, self.task, &[]);
        self.failed(cut_off(failure), &handoff, cause)
    }

    /// Adds the attempt record to a judgement of failed work, and whether the task is
    /// given up.
    pub(super) fn failed(
        &self,
        judgement: Judgement,
        handoff: &Handoff,
        cause: Cause,
    ) -> Judgement {
        let log = self.log();
        let attempt = Attempt {
            iteration: self.current.number,
            gate: cause.gate,
            exit_code: cause.exit_code,
            hash: cause.hash,
            failing: cause.failing,
            tree: self.current.observed_tree().cloned(),
            summary: handoff.task_completed.summary.clone(),
            files: self.current.observed_files(),
            escalation: log.escalation,
        };
        let next = log.assess(&attempt, &cause.outputs, self.work.stuck);
        let limit = settle::limit(self.work, &self.board.list, self.task);
        let spent = log.spent.plus(self.state.ran_in_iteration());
        let gives_up = if next == Escalation::HardStop {
            Some(GiveUp::Stuck { alike: log.alike + 1 })
        } else if log.failed + 1 >= limit {
            Some(GiveUp::AttemptsUsed { limit })
        } else if spent >= self.work.hard_limit {
            Some(GiveUp::TimeUp)
        } else {
            None
        };
        let is_over = gives_up.is_some();
        let warnings = self
            .current
            .gates
            .iter()
            .filter(|result| {
                result.severity == Severity::Soft && result.status == GateStatus::Failed
            })
            .count();
        let mut judgement = Judgement {
            failed: Some(FailedAttempt {
                attempt,
                outputs: cause.outputs,
                next,
                blocked: None,
                warnings: u32::try_from(warnings).unwrap_or(u32::MAX),
                gives_up,
            }),
            ..judgement
        };
        if is_over {
            self.give_up(&mut judgement);
        }
        judgement
    }

    fn gates_cause(&self) -> Cause {
        let failed = || self.current.gates.iter().filter(|result| result.is_hard_failure());
        let outputs = failed()
            .map(|result| FailedOutput {
                title: title(self.gate(&result.gate), result),
                text: verbatim(&result.output),
            })
            .collect();
        let (gate, exit_code) = failed()
            .next()
            .map_or_else(|| (String::new(), 0), |it| (it.gate.clone(), it.exit_code()));
        let hash = failed().next().and_then(|result| result.hash.clone()).unwrap_or_else(|| {
            let mut hasher = ErrorHasher::new(&gate);
            failed().for_each(|result| hasher.feed(&result.output));
            hasher.finish()
        });
        let mut failing: Vec<String> = failed().flat_map(|result| result.failing.clone()).collect();
        failing.sort();
        Cause { gate, exit_code, hash, failing, outputs }
    }

    /// Saves the work of a given-up task to a failure branch and drops its feedback,
    /// which does not apply to the next task. Without a repository the work stays where
    /// it is.
    fn give_up(&self, judgement: &mut Judgement) {
        judgement.landing = match self.state.base {
            // Reviewed work is committed already.
            Some(Checkpoint::Git { .. }) if self.current.role == Role::Review => Landing::Commit,
            Some(Checkpoint::Git { .. }) => Landing::Shelve,
            Some(Checkpoint::None) | None => Landing::Keep,
        };
        judgement.feedback = Vec::new();
    }

    fn gate(&self, name: &str) -> Option<&Gate> {
        self.state.recipe.gates.iter().find(|gate| gate.name == name)
    }

    pub(super) fn log(&self) -> AttemptLog {
        self.board.log(self.task)
    }
}

/// Feedback for an attempt that changed nothing.
const NOTHING_CHANGED: &str = "The previous attempt changed nothing in the work tree, so there was nothing to check or to keep. Do the task, or say in your handoff what blocks you.";

pub(super) fn named_cause(gate: &str, output: &str) -> Cause {
    let mut hasher = ErrorHasher::new(gate);
    hasher.feed(output);
    Cause {
        gate: gate.to_owned(),
        exit_code: 1,
        hash: hasher.finish(),
        failing: Vec::new(),
        outputs: vec![FailedOutput {
            title: format!("{} (verbatim)", capitalized(gate)),
            text: verbatim(output),
        }],
    }
}

fn title(gate: Option<&Gate>, result: &GateResult) -> String {
    match gate.map(|gate| gate.kind) {
        Some(GateKind::Spec) => "Spec Reviewer Output (verbatim)".to_owned(),
        Some(GateKind::Quality) => "Quality Reviewer Output (verbatim)".to_owned(),
        Some(GateKind::Test) => "Test Output (verbatim)".to_owned(),
        Some(GateKind::Lint) => "Lint Output (verbatim)".to_owned(),
        Some(GateKind::Custom) | None => format!("{} Output (verbatim)", capitalized(&result.gate)),
    }
}

fn capitalized(words: &str) -> String {
    let mut letters = words.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

fn refused_amendments(log: &[amend::Amended]) -> Vec<Feedback> {
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
    vec![Feedback::after(format!(
        "The previous iteration requested these changes of the task list, and they were refused. Ignore this unless your own task needs them:\n{}",
        refused.join("\n")
    ))]
}
