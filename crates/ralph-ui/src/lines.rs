//! The lines that ralph itself prints about a run, between those of the agent.
//!
//! One line for each fact, wrapped to the width of the terminal. Not here: the `[ralph]` lines of
//! `--verbose` (`verbose`), and the end of a run (`run_summary`).

use std::io::Write;

use ralph_core::ports::Activity;
use ralph_core::tasks::next_work::find_compaction_trigger;
use ralph_model::agent::AgentKind;
use ralph_model::agent_output::Reply;
use ralph_model::event::{Event, Purpose, Recorded, WaitReason};
use ralph_model::failure::{Failure, FailureRule};
use ralph_model::gate::{Gate, GateCheck, Severity};
use ralph_model::ids::{AskNumber, IterationNumber, Role, TaskId};
use ralph_model::judgement::{Judgement, Verdict, describe_incomplete};
use ralph_model::phase::Iteration;
use ralph_model::plan::PlanState;
use ralph_model::recipe::{CommitPolicy, Completion, Recipe};
use ralph_model::review::ReviewResult;
use ralph_model::run::{AgentCallEnd, AgentCallState, RunState};
use ralph_model::sandbox::{Backend, RequestedBackend};
use ralph_model::text::choose_plural;
use ralph_model::units::{Millis, Timestamp};
use ralph_model::worktree::{Checkpoint, Landed};

use crate::gate_lines::{print_gate_result, print_gate_start, print_refusal, warn_about_child};
use crate::line_text::{
    FOREIGN_TEXT_CHARS, format_agent_name, format_iteration, print_warning, shorten_id,
    shorten_text,
};
use crate::line_writer::LineWriter;
use crate::status::describe_backend;
use crate::stream;
use crate::style::{LineMark, Paint};
use crate::{compaction_line, control_lines, sanitize, task_lines, wait_lines, worker_lines};

/// Of the reason why a backend is not used; `ralph doctor` shows all of it.
const REASON_CHARS: usize = 60;

/// How much a view shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verbosity {
    /// Only warnings, agent failures and the outcome of the run.
    Quiet,
    /// Also progress.
    #[default]
    Normal,
    /// Also details for debugging, in `[ralph]` lines.
    Verbose,
}

/// State that later lines depend on.
#[derive(Debug, Default)]
pub(crate) struct RunLines {
    /// The time left when a wait was last reported.
    announced: Option<Millis>,
    /// The end of the last wait that was printed.
    last_wait: Option<Timestamp>,
}

impl RunLines {
    /// Prints the lines for an event at this verbosity.
    pub(crate) fn print_event<W: Write>(
        &mut self,
        page: &mut LineWriter<W>,
        verbosity: Verbosity,
        recorded: &Recorded,
        state: &RunState,
    ) {
        // A control request interrupts a wait, which is then recorded again.
        if let Event::Waiting { until, .. } = &recorded.event
            && self.last_wait.replace(*until) == Some(*until)
        {
            return;
        }
        match verbosity {
            Verbosity::Quiet => print_quiet(page, recorded, state),
            Verbosity::Normal | Verbosity::Verbose => self.print_normal(page, recorded, state),
        }
    }

