//! Turns the output of an agent call into events and a reply, while the call runs.
//!
//! Not here: starting the call.

use std::fs;
use std::path::Path;

use jiff::tz::TimeZone;
use ralph_agents::{
    self as agents, Evidence, LineActivity, LineDisplay, LineResult, StdinReply, StdinState,
    Translator,
};
use ralph_core::answers::reply_fold::ReplyFold;
use ralph_core::ports::AgentRequest;
use ralph_model::agent::AgentChoice;
use ralph_model::agent_call_state::OpenSession;
use ralph_model::agent_output::{AgentEvent, Reply};
use ralph_model::capability::FollowUps;
use ralph_model::child::ChildEnd;
use ralph_model::text::{Excerpt, Truncate};

use crate::mask::Masker;
use crate::process::{ChildStdin, Chunk, OutputLine, OutputLines, SendError};
use crate::{bounded_read, clock};

/// How much of stdout and stderr is kept to judge how the call ended. Error messages are short.
const TAIL_CHARS: usize = 8_000;

/// No model answers with more than this.
const LONGEST_ANSWER: u64 = 16 * 1024 * 1024;

/// Processes the output of one call: bytes in, events out, a reading at the end.
pub(super) struct CallListener<'a> {
    pub(super) agent: &'a AgentChoice,
    /// The session that the call continues.
    session: Option<&'a OpenSession>,
    pub(super) translator: Translator,
    pub(super) reading: ReplyFold,
    pub(super) stdout: OutputLines,
    pub(super) stderr: OutputLines,
    pub(super) stdout_tail: Excerpt,
    pub(super) stderr_tail: Excerpt,
    /// Whether the agent printed its final result by itself, before ralph asked it to exit.
    pub(super) has_answered: bool,
}

impl<'a> CallListener<'a> {
    pub(super) fn new(request: &'a AgentRequest, directory: &Path) -> Self {
        Self {
            agent: &request.agent,
            session: request.session.as_ref(),
            translator: agents::create_translator(request, directory),
            reading: ReplyFold::with_schema(request.schema.as_deref()),
            stdout: OutputLines::default(),
            stderr: OutputLines::default(),
            stdout_tail: Excerpt::new(TAIL_CHARS, Truncate::Tail),
            stderr_tail: Excerpt::new(TAIL_CHARS, Truncate::Tail),
            has_answered: false,
        }
    }

    /// Notes whether a result is the last useful line.
    pub(super) fn note_activity(&mut self, weight: LineActivity) {
        match weight {
            LineActivity::Idle => {}
            LineActivity::Progress => self.has_answered = false,
            LineActivity::Final => self.has_answered = true,
        }
    }

    /// Processes a piece of output and returns what it says about the agent's progress: a result
    /// counts until something useful follows it. The answer is to be sent to a running agent.
    pub(super) fn push_chunk(
        &mut self,
        chunk: Chunk<'_>,
        on_event: &mut dyn FnMut(&AgentEvent),
    ) -> (LineActivity, StdinReply) {
        let Self { translator, reading, stdout, stderr, stdout_tail, stderr_tail, .. } = self;
        let mut last = LineActivity::Idle;
        let mut answer = StdinReply::default();
        match chunk {
            Chunk::Stdout(bytes) => stdout.push_bytes(bytes, |line| {
                let parsed = process_stdout_line(translator, reading, stdout_tail, line, on_event);
                answer.append_reply(parsed.reply);
                if parsed.parsed.activity != LineActivity::Idle {
                    last = parsed.parsed.activity;
                }
            }),
            Chunk::Stderr(bytes) => {
                stderr.push_bytes(bytes, |line| process_stderr_line(stderr_tail, line, on_event));
            }
        }
        (last, answer)
    }

