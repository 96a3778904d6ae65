//! The dialects of the scripted agent: the same steps, printed as different agents would.
//!
//! Not here: the lines of the imitated agents, which are many and have their own files.

use std::io::{self, Write};

use jiff::tz::TimeZone;
use ralph_model::agent_output::{
    AgentEvent, RateLimitStatus, ResultStatus, Speaker, TextForm, TodoItem, ToolOutcome, Usage,
    UsageScope,
};
use ralph_model::failure::FailureClass;
use ralph_model::units::Timestamp;
use serde_json::Value;

use super::acp_peer::Permission;
use super::acp_writer::AcpWriter;
use super::amp_writer::AmpWriter;
use super::claude_writer::ClaudeWriter;
use super::cline_writer::ClineWriter;
use super::codex_writer::CodexWriter;
use super::scenario::{ScriptedErrorClass, SimDialect};

/// How a turn ends, ready to be printed.
#[derive(Debug)]
pub(super) enum SimTurnEnd {
    Success,
    Structured(Value),
    Error(ScriptedErrorClass, String),
}

/// A tool call from its start to its end.
#[derive(Debug)]
pub(super) struct ScriptedToolCall<'a> {
    pub(super) name: &'a str,
    pub(super) summary: &'a str,
    pub(super) output: &'a str,
    pub(super) outcome: ToolOutcome,
}

/// Prints in one dialect. Flushes every line, because a reader may wait for it.
#[derive(Debug)]
pub(super) struct SimWriter<W> {
    pub(super) out: W,
    style: DialectWriter,
    calls: u32,
}

#[derive(Debug)]
enum DialectWriter {
    Sim,
    Claude(Box<ClaudeWriter>),
    Text,
    Acp(Box<AcpWriter>),
    Amp(Box<AmpWriter>),
    Cline(Box<ClineWriter>),
    Codex(Box<CodexWriter>),
}

impl<W: Write> SimWriter<W> {
    pub(super) fn new(dialect: SimDialect, out: W) -> Self {
        let style = match dialect {
            SimDialect::Sim => DialectWriter::Sim,
            SimDialect::Claude => DialectWriter::Claude(Box::default()),
            SimDialect::Text => DialectWriter::Text,
            SimDialect::Acp => DialectWriter::Acp(Box::default()),
            SimDialect::Amp => DialectWriter::Amp(Box::default()),
            SimDialect::Cline => DialectWriter::Cline(Box::default()),
            SimDialect::Codex => {
                DialectWriter::Codex(Box::new(CodexWriter::new(TimeZone::system())))
            }
        };
        Self { out, style, calls: 0 }
    }

