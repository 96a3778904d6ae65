//! The steps of a landing: what happens to the work tree and the task list once the
//! iteration is judged.

use ralph_model::agent_call_state::AgentCallEnd;
use ralph_model::event::Purpose;
use ralph_model::gate::{GateResult, Severity};
use ralph_model::ids::Role;
use ralph_model::judgement::{Judgement, Landing, Verdict};
use ralph_model::recipe::{CommitPolicy, Completion, ScmTask};
use ralph_model::review::ReviewResult;
use ralph_model::run::{Iteration, RunState};
use ralph_model::task_state::FileState;
use ralph_model::text;
use ralph_model::worktree::{History, Landed, TreeDiff};

use super::{Step, choose_call_step, give_up};
use crate::landing::scm;
use crate::ports::Moment;
use crate::run_loop::settle::{self, Settled};

/// Chooses the next step of the landing, or nothing when it is done.
pub(super) fn choose_landing_step(
    state: &RunState,
    current: &Iteration,
    judgement: &Judgement,
    moment: Moment,
) -> Option<Step> {
    // A reviewer's own changes are discarded before anything else. A compaction lands
    // only by discarding its changes.
    let is_undone = has_landed(current, |it| matches!(it, Landed::RolledBack { .. }));
    if current.role == Role::Compact {
        return (!is_undone).then_some(Step::Rollback);
    }
    let has_begun = current.checkpoint.is_some();
    if current.role == Role::Review
        && has_begun
        && !is_undone
        && !has_changed_only_list(state, current)
    {
        return Some(Step::Rollback);
    }
    match judgement.landing {
        Landing::Keep if needs_post_gate_survey(state, current) => Some(Step::Survey),
        Landing::Keep => choose_list_write(state, current),
        Landing::Rollback => {
            let is_back = has_landed(current, |it| matches!(it, Landed::RolledBack { .. }));
            if is_back { choose_list_write(state, current) } else { Some(Step::Rollback) }
        }
        Landing::FailureBranch => {
            let is_saved =
                has_landed(current, |it| matches!(it, Landed::SavedToFailureBranch { .. }));
            if is_saved {
                choose_list_write(state, current)
            } else {
                Some(Step::SaveToFailureBranch)
            }
        }
        Landing::Commit => choose_commit_step(state, current, moment),
    }
}

/// Returns whether a survey is needed because a gate may have moved a history that only
/// ralph writes. What moves it later, between two iterations, is the user's doing.
fn needs_post_gate_survey(state: &RunState, current: &Iteration) -> bool {
    let is_run = |it: &GateResult| it.log.is_some();
    state.recipe.landing.is_history_owned_by_ralph()
        && current.observation().is_some()
        && current.gates.iter().any(is_run)
        && find_survey_changes(current).is_none()
}

/// Returns whether a reviewer that owns the task list changed nothing but the list and
/// its notes.
fn has_changed_only_list(state: &RunState, current: &Iteration) -> bool {
    let (true, Some(work), Some(seen)) =
        (state.recipe.is_list_owned_by_agent(), state.recipe.task_work(), current.observation())
    else {
        return false;
    };
    let is_allowed = |path: &str| work.is_document(&state.project, path);
    seen.history != History::Rewritten
        && seen.more_files == 0
        && seen.files.iter().all(|file| is_allowed(&file.path))
}

fn has_landed(current: &Iteration, is_it: impl Fn(&Landed) -> bool) -> bool {
    current.landed.iter().any(is_it)
}

/// Chooses to write the task file, if it does not hold the iteration's result yet.
fn choose_list_write(state: &RunState, current: &Iteration) -> Option<Step> {
    let settled = settle_iteration(state, current)?;
    (settled.written == FileState::Stale).then_some(Step::WriteList)
}

/// Returns the result of the iteration, as far as it has landed.
pub(crate) fn settle_iteration(state: &RunState, current: &Iteration) -> Option<Settled> {
    let (tasks, work, task) =
        (state.tasks.as_ref()?, state.recipe.task_work()?, current.task.as_ref()?);
    Some(settle::settle_iteration(work, tasks.attempt_log(task).failed, &tasks.list, current))
}

