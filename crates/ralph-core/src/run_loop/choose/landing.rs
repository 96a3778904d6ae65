//! Chooses the next step of a landing: what happens to the work tree and the task list
//! once the iteration is judged. The plan was made when the judgement was recorded.

use ralph_model::agent_call_state::AgentCallEnd;
use ralph_model::event::Purpose;
use ralph_model::gate::Severity;
use ralph_model::ids::Role;
use ralph_model::judgement::Verdict;
use ralph_model::parallel_state::Candidate;
use ralph_model::phase::{Iteration, LandingPhase, LandingStep};
use ralph_model::recipe::{CommitPolicy, Completion};
use ralph_model::review::ReviewResult;
use ralph_model::run::RunState;
use ralph_model::text;
use ralph_model::worktree::TreeDiff;

use super::{Step, choose_call_step, give_up};
use crate::landing::scm;
use crate::ports::Moment;

/// Chooses the next step of the landing, or to close the iteration.
pub(super) fn choose_landing_step(
    state: &RunState,
    current: &Iteration,
    landing: &LandingPhase,
    moment: Moment,
) -> Step {
    // An agent that was asked for a message may have changed files, which are discarded
    // before its answer is used.
    if landing.before_message.is_some() && landing.checked.message.pending.is_none() {
        return Step::DiscardMessageSideEffects;
    }
    let Some(step) = landing.next_step() else { return Step::EndIteration(current.number) };
    match step {
        LandingStep::Rollback => Step::Rollback,
        LandingStep::SaveToFailureBranch => Step::SaveToFailureBranch,
        LandingStep::WriteList => Step::WriteList,
        LandingStep::Survey => Step::Survey,
        LandingStep::AskForMessage => match &landing.checked.message.end {
            Some(AgentCallEnd::Hopeless(failure)) => give_up(current, failure),
            Some(AgentCallEnd::Answered(_) | AgentCallEnd::FailedAttempt(_)) | None => {
                choose_call_step(state, current, Purpose::Message, moment)
            }
        },
        LandingStep::Commit => Step::Commit {
            message: choose_message(state, current, landing),
            command: select_scm_command(&state.recipe.landing.commit),
        },
        LandingStep::PushFailureBranch => choose_branch_push(state, current),
        LandingStep::RunScm(args) => Step::Scm {
            command: select_scm_command(&state.recipe.landing.commit),
            args: args.clone(),
        },
    }
}

/// Returns the push of the failure branch, or the end of the iteration if nothing is pushed.
fn choose_branch_push(state: &RunState, current: &Iteration) -> Step {
    match (&state.recipe.landing.commit, current.failure_branch()) {
        (CommitPolicy::Scm(scm), Some(branch)) => {
            let remote = scm.find_push_remote().unwrap_or("origin");
            let args = ["push", remote, branch].map(str::to_owned);
            Step::Scm { command: scm.command.clone(), args: args.to_vec() }
        }
        (_, _) => Step::EndIteration(current.number),
    }
}

fn select_scm_command(policy: &CommitPolicy) -> String {
    match policy {
        CommitPolicy::Scm(scm) => scm.command.clone(),
        CommitPolicy::Ralph | CommitPolicy::Agent | CommitPolicy::NoCommit => "git".to_owned(),
    }
}

/// Returns the commit message: the agent's, if it was asked for one and gave one. Empty if
/// there is nothing to commit.
fn choose_message(state: &RunState, current: &Iteration, landing: &LandingPhase) -> String {
    if current.surveyed_changes() == Some(TreeDiff::Clean) {
        return String::new();
    }
    let own = || add_worker_trailers(build_commit_message(state, current), state, current);
    match &landing.checked.message.end {
        Some(AgentCallEnd::Answered(reply)) => {
            scm::parse_commit_message(&reply.text).unwrap_or_else(own)
        }
        // The work passed, so it is committed even without a message from the agent.
        Some(AgentCallEnd::FailedAttempt(_) | AgentCallEnd::Hopeless(_)) | None => own(),
    }
}

/// Returns ralph's own commit message.
pub(crate) fn build_commit_message(state: &RunState, current: &Iteration) -> String {
    let task = current.task.as_ref().and_then(|id| state.tasks.as_ref()?.list.find_task(id));
    // The first commit of a task and its fixes differ.
    let fix = match (current.role, task) {
        (Role::Fix, Some(task)) => format!(" (fix {})", task.review.count),
        (_, _) => String::new(),
    };
    let title =
        task.map(|task| format!("{}{fix}", task.title.lines().next().unwrap_or_default().trim()));
    let about = match (&current.task, &title) {
        (Some(task), Some(title)) => format!("{task} — {title}"),
        (Some(task), None) => task.0.clone(),
        (None, _) => match read_gate_summary(state, current) {
            Some(output) => format!("{} — {output}", current.role),
            None => current.role.name().to_owned(),
        },
    };
    let what = match current.judgement().map(|judgement| &judgement.verdict) {
        Some(Verdict::Reviewed { verdict, feedback }) => {
            match ReviewResult::new(*verdict, feedback) {
                ReviewResult::Approved => "review: approve ",
                ReviewResult::ApprovedAtCap => "review: approve at the cap ",
                ReviewResult::ChangesRequested => "review: ask for changes in ",
            }
        }
        Some(_) if state.recipe.ownership().do_agents_commit() => "the list after ",
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

/// Adds which worker did merged work, and the commit that it was merged from.
fn add_worker_trailers(message: String, state: &RunState, current: &Iteration) -> String {
    let worker = current.checking().and_then(|it| it.merge.as_deref()).map(|it| &it.worker);
    let queue = state.parallel.iter().flat_map(|it| &it.queue);
    match queue.into_iter().find(|it| Some(&it.worker) == worker) {
        Some(Candidate { worker, commit, .. }) => {
            format!("{message}\n\nRalph-Worker: {worker}\nRalph-Candidate: {}", commit.0)
        }
        None => message,
    }
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
    let last = current.gates().iter().rfind(|result| result.severity == Severity::Hard)?;
    let line = last.output.lines().next().unwrap_or_default().trim();
    (!line.is_empty()).then(|| text::shorten_to_line(line, MAX_SUBJECT_CHARS))
}
