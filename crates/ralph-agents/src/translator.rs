//! The translator of one call: lines in, common events out, and a judgement at the end.
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

/// Translates the output of one call. It holds what the common events have no place for, so the
/// same one must hear the whole output and then judge.
#[derive(Debug)]
pub struct Translator(pub(super) Dialect);

/// The formats that can be read.
#[derive(Debug)]
pub(super) enum Dialect {
    /// Claude Code's stream of events.
    Claude(Box<ClaudeTranslator>),
    /// Claude Code's plain text.
    ClaudeText(TextTranslator),
    /// Codex's events.
    Codex(Box<CodexTranslator>),
    /// Codex without events.
    CodexText(CodexText),
    /// Amp's events.
    Amp(Box<AmpTranslator>),
    /// Cline's events.
    Cline(Box<ClineTranslator>),
    /// Gemini CLI's events.
    Gemini(Box<GeminiTranslator>),
    /// `OpenCode`'s events.
    Opencode(Box<OpencodeTranslator>),
    /// GitHub Copilot CLI's events.
    Copilot(Box<CopilotTranslator>),
    /// Qwen Code's events.
    Qwen(Box<QwenTranslator>),
    /// pi's events.
    Pi(Box<PiTranslator>),
    /// The Agent Client Protocol.
    Acp(Box<AcpTranslator>),
    /// Any command's plain text.
    Text(TextTranslator),
    /// Any command's JSON, read with the user's filters.
    Custom(Box<CustomTranslator>),
    /// The scripted agent's own events.
    Sim(SimTranslator),
}

/// What a line brought.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard {
    /// The events, in order.
    pub events: Vec<AgentEvent>,
    /// What the line says about the agent's progress.
    pub weight: Weight,
}

/// Everything that follows from a line.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// What it brought. This is what counts.
    pub heard: Heard,
    /// What the agent is to be told in return.
    pub answer: Answer,
    /// What people see of it.
    pub shown: Shown,
}

/// What an agent is to be told in return.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// The bytes; often none.
    pub bytes: Vec<u8>,
    /// Whether anything may follow them.
    pub input: Input,
}

impl Answer {
    /// Adds what is to be said after this.
    pub fn add(&mut self, later: Self) {
        self.bytes.extend(later.bytes);
        match later.input {
            Input::Open => {}
            Input::Over => self.input = Input::Over,
        }
    }
}

/// Whether an agent's input stays open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Input {
    /// There may be more to say.
    #[default]
    Open,
    /// All is said.
    Over,
}

/// What people see of a line.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    /// Its events.
    Events,
    /// These in their place.
    Instead(Vec<AgentEvent>),
}

impl From<Heard> for Told {
    /// Returns a line that is shown as it is and needs no answer.
    fn from(heard: Heard) -> Self {
        Self { heard, answer: Answer::default(), shown: Shown::Events }
    }
}

/// What a line says about an agent's progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Nothing: a keep-alive, a retry, a line that was not understood. The idle limit runs on.
    Noise,
    /// The agent gets on. The idle limit starts anew, and a grace period after an earlier
    /// result is over: another turn has begun.
    Useful,
    /// A result: the grace period begins, unless something useful follows.
    Final,
}

impl Heard {
    /// Returns what events say by themselves.
    pub(super) fn of(events: Vec<AgentEvent>) -> Self {
        let weight = events.iter().map(weight_of).max().unwrap_or(Weight::Noise);
        Self { events, weight }
    }

    pub(super) fn nothing(weight: Weight) -> Self {
        Self { events: Vec::new(), weight }
    }

    /// Returns what a line of stderr says. It is shown, and never counts as the agent's words or life.
    pub fn on_stderr(line: &str) -> Self {
        let text = line.trim_end();
        let notice = (!text.is_empty()).then(|| AgentEvent::Notice { text: bounded(text) });
        Self::of(notice.into_iter().collect())
    }

    /// Returns what a text says that nobody understands.
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

/// Everything a call is judged by, beside what its translator remembers.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// The fold of all events.
    pub reading: &'a Reading,
    /// How the process ended.
    pub end: &'a ChildEnd,
    /// The end of stderr.
    pub stderr_tail: &'a str,
    /// The end of stdout.
    pub stdout_tail: &'a str,
    /// The moment of that end, from which times of day are counted.
    pub now: Timestamp,
    /// The zone of times that name none.
    pub zone: &'a TimeZone,
}

impl Translator {
    /// Takes in a line of stdout, and returns only what it brought.
    pub fn line(&mut self, line: &str) -> Heard {
        self.take_in(line).heard
    }

    /// Takes in a line of stdout, without its newline, decoded lossily.
    pub fn take_in(&mut self, line: &str) -> Told {
        let heard = match &mut self.0 {
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
        heard.into()
    }

    /// Returns what was held back, once stdout is at its end. Its events belong to the reading.
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

    /// Takes in the answer that the agent left in a file, once its process is gone. Its events
    /// belong to the reading.
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

    /// Returns the MCP servers that did not come up, with how they stand. Only Claude Code tells.
    pub fn servers_down(&self) -> &[String] {
        self.claude().map_or(&[], ClaudeTranslator::servers_down)
    }

    /// Returns why the hooks of ralph's plugin did not run, where a session began without them.
    /// Only a stream of events tells.
    pub fn missing_hooks(&self) -> Option<&str> {
        self.claude()?.missing_hooks()
    }

    fn claude(&self) -> Option<&ClaudeTranslator> {
        if let Dialect::Claude(translator) = &self.0 { Some(translator) } else { None }
    }

    /// Judges the call: none if it brought an answer.
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

/// How much of a line is kept in an event that only shows it. The whole line is in the stored
/// stream.
const SHOWN_CHARS: usize = 2_000;

/// Returns a text short enough to show.
pub(super) fn bounded(text: &str) -> String {
    ralph_core::text::excerpt_of(text, SHOWN_CHARS)
}
