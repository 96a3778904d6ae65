//! The commands suggested after a run, for each outcome: the same on the screen and in the report.
//!
//! Text from task files and git is quoted for a shell before it becomes part of a command.

use ralph_model::budget::ExhaustedBudget;
use ralph_model::ids::{RunId, TaskId};
use ralph_model::outcome::Outcome;
use ralph_model::text::quote_word;
use ralph_model::units::Timestamp;

use crate::sanitize;

/// A command with a longer note is no help on a terminal.
const LONGEST_NOTE: usize = 80;

const SHOWN_NOTES: usize = 3;

/// The facts that select the suggested commands.
pub(crate) struct NextStepFacts<'a> {
    /// `None` if the run is active or was cut off.
    pub(crate) outcome: Option<&'a Outcome>,
    pub(crate) failed: Vec<FailedWork<'a>>,
    /// Tasks approved only because no further review was allowed.
    pub(crate) approved_at_cap: Vec<&'a TaskId>,
    /// Commits that ralph made.
    pub(crate) commits: u32,
    /// Commits that agents made.
    pub(crate) agent_commits: u32,
    pub(crate) started: Timestamp,
    pub(crate) has_tasks: bool,
    /// Whether the run made a plan, which `ralph build` follows.
    pub(crate) is_plan: bool,
    /// Notes that no agent read and that resuming the run does not deliver.
    pub(crate) unread_notes: Vec<&'a str>,
    /// The run id, if the commands must name it.
    pub(crate) run: Option<&'a RunId>,
}

/// A failed task and the branches of its work.
pub(crate) struct FailedWork<'a> {
    pub(crate) task: &'a TaskId,
    pub(crate) branch: Option<&'a str>,
    /// The branch that the run started from.
    pub(crate) onto: Option<&'a str>,
}

/// Returns commands, each with its purpose. `moment` formats a time of day.
pub(crate) fn suggest_commands(
    facts: &NextStepFacts<'_>,
    moment: impl Fn(Timestamp) -> String,
) -> Vec<(String, String)> {
    let mut commands = Vec::new();
    for failed in &facts.failed {
        commands.extend(suggest_for_failed(failed));
    }
    // Tasks that failed in an earlier run have no branch of this one.
    if !facts.failed.is_empty() && facts.failed.iter().all(|it| it.branch.is_none()) {
        let all = "start all failed tasks over".to_owned();
        commands.push(("ralph build --retry-failed".to_owned(), all));
    }
    commands.extend(suggest_resume(facts, moment));
    let mut add = |command: String, what: &str| commands.push((command, what.to_owned()));
    for note in facts.unread_notes.iter().take(SHOWN_NOTES) {
        add(suggest_for_note(note, facts.has_tasks), "do what the unread note asks for");
    }
    for task in &facts.approved_at_cap {
        add(
            format!("ralph tasks show {}", quote_name(&task.0)),
            "what the last review still wanted",
        );
    }
    if facts.is_plan && matches!(facts.outcome, Some(Outcome::Complete)) {
        add("ralph build".to_owned(), "do the work, after reading the plan");
    }
    if facts.agent_commits > 0 {
        let since = facts.started.to_utc();
        add(format!("git log --since={since}"), "see the commits of this run");
    } else if facts.commits > 0 {
        add(format!("git log -n {}", facts.commits), "see the commits of this run");
    }
    // With a run id this is part of the report, which need not suggest itself.
    if let Some(run) = facts.run {
        add(format!("ralph log {}", quote_name(&run.0)), "everything that happened");
    } else {
        if facts.has_tasks {
            add("ralph report".to_owned(), "read the report of the run");
        }
        add("ralph log".to_owned(), "read what happened");
    }
    commands
}

