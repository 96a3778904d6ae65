//! The translator of one call: turns lines into common events, and judges the call at the end.
//!
//! Not here: any agent's format. Each has its own file.

use jiff::tz::TimeZone;
use ralph_core::child::ChildEnd;
use ralph_core::failure::Failure;
use ralph_core::reading::{AgentEvent, Reading};
use ralph_core::units::Timestamp;

use super::acp::AcpTranslator;
use super::amp::AmpTranslator;
use super::claude::{self, ClaudeTranslator};
use super::cline::ClineTranslator;
use super::codex::{CodexText, CodexTranslator};
use super::copilot::CopilotTranslator;
use super::custom::CustomTranslator;
use super::gemini::GeminiTranslator;
use super::opencode::OpencodeTranslator;
use super::pi::PiTranslator;
use super::qwen::QwenTranslator;
use super::sim::SimTranslator;
use super::text::TextTranslator;

/// Translates the output of one call. It keeps state that the common events have no field for, so
/// the same translator must read the whole output and then judge.
#[derive(Debug)]
pub struct Translator(pub(super) Dialect);

/// The output formats that ralph can read.
#[derive(Debug)]
pub(super) enum Dialect {
    Claude(Box<ClaudeTranslator>),
    ClaudeText(TextTranslator),
    Codex(Box<CodexTranslator>),
    /// Codex in text mode: the answer is in a file.
    CodexText(CodexText),
    Amp(Box<AmpTranslator>),
    Cline(Box<ClineTranslator>),
    Gemini(Box<GeminiTranslator>),
    Opencode(Box<OpencodeTranslator>),
    Copilot(Box<CopilotTranslator>),
    Qwen(Box<QwenTranslator>),
    Pi(Box<PiTranslator>),
    Acp(Box<AcpTranslator>),
    /// Any command's plain text.
    Text(TextTranslator),
    /// Any command's JSON, read with the user's filters.
    Custom(Box<CustomTranslator>),
    Sim(SimTranslator),
}

/// The events of one line, and what they say about progress.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard {
    pub events: Vec<AgentEvent>,
    pub weight: Weight,
}

/// Everything that follows from a line.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// What the run counts.
    pub heard: Heard,
    /// What ralph sends back to the agent.
    pub answer: Answer,
    /// What is shown to people.
    pub shown: Shown,
}

/// Bytes to write to an agent's stdin in reply.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    pub bytes: Vec<u8>,
    pub input: Input,
}

impl Answer {
    /// Appends a later reply.
    pub fn add(&mut self, later: Self) {
        self.bytes.extend(later.bytes);
        match later.input {
            Input::Open => {}
            Input::Over => self.input = Input::Over,
        }
    }
}

/// Whether an agent's stdin stays open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Input {
    #[default]
    Open,
    Over,
}

/// What is shown to people for a line.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    /// The events of the line.
    Events,
    /// These events instead.
    Instead(Vec<AgentEvent>),
}

impl From<Heard> for Told {
    /// Returns a line that is shown as it is and needs no reply.
    fn from(parsed: Heard) -> Self {
        Self { heard: parsed, answer: Answer::default(), shown: Shown::Events }
    }
}

/// What a line says about an agent's progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// No progress: a keep-alive, a retry, a line that could not be read. The idle limit keeps
    /// running.
    Noise,
    /// The agent makes progress. The idle limit starts over, and a grace period after an earlier
    /// result ends: another turn has begun.
    Useful,
    /// A result: the grace period begins, unless progress follows.
    Final,
}

impl Heard {
    /// Returns a line with these events; its activity is that of the most active event.
    pub(super) fn of(events: Vec<AgentEvent>) -> Self {
        let weight = events.iter().map(weight_of).max().unwrap_or(Weight::Noise);
        Self { events, weight }
    }

    pub(super) fn nothing(weight: Weight) -> Self {
        Self { events: Vec::new(), weight }
    }

    /// Returns a line of stderr. It is shown, and never counts as the agent's text or as progress.
    pub fn on_stderr(line: &str) -> Self {
        let text = line.trim_end();
        let notice = (!text.is_empty()).then(|| AgentEvent::Notice { text: bounded(text) });
        Self::of(notice.into_iter().collect())
    }

    /// Returns a line that no adapter can read.
    pub(super) fn unparsed(text: &str) -> Self {
        Self::of(vec![AgentEvent::Unparsed { line: bounded(text) }])
    }
}

fn weight_of(event: &AgentEvent) -> Weight {
    match event {
        AgentEvent::Session { .. }
        | AgentEvent::Text { .. }
        | AgentEvent::Reasoning { .. }
        | AgentEvent::ToolStarted { .. }
        | AgentEvent::ToolEnded { .. }
        | AgentEvent::Todo { .. }
        | AgentEvent::FileChanged { .. }
        | AgentEvent::Usage { .. } => Weight::Useful,
        AgentEvent::RateLimit { .. } | AgentEvent::Notice { .. } | AgentEvent::Unparsed { .. } => {
            Weight::Noise
        }
        AgentEvent::Result { .. } => Weight::Final,
    }
}

