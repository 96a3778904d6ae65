//! What may be typed after a run, for each way it can end: the same on the screen and in the report.
//!
//! Text of others stands in a command only quoted for a shell.

use ralph_core::budget::Exhausted;
use ralph_core::ids::{RunId, TaskId};
use ralph_core::outcome::Outcome;
use ralph_core::units::Timestamp;

use crate::safe;
use crate::verbose::quoted;

/// What decides what may be typed next.
pub(crate) struct Facts<'a> {
    /// How the run ended; nothing if it is running or was cut off.
    pub(crate) outcome: Option<&'a Outcome>,
    /// The tasks that failed.
    pub(crate) failed: Vec<FailedWork<'a>>,
    /// The tasks whose last review approved them only because it was the last one.
    pub(crate) approved_at_cap: Vec<&'a TaskId>,
    /// How many commits ralph made.
    pub(crate) commits: u32,
    /// How many commits agents made.
    pub(crate) agent_commits: u32,
    /// When the run began.
    pub(crate) started: Timestamp,
    /// Whether it has a task list.
    pub(crate) has_tasks: bool,
    /// The run, where it is to be named.
    pub(crate) run: Option<&'a RunId>,
}

/// A task that failed, and where its work is.
pub(crate) struct FailedWork<'a> {
    /// The task.
    pub(crate) task: &'a TaskId,
    /// The branch that keeps its work.
    pub(crate) branch: Option<&'a str>,
    /// The branch that the run was on.
    pub(crate) onto: Option<&'a str>,
}

/// Returns commands and what each is good for. `moment` words a time of day.
pub(crate) fn commands(
    facts: &Facts<'_>,
    moment: impl Fn(Timestamp) -> String,
) -> Vec<(String, String)> {
    let mut commands = Vec::new();
    for failed in &facts.failed {
        commands.extend(about_failed(failed));
    }
    commands.extend(about_going_on(facts, moment));
    let mut add = |command: String, what: &str| commands.push((command, what.to_owned()));
    for task in &facts.approved_at_cap {
        add(format!("ralph tasks show {}", word(&task.0)), "what the last review still wanted");
    }
    if facts.agent_commits > 0 {
        let since = facts.started.utc();
        add(format!("git log --since={since}"), "see the commits of this run");
    } else if facts.commits > 0 {
        add(format!("git log -n {}", facts.commits), "see the commits of this run");
    }
    // Whoever reads the report need not be told of it.
    if let Some(run) = facts.run {
        add(format!("ralph log {}", word(&run.0)), "everything that happened");
    } else {
        if facts.has_tasks {
            add("ralph report".to_owned(), "read the account of the run");
        }
        add("ralph log".to_owned(), "read what happened");
    }
    commands
}

/// Returns how to go on with the run, where that is possible.
fn about_going_on(
    facts: &Facts<'_>,
    moment: impl Fn(Timestamp) -> String,
) -> Option<(String, String)> {
    let resume = |flags: &str, what: &str| Some((format!("ralph resume{flags}"), what.to_owned()));
    match facts.outcome {
        // Tasks that failed stay failed, so that going on would end at once.
        // The settings of a run hold until its end, those of its sandbox as well.
        Some(
            Outcome::Complete
            | Outcome::TasksLeft { .. }
            | Outcome::BaselineBroken { sandbox: Some(_), .. },
        ) => None,
        Some(Outcome::IterationsUsedUp { limit }) => {
            let more = limit.saturating_mul(2);
            resume(&format!(" -m {more}"), "go on with more iterations")
        }
        Some(Outcome::NothingChanges { .. }) => {
            resume("", "continue all the same, if something is left to do")
        }
        Some(Outcome::BudgetUsedUp { exhausted }) => match exhausted {
            Exhausted::Cost { .. } => resume(" --max-cost USD", "go on with more money"),
            Exhausted::Time { .. } => resume(" --max-time DURATION", "go on with more time"),
            Exhausted::Tokens { .. } => resume(" --max-tokens N", "go on with more tokens"),
        },
        Some(Outcome::LimitTooLong { resets_at: Some(at), .. }) => {
            resume("", &format!("go on, once the limit has reset at {}", moment(*at)))
        }
        Some(Outcome::LimitTooLong { resets_at: None, .. }) => {
            resume("", "go on, once the limit has reset")
        }
        Some(
            Outcome::AgentFailed { .. }
            | Outcome::NoCommitMessage
            | Outcome::ScmFailed { .. }
            | Outcome::GitFailed { .. }
            | Outcome::BaselineBroken { sandbox: None, .. }
            | Outcome::TasksLost { .. }
            | Outcome::PromptLost { .. },
        ) => resume("", "go on, once that is mended"),
        Some(Outcome::PlanMissing) => Some(("ralph plan".to_owned(), "make the plan".to_owned())),
        Some(Outcome::Interrupted) | None => resume("", "go on where it stopped"),
    }
}

/// Returns what may be done about a task that failed.
fn about_failed(failed: &FailedWork<'_>) -> Vec<(String, String)> {
    let id = word(&failed.task.0);
    let commands = match failed.branch {
        Some(branch) => {
            let branch = word(branch);
            let onto = failed.onto.map_or_else(|| "HEAD".to_owned(), word);
            vec![
                (format!("git diff {onto}...{branch}"), "see what was tried"),
                (format!("ralph build --task {id} --from-shelf"), "go on from that"),
                (format!("ralph build --task {id} --fresh"), "try it afresh"),
            ]
        }
        None => vec![(format!("ralph build --task {id}"), "try it again")],
    };
    commands.into_iter().map(|(command, what)| (command, what.to_owned())).collect()
}

/// Returns a name as a shell would need it, on one line.
fn word(name: &str) -> String {
    quoted(&safe::one_line(name, 300, ""))
}
