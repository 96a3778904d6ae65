//! The dialects of the scripted agent: the same steps, printed as different agents would.
//!
//! Not here: the lines of the imitated agents, which are many and have their own files.

use std::io::{self, Write};

use jiff::tz::TimeZone;
use ralph_core::failure::FailureClass;
use ralph_core::reading::{
    AgentEvent, RateLimitStatus, ResultStatus, Speaker, TextForm, TodoItem, ToolOutcome, Usage,
    UsageScope,
};
use ralph_core::units::Timestamp;
use serde_json::Value;

use super::acp_peer::Permission;
use super::acp_writer::AcpWriter;
use super::amp_writer::AmpWriter;
use super::claude_writer::ClaudeWriter;
use super::cline_writer::ClineWriter;
use super::codex_writer::CodexWriter;
use super::scenario::{Dialect, ErrorClass};

/// How a turn ends, ready to be printed.
#[derive(Debug)]
pub(super) enum End {
    Success,
    Structured(Value),
    Error(ErrorClass, String),
}

/// A tool call from its start to its end.
#[derive(Debug)]
pub(super) struct ToolCall<'a> {
    pub(super) name: &'a str,
    pub(super) summary: &'a str,
    pub(super) output: &'a str,
    pub(super) outcome: ToolOutcome,
}

/// Prints in one dialect. Flushes every line, because a reader may wait for it.
#[derive(Debug)]
pub(super) struct Writer<W> {
    pub(super) out: W,
    style: Style,
    calls: u32,
}

#[derive(Debug)]
enum Style {
    Sim,
    Claude(Box<ClaudeWriter>),
    Text,
    Acp(Box<AcpWriter>),
    Amp(Box<AmpWriter>),
    Cline(Box<ClineWriter>),
    Codex(Box<CodexWriter>),
}

impl<W: Write> Writer<W> {
    pub(super) fn new(dialect: Dialect, out: W) -> Self {
        let style = match dialect {
            Dialect::Sim => Style::Sim,
            Dialect::Claude => Style::Claude(Box::default()),
            Dialect::Text => Style::Text,
            Dialect::Acp => Style::Acp(Box::default()),
            Dialect::Amp => Style::Amp(Box::default()),
            Dialect::Cline => Style::Cline(Box::default()),
            Dialect::Codex => Style::Codex(Box::new(CodexWriter::new(TimeZone::system()))),
        };
        Self { out, style, calls: 0 }
    }

