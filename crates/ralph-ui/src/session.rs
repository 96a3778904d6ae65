//! The session log: a plain-text log of a run for people and for `tail -f`.
//!
//! A header and a footer for each iteration with the agent's messages and tool calls between
//! them, and a summary at the end. Not here: the journal, which is the authoritative record.

use std::io::Write;

use ralph_core::ports::{Activity, Ui};
use ralph_model::agent_output::{AgentEvent, Speaker, TextForm, ToolOutcome, Usage, UsageScope};
use ralph_model::event::{Event, Purpose, Recorded};
use ralph_model::failure::FailureRule;
use ralph_model::gate::{GateResult, GateStatus};
use ralph_model::ids::{IterationNumber, Role};
use ralph_model::judgement::Verdict;
use ralph_model::outcome::{ExitStatus, Outcome};
use ralph_model::run::RunState;
use ralph_model::units::{Millis, Timestamp};
use ralph_model::worktree::Landed;

use crate::time::WallClock;
use crate::writer::IgnoreErrors;
use crate::{control_lines, sanitize, worker_lines};

/// The width of the rules between the blocks.
const WIDTH: usize = 80;

/// Bytes of agent output per iteration before the rest is skipped here: a flood must not fill the
/// disk. The compressed raw stream has all of it.
const MOST_OUTPUT_BYTES: usize = 4 * 1024 * 1024;

/// Limits the status of an iteration and the exit reason, which take one line each; messages of
/// gates, git and agents may be much longer.
const STATUS_CHARS: usize = 2_000;

/// Writes the session log.
#[derive(Debug)]
pub struct SessionLog<W> {
    out: IgnoreErrors<W>,
    clock: WallClock,
    /// The exit code of a run that stops before completion.
    incomplete: ExitStatus,
    began: Option<Timestamp>,
    iteration: Option<LoggedIteration>,
    /// Iterations that passed all hard gates.
    successful: u32,
    failed: u32,
    total: u32,
    is_mid_line: bool,
}

/// The current iteration.
#[derive(Debug)]
struct LoggedIteration {
    number: IterationNumber,
    began: Timestamp,
    /// Calls repeated because the previous one failed.
    retries: u32,
    /// Requests to the model, if the agent reports each.
    requests: u32,
    messages: u32,
    output_bytes: usize,
    model: Option<String>,
    usage: Usage,
    status: LoggedStatus,
}

/// The status of an iteration.
#[derive(Debug)]
enum LoggedStatus {
    Good(String),
    Failed(String),
    /// Not decided yet; a resumed run may continue it.
    Open(String),
}

impl LoggedStatus {
    fn label(&self) -> &str {
        match self {
            Self::Good(text) | Self::Failed(text) | Self::Open(text) => text,
        }
    }
}

/// Whether there is room for more agent output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogRoom {
    Left,
    JustUsedUp,
    UsedUp,
}

impl LoggedIteration {
    fn count_event(&mut self, event: &AgentEvent) -> LogRoom {
        if let AgentEvent::Usage { scope: UsageScope::Step, .. } = event {
            self.requests += 1;
        }
        let length = match event {
            AgentEvent::Text { text, .. } | AgentEvent::Notice { text } => text.len(),
            AgentEvent::Unparsed { line } => line.len(),
            AgentEvent::ToolStarted { summary, .. } => summary.len(),
            _ => 0,
        };
        let before = self.output_bytes;
        self.output_bytes = self.output_bytes.saturating_add(length);
        match (before > MOST_OUTPUT_BYTES, self.output_bytes > MOST_OUTPUT_BYTES) {
            (false, false) => LogRoom::Left,
            (false, true) => LogRoom::JustUsedUp,
            (true, _) => LogRoom::UsedUp,
        }
    }
}

impl<W: Write> SessionLog<W> {
    /// Returns a log that writes to `out`. Ignores write errors.
    pub fn new(out: W, clock: WallClock) -> Self {
        Self {
            out: IgnoreErrors::new(out),
            clock,
            incomplete: ExitStatus::Incomplete,
            began: None,
            iteration: None,
            successful: 0,
            failed: 0,
            total: 0,
            is_mid_line: false,
        }
    }