fn choose_commit_step(state: &RunState, current: &Iteration, moment: Moment) -> Option<Step> {
    // An agent that was asked for a message may have changed files, which are discarded
    // before its answer is used.
    if current.pre_question.is_some() && current.message.pending.is_none() {
        return Some(Step::DiscardMessageSideEffects);
    }
    // A refused commit is a failed attempt, and it may have been the last one.
    if has_landed(current, |it| matches!(it, Landed::CommitRefused { .. })) {
        let gives_up = settle_iteration(state, current)
            .and_then(|settled| settled.attempt)
            .is_some_and(|attempt| attempt.gives_up.is_some());
        let is_saved = has_landed(current, |it| matches!(it, Landed::SavedToFailureBranch { .. }));
        if gives_up && !is_saved {
            return Some(Step::SaveToFailureBranch);
        }
        return choose_list_write(state, current);
    }
    // The commit includes the updated task list.
    if let Some(step) = choose_list_write(state, current) {
        return Some(step);
    }
    let Some(changes) = find_survey_changes(current) else { return Some(Step::Survey) };
    let done = current.landed.iter().filter(|it| is_commit_step(it)).count();
    match &state.recipe.landing.commit {
        CommitPolicy::NoCommit => None,
        // ralph does not commit what the agent left uncommitted, only its own changes of
        // the list afterwards.
        CommitPolicy::Agent => {
            let is_committed = (current.observation())
                .is_none_or(|observation| observation.changes == TreeDiff::Clean);
            let is_list = is_committed || current.role == Role::Review;
            match (changes, done) {
                (TreeDiff::Dirty, 0) if is_list => Some(Step::Commit {
                    message: build_commit_message(state, current),
                    command: "git".to_owned(),
                }),
                (TreeDiff::Dirty | TreeDiff::Clean, _) => None,
            }
        }
        CommitPolicy::Ralph => match (changes, done) {
            (TreeDiff::Dirty, 0) => Some(Step::Commit {
                message: build_commit_message(state, current),
                command: "git".to_owned(),
            }),
            (TreeDiff::Dirty | TreeDiff::Clean, _) => None,
        },
        CommitPolicy::Scm(scm) => {
            let is_to_commit = changes == TreeDiff::Dirty && scm.tasks.contains(&ScmTask::Commit);
            // The message first, before any command has moved something.
            let message = match &current.message.end {
                _ if !is_to_commit => String::new(),
                None => return Some(choose_call_step(state, current, Purpose::Message, moment)),
                Some(AgentCallEnd::Answered(reply)) => scm::parse_commit_message(&reply.text)
                    .unwrap_or_else(|| build_commit_message(state, current)),
                // The work passed, so it is committed even without a message from the
                // agent.
                Some(AgentCallEnd::FailedAttempt(_)) => build_commit_message(state, current),
                Some(AgentCallEnd::Hopeless(failure)) => return Some(give_up(current, failure)),
            };
            let command = scm.command.clone();
            Some(match scm.tasks.get(done)? {
                ScmTask::Run(args) => Step::Scm { command, args: args.clone() },
                ScmTask::Commit => Step::Commit { message, command },
            })
        }
    }
}

/// Returns whether this is a step of the recipe's commit policy.
fn is_commit_step(landed: &Landed) -> bool {
    match landed {
        Landed::Committed { .. }
        | Landed::NothingToCommit
        | Landed::CommitRefused { .. }
        | Landed::ScmRan { .. } => true,
        Landed::Surveyed { .. }
        | Landed::MessageChecked { .. }
        | Landed::ListWritten
        | Landed::SavedToFailureBranch { .. }
        | Landed::RolledBack { .. } => false,
    }
}

fn find_survey_changes(current: &Iteration) -> Option<TreeDiff> {
    current.landed.iter().find_map(|landed| {
        let Landed::Surveyed { changes, .. } = landed else { return None };
        Some(*changes)
    })
}

/// Returns ralph's own commit message.
pub(crate) fn build_commit_message(state: &RunState, current: &Iteration) -> String {
    let title = current
        .task
        .as_ref()
        .and_then(|id| state.tasks.as_ref()?.list.find_task(id))
        .map(|task| task.title.lines().next().unwrap_or_default().trim().to_owned());
    let about = match (&current.task, &title) {
        (Some(task), Some(title)) => format!("{task} — {title}"),
        (Some(task), None) => task.0.clone(),
        (None, _) => match read_gate_summary(state, current) {
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
                kind: if what.is_empty() { scm::choose_commit_type(current.role) } else { "chore" },
                task,
                title: &title,
                subject: &subject,
            },
        );
    }
    format!("{}[{}]: {what}{about}", landing.commit_prefix, current.number)
}

/// A longer subject does not fit on one line.
const MAX_SUBJECT_CHARS: usize = 60;

/// Returns the first output line of the last hard gate, where the gates decide
/// completion: it describes the work.
fn read_gate_summary(state: &RunState, current: &Iteration) -> Option<String> {
    match state.recipe.completion {
        Completion::Signal => return None,
        Completion::Gates => {}
    }
    let last = current.gates.iter().rfind(|result| result.severity == Severity::Hard)?;
    let line = last.output.lines().next().unwrap_or_default().trim();
    (!line.is_empty()).then(|| text::shorten_to_line(line, MAX_SUBJECT_CHARS))
}
