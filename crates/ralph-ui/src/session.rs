//! The session log: a plain account of a run for people and for `tail -f`.
//!
//! A header and a footer for each iteration with what the agent said and did between them, and
//! a summary at the end. Not here: the journal, which is the truth.

use std::io::Write;

use ralph_core::event::{Event, Recorded};
use ralph_core::ids::{IterationNumber, Role};
use ralph_core::judge::Verdict;
use ralph_core::outcome::Outcome;
use ralph_core::ports::{Activity, Ui};
use ralph_core::reading::{AgentEvent, Speaker, TextForm, ToolOutcome, Usage};
use ralph_core::run::RunState;
use ralph_core::units::{Millis, Timestamp};

use crate::safe;
use crate::time::WallClock;
use crate::writer::Swallow;

/// How wide the rules between the blocks are.
const WIDTH: usize = 80;

/// What an agent may say in one iteration before the rest is left out here: a flood must not
/// fill the project's disk. The raw stream, which is compressed, has all of it.
const MOST_SAID: usize = 4 * 1024 * 1024;

/// Writes the session log.
#[derive(Debug)]
pub struct SessionLog<W> {
    out: Swallow<W>,
    clock: WallClock,
    began: Option<Timestamp>,
    iteration: Option<Open>,
    /// Iterations that passed all hard gates, and all others.
    successful: u32,
    failed: u32,
    total: u32,
    is_mid_line: bool,
}

/// The iteration that is open.
#[derive(Debug)]
struct Open {
    number: IterationNumber,
    began: Timestamp,
    calls: u32,
    failed_calls: u32,
    messages: u32,
    /// Bytes of what the agent said and did.
    said: usize,
    model: Option<String>,
    usage: Usage,
    status: String,
}

/// Whether there is room for more of what the agent says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Left,
    JustUsedUp,
    UsedUp,
}

impl Open {
    fn count(&mut self, event: &AgentEvent) -> Room {
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
    /// Returns a log that writes to `out`. What cannot be written is passed over.
    pub fn new(out: W, clock: WallClock) -> Self {
        Self {
            out: Swallow::new(out),
            clock,
            began: None,
            iteration: None,
            successful: 0,
            failed: 0,
            total: 0,
            is_mid_line: false,
        }
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
            calls: 0,
            failed_calls: 0,
            messages: 0,
            said: 0,
            model: None,
            usage: Usage::default(),
            status: "interrupted".to_owned(),
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
        self.field("API Requests", &open.calls.to_string());
        if let Some(model) = &open.model {
            self.field("Model", model);
        }
        if open.messages > 0 {
            self.field("Messages", &open.messages.to_string());
        }
        if let Some(cost) = open.usage.cost {
            self.field("Cost", &cost.to_string());
        }
        self.field("Retries", &open.failed_calls.to_string());
        self.field("Status", &open.status);
        self.rule('=');
        self.line("");
    }

    fn summarize(&mut self, outcome: &Outcome, at: Timestamp) {
        self.end(at);
        let took = self.began.map_or(Millis::ZERO, |began| at.since(began));
        self.title("SESSION SUMMARY");
        self.field("Total Iterations", &self.total.to_string());
        self.field("Successful", &self.successful.to_string());
        self.field("Failed", &self.failed.to_string());
        self.field("Total Duration", &took.to_string());
        self.field("Exit Reason", &safe::harmless(&outcome.to_string()));
        self.field("Exit Code", &outcome.exit_code().code().to_string());
        self.rule('=');
    }
}

impl<W: Write> Ui for SessionLog<W> {
    fn tell(&mut self, recorded: &Recorded, _state: &RunState) {
        let at = recorded.at;
        self.began.get_or_insert(at);
        match &recorded.event {
            Event::IterationStarted { iteration, role, task: _ } => {
                self.begin(*iteration, *role, at);
            }
            Event::Asked { .. } => {
                if let Some(open) = &mut self.iteration {
                    open.calls += 1;
                }
            }
            Event::Replied { reply, ask: _ } => {
                self.end_line();
                if let Some(failure) = &reply.failure {
                    let words = safe::harmless(&failure.words).into_owned();
                    self.line(&format!("[{}] {words}", failure.class.name()));
                }
                if let Some(open) = &mut self.iteration {
                    open.usage = open.usage.plus(reply.usage);
                    open.failed_calls += u32::from(reply.failure.is_some());
                    open.model = reply.model.clone().or(open.model.take());
                }
            }
            Event::Judged { judgement } => {
                let (status, count) = match &judgement.verdict {
                    Verdict::Complete => ("complete".to_owned(), &mut self.successful),
                    Verdict::Passed { .. } => ("passed".to_owned(), &mut self.successful),
                    Verdict::GatesFailed { gates } => {
                        (format!("failed gates: {}", gates.join(", ")), &mut self.failed)
                    }
                    Verdict::AttemptFailed { failure } => {
                        (format!("failed: {}", failure.class.name()), &mut self.failed)
                    }
                    Verdict::NothingChanged => {
                        ("failed: nothing changed".to_owned(), &mut self.failed)
                    }
                    Verdict::NotHandedIn { .. } => {
                        ("failed: not handed in".to_owned(), &mut self.failed)
                    }
                    Verdict::Blocked { blocked } => {
                        (format!("blocked: {}", safe::harmless(&blocked.needs)), &mut self.failed)
                    }
                    Verdict::Reviewed { verdict, .. } => {
                        (format!("reviewed: {}", verdict.name()), &mut self.successful)
                    }
                };
                *count += 1;
                if let Some(open) = &mut self.iteration {
                    open.status = status;
                }
            }
            Event::GateChecked { result } | Event::BaselineChecked { result } => {
                let line =
                    format!("[gate] {}: {:?}", safe::harmless(&result.command), result.status);
                self.line(&line);
            }
            Event::Warned { text } => {
                let line = format!("[warning] {}", safe::harmless(text));
                self.line(&line);
            }
            Event::Claimed { claim } => {
                for violation in &claim.refused {
                    let text = violation.to_string();
                    self.line(&format!("[put back in the task list] {}", safe::harmless(&text)));
                }
            }
            Event::IterationEnded { .. } => self.end(at),
            Event::RunEnded { outcome } => self.summarize(outcome, at),
            Event::RunStarted { .. }
            | Event::RunResumed { .. }
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
                self.line("[... the rest is left out here; `ralph log --raw` has it]");
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
        assert_eq!(shown.matches("left out here").count(), 1);
        assert!(shown.ends_with("=\n\n"));
    }
}