    /// Returns the same log for a run that exits with this status if its work is incomplete.
    #[must_use]
    pub fn with_incomplete_status(self, incomplete: ExitStatus) -> Self {
        Self { incomplete, ..self }
    }

    fn write_line(&mut self, text: &str) {
        self.end_line();
        self.out.write_piece(format!("{text}\n").as_bytes());
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.is_mid_line) {
            self.out.write_piece(b"\n");
        }
    }

    fn write_rule(&mut self, character: char) {
        self.write_line(&character.to_string().repeat(WIDTH));
    }

    fn write_title(&mut self, text: &str) {
        self.write_rule('=');
        self.write_line(text);
        self.write_rule('=');
    }

    fn write_field(&mut self, name: &str, value: &str) {
        self.write_line(&format!("{name}: {value}"));
    }

    /// Writes foreign text after a label in brackets.
    fn write_labeled(&mut self, label: &str, text: &str) {
        self.write_line(&format!("[{label}] {}", sanitize::sanitize_text(text)));
    }

    fn begin_iteration(&mut self, number: IterationNumber, role: Role, at: Timestamp) {
        self.total += 1;
        self.iteration = Some(LoggedIteration {
            number,
            began: at,
            retries: 0,
            requests: 0,
            messages: 0,
            output_bytes: 0,
            model: None,
            usage: Usage::default(),
            status: LoggedStatus::Open("interrupted".to_owned()),
        });
        self.write_title(&format!("ITERATION {number}"));
        self.write_field("Mode", role.name());
        let begun = self.clock.format_full(at);
        self.write_field("Start Time", &begun);
        self.write_rule('-');
    }

    fn end_iteration(&mut self, at: Timestamp) {
        let Some(open) = self.iteration.take() else { return };
        self.write_rule('-');
        self.write_line(&format!("ITERATION {} COMPLETE", open.number));
        let ended = self.clock.format_full(at);
        self.write_field("End Time", &ended);
        self.write_field("Duration", &at.elapsed_since(open.began).to_string());
        if open.requests > 0 {
            self.write_field("API Requests", &open.requests.to_string());
        }
        if let Some(model) = &open.model {
            self.write_field("Model", &sanitize::sanitize_text(model));
        }
        if open.messages > 0 {
            self.write_field("Messages", &open.messages.to_string());
        }
        if let Some(cost) = open.usage.cost {
            self.write_field("Cost", &cost.to_string());
        }
        self.write_field("Retries", &open.retries.to_string());
        self.write_field("Status", open.status.label());
        self.write_rule('=');
        self.write_line("");
        match open.status {
            LoggedStatus::Good(_) => self.successful += 1,
            LoggedStatus::Failed(_) => self.failed += 1,
            LoggedStatus::Open(_) => {}
        }
    }

    /// Sets the status of the iteration in which the run ended. Overrides the verdict of the gates,
    /// because the iteration was not finished.
    fn mark_cut_off(&mut self, outcome: &Outcome) {
        let Some(open) = &mut self.iteration else { return };
        let failed = |reason: &str| LoggedStatus::Failed(format!("failed: {reason}"));
        open.status = match outcome {
            Outcome::AgentFailed { failure, .. } => failed(failure.class.name()),
            Outcome::GitFailed { .. } => failed("git"),
            Outcome::ScmFailed { .. } => failed("source control"),
            Outcome::NoCommitMessage => failed("no commit message"),
            Outcome::PromptLost { .. } => failed("prompt lost"),
            Outcome::TasksLost { .. } => failed("task list lost"),
            Outcome::PlanMissing => failed("plan missing"),
            Outcome::LimitTooLong { .. } => {
                LoggedStatus::Open("not finished: usage limit".to_owned())
            }
            Outcome::BudgetUsedUp { exhausted } => {
                LoggedStatus::Open(format!("not finished: {exhausted}"))
            }
            _ => LoggedStatus::Open("interrupted".to_owned()),
        };
    }

    fn set_verdict(&mut self, verdict: &Verdict) {
        let Some(open) = &mut self.iteration else { return };
        let line = |text: &str| sanitize::sanitize_line(text, STATUS_CHARS, "...");
        let label = verdict.label();
        open.status = match verdict {
            Verdict::Complete | Verdict::Passed { .. } | Verdict::Compacted { .. } => {
                LoggedStatus::Good(label.to_owned())
            }
            Verdict::Reviewed { .. } => LoggedStatus::Good(format!("reviewed: {label}")),
            Verdict::GatesFailed { gates } => {
                LoggedStatus::Failed(format!("failed gates: {}", line(&gates.join(", "))))
            }
            Verdict::Blocked { blocked } => {
                LoggedStatus::Failed(format!("blocked: {}", line(&blocked.needs)))
            }
            Verdict::AttemptFailed { .. }
            | Verdict::NothingChanged
            | Verdict::NotHandedIn { .. }
            | Verdict::Incomplete { .. } => LoggedStatus::Failed(format!("failed: {label}")),
            Verdict::Skipped { .. } | Verdict::Requeued { .. } => {
                LoggedStatus::Failed(label.to_owned())
            }
            Verdict::Held { .. } => LoggedStatus::Open(label.to_owned()),
        };
    }

    fn write_summary(&mut self, outcome: &Outcome, at: Timestamp) {
        self.mark_cut_off(outcome);
        self.end_iteration(at);
        let took = self.began.map_or(Millis::ZERO, |began| at.elapsed_since(began));
        let code = match outcome.exit_code() {
            ExitStatus::Incomplete => self.incomplete,
            status => status,
        };
        self.write_title("SESSION SUMMARY");
        self.write_field("Total Iterations", &self.total.to_string());
        self.write_field("Successful", &self.successful.to_string());
        self.write_field("Failed", &self.failed.to_string());
        self.write_field("Total Duration", &took.to_string());
        self.write_field(
            "Exit Reason",
            &sanitize::sanitize_line(&outcome.to_string(), STATUS_CHARS, "..."),
        );
        self.write_field("Exit Code", &code.code().to_string());
        self.write_rule('=');
    }

    /// Writes that this log continues a run which began in another log.
    fn write_resumed(&mut self, state: &RunState, at: Timestamp) {
        self.write_line(&format!("[resumed] run {}, which began in an earlier session", state.run));
        if let Some(current) = &state.current {
            self.begin_iteration(current.number, current.role, at);
        }
    }

    /// Counts a call that repeats a failed one. Calls after a usage limit or an interruption by the
    /// user do not count.
    fn count_retry(&mut self, purpose: &Purpose, state: &RunState) {
        let asking = state.current.as_ref().and_then(|current| current.call_state(purpose));
        let rule = asking
            .and_then(|asking| asking.last_failure.as_ref())
            .map(|failure| failure.class.rule());
        if let (
            Some(open),
            Some(FailureRule::Retry | FailureRule::RetrySmaller | FailureRule::RetryWithoutSchema),
        ) = (&mut self.iteration, rule)
        {
            open.retries += 1;
        }
    }

    fn write_gate_result(&mut self, result: &GateResult) {
        let outcome = match result.status {
            GateStatus::Passed => "passed".to_owned(),
            GateStatus::Cached => "passed before".to_owned(),
            GateStatus::Failed if result.is_verdict => "failed".to_owned(),
            GateStatus::Failed => format!("failed with exit code {}", result.exit_code()),
        };
        self.write_line(&format!("[gate] {}: {outcome}", sanitize::sanitize_text(&result.command)));
    }
}

