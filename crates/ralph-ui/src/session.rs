//! The session log: a plain-text log of a run for people and for `tail -f`.
//!
//! A header and a footer for each iteration with the agent's messages and tool calls between
//! them, and a summary at the end. Not here: the journal, which is the authoritative record.

use std::io::Write;

use ralph_core::event::{Event, Landed, Purpose, Recorded};
use ralph_core::failure::FailureRule;
use ralph_core::gate::{GateResult, GateStatus};
use ralph_core::ids::{IterationNumber, Role};
use ralph_core::judge::Verdict;
use ralph_core::outcome::{ExitStatus, Outcome};
use ralph_core::ports::{Activity, Ui};
use ralph_core::reading::{AgentEvent, Speaker, TextForm, ToolOutcome, Usage, UsageScope};
use ralph_core::review::ReviewResult;
use ralph_core::run::RunState;
use ralph_core::units::{Millis, Timestamp};

use crate::safe;
use crate::time::WallClock;
use crate::wishes;
use crate::writer::Swallow;

/// The width of the rules between the blocks.
const WIDTH: usize = 80;

/// Bytes of agent output per iteration before the rest is skipped here: a flood must not fill the
/// disk. The compressed raw stream has all of it.
const MOST_SAID: usize = 4 * 1024 * 1024;

/// Limits the status of an iteration and the exit reason, which take one line each; messages of
/// gates, git and agents may be much longer.
const STATUS_CHARS: usize = 2_000;

/// Writes the session log.
#[derive(Debug)]
pub struct SessionLog<W> {
    out: Swallow<W>,
    clock: WallClock,
    /// The exit code of a run that stops before completion.
    incomplete: ExitStatus,
    began: Option<Timestamp>,
    iteration: Option<Open>,
    /// Iterations that passed all hard gates.
    successful: u32,
    failed: u32,
    total: u32,
    is_mid_line: bool,
}

/// The current iteration.
#[derive(Debug)]
struct Open {
    number: IterationNumber,
    began: Timestamp,
    /// Calls repeated because the previous one failed.
    retries: u32,
    /// Requests to the model, if the agent reports each.
    requests: u32,
    messages: u32,
    /// Bytes of agent output.
    said: usize,
    model: Option<String>,
    usage: Usage,
    status: Status,
}

/// The status of an iteration.
#[derive(Debug)]
enum Status {
    Good(String),
    Failed(String),
    /// Not decided yet; a resumed run may continue it.
    Open(String),
}

impl Status {
    fn words(&self) -> &str {
        match self {
            Self::Good(text) | Self::Failed(text) | Self::Open(text) => text,
        }
    }
}

/// Whether there is room for more agent output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Left,
    JustUsedUp,
    UsedUp,
}

impl Open {
    fn count(&mut self, event: &AgentEvent) -> Room {
        if let AgentEvent::Usage { scope: UsageScope::Step, .. } = event {
            self.requests += 1;
        }
        let length = match event {
            AgentEvent::Text { text, .. } | AgentEvent::Notice { text } => text.len(),
            AgentEvent::Unparsed { line } => line.len(),
            AgentEvent::ToolStarted { summary, .. } => summary.len(),
            AgentEvent::Session { .. }
            | AgentEvent::Reasoning { .. }
            | AgentEvent::ToolEnded { .. }
            | AgentEvent::Todo { .. }
            | AgentEvent::FileChanged { .. }
            | AgentEvent::Usage { .. }
            | AgentEvent::RateLimit { .. }
            | AgentEvent::Result { .. } => 0,
        };
        let before = self.said;
        self.said = self.said.saturating_add(length);
        match (before > MOST_SAID, self.said > MOST_SAID) {
            (false, false) => Room::Left,
            (false, true) => Room::JustUsedUp,
            (true, _) => Room::UsedUp,
        }
    }
}