/// Everything a call is judged by, besides the translator's own state.
#[derive(Debug)]
pub struct Evidence<'a> {
    pub reading: &'a Reading,
    pub end: &'a ChildEnd,
    pub stderr_tail: &'a str,
    pub stdout_tail: &'a str,
    /// When the process ended; the base for times of day in messages.
    pub now: Timestamp,
    /// Time zone for times without one.
    pub zone: &'a TimeZone,
}

impl Translator {
    /// Reads a line of stdout, and returns only its events.
    pub fn line(&mut self, line: &str) -> Heard {
        self.take_in(line).heard
    }

    /// Reads a line of stdout, without its newline, decoded lossily.
    pub fn take_in(&mut self, line: &str) -> Told {
        let parsed = match &mut self.0 {
            Dialect::Acp(translator) => return translator.line(line),
            Dialect::Custom(translator) => return translator.line(line),
            Dialect::Claude(translator) => translator.line(line),
            Dialect::ClaudeText(translator) | Dialect::Text(translator) => translator.line(line),
            Dialect::Codex(translator) => translator.line(line),
            Dialect::CodexText(translator) => translator.line(line),
            Dialect::Amp(translator) => translator.line(line),
            Dialect::Cline(translator) => translator.line(line),
            Dialect::Gemini(translator) => translator.line(line),
            Dialect::Opencode(translator) => translator.line(line),
            Dialect::Copilot(translator) => translator.line(line),
            Dialect::Qwen(translator) => translator.line(line),
            Dialect::Pi(translator) => translator.line(line),
            Dialect::Sim(translator) => translator.line(line),
        };
        parsed.into()
    }

    /// Returns events that were held back, after the end of stdout. They belong to the reading.
    pub fn finish(&mut self) -> Heard {
        match &mut self.0 {
            Dialect::ClaudeText(translator) | Dialect::Text(translator) => translator.finish(),
            Dialect::Codex(translator) => translator.finish(),
            Dialect::Amp(translator) => translator.finish(),
            Dialect::Cline(translator) => translator.finish(),
            Dialect::Gemini(translator) => translator.finish(),
            Dialect::Opencode(translator) => translator.finish(),
            Dialect::Copilot(translator) => translator.finish(),
            Dialect::Qwen(translator) => translator.finish(),
            Dialect::Pi(translator) => translator.finish(),
            Dialect::Acp(translator) => translator.finish(),
            Dialect::Claude(_) | Dialect::CodexText(_) | Dialect::Custom(_) | Dialect::Sim(_) => {
                Heard::nothing(Weight::Noise)
            }
        }
    }

    /// Reads the answer that the agent wrote to a file, after its process ended. The events belong
    /// to the reading.
    pub fn answer(&mut self, text: String) -> Heard {
        match &mut self.0 {
            Dialect::CodexText(translator) => translator.answer(text),
            Dialect::Claude(_)
            | Dialect::ClaudeText(_)
            | Dialect::Codex(_)
            | Dialect::Amp(_)
            | Dialect::Cline(_)
            | Dialect::Gemini(_)
            | Dialect::Opencode(_)
            | Dialect::Copilot(_)
            | Dialect::Qwen(_)
            | Dialect::Pi(_)
            | Dialect::Acp(_)
            | Dialect::Text(_)
            | Dialect::Custom(_)
            | Dialect::Sim(_) => Heard::nothing(Weight::Noise),
        }
    }

    /// Returns the MCP servers that did not start, with their status. Only Claude Code reports
    /// them.
    pub fn servers_down(&self) -> &[String] {
        self.claude().map_or(&[], ClaudeTranslator::servers_down)
    }

    /// Returns why the hooks of ralph's plugin did not run, if a session began without them. Only
    /// Claude Code's stream of events reports them.
    pub fn missing_hooks(&self) -> Option<&str> {
        self.claude()?.missing_hooks()
    }

    fn claude(&self) -> Option<&ClaudeTranslator> {
        if let Dialect::Claude(translator) = &self.0 { Some(translator) } else { None }
    }

    /// Judges the call. Returns `None` if it brought an answer.
    pub(super) fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        match &self.0 {
            Dialect::Claude(translator) => translator.judge(evidence),
            Dialect::ClaudeText(translator) => claude::judge_text(translator, evidence),
            Dialect::Text(translator) => translator.judge(evidence),
            Dialect::Codex(translator) => translator.judge(evidence),
            Dialect::CodexText(translator) => translator.judge(evidence),
            Dialect::Amp(translator) => translator.judge(evidence),
            Dialect::Cline(translator) => translator.judge(evidence),
            Dialect::Gemini(translator) => translator.judge(evidence),
            Dialect::Opencode(translator) => translator.judge(evidence),
            Dialect::Copilot(translator) => translator.judge(evidence),
            Dialect::Qwen(translator) => translator.judge(evidence),
            Dialect::Pi(translator) => translator.judge(evidence),
            Dialect::Acp(translator) => translator.judge(evidence),
            Dialect::Custom(translator) => translator.judge(evidence),
            Dialect::Sim(translator) => translator.judge(evidence),
        }
    }
}

/// How much of a line an event keeps for display. The whole line is in the stored stream.
const SHOWN_CHARS: usize = 2_000;

/// Returns a text cut to a length fit for display.
pub(super) fn bounded(text: &str) -> String {
    ralph_core::text::excerpt_of(text, SHOWN_CHARS)
}
