//! The lines that ralph itself prints about a run, between those of the agent.
//!
//! One line for each fact, wrapped to the width of the terminal. Not here: the `[ralph]` lines of
//! `--verbose` (`verbose`), and the end of a run (`run_summary`).

use std::io::Write;

use ralph_core::child::{ChildEnd, SoftLimit};
use ralph_core::event::{Checkpoint, Event, Landed, Purpose, Recorded, WaitReason};
use ralph_core::failure::{Failure, FailureRule};
use ralph_core::gate::{Gate, GateResult, GateStatus, Severity};
use ralph_core::ids::{AskNumber, IterationNumber, Role, TaskId};
use ralph_core::judge::{Judgement, Verdict};
use ralph_core::plan::PlanLook;
use ralph_core::ports::Activity;
use ralph_core::reading::Reply;
use ralph_core::recipe::{AgentKind, Completion, Origin, Recipe};
use ralph_core::review::ReviewResult;
use ralph_core::run::{Asking, AskingEnd, Iteration, RunState};
use ralph_core::text::Truncate;
use ralph_core::units::Millis;

use crate::board;
use crate::memory;
use crate::page::Page;
use crate::safe;
use crate::stream::{self, plural};
use crate::style::{Mark, Motion, Paint};
use crate::view::Verbosity;
use crate::{waits, wishes};

/// State that later lines depend on.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// The time left when a wait was last reported.
    announced: Option<Millis>,
}

/// Limits foreign text within a line of ralph: enough to understand it, at most a few lines.
const WORDS_CHARS: usize = 500;
/// The length of an abbreviated id in git.
const SHORT_ID: usize = 7;

impl Lines {
    /// Prints the lines for an event at this verbosity.
    pub(crate) fn tell<W: Write>(
        &mut self,
        page: &mut Page<W>,
        verbosity: Verbosity,
        recorded: &Recorded,
        state: &RunState,
    ) {
        match verbosity {
            Verbosity::Quiet => tell_quietly(page, recorded, state),
            Verbosity::Normal | Verbosity::Verbose => self.tell_all(page, recorded, state),
        }
    }

    fn tell_all<W: Write>(&mut self, page: &mut Page<W>, recorded: &Recorded, state: &RunState) {
        match &recorded.event {
            Event::RunStarted { version, .. } => run_started(page, version, state),
            Event::RunResumed { version, .. } => {
                let done = state.iterations;
                let text = format!(
                    "ralph {version} resumes run {}, {done} iteration{} so far",
                    state.run,
                    plural(done as usize)
                );
                page.say(Mark::Run, Paint::Act, &text);
            }
            Event::IterationStarted { iteration, role, task } => {
                page.gap();
                let of = iteration_of(*iteration, state);
                page.add(0, Paint::Strong, &format!("{of}{}", purpose(*role, task.as_ref())));
                if *role == Role::Compact {
                    let why = state.trigger().words();
                    page.add(0, Paint::Dim, &format!("Compacting the handoffs: {why}"));
                }
                board::begun(page, state);
            }
            Event::Checkpointed { checkpoint } => checkpointed(page, checkpoint, state),
            Event::Asked { ask, purpose, agent, .. } => {
                asked(page, *ask, purpose, *agent);
                wishes::handed_over(page, purpose, state);
            }
            Event::Replied { reply, .. } => replied(page, reply, state),
            Event::Waiting { until, reason } => {
                self.announced = Some(until.since(recorded.at));
                waits::waiting(page, *until, *reason, recorded.at, state);
            }
            Event::TasksRead { list, remarks } => board::read(page, list, remarks, state),
            Event::BaselineStarted { .. } => {
                page.gap();
                page.add(0, Paint::Strong, "Baseline: the gates before any work");
            }
            Event::BaselineChecked { result } => {
                board::baseline_checked(page, result, &state.recipe);
            }
            Event::TasksWritten | Event::Observed { .. } => {}
            Event::PlanSeen { look } => plan_seen(page, look, state),
            Event::Claimed { claim } => board::claimed(page, claim),
            Event::GateChecked { result } => gate_checked(page, result, &state.recipe),
            Event::Judged { judgement } => judged(page, judgement, state),
            Event::Landed { landed } => tell_landed(page, landed, state),
            Event::IterationEnded { iteration } => iteration_ended(page, *iteration, state),
            Event::Wished { .. } | Event::Paused | Event::TaskSkipped { .. } => {
                wishes::tell(page, &recorded.event);
            }
            Event::Warned { text } => warn(page, text),
            Event::RunEnded { outcome, .. } => {
                crate::ending::tell(page, outcome, recorded.at, state);
            }
        }
    }