impl<W: Write> SessionLog<W> {
    /// Returns a log that writes to `out`. Ignores write errors.
    pub fn new(out: W, clock: WallClock) -> Self {
        Self {
            out: Swallow::new(out),
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

    /// Returns the same log for a run that exits with 0 even if its work is incomplete.
    #[must_use]
    pub fn allowing_incomplete(self) -> Self {
        Self { incomplete: ExitStatus::Complete, ..self }
    }

    fn line(&mut self, text: &str) {
        self.end_line();
        self.out.put(format!("{text}\n").as_bytes());
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.is_mid_line) {
            self.out.put(b"\n");
        }
    }

    fn rule(&mut self, character: char) {
        self.line(&character.to_string().repeat(WIDTH));
    }

    fn title(&mut self, text: &str) {
        self.rule('=');
        self.line(text);
        self.rule('=');
    }

    fn field(&mut self, name: &str, value: &str) {
        self.line(&format!("{name}: {value}"));
    }

    fn begin(&mut self, number: IterationNumber, role: Role, at: Timestamp) {
        self.total += 1;
        self.iteration = Some(Open {
            number,
            began: at,
            retries: 0,
            requests: 0,
            messages: 0,
            said: 0,
            model: None,
            usage: Usage::default(),
            status: Status::Open("interrupted".to_owned()),
        });
        self.title(&format!("ITERATION {number}"));
        self.field("Mode", role.name());
        let begun = self.clock.full(at);
        self.field("Start Time", &begun);
        self.rule('-');
    }

    fn end(&mut self, at: Timestamp) {
        let Some(open) = self.iteration.take() else { return };
        self.rule('-');
        self.line(&format!("ITERATION {} COMPLETE", open.number));
        let ended = self.clock.full(at);
        self.field("End Time", &ended);
        self.field("Duration", &at.since(open.began).to_string());
        if open.requests > 0 {
            self.field("API Requests", &open.requests.to_string());
        }
        if let Some(model) = &open.model {
            self.field("Model", &safe::harmless(model));
        }
        if open.messages > 0 {
            self.field("Messages", &open.messages.to_string());
        }
        if let Some(cost) = open.usage.cost {
            self.field("Cost", &cost.to_string());
        }
        self.field("Retries", &open.retries.to_string());
        self.field("Status", open.status.words());
        self.rule('=');
        self.line("");
        match open.status {
            Status::Good(_) => self.successful += 1,
            Status::Failed(_) => self.failed += 1,
            Status::Open(_) => {}
        }
    }

    /// Sets the status of the iteration in which the run ended. Overrides the verdict of the gates,
    /// because the iteration was not finished.
    fn cut_off(&mut self, outcome: &Outcome) {
        let Some(open) = &mut self.iteration else { return };
        let failed = |reason: &str| Status::Failed(format!("failed: {reason}"));
        open.status = match outcome {
            Outcome::AgentFailed { failure, .. } => failed(failure.class.name()),
            Outcome::GitFailed { .. } => failed("git"),
            Outcome::ScmFailed { .. } => failed("source control"),
            Outcome::NoCommitMessage => failed("no commit message"),
            Outcome::PromptLost { .. } => failed("prompt lost"),
            Outcome::TasksLost { .. } => failed("task list lost"),
            Outcome::PlanMissing => failed("plan missing"),
            Outcome::LimitTooLong { .. } => Status::Open("not finished: usage limit".to_owned()),
            Outcome::BudgetUsedUp { exhausted } => {
                Status::Open(format!("not finished: {exhausted}"))
            }
            Outcome::Interrupted
            | Outcome::Complete
            | Outcome::IterationsUsedUp { .. }
            | Outcome::NothingChanges { .. }
            | Outcome::TasksLeft { .. }
            | Outcome::BaselineBroken { .. } => Status::Open("interrupted".to_owned()),
        };
    }

    fn judged(&mut self, verdict: &Verdict) {
        let Some(open) = &mut self.iteration else { return };
        let line = |text: &str| safe::one_line(text, STATUS_CHARS, "...");
        let failed = |reason: &str| Status::Failed(format!("failed: {reason}"));
        open.status = match verdict {
            Verdict::Complete => Status::Good("complete".to_owned()),
            Verdict::Passed { .. } => Status::Good("passed".to_owned()),
            Verdict::GatesFailed { gates } => {
                Status::Failed(format!("failed gates: {}", line(&gates.join(", "))))
            }
            Verdict::AttemptFailed { failure } => failed(failure.class.name()),
            Verdict::NothingChanged => failed("nothing changed"),
            Verdict::NotHandedIn { .. } => failed("not handed in"),
            Verdict::Blocked { blocked } => {
                Status::Failed(format!("blocked: {}", line(&blocked.needs)))
            }
            Verdict::Reviewed { verdict, feedback } => {
                let result = ReviewResult::new(*verdict, feedback);
                Status::Good(format!("reviewed: {}", result.name()))
            }
            Verdict::Skipped { .. } => Status::Failed("skipped".to_owned()),
            Verdict::Compacted { .. } => Status::Good("compacted".to_owned()),
        };
    }

    fn summarize(&mut self, outcome: &Outcome, at: Timestamp) {
        self.cut_off(outcome);
        self.end(at);
        let took = self.began.map_or(Millis::ZERO, |began| at.since(began));
        let code = match outcome.exit_code() {
            ExitStatus::Incomplete => self.incomplete,
            status @ (ExitStatus::Complete
            | ExitStatus::BadInput
            | ExitStatus::Busy
            | ExitStatus::AgentFailed
            | ExitStatus::GitFailed
            | ExitStatus::Interrupted) => status,
        };
        self.title("SESSION SUMMARY");
        self.field("Total Iterations", &self.total.to_string());
        self.field("Successful", &self.successful.to_string());
        self.field("Failed", &self.failed.to_string());
        self.field("Total Duration", &took.to_string());
        self.field("Exit Reason", &safe::one_line(&outcome.to_string(), STATUS_CHARS, "..."));
        self.field("Exit Code", &code.code().to_string());
        self.rule('=');
    }

    /// Writes that this log continues a run which began in another log.
    fn resume(&mut self, state: &RunState, at: Timestamp) {
        self.line(&format!("[resumed] run {}, which began in an earlier session", state.run));
        if let Some(current) = &state.current {
            self.begin(current.number, current.role, at);
        }
    }

    /// Counts a call that repeats a failed one. Calls after a usage limit or an interruption by the
    /// user do not count.
    fn count_retry(&mut self, purpose: &Purpose, state: &RunState) {
        let asking = state.current.as_ref().map(|current| current.asking(purpose));
        let rule = asking
            .and_then(|asking| asking.last_failure.as_ref())
            .map(|failure| failure.class.rule());
        if let (
            Some(open),
            Some(FailureRule::Retry | FailureRule::RetrySmaller | FailureRule::RetryInWords),
        ) = (&mut self.iteration, rule)
        {
            open.retries += 1;
        }
    }

    fn gate(&mut self, result: &GateResult) {
        let outcome = match result.status {
            GateStatus::Passed => "passed".to_owned(),
            GateStatus::Cached => "passed before".to_owned(),
            GateStatus::Failed => format!("failed with exit code {}", result.exit_code()),
        };
        self.line(&format!("[gate] {}: {outcome}", safe::harmless(&result.command)));
    }
}

impl<W: Write> Ui for SessionLog<W> {
    fn tell(&mut self, recorded: &Recorded, state: &RunState) {
        let at = recorded.at;
        self.began.get_or_insert(at);
        match &recorded.event {
            Event::IterationStarted { iteration, role, task: _ } => {
                self.begin(*iteration, *role, at);
            }
            Event::Asked { purpose, .. } => self.count_retry(purpose, state),
            Event::Replied { reply, ask: _ } => {
                self.end_line();
                if let Some(failure) = &reply.failure {
                    let message = safe::harmless(&failure.words).into_owned();
                    self.line(&format!("[{}] {message}", failure.class.name()));
                }
                if let Some(open) = &mut self.iteration {
                    open.usage = open.usage.plus(reply.usage);
                    open.model = reply.model.clone().or(open.model.take());
                }
            }
            Event::Judged { judgement } => self.judged(&judgement.verdict),
            Event::Landed { landed: Landed::CommitRefused { .. } } => {
                if let Some(open) = &mut self.iteration {
                    open.status = Status::Failed("failed: commit refused".to_owned());
                }
            }
            Event::GateChecked { result } | Event::BaselineChecked { result } => self.gate(result),
            Event::Warned { text } => {
                let line = format!("[warning] {}", safe::harmless(text));
                self.line(&line);
            }
            Event::Wished { .. } | Event::Paused | Event::TaskSkipped { .. } => {
                if let Some(line) = wishes::told(&recorded.event) {
                    self.line(&format!("[control request] {}", safe::harmless(&line)));
                }
            }
            Event::Claimed { claim } => {
                for violation in &claim.refused {
                    let text = violation.to_string();
                    self.line(&format!("[reverted in the task list] {}", safe::harmless(&text)));
                }
            }
            Event::IterationEnded { .. } => self.end(at),
            Event::RunEnded { outcome, .. } => self.summarize(outcome, at),
            Event::RunResumed { .. } => self.resume(state, at),
            Event::RunStarted { .. }
            | Event::Checkpointed { .. }
            | Event::Waiting { .. }
            | Event::TasksRead { .. }
            | Event::TasksWritten
            | Event::BaselineStarted { .. }
            | Event::PlanSeen { .. }
            | Event::Observed { .. }
            | Event::Landed { .. } => {}
        }
    }