    /// Prints bytes unchanged.
    pub(super) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.out.flush()
    }

    fn json(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        line(&mut self.out, value)
    }

    /// Prints to stderr, which is where plain text agents report their progress.
    pub(super) fn aside(text: &str) -> io::Result<()> {
        io::stderr().write_all(format!("{text}\n").as_bytes())
    }

    /// Opens the session. Repeats the prompt if the dialect does.
    pub(super) fn begin(&mut self, session: &str, prompt: &str) -> io::Result<()> {
        match &mut self.style {
            Style::Sim => self.json(&AgentEvent::Session {
                id: Some(session.to_owned()),
                model: Some("sim".to_owned()),
                version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            }),
            Style::Claude(claude) => line(&mut self.out, &claude.begin(session)),
            Style::Amp(amp) => lines(&mut self.out, &amp.begin(session, prompt)),
            Style::Cline(cline) => lines(&mut self.out, &cline.begin(session)),
            Style::Codex(_) => lines(&mut self.out, &CodexWriter::begin(session)),
            // In ACP the session is the answer to a request.
            Style::Text | Style::Acp(_) => Ok(()),
        }
    }

    /// Prints a message.
    pub(super) fn text(&mut self, text: &str, speaker: Speaker, form: TextForm) -> io::Result<()> {
        match (&mut self.style, speaker, form) {
            (Style::Sim, ..) => {
                self.json(&AgentEvent::Text { text: text.to_owned(), speaker, form })
            }
            (Style::Claude(claude), ..) => line(&mut self.out, &claude.text(text, speaker, form)),
            (Style::Acp(acp), ..) => line(&mut self.out, &acp.text(text, speaker, form)),
            // These have no deltas: each text is a message.
            (Style::Amp(amp), ..) => line(&mut self.out, &amp.text(text, speaker)),
            (Style::Cline(_), ..) => lines(&mut self.out, &ClineWriter::text(&[text], speaker)),
            (Style::Codex(codex), Speaker::Agent, _) => line(&mut self.out, &codex.text(text)),
            (Style::Codex(_), Speaker::Subagent, _) => Ok(()),
            (Style::Text, Speaker::Agent, TextForm::Message) => {
                self.raw(format!("{text}\n").as_bytes())
            }
            (Style::Text, Speaker::Agent, TextForm::Delta) => self.raw(text.as_bytes()),
            (Style::Text, Speaker::Subagent, _) => Self::aside(text),
        }
    }

    /// Prints one message in pieces.
    pub(super) fn pieces(&mut self, pieces: &[String]) -> io::Result<()> {
        let mut form = match self.style {
            Style::Sim | Style::Claude(_) | Style::Acp(_) => TextForm::Message,
            Style::Text => TextForm::Delta,
            Style::Cline(_) => {
                let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
                return lines(&mut self.out, &ClineWriter::text(&pieces, Speaker::Agent));
            }
            // Their messages are never split.
            Style::Amp(_) | Style::Codex(_) => {
                return self.text(&pieces.concat(), Speaker::Agent, TextForm::Message);
            }
        };
        for piece in pieces {
            self.text(piece, Speaker::Agent, form)?;
            form = TextForm::Delta;
        }
        if matches!(self.style, Style::Text) { self.raw(b"\n") } else { Ok(()) }
    }

    pub(super) fn reasoning(&mut self, text: &str) -> io::Result<()> {
        match &mut self.style {
            Style::Sim => self.json(&AgentEvent::Reasoning { text: text.to_owned() }),
            Style::Claude(claude) => line(&mut self.out, &claude.reasoning(text)),
            Style::Acp(_) => self.json(&AcpWriter::reasoning(text)),
            Style::Amp(amp) => line(&mut self.out, &amp.reasoning(text)),
            Style::Cline(_) => lines(&mut self.out, &ClineWriter::reasoning(text)),
            Style::Codex(codex) => line(&mut self.out, &codex.reasoning(text)),
            Style::Text => Self::aside(text),
        }
    }

    pub(super) fn tool(&mut self, call: &ToolCall<'_>) -> io::Result<()> {
        self.calls += 1;
        let id = format!("tool_{}", self.calls);
        match &mut self.style {
            Style::Sim => {
                self.json(&AgentEvent::ToolStarted {
                    id: id.clone(),
                    name: call.name.to_owned(),
                    summary: call.summary.to_owned(),
                    speaker: Speaker::Agent,
                })?;
                let output = call.output.to_owned();
                self.json(&AgentEvent::ToolEnded { id, outcome: call.outcome, output })
            }
            Style::Claude(claude) => lines(&mut self.out, &claude.tool(&id, call)),
            Style::Acp(_) => lines(&mut self.out, &AcpWriter::tool(&id, call)),
            Style::Amp(amp) => lines(&mut self.out, &amp.tool(&id, call)),
            Style::Cline(cline) => lines(&mut self.out, &cline.tool(&id, call)),
            Style::Codex(codex) => match CodexWriter::complaint(call) {
                Some(message) => Self::aside(&message),
                None => lines(&mut self.out, &codex.tool(call)),
            },
            Style::Text => Self::aside(&format!("{}: {}", call.name, call.summary)),
        }
    }

    /// Asks for permission and returns the id of the request; `None` if the dialect cannot ask.
    pub(super) fn permission(&mut self, what: &str) -> io::Result<Option<String>> {
        match &self.style {
            Style::Acp(_) => {
                self.calls += 1;
                let id = format!("tool_{}", self.calls);
                self.json(&AcpWriter::permission(&id, what))?;
                Ok(Some(id))
            }
            Style::Sim
            | Style::Claude(_)
            | Style::Text
            | Style::Amp(_)
            | Style::Cline(_)
            | Style::Codex(_) => Ok(None),
        }
    }

    /// Ends the tool call that permission was asked for.
    pub(super) fn permitted(&mut self, id: &str, permission: Permission) -> io::Result<()> {
        let (outcome, output) = match permission {
            Permission::Given => (ToolOutcome::Ok, "done"),
            Permission::Refused => (ToolOutcome::Error, "refused"),
        };
        self.json(&AcpWriter::tool_over(id, outcome, output))
    }

    pub(super) fn todo(&mut self, items: Vec<TodoItem>) -> io::Result<()> {
        self.calls += 1;
        let id = format!("tool_{}", self.calls);
        match &mut self.style {
            Style::Sim => self.json(&AgentEvent::Todo { items }),
            Style::Claude(claude) => lines(&mut self.out, &claude.todo(&id, &items)),
            Style::Acp(_) => self.json(&AcpWriter::todo(&items)),
            Style::Amp(amp) => lines(&mut self.out, &amp.todo(&id, &items)),
            Style::Codex(codex) => line(&mut self.out, &codex.todo(&items)),
            Style::Text | Style::Cline(_) => Ok(()),
        }
    }

    pub(super) fn usage(&mut self, usage: Usage) -> io::Result<()> {
        match &mut self.style {
            Style::Sim => self.json(&AgentEvent::Usage { usage, scope: UsageScope::Step }),
            Style::Claude(claude) => {
                claude.usage(usage);
                Ok(())
            }
            Style::Acp(acp) => line(&mut self.out, &acp.usage(usage)),
            Style::Amp(amp) => {
                amp.usage(usage);
                Ok(())
            }
            Style::Cline(cline) => line(&mut self.out, &cline.usage(usage)),
            Style::Codex(codex) => {
                codex.usage(usage);
                Ok(())
            }
            Style::Text => Ok(()),
        }
    }

    pub(super) fn notice(&mut self, text: &str) -> io::Result<()> {
        match &mut self.style {
            Style::Sim => self.json(&AgentEvent::Notice { text: text.to_owned() }),
            Style::Claude(claude) => line(&mut self.out, &claude.notice(text)),
            Style::Cline(cline) => line(&mut self.out, &cline.notice(text)),
            Style::Codex(codex) => line(&mut self.out, &codex.notice(text)),
            Style::Text | Style::Acp(_) | Style::Amp(_) => Self::aside(text),
        }
    }

    /// Reports a rate limit; if the dialect cannot, the error that follows does.
    pub(super) fn rate_limit(
        &mut self,
        status: RateLimitStatus,
        resets_at: Option<Timestamp>,
        now: Timestamp,
    ) -> io::Result<()> {
        match (&mut self.style, status) {
            (Style::Sim, _) => self.json(&AgentEvent::RateLimit { status, resets_at }),
            (Style::Claude(claude), _) => {
                line(&mut self.out, &claude.rate_limit(status, resets_at))
            }
            (Style::Acp(acp), _) => {
                acp.rate_limit(resets_at);
                Ok(())
            }
            (Style::Text, RateLimitStatus::Rejected) => {
                let until = resets_at.map(|at| format!("|{}", at.0 / 1000)).unwrap_or_default();
                Self::aside(&format!("usage limit reached{until}"))
            }
            (Style::Amp(amp), RateLimitStatus::Rejected) => {
                amp.limited(resets_at);
                Ok(())
            }
            (Style::Cline(cline), RateLimitStatus::Rejected) => {
                cline.limited(resets_at);
                Ok(())
            }
            (Style::Codex(codex), RateLimitStatus::Rejected) => {
                codex.limited(resets_at, now);
                Ok(())
            }
            (
                Style::Text | Style::Amp(_) | Style::Cline(_) | Style::Codex(_),
                RateLimitStatus::Allowed | RateLimitStatus::Warning,
            ) => Ok(()),
        }
    }

    /// Prints a line without content.
    pub(super) fn chatter(&mut self) -> io::Result<()> {
        match &mut self.style {
            Style::Sim => self.json(&AgentEvent::Notice { text: "still here".to_owned() }),
            Style::Claude(claude) => line(&mut self.out, &claude.chatter()),
            Style::Acp(_) => self.json(&AcpWriter::chatter()),
            Style::Cline(_) => self.json(&ClineWriter::chatter()),
            Style::Codex(codex) => line(&mut self.out, &codex.notice("still here")),
            Style::Text | Style::Amp(_) => self.raw(b"\n"),
        }
    }

    /// Repeats the prompt if the dialect can.
    pub(super) fn echo(&mut self, prompt: &str) -> io::Result<()> {
        match &mut self.style {
            Style::Sim => self.json(&AgentEvent::Notice { text: prompt.to_owned() }),
            Style::Claude(claude) => line(&mut self.out, &claude.echo(prompt)),
            Style::Acp(_) => self.json(&AcpWriter::echo(prompt)),
            Style::Amp(amp) => line(&mut self.out, &amp.echo(prompt)),
            Style::Cline(_) | Style::Codex(_) => Ok(()),
            Style::Text => self.raw(format!("{}\n", prompt.trim_end()).as_bytes()),
        }
    }

    /// Ends the turn. `final_answer` is what agents repeat in their result.
    pub(super) fn end(&mut self, end: End, final_answer: &str) -> io::Result<()> {
        match (&mut self.style, end) {
            (Style::Claude(claude), end) => lines(&mut self.out, &claude.end(end, final_answer)),
            (Style::Acp(acp), end) => lines(&mut self.out, &acp.end(end)),
            (
                Style::Amp(_) | Style::Cline(_) | Style::Codex(_),
                End::Error(ErrorClass::Malformed, message),
            )
            | (Style::Text, End::Error(_, message)) => Self::aside(&message),
            (Style::Amp(amp), end) => lines(&mut self.out, &amp.end(end, final_answer)),
            (Style::Cline(cline), end) => {
                let complaint = cline.complaint(&end);
                lines(&mut self.out, &cline.end(end, final_answer))?;
                complaint.map_or(Ok(()), |message| Self::aside(&message.to_string()))
            }
            (Style::Codex(codex), end) => lines(&mut self.out, &codex.end(end)),
            (Style::Sim, End::Success) => {
                self.result(ResultStatus::Success, Some(final_answer.to_owned()), None)
            }
            (Style::Sim, End::Structured(value)) => {
                self.result(ResultStatus::Success, None, Some(value))
            }
            (Style::Sim, End::Error(class, message)) => {
                let message = format!("{}: {message}", class_of(class).name());
                self.result(ResultStatus::Failed(message), None, None)
            }
            (Style::Text, End::Success) => Ok(()),
            (Style::Text, End::Structured(value)) => self.json(&value),
        }
    }

    /// Returns the agent's exit code after an end.
    pub(super) fn exit_code(&self, end: &End) -> u8 {
        match (&self.style, end) {
            // These have no line for it: the stream breaks off, and the exit code is 0.
            (
                Style::Amp(_) | Style::Cline(_) | Style::Codex(_),
                End::Error(ErrorClass::Malformed, _),
            )
            | (_, End::Success | End::Structured(_)) => 0,
            (_, End::Error(..)) => 1,
        }
    }

    fn result(
        &mut self,
        status: ResultStatus,
        text: Option<String>,
        structured: Option<Value>,
    ) -> io::Result<()> {
        self.json(&AgentEvent::Result { status, text, structured })
    }
}