    /// Shows a current activity.
    pub(crate) fn doing<W: Write>(&mut self, page: &mut Page<W>, activity: &Activity<'_>) {
        match activity {
            Activity::Gate(gate) => gate_started(page, gate),
            Activity::GateRuns { gate, ran } => waits::still_running(page, gate, *ran),
            Activity::Paused { since } => wishes::still_paused(page, *since),
            Activity::Waiting { until, reason, left } => {
                waits::still_waiting(page, &mut self.announced, *until, *reason, *left);
            }
        }
    }
}

/// Prints only warnings, agent failures and the outcome.
fn tell_quietly<W: Write>(page: &mut Page<W>, recorded: &Recorded, state: &RunState) {
    match &recorded.event {
        Event::Warned { text } => warn(page, text),
        Event::Claimed { claim } => board::claimed(page, claim),
        Event::PlanSeen { look } if look.is_to_be_put_back() => plan_seen(page, look, state),
        Event::Replied { reply, .. } => {
            if let Some(failure) = &reply.failure {
                failed(page, failure);
            }
            child_ended(page, &reply.end, "the agent");
        }
        Event::Waiting { until, reason: WaitReason::UsageLimit } => {
            waits::waiting(page, *until, WaitReason::UsageLimit, recorded.at, state);
        }
        Event::Wished { .. } | Event::Paused | Event::TaskSkipped { .. } => {
            wishes::tell(page, &recorded.event);
        }
        Event::RunEnded { outcome, .. } => crate::ending::tell_briefly(page, outcome),
        Event::RunStarted { .. }
        | Event::RunResumed { .. }
        | Event::IterationStarted { .. }
        | Event::Checkpointed { .. }
        | Event::Asked { .. }
        | Event::Waiting { reason: WaitReason::Retry | WaitReason::Delay, .. }
        | Event::TasksRead { .. }
        | Event::TasksWritten
        | Event::BaselineStarted { .. }
        | Event::BaselineChecked { .. }
        | Event::PlanSeen { .. }
        | Event::Observed { .. }
        | Event::GateChecked { .. }
        | Event::Judged { .. }
        | Event::Landed { .. }
        | Event::IterationEnded { .. } => {}
    }
}

/// Prints the progress of the plan, or that it was restored.
fn plan_seen<W: Write>(page: &mut Page<W>, look: &PlanLook, state: &RunState) {
    let Some(plan) = &state.recipe.plan else { return };
    if let Some(warning) = look.put_back(&plan.file) {
        warn(page, &warning);
    } else if let Some(counts) = look.counts() {
        let (done, total) = (counts.done, counts.total());
        let text = format!("Plan: {done} of {total} item{} done", plural(total as usize));
        page.add(0, Paint::Dim, &text);
    }
}

fn run_started<W: Write>(page: &mut Page<W>, version: &str, state: &RunState) {
    let recipe = &state.recipe;
    page.say(Mark::Run, Paint::Act, &format!("ralph {version}, run {}", state.run));
    let (workflow, agent) = (words(page, &recipe.workflow), words(page, &agent_name(recipe)));
    page.add(2, Paint::None, &format!("workflow {workflow}, agent {agent}"));
    let limits = &recipe.limits;
    let iterations = limits.iterations;
    let mut bounds = vec![format!("{iterations} iteration{}", plural(iterations as usize))];
    bounds.extend(limits.budget.cost.map(|cost| cost.to_string()));
    bounds.extend(limits.budget.tokens.map(|tokens| format!("{tokens} tokens")));
    bounds.extend(limits.budget.time.map(|time| time.to_string()));
    page.add(2, Paint::None, &format!("at most {}", bounds.join(", ")));
    let gates: Vec<String> =
        recipe.gates.iter().filter_map(|gate| gate_name(recipe, gate)).collect();
    if gates.is_empty() {
        page.add(2, Paint::Warn, "no gates: nothing is checked but the agent's word");
    } else {
        page.add(2, Paint::None, &format!("gates {}", words(page, &gates.join(", "))));
    }
    if !recipe.gate_scripts.is_empty() {
        let scripts = words(page, &recipe.gate_scripts.join(", "));
        page.add(2, Paint::None, &format!("protected scripts of gates: {scripts}"));
    }
}