    fn hear(&mut self, event: &AgentEvent) {
        match self.iteration.as_mut().map(|open| open.count(event)) {
            Some(Room::Left) | None => {}
            Some(Room::JustUsedUp) => {
                self.line("[... the rest is skipped here; `ralph log --raw` shows it]");
                return;
            }
            Some(Room::UsedUp) => return,
        }
        match event {
            AgentEvent::Text { text, speaker, form } => {
                if *form == TextForm::Message {
                    self.end_line();
                    if let (Some(open), Speaker::Agent) = (&mut self.iteration, speaker) {
                        open.messages += 1;
                    }
                }
                let text = safe::harmless(text);
                self.is_mid_line = !text.is_empty() && !text.ends_with('\n');
                self.out.put(text.as_bytes());
            }
            AgentEvent::ToolStarted { name, summary, .. } => {
                let line = format!("[tool] {name}({})", safe::harmless(summary));
                self.line(&line);
            }
            AgentEvent::ToolEnded { outcome: ToolOutcome::Error, output, .. } => {
                let line = format!("[tool error] {}", safe::one_line(output, 200, "..."));
                self.line(&line);
            }
            AgentEvent::Notice { text } => {
                let line = format!("[notice] {}", safe::harmless(text));
                self.line(&line);
            }
            AgentEvent::Unparsed { line } => {
                let line = safe::harmless(line).into_owned();
                self.line(&line);
            }
            AgentEvent::Session { .. }
            | AgentEvent::Reasoning { .. }
            | AgentEvent::ToolEnded { outcome: ToolOutcome::Ok, .. }
            | AgentEvent::Todo { .. }
            | AgentEvent::FileChanged { .. }
            | AgentEvent::Usage { .. }
            | AgentEvent::RateLimit { .. }
            | AgentEvent::Result { .. } => {}
        }
    }

    fn doing(&mut self, _activity: &Activity<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_does_not_fill_the_log() {
        let mut out = Vec::new();
        let clock = WallClock { zone: jiff::tz::TimeZone::UTC, now: || Timestamp(0) };
        let mut log = SessionLog::new(&mut out, clock);
        log.begin(IterationNumber(1), Role::Prompt, Timestamp(0));
        let text = "x".repeat(1 << 20);
        for _ in 0..64 {
            let form = TextForm::Delta;
            log.hear(&AgentEvent::Text { text: text.clone(), speaker: Speaker::Agent, form });
        }
        log.end(Timestamp(1));
        let shown = String::from_utf8(out).expect("text");
        assert!(shown.len() < 6 << 20, "{}", shown.len());
        assert_eq!(shown.matches("skipped here").count(), 1);
        assert!(shown.ends_with("=\n\n"));
    }
}