/// Returns an object with the fields of both, in this order.
pub(super) fn joined(mut front: Value, rest: Value) -> Value {
    if let (Value::Object(front), Value::Object(rest)) = (&mut front, rest) {
        front.extend(rest);
    }
    front
}

/// Returns an absolute path, as agents print it.
pub(super) fn absolute(path: &str) -> String {
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string())
}

/// Prints one line of JSON.
fn line(out: &mut impl Write, value: &impl serde::Serialize) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(value)?;
    bytes.push(b'\n');
    out.write_all(&bytes)?;
    out.flush()
}

fn lines(out: &mut impl Write, values: &[Value]) -> io::Result<()> {
    values.iter().try_for_each(|value| line(out, value))
}

fn class_of(class: ErrorClass) -> FailureClass {
    match class {
        ErrorClass::Crashed => FailureClass::Crashed,
        ErrorClass::Malformed => FailureClass::Malformed,
        ErrorClass::TurnLimit => FailureClass::TurnLimit,
        ErrorClass::RateLimited => FailureClass::RateLimited { resets_at: None },
        ErrorClass::Overloaded => FailureClass::Overloaded,
        ErrorClass::NotLoggedIn => FailureClass::NotLoggedIn,
        ErrorClass::BadCall => FailureClass::BadCall,
        ErrorClass::ContextExceeded => FailureClass::ContextExceeded,
    }
}