    /// Processes what is left at the end of both streams.
    pub(super) fn finish(&mut self, on_event: &mut dyn FnMut(&AgentEvent)) {
        let Self { translator, reading, stdout, stderr, stdout_tail, stderr_tail, .. } = self;
        stdout.finish(|line| {
            process_stdout_line(translator, reading, stdout_tail, line, on_event);
        });
        stderr.finish(|line| process_stderr_line(stderr_tail, line, on_event));
        for event in translator.finish().events {
            reading.apply_event(&event);
            on_event(&event);
        }
    }

    /// Processes the answer that some agents write to a file, and removes the file.
    pub(super) fn take_answer(
        &mut self,
        file: Option<&Path>,
        masker: &Masker,
        on_event: &mut dyn FnMut(&AgentEvent),
    ) {
        let Some(file) = file else { return };
        let Ok(bytes) = bounded_read::read_file(file, LONGEST_ANSWER) else { return };
        // In a sandbox the file is created, empty, before the agent starts.
        if bytes.is_empty() {
            return;
        }
        let text = String::from_utf8_lossy(&bytes);
        for event in self.translator.push_answer_file(masker.mask_text(&text).into_owned()).events {
            self.reading.apply_event(&event);
            on_event(&event);
        }
        // A leftover file in the run's own directory does no harm.
        let _ = fs::remove_file(file);
    }

    pub(super) fn into_reply(self, end: ChildEnd, zone: &TimeZone) -> Reply {
        let evidence = Evidence {
            reading: &self.reading,
            end: &end,
            stderr_tail: &self.stderr_tail.to_text(),
            stdout_tail: &self.stdout_tail.to_text(),
            now: clock::now(),
            zone,
        };
        // A success printed only after ralph asked the agent to exit does not count.
        let failure = agents::judge_call(&self.translator, self.agent, &evidence)
            .or_else(|| agents::judge_imposed_ending(&end.ending).filter(|_| !self.has_answered));
        let down = self.translator.servers_down().iter();
        let down: Vec<String> =
            down.map(|server| format!("the MCP server {server} did not come up")).collect();
        let mut reply = self.reading.into_reply(end, failure);
        reply.warnings.extend(down);
        if let (Some(session), FollowUps::SameSessionTotal) =
            (self.session, self.agent.capabilities.follow_ups)
        {
            reply.usage = reply.usage.minus(session.usage);
        }
        reply
    }
}

pub(super) fn process_stdout_line(
    translator: &mut Translator,
    reading: &mut ReplyFold,
    tail: &mut Excerpt,
    line: OutputLine<'_>,
    on_event: &mut dyn FnMut(&AgentEvent),
) -> LineResult {
    let parsed = match line {
        OutputLine::Whole(line) => {
            tail.feed_text(&line);
            tail.feed_text("\n");
            translator.push_line(&line)
        }
        OutputLine::TooLong { start, bytes } => translator.push_long_line(&start, bytes).into(),
    };
    for event in &parsed.parsed.events {
        reading.apply_event(event);
    }
    let shown = match &parsed.display {
        LineDisplay::Events => &parsed.parsed.events,
        LineDisplay::Instead(events) => events,
    };
    for event in shown {
        on_event(event);
    }
    parsed
}

pub(super) fn process_stderr_line(
    tail: &mut Excerpt,
    line: OutputLine<'_>,
    on_event: &mut dyn FnMut(&AgentEvent),
) {
    let line = match line {
        OutputLine::Whole(line) => line,
        OutputLine::TooLong { start, .. } => start.into(),
    };
    tail.feed_text(&line);
    tail.feed_text("\n");
    for event in agents::ParsedLine::from_stderr(&line).events {
        on_event(&event);
    }
}

/// Sends the agent the replies that its last lines ask for.
pub(super) fn send_answer(stdin: &mut ChildStdin, answer: StdinReply) -> Result<(), SendError> {
    let sent = if answer.bytes.is_empty() { Ok(()) } else { stdin.send(answer.bytes) };
    if answer.stdin == StdinState::Closed {
        stdin.close();
    }
    sent
}