    /// Prints bytes unchanged.
    pub(super) fn write_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.out.flush()
    }

    fn write_json(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        write_line(&mut self.out, value)
    }

    /// Prints to stderr, which is where plain text agents report their progress.
    pub(super) fn write_stderr(text: &str) -> io::Result<()> {
        io::stderr().write_all(format!("{text}\n").as_bytes())
    }

    /// Opens the session. Repeats the prompt if the dialect does.
    pub(super) fn start_session(&mut self, session: &str, prompt: &str) -> io::Result<()> {
        match &mut self.style {
            DialectWriter::Sim => self.write_json(&AgentEvent::Session {
                id: Some(session.to_owned()),
                model: Some("sim".to_owned()),
                version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            }),
            DialectWriter::Claude(claude) => {
                write_line(&mut self.out, &claude.build_start(session))
            }
            DialectWriter::Amp(amp) => {
                write_lines(&mut self.out, &amp.build_start(session, prompt))
            }
            DialectWriter::Cline(cline) => write_lines(&mut self.out, &cline.build_start(session)),
            DialectWriter::Codex(_) => {
                write_lines(&mut self.out, &CodexWriter::build_start(session))
            }
            // In ACP the session is the answer to a request.
            DialectWriter::Text | DialectWriter::Acp(_) => Ok(()),
        }
    }

    /// Prints a message.
    pub(super) fn write_text(
        &mut self,
        text: &str,
        speaker: Speaker,
        form: TextForm,
    ) -> io::Result<()> {
        match (&mut self.style, speaker, form) {
            (DialectWriter::Sim, ..) => {
                self.write_json(&AgentEvent::Text { text: text.to_owned(), speaker, form })
            }
            (DialectWriter::Claude(claude), ..) => {
                write_line(&mut self.out, &claude.build_text(text, speaker, form))
            }
            (DialectWriter::Acp(acp), ..) => {
                write_line(&mut self.out, &acp.build_text(text, speaker, form))
            }
            // These have no deltas: each text is a message.
            (DialectWriter::Amp(amp), ..) => {
                write_line(&mut self.out, &amp.build_text(text, speaker))
            }
            (DialectWriter::Cline(_), ..) => {
                write_lines(&mut self.out, &ClineWriter::build_text(&[text], speaker))
            }
            (DialectWriter::Codex(codex), Speaker::Agent, _) => {
                write_line(&mut self.out, &codex.build_text(text))
            }
            (DialectWriter::Codex(_), Speaker::Subagent, _) => Ok(()),
            (DialectWriter::Text, Speaker::Agent, TextForm::Message) => {
                self.write_bytes(format!("{text}\n").as_bytes())
            }
            (DialectWriter::Text, Speaker::Agent, TextForm::Delta) => {
                self.write_bytes(text.as_bytes())
            }
            (DialectWriter::Text, Speaker::Subagent, _) => Self::write_stderr(text),
        }
    }

    /// Prints one message in pieces.
    pub(super) fn write_pieces(&mut self, pieces: &[String]) -> io::Result<()> {
        let mut form = match self.style {
            DialectWriter::Sim | DialectWriter::Claude(_) | DialectWriter::Acp(_) => {
                TextForm::Message
            }
            DialectWriter::Text => TextForm::Delta,
            DialectWriter::Cline(_) => {
                let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
                return write_lines(
                    &mut self.out,
                    &ClineWriter::build_text(&pieces, Speaker::Agent),
                );
            }
            // Their messages are never split.
            DialectWriter::Amp(_) | DialectWriter::Codex(_) => {
                return self.write_text(&pieces.concat(), Speaker::Agent, TextForm::Message);
            }
        };
        for piece in pieces {
            self.write_text(piece, Speaker::Agent, form)?;
            form = TextForm::Delta;
        }
        if matches!(self.style, DialectWriter::Text) { self.write_bytes(b"\n") } else { Ok(()) }
    }

    pub(super) fn write_reasoning(&mut self, text: &str) -> io::Result<()> {
        match &mut self.style {
            DialectWriter::Sim => self.write_json(&AgentEvent::Reasoning { text: text.to_owned() }),
            DialectWriter::Claude(claude) => {
                write_line(&mut self.out, &claude.build_reasoning(text))
            }
            DialectWriter::Acp(_) => self.write_json(&AcpWriter::build_reasoning(text)),
            DialectWriter::Amp(amp) => write_line(&mut self.out, &amp.build_reasoning(text)),
            DialectWriter::Cline(_) => {
                write_lines(&mut self.out, &ClineWriter::build_reasoning(text))
            }
            DialectWriter::Codex(codex) => write_line(&mut self.out, &codex.build_reasoning(text)),
            DialectWriter::Text => Self::write_stderr(text),
        }
    }

    pub(super) fn write_tool_call(&mut self, call: &ScriptedToolCall<'_>) -> io::Result<()> {
        self.calls += 1;
        let id = format!("tool_{}", self.calls);
        match &mut self.style {
            DialectWriter::Sim => {
                self.write_json(&AgentEvent::ToolStarted {
                    id: id.clone(),
                    name: call.name.to_owned(),
                    summary: call.summary.to_owned(),
                    speaker: Speaker::Agent,
                })?;
                let output = call.output.to_owned();
                self.write_json(&AgentEvent::ToolEnded { id, outcome: call.outcome, output })
            }
            DialectWriter::Claude(claude) => {
                write_lines(&mut self.out, &claude.build_tool_call(&id, call))
            }
            DialectWriter::Acp(_) => {
                write_lines(&mut self.out, &AcpWriter::build_tool_call(&id, call))
            }
            DialectWriter::Amp(amp) => write_lines(&mut self.out, &amp.build_tool_call(&id, call)),
            DialectWriter::Cline(cline) => {
                write_lines(&mut self.out, &cline.build_tool_call(&id, call))
            }
            DialectWriter::Codex(codex) => match CodexWriter::find_stderr_line(call) {
                Some(message) => Self::write_stderr(&message),
                None => write_lines(&mut self.out, &codex.build_tool_call(call)),
            },
            DialectWriter::Text => Self::write_stderr(&format!("{}: {}", call.name, call.summary)),
        }
    }

    /// Asks for permission and returns the id of the request; `None` if the dialect cannot ask.
    pub(super) fn request_permission(&mut self, what: &str) -> io::Result<Option<String>> {
        let DialectWriter::Acp(_) = &self.style else { return Ok(None) };
        self.calls += 1;
        let id = format!("tool_{}", self.calls);
        self.write_json(&AcpWriter::build_permission_request(&id, what))?;
        Ok(Some(id))
    }

    /// Ends the tool call that permission was asked for.
    pub(super) fn write_permitted_call(
        &mut self,
        id: &str,
        permission: Permission,
    ) -> io::Result<()> {
        let (outcome, output) = match permission {
            Permission::Given => (ToolOutcome::Ok, "done"),
            Permission::Refused => (ToolOutcome::Error, "refused"),
        };
        self.write_json(&AcpWriter::build_tool_end(id, outcome, output))
    }

    pub(super) fn write_todo(&mut self, items: Vec<TodoItem>) -> io::Result<()> {
        self.calls += 1;
        let id = format!("tool_{}", self.calls);
        match &mut self.style {
            DialectWriter::Sim => self.write_json(&AgentEvent::Todo { items }),
            DialectWriter::Claude(claude) => {
                write_lines(&mut self.out, &claude.build_todo(&id, &items))
            }
            DialectWriter::Acp(_) => self.write_json(&AcpWriter::build_todo(&items)),
            DialectWriter::Amp(amp) => write_lines(&mut self.out, &amp.build_todo(&id, &items)),
            DialectWriter::Codex(codex) => write_line(&mut self.out, &codex.build_todo(&items)),
            DialectWriter::Text | DialectWriter::Cline(_) => Ok(()),
        }
    }

    pub(super) fn write_usage(&mut self, usage: Usage) -> io::Result<()> {
        match &mut self.style {
            DialectWriter::Sim => {
                self.write_json(&AgentEvent::Usage { usage, scope: UsageScope::Step })
            }
            DialectWriter::Claude(claude) => {
                claude.add_usage(usage);
                Ok(())
            }
            DialectWriter::Acp(acp) => write_line(&mut self.out, &acp.add_usage(usage)),
            DialectWriter::Amp(amp) => {
                amp.add_usage(usage);
                Ok(())
            }
            DialectWriter::Cline(cline) => write_line(&mut self.out, &cline.add_usage(usage)),
            DialectWriter::Codex(codex) => {
                codex.add_usage(usage);
                Ok(())
            }
            DialectWriter::Text => Ok(()),
        }
    }

    pub(super) fn write_notice(&mut self, text: &str) -> io::Result<()> {
        match &mut self.style {
            DialectWriter::Sim => self.write_json(&AgentEvent::Notice { text: text.to_owned() }),
            DialectWriter::Claude(claude) => write_line(&mut self.out, &claude.build_notice(text)),
            DialectWriter::Cline(cline) => write_line(&mut self.out, &cline.build_notice(text)),
            DialectWriter::Codex(codex) => write_line(&mut self.out, &codex.build_notice(text)),
            DialectWriter::Text | DialectWriter::Acp(_) | DialectWriter::Amp(_) => {
                Self::write_stderr(text)
            }
        }
    }

    /// Reports a rate limit; if the dialect cannot, the error that follows does.
    pub(super) fn write_rate_limit(
        &mut self,
        status: RateLimitStatus,
        resets_at: Option<Timestamp>,
        now: Timestamp,
    ) -> io::Result<()> {
        match (&mut self.style, status) {
            (DialectWriter::Sim, _) => {
                self.write_json(&AgentEvent::RateLimit { status, resets_at })
            }
            (DialectWriter::Claude(claude), _) => {
                write_line(&mut self.out, &claude.build_rate_limit(status, resets_at))
            }
            (DialectWriter::Acp(acp), _) => {
                acp.set_limit(resets_at);
                Ok(())
            }
            (DialectWriter::Text, RateLimitStatus::Rejected) => {
                let until = resets_at.map(|at| format!("|{}", at.0 / 1000)).unwrap_or_default();
                Self::write_stderr(&format!("usage limit reached{until}"))
            }
            (DialectWriter::Amp(amp), RateLimitStatus::Rejected) => {
                amp.set_limit(resets_at);
                Ok(())
            }
            (DialectWriter::Cline(cline), RateLimitStatus::Rejected) => {
                cline.set_limit(resets_at);
                Ok(())
            }
            (DialectWriter::Codex(codex), RateLimitStatus::Rejected) => {
                codex.set_limit(resets_at, now);
                Ok(())
            }
            (
                DialectWriter::Text
                | DialectWriter::Amp(_)
                | DialectWriter::Cline(_)
                | DialectWriter::Codex(_),
                RateLimitStatus::Allowed | RateLimitStatus::Warning,
            ) => Ok(()),
        }
    }

    /// Prints a line without content.
    pub(super) fn write_chatter(&mut self) -> io::Result<()> {
        match &mut self.style {
            DialectWriter::Sim => {
                self.write_json(&AgentEvent::Notice { text: "still here".to_owned() })
            }
            DialectWriter::Claude(claude) => write_line(&mut self.out, &claude.build_chatter()),
            DialectWriter::Acp(_) => self.write_json(&AcpWriter::build_chatter()),
            DialectWriter::Cline(_) => self.write_json(&ClineWriter::build_chatter()),
            DialectWriter::Codex(codex) => {
                write_line(&mut self.out, &codex.build_notice("still here"))
            }
            DialectWriter::Text | DialectWriter::Amp(_) => self.write_bytes(b"\n"),
        }
    }

    /// Repeats the prompt if the dialect can.
    pub(super) fn echo_prompt(&mut self, prompt: &str) -> io::Result<()> {
        match &mut self.style {
            DialectWriter::Sim => self.write_json(&AgentEvent::Notice { text: prompt.to_owned() }),
            DialectWriter::Claude(claude) => write_line(&mut self.out, &claude.build_echo(prompt)),
            DialectWriter::Acp(_) => self.write_json(&AcpWriter::build_echo(prompt)),
            DialectWriter::Amp(amp) => write_line(&mut self.out, &amp.build_echo(prompt)),
            DialectWriter::Cline(_) | DialectWriter::Codex(_) => Ok(()),
            DialectWriter::Text => self.write_bytes(format!("{}\n", prompt.trim_end()).as_bytes()),
        }
    }

    /// Ends the turn. `final_answer` is what agents repeat in their result.
    pub(super) fn write_end(&mut self, end: SimTurnEnd, final_answer: &str) -> io::Result<()> {
        match (&mut self.style, end) {
            (DialectWriter::Claude(claude), end) => {
                write_lines(&mut self.out, &claude.build_end(end, final_answer))
            }
            (DialectWriter::Acp(acp), end) => write_lines(&mut self.out, &acp.build_end(end)),
            (
                DialectWriter::Amp(_) | DialectWriter::Cline(_) | DialectWriter::Codex(_),
                SimTurnEnd::Error(ScriptedErrorClass::Malformed, message),
            )
            | (DialectWriter::Text, SimTurnEnd::Error(_, message)) => Self::write_stderr(&message),
            (DialectWriter::Amp(amp), end) => {
                write_lines(&mut self.out, &amp.build_end(end, final_answer))
            }
            (DialectWriter::Cline(cline), end) => {
                let complaint = cline.build_stderr_line(&end);
                write_lines(&mut self.out, &cline.build_end(end, final_answer))?;
                complaint.map_or(Ok(()), |message| Self::write_stderr(&message.to_string()))
            }
            (DialectWriter::Codex(codex), end) => write_lines(&mut self.out, &codex.build_end(end)),
            (DialectWriter::Sim, SimTurnEnd::Success) => {
                self.write_result(ResultStatus::Success, Some(final_answer.to_owned()), None)
            }
            (DialectWriter::Sim, SimTurnEnd::Structured(value)) => {
                self.write_result(ResultStatus::Success, None, Some(value))
            }
            (DialectWriter::Sim, SimTurnEnd::Error(class, message)) => {
                let message = format!("{}: {message}", to_failure_class(class).name());
                self.write_result(ResultStatus::Failed(message), None, None)
            }
            (DialectWriter::Text, SimTurnEnd::Success) => Ok(()),
            (DialectWriter::Text, SimTurnEnd::Structured(value)) => self.write_json(&value),
        }
    }

    /// Returns the agent's exit code after an end.
    pub(super) fn exit_code(&self, end: &SimTurnEnd) -> u8 {
        match (&self.style, end) {
            // These have no line for it: the stream breaks off, and the exit code is 0.
            (
                DialectWriter::Amp(_) | DialectWriter::Cline(_) | DialectWriter::Codex(_),
                SimTurnEnd::Error(ScriptedErrorClass::Malformed, _),
            )
            | (_, SimTurnEnd::Success | SimTurnEnd::Structured(_)) => 0,
            (_, SimTurnEnd::Error(..)) => 1,
        }
    }

    fn write_result(
        &mut self,
        status: ResultStatus,
        text: Option<String>,
        structured: Option<Value>,
    ) -> io::Result<()> {
        self.write_json(&AgentEvent::Result { status, text, structured })
    }
}