/// Returns the name of the agent with its model or command.
fn agent_name(recipe: &Recipe) -> String {
    let agent = &recipe.agent;
    let detail = match agent.kind.origin() {
        Origin::Product => agent.model.as_ref(),
        Origin::Command | Origin::BuiltIn => agent.model.as_ref().or(Some(&agent.command)),
    };
    let detail = detail.map(|detail| format!(" ({detail})")).unwrap_or_default();
    format!("{}{detail}", agent.kind.name())
}

/// Returns the name of a gate for the header, or `None` if it is not run.
fn gate_name(recipe: &Recipe, gate: &Gate) -> Option<String> {
    Some(match recipe.strategy.severity(gate)? {
        Severity::Hard => gate.name.clone(),
        Severity::Soft => format!("{} (soft)", gate.name),
    })
}

/// Returns `Iteration 2/10`.
pub(crate) fn iteration_of(iteration: IterationNumber, state: &RunState) -> String {
    format!("Iteration {iteration}/{}", state.last_iteration())
}

/// Returns the role and task of an iteration, unless it only runs a prompt.
fn purpose(role: Role, task: Option<&TaskId>) -> String {
    let role = match role {
        Role::Prompt => String::new(),
        Role::Plan
        | Role::Build
        | Role::Implement
        | Role::Review
        | Role::Fix
        | Role::Compact
        | Role::Message => format!(": {role}"),
    };
    let task = task.map(|task| safe::one_line(&format!(" {task}"), WORDS_CHARS, "..."));
    match task {
        Some(task) => format!("{role} {task}"),
        None => role,
    }
}

fn checkpointed<W: Write>(page: &mut Page<W>, checkpoint: &Checkpoint, state: &RunState) {
    let text = match checkpoint {
        Checkpoint::Git { head: Some(head), .. } => format!("Checkpoint {}", short(&head.0)),
        Checkpoint::Git { head: None, .. } => "Checkpoint before the first commit".to_owned(),
        // Once is enough: it will not change.
        Checkpoint::None if state.iterations > 1 => return,
        Checkpoint::None => "No checkpoint: not a git repository".to_owned(),
    };
    page.add(0, Paint::Dim, &text);
}

fn asked<W: Write>(page: &mut Page<W>, ask: AskNumber, purpose: &Purpose, agent: AgentKind) {
    let agent = agent.name();
    match (purpose, ask.0) {
        (Purpose::Message, _) => {
            page.add(0, Paint::Dim, &format!("Asking {agent} for a commit message"));
        }
        (Purpose::Gate(gate), _) => {
            let gate = words(page, gate);
            page.add(0, Paint::Dim, &format!("Asking {agent} for the verdict of gate {gate}"));
        }
        (_, 0 | 1) => {}
        (_, call) => page.add(0, Paint::Dim, &format!("Asking {agent} again (call {call})")),
    }
}

fn replied<W: Write>(page: &mut Page<W>, reply: &Reply, state: &RunState) {
    page.line(&stream::summary(page.style(), reply));
    child_ended(page, &reply.end, "the agent");
    let asking = state.current.as_ref().map(open_question);
    let Some(failure) = &reply.failure else {
        if let Some(asking) = asking {
            unusable(page, asking);
        }
        return;
    };
    failed(page, failure);
    match (failure.class.rule(), asking.and_then(|asking| asking.end.as_ref())) {
        (FailureRule::RetrySmaller, None) => {
            page.say(Mark::Again, Paint::Warn, "Asking again with the smallest prompt");
        }
        (FailureRule::RetryInWords, None) => {
            page.say(Mark::Again, Paint::Warn, "Asking again with the schema in the prompt");
        }
        // Retries and waits are reported by their own events.
        (
            FailureRule::Retry
            | FailureRule::RetrySmaller
            | FailureRule::RetryInWords
            | FailureRule::FailedAttempt
            | FailureRule::Wait { .. }
            | FailureRule::Stop
            | FailureRule::Again,
            _,
        ) => {}
    }
}

