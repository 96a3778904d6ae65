//! The translator of one call: turns lines into common events, and judges the call at the end.
//!
//! Not here: any agent's format. Each has its own file.

use jiff::tz::TimeZone;
use ralph_core::agent_output::{AgentEvent, ReplyFold};
use ralph_core::child::ChildEnd;
use ralph_core::failure::Failure;
use ralph_core::units::Timestamp;

use super::acp::AcpTranslator;
use super::amp::AmpTranslator;
use super::claude::{self, ClaudeTranslator};
use super::cline::ClineTranslator;
use super::codex::{CodexTextTranslator, CodexTranslator};
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
pub struct Translator(pub(super) AgentDialect);

/// The output formats that ralph can read.
#[derive(Debug)]
pub(super) enum AgentDialect {
    Claude(Box<ClaudeTranslator>),
    ClaudeText(TextTranslator),
    Codex(Box<CodexTranslator>),
    /// Codex in text mode: the answer is in a file.
    CodexText(CodexTextTranslator),
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
pub struct ParsedLine {
    pub events: Vec<AgentEvent>,
    pub activity: LineActivity,
}

/// Everything that follows from a line.
#[derive(Debug, Clone, PartialEq)]
pub struct LineResult {
    /// What the run counts.
    pub parsed: ParsedLine,
    /// What ralph sends back to the agent.
    pub reply: StdinReply,
    /// What is shown to people.
    pub display: LineDisplay,
}

/// Bytes to write to an agent's stdin in reply.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StdinReply {
    pub bytes: Vec<u8>,
    pub stdin: StdinState,
}

impl StdinReply {
    /// Appends a later reply.
    pub fn append_reply(&mut self, later: Self) {
        self.bytes.extend(later.bytes);
        match later.stdin {
            StdinState::Open => {}
            StdinState::Closed => self.stdin = StdinState::Closed,
        }
    }
}

/// Whether an agent's stdin stays open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StdinState {
    #[default]
    Open,
    Closed,
}

/// What is shown to people for a line.
#[derive(Debug, Clone, PartialEq)]
pub enum LineDisplay {
    /// The events of the line.
    Events,
    /// These events instead.
    Instead(Vec<AgentEvent>),
}

impl From<ParsedLine> for LineResult {
    /// Returns a line that is shown as it is and needs no reply.
    fn from(parsed: ParsedLine) -> Self {
        Self { parsed, reply: StdinReply::default(), display: LineDisplay::Events }
    }
}

/// What a line says about an agent's progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LineActivity {
    /// No progress: a keep-alive, a retry, a line that could not be read. The idle limit keeps
    /// running.
    Idle,
    /// The agent makes progress. The idle limit starts over, and a grace period after an earlier
    /// result ends: another turn has begun.
    Progress,
    /// A result: the grace period begins, unless progress follows.
    Final,
}

impl ParsedLine {
    /// Returns a line with these events; its activity is that of the most active event.
    pub(super) fn from_events(events: Vec<AgentEvent>) -> Self {
        let activity = events.iter().map(classify_activity).max().unwrap_or(LineActivity::Idle);
        Self { events, activity }
    }

    pub(super) fn from_activity(activity: LineActivity) -> Self {
        Self { events: Vec::new(), activity }
    }

    /// Returns a line of stderr. It is shown, and never counts as the agent's text or as progress.
    pub fn from_stderr(line: &str) -> Self {
        let text = line.trim_end();
        let notice = (!text.is_empty()).then(|| AgentEvent::Notice { text: shorten_text(text) });
        Self::from_events(notice.into_iter().collect())
    }

    /// Returns a line that no adapter can read.
    pub(super) fn from_unparsed(text: &str) -> Self {
        Self::from_events(vec![AgentEvent::Unparsed { line: shorten_text(text) }])
    }
}

fn classify_activity(event: &AgentEvent) -> LineActivity {
    match event {
        AgentEvent::Session { .. }
        | AgentEvent::Text { .. }
        | AgentEvent::Reasoning { .. }
        | AgentEvent::ToolStarted { .. }
        | AgentEvent::ToolEnded { .. }
        | AgentEvent::Todo { .. }
        | AgentEvent::FileChanged { .. }
        | AgentEvent::Usage { .. } => LineActivity::Progress,
        AgentEvent::RateLimit { .. } | AgentEvent::Notice { .. } | AgentEvent::Unparsed { .. } => {
            LineActivity::Idle
        }
        AgentEvent::Result { .. } => LineActivity::Final,
    }
}