impl<W: Write> Ui for SessionLog<W> {
    fn show_event(&mut self, recorded: &Recorded, state: &RunState) {
        let at = recorded.at;
        self.began.get_or_insert(at);
        match &recorded.event {
            Event::IterationStarted { iteration, role, task: _ } => {
                self.begin_iteration(*iteration, *role, at);
            }
            Event::Asked { purpose, .. } => self.count_retry(purpose, state),
            Event::Replied { reply, ask: _ } => {
                self.end_line();
                if let Some(failure) = &reply.failure {
                    self.write_labeled(failure.class.name(), &failure.message);
                }
                if let Some(open) = &mut self.iteration {
                    open.usage = open.usage.plus(reply.usage);
                    open.model = reply.model.clone().or(open.model.take());
                }
            }
            Event::Judged { judgement } => self.set_verdict(&judgement.verdict),
            Event::Landed { landed: Landed::CommitRefused { .. } } => {
                if let Some(open) = &mut self.iteration {
                    open.status = LoggedStatus::Failed("failed: commit refused".to_owned());
                }
            }
            Event::Refused { refusal, .. } => self.write_labeled("refused", refusal.kind.name()),
            Event::GateChecked { result, .. } | Event::BaselineChecked { result } => {
                self.write_gate_result(result);
            }
            Event::Warned { text } => self.write_labeled("warning", text),
            Event::ControlRequested { .. } | Event::Paused | Event::TaskSkipped { .. } => {
                if let Some(line) = control_lines::format_control_event(&recorded.event) {
                    self.write_labeled("control request", &line);
                }
            }
            Event::AgentListRead { diff: claim } => {
                for violation in &claim.refused {
                    self.write_labeled("reverted in the task list", &violation.to_string());
                }
            }
            Event::IterationEnded { .. } => self.end_iteration(at),
            Event::RunEnded { outcome, .. } => self.write_summary(outcome, at),
            Event::RunResumed { .. } => self.write_resumed(state, at),
            _ => {
                let line = worker_lines::describe_worker_event(recorded, state, &self.clock);
                if let Some((_, line)) = line {
                    self.write_labeled("worker", &line);
                }
            }
        }
    }