/// Returns the command that resumes the run, if it can be resumed.
fn suggest_resume(
    facts: &NextStepFacts<'_>,
    moment: impl Fn(Timestamp) -> String,
) -> Option<(String, String)> {
    let resume = |flags: &str, what: &str| Some((format!("ralph resume{flags}"), what.to_owned()));
    match facts.outcome {
        // Failed tasks stay failed, so a resumed run would end at once.
        // The settings of a run, including its sandbox, are fixed until its end.
        Some(
            Outcome::Complete
            | Outcome::TasksLeft { .. }
            | Outcome::ApprovedAtCap { .. }
            | Outcome::BaselineBroken { sandbox: Some(_), .. },
        ) => None,
        Some(Outcome::IterationsUsedUp { limit }) => {
            let more = limit.saturating_mul(2);
            resume(&format!(" -m {more}"), "resume with more iterations")
        }
        Some(Outcome::NothingChanges { .. }) => resume("", "resume if something is left to do"),
        Some(Outcome::BudgetUsedUp { exhausted }) => match exhausted {
            ExhaustedBudget::Cost { .. } => {
                resume(" --max-cost USD", "resume with a higher cost limit")
            }
            ExhaustedBudget::Time { .. } => {
                resume(" --max-time DURATION", "resume with a higher time limit")
            }
            ExhaustedBudget::Tokens { .. } => {
                resume(" --max-tokens N", "resume with a higher token limit")
            }
        },
        Some(Outcome::LimitTooLong { resets_at: Some(at), .. }) => {
            resume("", &format!("resume after the limit has reset at {}", moment(*at)))
        }
        Some(Outcome::LimitTooLong { resets_at: None, .. }) => {
            resume("", "resume after the limit has reset")
        }
        Some(
            Outcome::AgentFailed { .. }
            | Outcome::NoCommitMessage
            | Outcome::SameFailure { .. }
            | Outcome::ScmFailed { .. }
            | Outcome::GitFailed { .. }
            | Outcome::BaselineBroken { sandbox: None, .. }
            | Outcome::SandboxBlocked { .. }
            | Outcome::TasksLost { .. }
            | Outcome::PromptLost { .. }
            | Outcome::WorkersFailed { .. },
        ) => resume("", "resume after fixing this"),
        Some(Outcome::LandingBlocked { .. }) => {
            resume("", "commit, stash or move these files, then resume: no agent is asked again")
        }
        Some(Outcome::PlanMissing) => Some(("ralph plan".to_owned(), "make the plan".to_owned())),
        Some(Outcome::Interrupted) | None => resume("", "resume where it stopped"),
    }
}

/// Returns notes without the names of the tasks whose workers did not read them, each once.
pub(crate) fn drop_task_names<'a, 'b>(
    notes: impl Iterator<Item = &'a str>,
    tasks: &(impl Iterator<Item = &'b TaskId> + Clone),
) -> Vec<&'a str> {
    let mut texts = Vec::new();
    for note in notes {
        let named = |task: &TaskId| note.strip_prefix(&task.0)?.strip_prefix(": ");
        let text = tasks.clone().find_map(named).unwrap_or(note);
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}

/// Returns the command that makes new work of a note.
fn suggest_for_note(note: &str, has_tasks: bool) -> String {
    let is_short = note.chars().count() <= LONGEST_NOTE && !note.contains(['\n', '\r']);
    let is_word = is_short && !note.starts_with('-');
    let text = if is_word { quote_name(note) } else { "TEXT".to_owned() };
    if has_tasks {
        format!("ralph tasks add {text} --criterion {text} && ralph build")
    } else {
        format!("ralph run {text}")
    }
}

/// Returns the commands for a failed task.
fn suggest_for_failed(failed: &FailedWork<'_>) -> Vec<(String, String)> {
    let id = quote_name(&failed.task.0);
    let commands = match failed.branch {
        Some(branch) => {
            let branch = quote_name(branch);
            let onto = failed.onto.map_or_else(|| "HEAD".to_owned(), quote_name);
            vec![
                (format!("git diff {onto}...{branch}"), "see what was tried"),
                (format!("ralph build --task {id} --from-shelf"), "continue from that work"),
                (format!("ralph build --task {id} --fresh"), "start over"),
            ]
        }
        None => vec![(format!("ralph build --task {id}"), "try it again")],
    };
    commands.into_iter().map(|(command, what)| (command, what.to_owned())).collect()
}

/// Returns a name on one line, quoted for a shell if needed.
fn quote_name(name: &str) -> String {
    quote_word(&sanitize::sanitize_line(name, 300, ""))
}