    fn print_normal<W: Write>(
        &mut self,
        page: &mut LineWriter<W>,
        recorded: &Recorded,
        state: &RunState,
    ) {
        if worker_lines::print_merge_event(page, &recorded.event, state) {
            return;
        }
        match &recorded.event {
            Event::RunStarted { version, .. } => print_run_header(page, version, state),
            Event::RunResumed { version, .. } => {
                let workers = state.parallel.as_ref();
                let done = workers.map_or(state.iterations, |it| it.total_iterations());
                let text = format!(
                    "ralph {version} resumes run {}, {done} iteration{} so far",
                    state.run,
                    choose_plural(done as usize)
                );
                page.write_marked(LineMark::Run, &text);
            }
            Event::IterationStarted { iteration, role, task } => {
                page.write_blank_line();
                let of = format_iteration(*iteration, state);
                page.write_indented(
                    0,
                    Paint::Strong,
                    &format!("{of}{}", format_purpose(*role, task.as_ref())),
                );
                if *role == Role::Compact {
                    let why = find_compaction_trigger(state).reason();
                    page.write_indented(0, Paint::Dim, &format!("Compacting the handoffs: {why}"));
                }
                task_lines::print_attempt_start(page, state);
            }
            Event::Checkpointed { checkpoint } => print_checkpoint(page, checkpoint, state),
            Event::Asked { ask, purpose, agent, .. } => {
                print_agent_call(page, *ask, purpose, *agent);
                control_lines::print_added_notes(page, purpose, state);
            }
            Event::Replied { reply, .. } => print_reply(page, reply, state),
            Event::Waiting { until, reason } => {
                self.announced = Some(until.elapsed_since(recorded.at));
                wait_lines::print_wait_start(page, *until, *reason, recorded.at, state);
            }
            Event::TasksRead { list, remarks } => {
                task_lines::print_task_list(page, list, remarks, state);
            }
            Event::BaselineStarted { .. } => {
                page.write_blank_line();
                page.write_indented(0, Paint::Strong, "Baseline: the gates before any work");
            }
            Event::BaselineChecked { result } => {
                task_lines::print_baseline_result(page, result, &state.recipe);
            }
            Event::PlanSeen { look } => print_plan_progress(page, look, state),
            Event::AgentListRead { diff: claim } => task_lines::print_reverted_changes(page, claim),
            Event::Refused { refusal, .. } => print_refusal(page, refusal),
            Event::GateChecked { result, .. } => print_gate_result(page, result, state),
            Event::Judged { judgement } => print_judgement(page, judgement, state),
            Event::Landed { landed } => print_landing(page, landed, state),
            Event::IterationEnded { iteration } => print_iteration_end(page, *iteration, state),
            Event::ControlRequested { .. } | Event::Paused | Event::TaskSkipped { .. } => {
                control_lines::print_control_event(page, &recorded.event);
            }
            Event::Warned { text } => print_warning(page, text),
            Event::RunEnded { outcome, .. } => {
                crate::run_summary::print_summary(page, outcome, recorded.at, state);
            }
            _ => worker_lines::print_worker_event(page, recorded, state),
        }
    }

    /// Shows a current activity.
    pub(crate) fn show_activity<W: Write>(
        &mut self,
        page: &mut LineWriter<W>,
        activity: &Activity<'_>,
    ) {
        match activity {
            Activity::Gate(gate) => print_gate_start(page, gate),
            Activity::GateRuns { gate, ran } => wait_lines::show_running_gate(page, gate, *ran),
            Activity::Paused { since } => control_lines::show_pause(page, *since),
            Activity::Workers(state) => worker_lines::show_workers(page, state),
            Activity::Waiting { until, reason, left } => {
                wait_lines::show_countdown(page, &mut self.announced, *until, *reason, *left);
            }
        }
    }
}

/// Prints only warnings, agent failures and the outcome.
fn print_quiet<W: Write>(page: &mut LineWriter<W>, recorded: &Recorded, state: &RunState) {
    match &recorded.event {
        Event::Warned { text } => print_warning(page, text),
        Event::AgentListRead { diff: claim } => task_lines::print_reverted_changes(page, claim),
        Event::PlanSeen { look } if look.needs_restore() => print_plan_progress(page, look, state),
        Event::Replied { reply, .. } => {
            if let Some(failure) = &reply.failure {
                print_agent_failure(page, failure);
            }
            warn_about_child(page, &reply.end, "the agent");
        }
        Event::Waiting { until, reason: WaitReason::UsageLimit } => {
            wait_lines::print_wait_start(page, *until, WaitReason::UsageLimit, recorded.at, state);
        }
        Event::ControlRequested { .. } | Event::Paused | Event::TaskSkipped { .. } => {
            control_lines::print_control_event(page, &recorded.event);
        }
        Event::WorkerLimited { .. } | Event::WorkerLost { .. } => {
            worker_lines::print_worker_event(page, recorded, state);
        }
        Event::RunEnded { outcome, .. } => crate::run_summary::print_outcome(page, outcome),
        _ => {}
    }
}