/// Returns an object with the fields of both, in this order.
pub(super) fn join_objects(mut front: Value, rest: Value) -> Value {
    if let (Value::Object(front), Value::Object(rest)) = (&mut front, rest) {
        front.extend(rest);
    }
    front
}

/// Returns an absolute path, as agents print it.
pub(super) fn to_absolute(path: &str) -> String {
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string())
}

/// Prints one line of JSON.
fn write_line(out: &mut impl Write, value: &impl serde::Serialize) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(value)?;
    bytes.push(b'\n');
    out.write_all(&bytes)?;
    out.flush()
}

fn write_lines(out: &mut impl Write, values: &[Value]) -> io::Result<()> {
    values.iter().try_for_each(|value| write_line(out, value))
}

fn to_failure_class(class: ScriptedErrorClass) -> FailureClass {
    match class {
        ScriptedErrorClass::Crashed => FailureClass::Crashed,
        ScriptedErrorClass::Malformed => FailureClass::Malformed,
        ScriptedErrorClass::TurnLimit => FailureClass::TurnLimit,
        ScriptedErrorClass::RateLimited => FailureClass::RateLimited { resets_at: None },
        ScriptedErrorClass::Overloaded => FailureClass::Overloaded,
        ScriptedErrorClass::NotLoggedIn => FailureClass::NotLoggedIn,
        ScriptedErrorClass::BadCall => FailureClass::BadCall,
        ScriptedErrorClass::ContextExceeded => FailureClass::ContextExceeded,
    }
}
