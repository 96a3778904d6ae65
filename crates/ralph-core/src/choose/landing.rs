//! The steps of a landing: what happens to the work tree and the task list once the
//! iteration is judged.

use super::{Step, ask, give_up};
use crate::asking::AskingEnd;
use crate::board::FileState;
use crate::event::{Changes, History, Landed, Purpose};
use crate::gate::{GateResult, Severity};
use crate::ids::Role;
use crate::judge::{Judgement, Landing, Verdict};
use crate::ports::Moment;
use crate::recipe::{CommitPolicy, Completion, ScmTask};
use crate::review::ReviewResult;
use crate::run::{Iteration, RunState};
use crate::scm;
use crate::settle::{self, Settled};
use crate::text;

/// Chooses the next step of the landing, or nothing when it is done.
pub(super) fn land(
    state: &RunState,
    current: &Iteration,
    judgement: &Judgement,
    moment: Moment,
) -> Option<Step> {
    // A reviewer's own changes are discarded before anything else. A compaction lands
    // only by discarding its changes.
    let is_undone = has(current, |it| matches!(it, Landed::RolledBack { .. }));
    if current.role == Role::Compact {
        return (!is_undone).then_some(Step::Rollback);
    }
    let has_begun = current.checkpoint.is_some();
    if current.role == Role::Review
        && has_begun
        && !is_undone
        && !is_only_about_list(state, current)
    {
        return Some(Step::Rollback);
    }
    match judgement.landing {
        Landing::Keep if has_to_be_looked_behind(state, current) => Some(Step::Survey),
        Landing::Keep => write(state, current),
        Landing::Rollback => {
            let is_back = has(current, |it| matches!(it, Landed::RolledBack { .. }));
            if is_back { write(state, current) } else { Some(Step::Rollback) }
        }
        Landing::Shelve => {
            let is_saved = has(current, |it| matches!(it, Landed::Shelved { .. }));
            if is_saved { write(state, current) } else { Some(Step::Shelve) }
        }
        Landing::Commit => commit(state, current, moment),
    }
}

/// Returns whether a survey is needed because a gate may have moved a history that only
/// ralph writes. What moves it later, between two iterations, is the user's doing.
fn has_to_be_looked_behind(state: &RunState, current: &Iteration) -> bool {
    let is_run = |it: &GateResult| it.log.is_some();
    state.recipe.landing.is_history_ralphs()
        && current.observation().is_some()
        && current.gates.iter().any(is_run)
        && surveyed(current).is_none()
}

/// Returns whether a reviewer that owns the task list changed nothing but the list and
/// its notes.
fn is_only_about_list(state: &RunState, current: &Iteration) -> bool {
    let (true, Some(work), Some(seen)) =
        (state.recipe.is_kept_by_agent(), state.recipe.task_work(), current.observation())
    else {
        return false;
    };
    let is_allowed = |path: &str| work.is_document(&state.project, path);
    seen.history != History::Rewritten
        && seen.more_files == 0
        && seen.files.iter().all(|file| is_allowed(&file.path))
}

fn has(current: &Iteration, is_it: impl Fn(&Landed) -> bool) -> bool {
    current.landed.iter().any(is_it)
}

/// Chooses to write the task file, if it does not hold the iteration's result yet.
fn write(state: &RunState, current: &Iteration) -> Option<Step> {
    let settled = settled(state, current)?;
    (settled.written == FileState::Behind).then_some(Step::WriteList)
}

/// Returns the result of the iteration, as far as it has landed.
pub(crate) fn settled(state: &RunState, current: &Iteration) -> Option<Settled> {
    let (tasks, work, task) =
        (state.board.as_ref()?, state.recipe.task_work()?, current.task.as_ref()?);
    Some(settle::settle(work, tasks.log(task).failed, &tasks.list, current))
}