/// Prints the progress of the plan, or that it was restored.
fn print_plan_progress<W: Write>(page: &mut LineWriter<W>, look: &PlanState, state: &RunState) {
    let Some(plan) = &state.recipe.plan else { return };
    if let Some(warning) = look.describe_restore(&plan.file) {
        print_warning(page, &warning);
    } else if let Some(counts) = look.counts() {
        let (done, total) = (counts.done, counts.total());
        let person = counts.describe_person_items().map(|it| format!(", {it}"));
        let text = format!(
            "Plan: {done} of {total} item{} done{}",
            choose_plural(total as usize),
            person.unwrap_or_default()
        );
        page.write_indented(0, Paint::Dim, &text);
    }
}

/// The header line of a run that only changes files.
const NO_COMMIT: &str =
    "commits nothing; with `\"commit\": \"ralph\"` in the settings it commits what passed";

fn print_run_header<W: Write>(page: &mut LineWriter<W>, version: &str, state: &RunState) {
    let recipe = &state.recipe;
    page.write_marked(LineMark::Run, &format!("ralph {version}, run {}", state.run));
    let (workflow, agent) = (
        shorten_text(page, &recipe.workflow),
        shorten_text(page, &format_agent_name(&recipe.agent)),
    );
    page.write_indented(2, Paint::None, &format!("workflow {workflow}, agent {agent}"));
    if let Some(sandbox) = format_sandbox(recipe) {
        let sandbox = shorten_text(page, &sandbox);
        page.write_indented(2, Paint::None, &format!("sandbox {sandbox}"));
    }
    let limits = &recipe.limits;
    let iterations = limits.iterations;
    let mut bounds = vec![format!("{iterations} iteration{}", choose_plural(iterations as usize))];
    bounds.extend(limits.budget.cost.map(|cost| cost.to_string()));
    bounds.extend(limits.budget.tokens.map(|tokens| format!("{tokens} tokens")));
    bounds.extend(limits.budget.time.map(|time| time.to_string()));
    bounds.extend(recipe.parallel.as_ref().map(|it| format!("{} workers", it.jobs)));
    page.write_indented(2, Paint::None, &format!("at most {}", bounds.join(", ")));
    let gates: Vec<String> =
        recipe.gates.iter().filter_map(|gate| format_gate_name(recipe, gate)).collect();
    if gates.is_empty() {
        page.write_indented(
            2,
            Paint::Warn,
            "no gates: only the agent decides whether the work is done",
        );
    } else {
        page.write_indented(
            2,
            Paint::None,
            &format!("gates {}", shorten_text(page, &gates.join(", "))),
        );
    }
    let is_prompt = recipe.role == Role::Prompt && recipe.task_work().is_none();
    if is_prompt && recipe.landing.commit == CommitPolicy::NoCommit {
        page.write_indented(2, Paint::None, NO_COMMIT);
    }
    if let Some(text) = describe_protection(recipe) {
        let text = shorten_text(page, &text);
        page.write_indented(2, Paint::None, &text);
    }
}

/// Returns what agents may not change, where there are gates that they could make pass that way.
fn describe_protection(recipe: &Recipe) -> Option<String> {
    let is_command = |gate: &&Gate| matches!(gate.check, GateCheck::Command(_));
    // A planner writes one file, which the gate reads.
    recipe.gates.iter().find(|it| recipe.role != Role::Plan && is_command(it))?;
    let names = recipe.protected_names();
    Some(if recipe.protect.is_empty() {
        "no file is protected: that needs a git repository or a sandbox".to_owned()
    } else if names.is_empty() {
        "no file is protected: no gate names a script of the project, and `protect` is not set; \
         changes of what the gates run are reported"
            .to_owned()
    } else {
        format!("protected: {}", names.join(", "))
    })
}