/// Prints that an answer does not have the required form.
fn unusable<W: Write>(page: &mut Page<W>, asking: &Asking) {
    let Some(wrong) = &asking.wrong else { return };
    let fault = words(page, &wrong.fault);
    match &asking.end {
        None => {
            let text = format!("The answer cannot be used: {fault}; asking for what is missing");
            page.say(Mark::Again, Paint::Warn, &text);
        }
        Some(AskingEnd::FailedAttempt(_) | AskingEnd::Hopeless(_)) => {
            let text = format!("The answer cannot be used: {fault}");
            page.say(Mark::Fail, Paint::Bad, &text);
        }
        // The last answer has the right form, or ralph can use it anyway.
        Some(AskingEnd::Answered(_)) => {}
    }
}

/// Returns the state of the current agent calls: the work first, then the verdict of a gate, and
/// after the judgement the commit message.
pub(crate) fn open_question(current: &Iteration) -> &Asking {
    match (&current.judgement, &current.work.end) {
        (Some(_), _) => &current.message,
        (None, Some(_)) if current.gate != Asking::default() => &current.gate,
        (None, _) => &current.work,
    }
}

fn failed<W: Write>(page: &mut Page<W>, failure: &Failure) {
    let message = words(page, &failure.words);
    match failure.class.rule() {
        // The user interrupted it; no message needed.
        FailureRule::Again => return,
        FailureRule::Wait { .. } => {
            let text = format!("The agent reached a usage limit: {message}");
            page.say(Mark::Warn, Paint::Warn, &text);
        }
        FailureRule::Retry
        | FailureRule::RetrySmaller
        | FailureRule::RetryInWords
        | FailureRule::FailedAttempt
        | FailureRule::Stop => {
            let name = failure.class.name();
            page.say(Mark::Fail, Paint::Bad, &format!("The agent failed, {name}: {message}"));
        }
    }
    if let Some(hint) = &failure.hint {
        let hint = words(page, hint);
        page.add(2, Paint::None, &format!("hint: {hint}"));
    }
}

fn gate_started<W: Write>(page: &mut Page<W>, gate: &Gate) {
    let text = waits::running(page, gate);
    match page.style().motion {
        Motion::Rewrites => page.pass(Mark::Busy, &text),
        Motion::Appends => page.say(Mark::Busy, Paint::Dim, &text),
    }
}

fn gate_checked<W: Write>(page: &mut Page<W>, result: &GateResult, recipe: &Recipe) {
    let gate = words(page, &result.gate);
    let mut ending = match &result.end {
        Some(end) => format!(", {} ({})", end.ending, end.ran),
        None => String::new(),
    };
    if let Some(reason) = &result.reason {
        ending.push_str(&format!("; {}", words(page, reason)));
    }
    match (result.status, result.severity) {
        (GateStatus::Passed, _) => {
            page.say(Mark::Pass, Paint::Good, &format!("Gate {gate}: passed{ending}"));
        }
        (GateStatus::Cached, _) => page.say(
            Mark::Pass,
            Paint::Good,
            &format!("Gate {gate}: cached, it passed before on the same tree"),
        ),
        (GateStatus::Failed, Severity::Hard) => {
            let used = recipe.gates.iter().find(|gate| gate.name == result.gate);
            let action = used
                .map(|gate| format!("; fail action {}", gate.fail_action.name()))
                .unwrap_or_default();
            page.say(Mark::Fail, Paint::Bad, &format!("Gate {gate}: failed{ending}{action}"));
            gate_output(page, result, recipe);
        }
        (GateStatus::Failed, Severity::Soft) => {
            let text = format!("Gate {gate}: failed{ending}; soft, so the work may be kept");
            page.say(Mark::Warn, Paint::Warn, &text);
            gate_output(page, result, recipe);
        }
    }
    if let Some(end) = &result.end {
        child_ended(page, end, &format!("gate {gate}"));
    }
}