fn commit(state: &RunState, current: &Iteration, moment: Moment) -> Option<Step> {
    // An agent that was asked for a message may have changed files, which are discarded
    // before its answer is used.
    if current.unheard.is_some() && current.message.pending.is_none() {
        return Some(Step::HearMessage);
    }
    // A refused commit is a failed attempt, and it may have been the last one.
    if has(current, |it| matches!(it, Landed::CommitRefused { .. })) {
        let gives_up = settled(state, current)
            .and_then(|settled| settled.attempt)
            .is_some_and(|attempt| attempt.gives_up.is_some());
        let is_saved = has(current, |it| matches!(it, Landed::Shelved { .. }));
        if gives_up && !is_saved {
            return Some(Step::Shelve);
        }
        return write(state, current);
    }
    // The commit includes the updated task list.
    if let Some(step) = write(state, current) {
        return Some(step);
    }
    let Some(changes) = surveyed(current) else { return Some(Step::Survey) };
    let done = current.landed.iter().filter(|it| is_of_commit(it)).count();
    match &state.recipe.landing.commit {
        CommitPolicy::Nobody => None,
        // ralph does not commit what the agent left uncommitted, only its own changes of
        // the list afterwards.
        CommitPolicy::Agent => {
            let is_committed = (current.observation())
                .is_none_or(|observation| observation.changes == Changes::None);
            let is_list = is_committed || current.role == Role::Review;
            match (changes, done) {
                (Changes::Some, 0) if is_list => Some(Step::Commit {
                    message: own_subject(state, current),
                    command: "git".to_owned(),
                }),
                (Changes::Some | Changes::None, _) => None,
            }
        }
        CommitPolicy::Ralph => match (changes, done) {
            (Changes::Some, 0) => Some(Step::Commit {
                message: own_subject(state, current),
                command: "git".to_owned(),
            }),
            (Changes::Some | Changes::None, _) => None,
        },
        CommitPolicy::Scm(scm) => {
            let is_to_commit = changes == Changes::Some && scm.tasks.contains(&ScmTask::Commit);
            // The message first, before any command has moved something.
            let message = match &current.message.end {
                _ if !is_to_commit => String::new(),
                None => return Some(ask(state, current, Purpose::Message, moment)),
                Some(AskingEnd::Answered(reply)) => {
                    scm::commit_message(&reply.text).unwrap_or_else(|| own_subject(state, current))
                }
                // The work passed, so it is committed even without a message from the
                // agent.
                Some(AskingEnd::FailedAttempt(_)) => own_subject(state, current),
                Some(AskingEnd::Hopeless(failure)) => return Some(give_up(current, failure)),
            };
            let command = scm.command.clone();
            Some(match scm.tasks.get(done)? {
                ScmTask::Run(args) => Step::Scm { command, words: args.clone() },
                ScmTask::Commit => Step::Commit { message, command },
            })
        }
    }
}

/// Returns whether this is a step of the recipe's commit policy.
fn is_of_commit(landed: &Landed) -> bool {
    match landed {
        Landed::Committed { .. }
        | Landed::NothingToCommit
        | Landed::CommitRefused { .. }
        | Landed::ScmRan { .. } => true,
        Landed::Surveyed { .. }
        | Landed::Heard { .. }
        | Landed::ListWritten
        | Landed::Shelved { .. }
        | Landed::RolledBack { .. } => false,
    }
}

fn surveyed(current: &Iteration) -> Option<Changes> {
    current.landed.iter().find_map(|landed| {
        let Landed::Surveyed { changes, .. } = landed else { return None };
        Some(*changes)
    })
}

/// Returns ralph's own commit message.
pub(crate) fn own_subject(state: &RunState, current: &Iteration) -> String {
    let title = current
        .task
        .as_ref()
        .and_then(|id| state.board.as_ref()?.list.task(id))
        .map(|task| task.title.lines().next().unwrap_or_default().trim().to_owned());
    let about = match (&current.task, &title) {
        (Some(task), Some(title)) => format!("{task} — {title}"),
        (Some(task), None) => task.0.clone(),
        (None, _) => match told_by_gates(state, current) {
            Some(output) => format!("{} — {output}", current.role),
            None => current.role.name().to_owned(),
        },
    };
    let what = match current.judgement.as_ref().map(|judgement| &judgement.verdict) {
        Some(Verdict::Reviewed { verdict, feedback }) => {
            match ReviewResult::new(*verdict, feedback) {
                ReviewResult::Approved => "review: approve ",
                ReviewResult::ApprovedAtCap => "review: approve at the cap ",
                ReviewResult::ChangesRequested => "review: ask for changes in ",
            }
        }
        Some(_) if state.recipe.landing.commit == CommitPolicy::Agent => "the list after ",
        Some(_) | None => "",
    };
    let landing = &state.recipe.landing;
    if let Some(template) = &landing.commit_message {
        let title = title.unwrap_or_else(|| about.clone());
        let task = current.task.as_ref().map_or("", |task| task.0.as_str());
        let subject = match what {
            "" => title.clone(),
            what => format!("{}{about}", what.trim_start_matches("review: ")),
        };
        return scm::fill_message(
            template,
            &scm::MessageParts {
                prefix: &landing.commit_prefix,
                iteration: current.number,
                kind: if what.is_empty() { scm::kind(current.role) } else { "chore" },
                task,
                title: &title,
                subject: &subject,
            },
        );
    }
    format!("{}[{}]: {what}{about}", landing.commit_prefix, current.number)
}

/// A longer subject does not fit on one line.
const LONGEST_SUBJECT: usize = 60;

/// Returns the first output line of the last hard gate, where the gates decide
/// completion: it describes the work.
fn told_by_gates(state: &RunState, current: &Iteration) -> Option<String> {
    match state.recipe.completion {
        Completion::Signal => return None,
        Completion::Gates => {}
    }
    let last = current.gates.iter().rfind(|result| result.severity == Severity::Hard)?;
    let line = last.output.lines().next().unwrap_or_default().trim();
    (!line.is_empty()).then(|| text::glance(line, LONGEST_SUBJECT))
}