/// Returns the sandbox of a run and what it is used instead of, once that is decided.
fn format_sandbox(recipe: &Recipe) -> Option<String> {
    let RequestedBackend::This(backend) = recipe.sandbox.backend else { return None };
    // A warning below says what that means.
    let mut text = match backend {
        Backend::None => "none".to_owned(),
        _ => describe_backend(backend),
    };
    if !recipe.sandbox.rejected.is_empty() {
        let rejected = recipe.sandbox.rejected.iter();
        let reasons: Vec<_> =
            rejected.map(|it| sanitize::sanitize_line(it, REASON_CHARS, "...")).collect();
        text.push_str(&format!(" (not usable here: {})", reasons.join("; ")));
    }
    Some(text)
}

/// Returns the name of a gate for the header, or `None` if it is not run.
fn format_gate_name(recipe: &Recipe, gate: &Gate) -> Option<String> {
    Some(match recipe.strategy.find_severity(gate)? {
        Severity::Hard => gate.name.clone(),
        Severity::Soft => format!("{} (soft)", gate.name),
    })
}

/// Returns the role and task of an iteration, unless it only runs a prompt.
fn format_purpose(role: Role, task: Option<&TaskId>) -> String {
    let role = match role {
        Role::Prompt => String::new(),
        _ => format!(": {role}"),
    };
    let task =
        task.map(|task| sanitize::sanitize_line(&format!(" {task}"), FOREIGN_TEXT_CHARS, "..."));
    match task {
        Some(task) => format!("{role} {task}"),
        None => role,
    }
}

fn print_checkpoint<W: Write>(page: &mut LineWriter<W>, checkpoint: &Checkpoint, state: &RunState) {
    let text = match checkpoint {
        Checkpoint::Git { head: Some(head), .. } => format!("Checkpoint {}", shorten_id(&head.0)),
        Checkpoint::Git { head: None, .. } => "Checkpoint before the first commit".to_owned(),
        // Once is enough: it will not change.
        Checkpoint::None if state.iterations > 1 => return,
        Checkpoint::None => "No checkpoint: not a git repository".to_owned(),
    };
    page.write_indented(0, Paint::Dim, &text);
}

fn print_agent_call<W: Write>(
    page: &mut LineWriter<W>,
    ask: AskNumber,
    purpose: &Purpose,
    agent: AgentKind,
) {
    let agent = agent.name();
    match (purpose, ask.0) {
        (Purpose::Message, _) => {
            page.write_indented(0, Paint::Dim, &format!("Asking {agent} for a commit message"));
        }
        (Purpose::Gate(gate), _) => {
            let gate = shorten_text(page, gate);
            page.write_indented(
                0,
                Paint::Dim,
                &format!("Asking {agent} for the verdict of gate {gate}"),
            );
        }
        (_, 0 | 1) => {}
        (_, call) => {
            page.write_indented(0, Paint::Dim, &format!("Asking {agent} again (call {call})"));
        }
    }
}

fn print_reply<W: Write>(page: &mut LineWriter<W>, reply: &Reply, state: &RunState) {
    page.write_line(&stream::format_summary(page.style(), reply));
    warn_about_child(page, &reply.end, "the agent");
    let asking = state.current.as_ref().and_then(Iteration::open_call);
    let Some(failure) = &reply.failure else {
        if let Some(asking) = asking {
            print_unusable_answer(page, asking);
        }
        return;
    };
    print_agent_failure(page, failure);
    match (failure.class.rule(), asking.and_then(|asking| asking.end.as_ref())) {
        (FailureRule::RetrySmaller, None) => {
            page.write_marked(LineMark::Again, "Asking again with the smallest prompt");
        }
        (FailureRule::RetryWithoutSchema, None) => {
            page.write_marked(LineMark::Again, "Asking again with the schema in the prompt");
        }
        // Retries and waits are reported by their own events.
        _ => {}
    }
}