    fn show_agent_event(&mut self, event: &AgentEvent) {
        match self.iteration.as_mut().map(|open| open.count_event(event)) {
            Some(LogRoom::Left) | None => {}
            Some(LogRoom::JustUsedUp) => {
                self.write_line("[... the rest is skipped here; `ralph log --raw` shows it]");
                return;
            }
            Some(LogRoom::UsedUp) => return,
        }
        match event {
            AgentEvent::Text { text, speaker, form } => {
                if *form == TextForm::Message {
                    self.end_line();
                    if let (Some(open), Speaker::Agent) = (&mut self.iteration, speaker) {
                        open.messages += 1;
                    }
                }
                let text = sanitize::sanitize_text(text);
                self.is_mid_line = !text.is_empty() && !text.ends_with('\n');
                self.out.write_piece(text.as_bytes());
            }
            AgentEvent::ToolStarted { name, summary, .. } => {
                let line = format!("[tool] {name}({})", sanitize::sanitize_text(summary));
                self.write_line(&line);
            }
            AgentEvent::ToolEnded { outcome: ToolOutcome::Error, output, .. } => {
                let line = format!("[tool error] {}", sanitize::sanitize_line(output, 200, "..."));
                self.write_line(&line);
            }
            AgentEvent::Notice { text } => self.write_labeled("notice", text),
            AgentEvent::Unparsed { line } => self.write_line(&sanitize::sanitize_text(line)),
            _ => {}
        }
    }

    fn show_activity(&mut self, _activity: &Activity<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_does_not_fill_the_log() {
        let mut out = Vec::new();
        let clock = WallClock { zone: jiff::tz::TimeZone::UTC, now: || Timestamp(0) };
        let mut log = SessionLog::new(&mut out, clock);
        log.begin_iteration(IterationNumber(1), Role::Prompt, Timestamp(0));
        let text = "x".repeat(1 << 20);
        for _ in 0..64 {
            let form = TextForm::Delta;
            log.show_agent_event(&AgentEvent::Text {
                text: text.clone(),
                speaker: Speaker::Agent,
                form,
            });
        }
        log.end_iteration(Timestamp(1));
        let shown = String::from_utf8(out).expect("text");
        assert!(shown.len() < 6 << 20, "{}", shown.len());
        assert_eq!(shown.matches("skipped here").count(), 1);
        assert!(shown.ends_with("=\n\n"));
    }
}