/// Everything a call is judged by, besides the translator's own state.
#[derive(Debug)]
pub struct Evidence<'a> {
    pub reading: &'a ReplyFold,
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
    pub fn parse_line(&mut self, line: &str) -> ParsedLine {
        self.push_line(line).parsed
    }

    /// Reads a line of stdout, without its newline, decoded lossily.
    pub fn push_line(&mut self, line: &str) -> LineResult {
        let parsed = match &mut self.0 {
            AgentDialect::Acp(translator) => return translator.push_line(line),
            AgentDialect::Custom(translator) => return translator.push_line(line),
            AgentDialect::Claude(translator) => translator.push_line(line),
            AgentDialect::ClaudeText(translator) | AgentDialect::Text(translator) => {
                translator.push_line(line)
            }
            AgentDialect::Codex(translator) => translator.push_line(line),
            AgentDialect::CodexText(translator) => translator.push_line(line),
            AgentDialect::Amp(translator) => translator.push_line(line),
            AgentDialect::Cline(translator) => translator.push_line(line),
            AgentDialect::Gemini(translator) => translator.push_line(line),
            AgentDialect::Opencode(translator) => translator.push_line(line),
            AgentDialect::Copilot(translator) => translator.push_line(line),
            AgentDialect::Qwen(translator) => translator.push_line(line),
            AgentDialect::Pi(translator) => translator.push_line(line),
            AgentDialect::Sim(translator) => translator.push_line(line),
        };
        parsed.into()
    }

    /// Returns events that were held back, after the end of stdout. They belong to the reading.
    pub fn finish(&mut self) -> ParsedLine {
        match &mut self.0 {
            AgentDialect::ClaudeText(translator) | AgentDialect::Text(translator) => {
                translator.finish()
            }
            AgentDialect::Codex(translator) => translator.finish(),
            AgentDialect::Amp(translator) => translator.finish(),
            AgentDialect::Cline(translator) => translator.finish(),
            AgentDialect::Gemini(translator) => translator.finish(),
            AgentDialect::Opencode(translator) => translator.finish(),
            AgentDialect::Copilot(translator) => translator.finish(),
            AgentDialect::Qwen(translator) => translator.finish(),
            AgentDialect::Pi(translator) => translator.finish(),
            AgentDialect::Acp(translator) => translator.finish(),
            AgentDialect::Claude(_)
            | AgentDialect::CodexText(_)
            | AgentDialect::Custom(_)
            | AgentDialect::Sim(_) => ParsedLine::from_activity(LineActivity::Idle),
        }
    }

    /// Reads the answer that the agent wrote to a file, after its process ended. The events belong
    /// to the reading.
    pub fn push_answer_file(&mut self, text: String) -> ParsedLine {
        match &mut self.0 {
            AgentDialect::CodexText(translator) => translator.push_answer_file(text),
            AgentDialect::Claude(_)
            | AgentDialect::ClaudeText(_)
            | AgentDialect::Codex(_)
            | AgentDialect::Amp(_)
            | AgentDialect::Cline(_)
            | AgentDialect::Gemini(_)
            | AgentDialect::Opencode(_)
            | AgentDialect::Copilot(_)
            | AgentDialect::Qwen(_)
            | AgentDialect::Pi(_)
            | AgentDialect::Acp(_)
            | AgentDialect::Text(_)
            | AgentDialect::Custom(_)
            | AgentDialect::Sim(_) => ParsedLine::from_activity(LineActivity::Idle),
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
        if let AgentDialect::Claude(translator) = &self.0 { Some(translator) } else { None }
    }

    /// Judges the call. Returns `None` if it brought an answer.
    pub(super) fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        match &self.0 {
            AgentDialect::Claude(translator) => translator.judge(evidence),
            AgentDialect::ClaudeText(translator) => claude::judge_text(translator, evidence),
            AgentDialect::Text(translator) => translator.judge(evidence),
            AgentDialect::Codex(translator) => translator.judge(evidence),
            AgentDialect::CodexText(translator) => translator.judge(evidence),
            AgentDialect::Amp(translator) => translator.judge(evidence),
            AgentDialect::Cline(translator) => translator.judge(evidence),
            AgentDialect::Gemini(translator) => translator.judge(evidence),
            AgentDialect::Opencode(translator) => translator.judge(evidence),
            AgentDialect::Copilot(translator) => translator.judge(evidence),
            AgentDialect::Qwen(translator) => translator.judge(evidence),
            AgentDialect::Pi(translator) => translator.judge(evidence),
            AgentDialect::Acp(translator) => translator.judge(evidence),
            AgentDialect::Custom(translator) => translator.judge(evidence),
            AgentDialect::Sim(translator) => translator.judge(evidence),
        }
    }
}

/// How much of a line an event keeps for display. The whole line is in the stored stream.
const SHOWN_CHARS: usize = 2_000;

/// Returns a text cut to a length fit for display.
pub(super) fn shorten_text(text: &str) -> String {
    ralph_core::text::excerpt_text(text, SHOWN_CHARS)
}