/// Prints that an answer does not have the required form.
fn print_unusable_answer<W: Write>(page: &mut LineWriter<W>, asking: &AgentCallState) {
    let Some(wrong) = &asking.wrong else { return };
    let fault = shorten_text(page, &wrong.fault);
    match &asking.end {
        None => {
            let text = format!("The answer cannot be used: {fault}; asking for what is missing");
            page.write_marked(LineMark::Again, &text);
        }
        Some(AgentCallEnd::FailedAttempt(_) | AgentCallEnd::Hopeless(_)) => {
            let text = format!("The answer cannot be used: {fault}");
            page.write_marked(LineMark::Fail, &text);
        }
        // The last answer has the right form, or ralph can use it anyway.
        Some(AgentCallEnd::Answered(_)) => {}
    }
}

fn print_agent_failure<W: Write>(page: &mut LineWriter<W>, failure: &Failure) {
    let message = shorten_text(page, &failure.message);
    match failure.class.rule() {
        // The user interrupted it; no message needed.
        FailureRule::RetryAfterResume => return,
        FailureRule::Wait { .. } => {
            let text = format!("The agent reached a usage limit: {message}");
            page.write_marked(LineMark::Warn, &text);
        }
        _ => {
            let name = failure.class.name();
            page.write_marked(LineMark::Fail, &format!("The agent failed, {name}: {message}"));
        }
    }
    if let Some(hint) = &failure.hint {
        let hint = shorten_text(page, hint);
        page.write_indented(2, Paint::None, &format!("hint: {hint}"));
    }
}

fn print_judgement<W: Write>(page: &mut LineWriter<W>, judgement: &Judgement, state: &RunState) {
    let has_gates = state.current.as_ref().is_some_and(|current| !current.gates().is_empty());
    let done = shorten_text(page, &state.recipe.completion_response);
    let is_last = state.iterations >= state.last_iteration();
    let followup = if is_last { "" } else { "; the next prompt reports it" };
    if task_lines::print_task_judgement(page, judgement, state) {
        return;
    }
    let (mark, text) = match &judgement.verdict {
        Verdict::Complete if state.recipe.completion == Completion::Gates => {
            (LineMark::Pass, "Complete: the hard gates passed".to_owned())
        }
        Verdict::Complete if has_gates => {
            (LineMark::Pass, format!("Complete: the hard gates passed and the agent said {done}"))
        }
        Verdict::Complete => (LineMark::Pass, format!("Complete: the agent said {done}")),
        Verdict::Passed { signal } => {
            let passed = if has_gates { "Passed, but not done" } else { "Not done" };
            let answer = match signal {
                Some(signal) => {
                    format!("the agent said \"{}\" instead of {done}", shorten_text(page, signal))
                }
                None => format!("the agent did not say {done}"),
            };
            (LineMark::Step, format!("{passed}: {answer}"))
        }
        Verdict::GatesFailed { gates } => (
            LineMark::Fail,
            format!(
                "Failed gate{}: {}{followup}",
                choose_plural(gates.len()),
                shorten_text(page, &gates.join(", "))
            ),
        ),
        // The warning that follows reports it.
        Verdict::AttemptFailed { .. } if is_compaction(state) => return,
        Verdict::AttemptFailed { failure } => {
            (LineMark::Fail, format!("Attempt failed: {}", failure.class.name()))
        }
        Verdict::NothingChanged => (LineMark::Fail, "Failed: nothing was changed".to_owned()),
        Verdict::NotHandedIn { reasons } => {
            let reasons = shorten_text(page, &reasons.join(" "));
            (LineMark::Fail, format!("Not handed in: {reasons}"))
        }
        Verdict::Incomplete { left } => {
            let reason = shorten_text(page, &describe_incomplete(left));
            (LineMark::Fail, format!("Failed: {reason}"))
        }
        Verdict::Blocked { blocked } => {
            (LineMark::Fail, format!("Blocked: needs {}", shorten_text(page, &blocked.needs)))
        }
        Verdict::Reviewed { verdict, feedback } => {
            let result = ReviewResult::new(*verdict, feedback);
            (LineMark::Step, format!("Review: {}", result.name()))
        }
        Verdict::Skipped { .. } => (LineMark::Back, "Task skipped on request".to_owned()),
        Verdict::Requeued { reason } => {
            (LineMark::Back, format!("Requeued: {}", shorten_text(page, reason)))
        }
        Verdict::Held { reason } => {
            (LineMark::Warn, format!("Cannot land: {}", shorten_text(page, reason)))
        }
        Verdict::Compacted { trigger } => {
            (LineMark::Pass, compaction_line::format_compaction(judgement, *trigger))
        }
    };
    page.write_marked(mark, &text);
}