/// Prints why a gate failed: the failing tests, and the part of its output that its `truncate`
/// setting keeps.
pub(crate) fn gate_output<W: Write>(page: &mut Page<W>, result: &GateResult, recipe: &Recipe) {
    if !result.failing.is_empty() {
        let names = words(page, &shown_names(&result.failing));
        page.add(2, Paint::None, &format!("failing: {names}"));
    }
    let output = safe::harmless(&result.output);
    let gate = recipe.gates.iter().find(|gate| gate.name == result.gate);
    let lines = match gate.map(|gate| gate.truncate) {
        Some(Truncate::Tail | Truncate::Both) => stream::excerpt_end(page.style(), &output),
        Some(Truncate::Head) | None => stream::excerpt(page.style(), &output),
    };
    for line in lines {
        page.line(&line);
    }
    if let Some(log) = &result.log {
        let log = words(page, log);
        page.add(2, Paint::None, &format!("output: {log}"));
    }
}

/// So many names of failing tests fit on a line or two of a terminal.
const SHOWN_NAMES: usize = 3;

fn shown_names(names: &[String]) -> String {
    let shown = names.iter().take(SHOWN_NAMES).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Warns about an exceeded soft limit and processes or pipes that a child left behind.
fn child_ended<W: Write>(page: &mut Page<W>, end: &ChildEnd, who: &str) {
    match end.soft_limit {
        SoftLimit::Kept => {}
        SoftLimit::Passed => warn(page, &format!("{who} ran past its soft limit ({})", end.ran)),
    }
    match end.leftovers.processes {
        0 => {}
        1 => warn(page, &format!("ended 1 process that {who} left behind")),
        count => warn(page, &format!("ended {count} processes that {who} left behind")),
    }
    if end.leftovers.held_pipe {
        warn(
            page,
            &format!(
                "a process that {who} started kept its output open; ralph did not wait for it"
            ),
        );
    }
}

fn judged<W: Write>(page: &mut Page<W>, judgement: &Judgement, state: &RunState) {
    let has_gates = state.current.as_ref().is_some_and(|current| !current.gates.is_empty());
    let done = words(page, &state.recipe.completion_response);
    let is_last = state.iterations >= state.last_iteration();
    let followup = if is_last { "" } else { "; the next prompt reports it" };
    if board::judged(page, judgement, state) {
        return;
    }
    let (mark, paint, text) = match &judgement.verdict {
        Verdict::Complete if state.recipe.completion == Completion::Gates => {
            (Mark::Pass, Paint::Good, "Complete: the hard gates passed".to_owned())
        }
        Verdict::Complete if has_gates => (
            Mark::Pass,
            Paint::Good,
            format!("Complete: the hard gates passed and the agent said {done}"),
        ),
        Verdict::Complete => (Mark::Pass, Paint::Good, format!("Complete: the agent said {done}")),
        Verdict::Passed { signal } => {
            let passed = if has_gates { "Passed, but not done" } else { "Not done" };
            let answer = match signal {
                Some(signal) => format!("the agent said \"{}\"", words(page, signal)),
                None => format!("the agent did not say {done}"),
            };
            (Mark::Step, Paint::Act, format!("{passed}: {answer}"))
        }
        Verdict::GatesFailed { gates } => (
            Mark::Fail,
            Paint::Bad,
            format!(
                "Failed gate{}: {}{followup}",
                plural(gates.len()),
                words(page, &gates.join(", "))
            ),
        ),
        // The warning that follows reports it.
        Verdict::AttemptFailed { .. } if is_compaction(state) => return,
        Verdict::AttemptFailed { failure } => {
            (Mark::Fail, Paint::Bad, format!("Attempt failed: {}", failure.class.name()))
        }
        Verdict::NothingChanged => {
            (Mark::Fail, Paint::Bad, "Failed: nothing was changed".to_owned())
        }
        Verdict::NotHandedIn { reasons } => {
            let reasons = words(page, &reasons.join(" "));
            (Mark::Fail, Paint::Bad, format!("Not handed in: {reasons}"))
        }
        Verdict::Blocked { blocked } => {
            (Mark::Fail, Paint::Bad, format!("Blocked: needs {}", words(page, &blocked.needs)))
        }
        Verdict::Reviewed { verdict, feedback } => {
            let result = ReviewResult::new(*verdict, feedback);
            (Mark::Step, Paint::Act, format!("Review: {}", result.name()))
        }
        Verdict::Skipped { .. } => (Mark::Back, Paint::Warn, "Task skipped on request".to_owned()),
        Verdict::Compacted { trigger } => {
            (Mark::Pass, Paint::Good, memory::told(judgement, *trigger))
        }
    };
    page.say(mark, paint, &text);
}

fn tell_landed<W: Write>(page: &mut Page<W>, landed: &Landed, state: &RunState) {
    let is_review = state.current.as_ref().is_some_and(|current| current.role == Role::Review);
    let must_not_edit = is_review || is_compaction(state);
    match landed {
        // Reviews and compactions must not change files; only a violation is worth a line.
        Landed::RolledBack { kept: None } if must_not_edit => {}
        Landed::RolledBack { kept: Some(kept) } if must_not_edit => {
            let kept = words(page, kept);
            let who = if is_review { "reviewer" } else { "compacting agent" };
            warn(page, &format!("the {who} changed files, which was undone; kept on {kept}"));
        }
        Landed::Surveyed { .. } | Landed::Heard { .. } | Landed::ListWritten => {}
        Landed::Shelved { branch, .. } => {
            let text = format!("Saved on failure branch {}", words(page, branch));
            page.say(Mark::Back, Paint::Warn, &text);
        }
        Landed::Committed { commit, subject } => {
            let text = format!("Commit {} {}", short(&commit.0), words(page, subject));
            page.say(Mark::Pass, Paint::Good, &text);
        }
        Landed::NothingToCommit => page.add(0, Paint::Dim, "Nothing to commit"),
        Landed::CommitRefused { output } => {
            let text = "The commit was refused; the next prompt reports it";
            page.say(Mark::Fail, Paint::Bad, text);
            for line in stream::excerpt(page.style(), &safe::harmless(output)) {
                page.line(&line);
            }
        }
        Landed::ScmRan { command } => {
            let text = format!("Ran {}", words(page, command));
            page.say(Mark::Pass, Paint::Good, &text);
        }
        Landed::RolledBack { kept: Some(kept) } => {
            let text = format!("Rolled back to the checkpoint; kept on {}", words(page, kept));
            page.say(Mark::Back, Paint::Warn, &text);
        }
        Landed::RolledBack { kept: None } => {
            let text = "Rolled back to the checkpoint; there was nothing to keep";
            page.say(Mark::Back, Paint::Warn, text);
        }
    }
}

fn is_compaction(state: &RunState) -> bool {
    state.current.as_ref().is_some_and(|current| current.role == Role::Compact)
}

fn iteration_ended<W: Write>(page: &mut Page<W>, iteration: IterationNumber, state: &RunState) {
    let limit = state.last_iteration();
    let mut parts =
        vec![format!("Progress: iteration {iteration}/{limit}"), format!("{} elapsed", state.ran)];
    if let Some(tasks) = board::progress(state) {
        parts.insert(0, tasks);
        parts[1] = format!("iteration {iteration}/{limit}");
    }
    parts.extend(state.totals.usage.cost.map(|cost| format!("{cost} so far")));
    page.add(0, Paint::Dim, &parts.join(", "));
}

pub(crate) fn warn<W: Write>(page: &mut Page<W>, text: &str) {
    let text = words(page, text);
    page.say(Mark::Warn, Paint::Warn, &text);
}

/// Returns foreign text sanitized and shortened for use within a line.
pub(crate) fn words<W: Write>(page: &Page<W>, text: &str) -> String {
    safe::one_line(text, WORDS_CHARS, page.style().mark(Mark::More))
}

/// Returns the abbreviated form of an id.
pub(crate) fn short(id: &str) -> String {
    safe::one_line(safe::cut(id, SHORT_ID), SHORT_ID, "")
}
