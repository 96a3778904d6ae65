//! The translator of one call: turns lines into common events, and judges the call at the end.
//!
//! Not here: any agent's format. Each has its own file.

use std::fmt;
use std::path::Path;

use jiff::tz::TimeZone;
use ralph_core::answers::reply_fold::ReplyFold;
use ralph_model::agent_output::AgentEvent;
use ralph_model::child::ChildEnd;
use ralph_model::failure::Failure;
use ralph_model::units::Timestamp;

use crate::list_tools::ListToolFilter;
use crate::project_paths::PathShortener;

/// Translates the output of one call. It keeps state that the common events have no field for, so
/// the same translator must read the whole output and then judge.
#[derive(Debug)]
pub struct Translator {
    pub(super) agent: Box<dyn Translate>,
    lists: ListToolFilter,
    paths: PathShortener,
}

/// Reads the output format of one agent. An adapter implements what its agent has.
pub(super) trait Translate: fmt::Debug + Send {
    /// Reads a line of stdout, without its newline, decoded lossily.
    fn push_line(&mut self, line: &str) -> ParsedLine;

    /// Reads a line that may need a reply, or that is shown in another way than it is counted.
    fn push_line_with_reply(&mut self, line: &str) -> LineResult {
        self.push_line(line).into()
    }

    /// Reads a line of this many bytes, of which only the start was kept.
    fn push_long_line(&mut self, start: &str, bytes: u64) -> ParsedLine {
        let line = format!("{} {start}...", describe_long_line(bytes));
        ParsedLine { events: vec![AgentEvent::Unparsed { line }], activity: LineActivity::Idle }
    }

    /// Returns events that were held back, after the end of stdout.
    fn finish(&mut self) -> ParsedLine {
        ParsedLine::from_activity(LineActivity::Idle)
    }

    /// Reads the answer that the agent wrote to a file.
    fn push_answer_file(&mut self, _text: String) -> ParsedLine {
        ParsedLine::from_activity(LineActivity::Idle)
    }

    /// Judges the call. Returns `None` if it brought an answer.
    fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure>;

    /// Returns the MCP servers that did not start, with their status.
    fn servers_down(&self) -> &[String] {
        &[]
    }

    /// Returns why ralph's hooks did not run, if a session began without them.
    fn missing_hooks(&self) -> Option<&str> {
        None
    }
}

/// Returns what stands for a line that is too long to be read.
pub(super) fn describe_long_line(bytes: u64) -> String {
    format!("[a line of {bytes} bytes, whole in the raw stream]")
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
        | AgentEvent::FileEdited { .. }
        | AgentEvent::Usage { .. } => LineActivity::Progress,
        AgentEvent::RateLimit { .. }
        | AgentEvent::Notice { .. }
        | AgentEvent::SoftLimitPassed
        | AgentEvent::StillRunning { .. }
        | AgentEvent::Unparsed { .. } => LineActivity::Idle,
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
    pub(super) fn new(agent: Box<dyn Translate>, directory: &Path) -> Self {
        let paths = PathShortener::new(directory);
        Self { agent, lists: ListToolFilter::default(), paths }
    }

    /// Reads a line of stdout, and returns only its events.
    pub fn parse_line(&mut self, line: &str) -> ParsedLine {
        self.push_line(line).parsed
    }

    /// Reads a line of stdout, and returns what is shown to people.
    pub fn parse_for_display(&mut self, line: &str) -> Vec<AgentEvent> {
        let result = self.push_line(line);
        match result.display {
            LineDisplay::Events => result.parsed.events,
            LineDisplay::Instead(events) => events,
        }
    }

    /// Reads a line of stdout, without its newline, decoded lossily.
    pub fn push_line(&mut self, line: &str) -> LineResult {
        let mut result = self.agent.push_line_with_reply(line);
        let shown = match &result.display {
            LineDisplay::Events => self.lists.filter_events(&result.parsed.events),
            LineDisplay::Instead(events) => self.lists.filter_events(events),
        };
        if let Some(shown) = shown {
            result.display = LineDisplay::Instead(shown);
        }
        let shown = match &result.display {
            LineDisplay::Events => self.paths.shorten_events(&result.parsed.events),
            LineDisplay::Instead(events) => self.paths.shorten_events(events),
        };
        if let Some(shown) = shown {
            result.display = LineDisplay::Instead(shown);
        }
        result
    }

    /// Reads a line that is too long to be kept: its start, and its length.
    pub fn push_long_line(&mut self, start: &str, bytes: u64) -> ParsedLine {
        self.agent.push_long_line(start, bytes)
    }

    /// Returns events that were held back, after the end of stdout. They belong to the reading.
    pub fn finish(&mut self) -> ParsedLine {
        self.agent.finish()
    }

    /// Reads the answer that the agent wrote to a file, after its process ended. The events belong
    /// to the reading.
    pub fn push_answer_file(&mut self, text: String) -> ParsedLine {
        self.agent.push_answer_file(text)
    }

    /// Returns the MCP servers that did not start, with their status. Only Claude Code reports
    /// them.
    pub fn servers_down(&self) -> &[String] {
        self.agent.servers_down()
    }

    /// Returns why the hooks of ralph's plugin did not run, if a session began without them. Only
    /// Claude Code's stream of events reports them.
    pub fn missing_hooks(&self) -> Option<&str> {
        self.agent.missing_hooks()
    }
}

/// How much of a line an event keeps for display. The whole line is in the stored stream.
const SHOWN_CHARS: usize = 2_000;

/// Returns a text cut to a length fit for display.
pub(super) fn shorten_text(text: &str) -> String {
    ralph_model::text::excerpt_text(text, SHOWN_CHARS)
}