fn print_landing<W: Write>(page: &mut LineWriter<W>, landed: &Landed, state: &RunState) {
    let is_review = state.current.as_ref().is_some_and(|current| current.role == Role::Review);
    let must_not_edit = is_review || is_compaction(state);
    match landed {
        // Reviews and compactions must not change files; only a violation is worth a line.
        Landed::RolledBack { kept: None } if must_not_edit => {}
        Landed::RolledBack { kept: Some(kept) } if must_not_edit => {
            let kept = shorten_text(page, kept);
            let when = if is_review { "review" } else { "compaction" };
            print_warning(
                page,
                &format!(
                    "files changed during the {when}: the changes, also any of yours, were undone; kept on {kept}"
                ),
            );
        }
        Landed::Surveyed { .. } | Landed::MessageChecked { .. } | Landed::ListWritten => {}
        Landed::SavedToFailureBranch { branch, .. } => {
            let text = format!("Saved on failure branch {}", shorten_text(page, branch));
            page.write_marked(LineMark::Back, &text);
        }
        Landed::Committed { commit, subject } => {
            let text = format!("Commit {} {}", shorten_id(&commit.0), shorten_text(page, subject));
            page.write_marked(LineMark::Pass, &text);
        }
        Landed::NothingToCommit => page.write_indented(0, Paint::Dim, "Nothing to commit"),
        Landed::CommitRefused { output } => {
            let text = "The commit was refused; the next prompt reports it";
            page.write_marked(LineMark::Fail, text);
            for line in stream::take_excerpt(page.style(), &sanitize::sanitize_text(output)) {
                page.write_line(&line);
            }
        }
        Landed::ScmRan { command } => {
            let text = format!("Ran {}", shorten_text(page, command));
            page.write_marked(LineMark::Pass, &text);
        }
        Landed::RolledBack { kept: Some(kept) } => {
            let text =
                format!("Rolled back to the checkpoint; kept on {}", shorten_text(page, kept));
            page.write_marked(LineMark::Back, &text);
        }
        Landed::RolledBack { kept: None } => {
            let text = "Rolled back to the checkpoint; there was nothing to keep";
            page.write_marked(LineMark::Back, text);
        }
    }
}

fn is_compaction(state: &RunState) -> bool {
    state.current.as_ref().is_some_and(|current| current.role == Role::Compact)
}

fn print_iteration_end<W: Write>(
    page: &mut LineWriter<W>,
    iteration: IterationNumber,
    state: &RunState,
) {
    let limit = state.last_iteration();
    let mut parts =
        vec![format!("Progress: iteration {iteration}/{limit}"), format!("{} elapsed", state.ran)];
    if let Some(tasks) = task_lines::format_progress(state) {
        parts.insert(0, tasks);
        parts[1] = match &state.parallel {
            Some(parallel) => format!("iterations {}/{limit}", parallel.total_iterations()),
            None => format!("iteration {iteration}/{limit}"),
        };
    }
    parts.extend(state.total_usage().cost.map(|cost| format!("{cost} so far")));
    page.write_indented(0, Paint::Dim, &parts.join(", "));
}
