//! Lines for the messages and tool calls of an agent.
//!
//! Results are matched to their calls by id, also when calls run in parallel. Memory is bounded
//! for any length of the stream. Not here: ralph's own lines (`lines`).

use std::collections::VecDeque;
use std::io::Write;

use ralph_core::failure::FailureClass;
use ralph_core::reading::{
    AgentEvent, RateLimitStatus, Reply, ResultStatus, Speaker, TextForm, TodoItem, TodoState,
    ToolOutcome, Usage,
};
use ralph_core::stuck::is_error_line;
use ralph_core::units::Timestamp;

use crate::page::Page;
use crate::safe;
use crate::style::{Mark, Paint, Style};
use crate::time;
use crate::writer::thousands;

/// State of the stream of one agent call that later lines depend on.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// Tool calls without a result, the oldest first.
    calls: VecDeque<Call>,
    /// The id of the tool call whose line is the last one printed.
    last_call: Option<String>,
    /// Consecutive events of a kind that may come in masses.
    flood: Flood,
    /// The speaker of the line that may still be open.
    speaking: Option<Speaker>,
    /// Whether the agent has written text since its last tool call.
    has_spoken: bool,
    /// The last reported limit; agents repeat it with every turn.
    limit: Option<(RateLimitStatus, Option<Timestamp>)>,
    /// The session line that was printed last.
    session: Option<String>,
    /// Bytes of agent output shown so far.
    shown: usize,
}

#[derive(Debug)]
struct Call {
    id: String,
    name: String,
    summary: String,
    speaker: Speaker,
}

/// Counts consecutive events of one kind, to shorten floods.
#[derive(Debug, Default)]
struct Flood {
    kind: FloodKind,
    count: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum FloodKind {
    #[default]
    None,
    Unparsed,
    Reasoning,
}

/// No agent has more open calls; a faulty one must not fill the memory.
const MOST_CALLS: usize = 64;
/// A few such lines help debugging; the raw stream has them all.
const MOST_IN_A_ROW: u64 = 20;
/// More of one call than a person reads or a log should hold; the raw stream has it all.
const MOST_BYTES: usize = 16 << 20;
/// Longer to-do lists are cut.
const MOST_ITEMS: usize = 50;
/// Enough to tell two calls of the same tool apart.
const SUMMARY_CHARS: usize = 40;

impl Stream {
    /// Shows one event.
    pub(crate) fn hear<W: Write>(&mut self, page: &mut Page<W>, event: &AgentEvent) {
        if self.shown > MOST_BYTES {
            return;
        }
        self.end_flood_before(page, event);
        match event {
            AgentEvent::Session { id, model, version } => {
                self.session(page, [id, model, version]);
            }
            AgentEvent::Text { text, speaker, form } => self.text(page, text, *speaker, *form),
            AgentEvent::Reasoning { text } => self.reasoning(page, text),
            AgentEvent::ToolStarted { id, name, summary, speaker } => {
                self.tool_started(page, id, name, summary, *speaker);
            }
            AgentEvent::ToolEnded { id, outcome, output } => {
                self.tool_ended(page, id, *outcome, output);
            }
            AgentEvent::Todo { items } => self.todo(page, items),
            AgentEvent::FileChanged { path } => self.file_changed(page, path),
            AgentEvent::Usage { .. } => {}
            AgentEvent::RateLimit { status, resets_at } => {
                self.rate_limit(page, *status, *resets_at);
            }
            AgentEvent::Notice { text } => {
                let text = self.note(page, text);
                page.say(Mark::Notice, Paint::None, &text);
            }
            AgentEvent::Result { status, text, structured: _ } => {
                self.result(page, status, text.as_deref());
            }
            AgentEvent::Unparsed { line } => {
                self.shown += line.len().min(page.style().max_output_chars);
                if self.flood.count <= MOST_IN_A_ROW {
                    self.last_call = None;
                    let style = page.style();
                    let line = safe::one_line(line, style.max_output_chars, style.mark(Mark::More));
                    page.line(&style.paint(Paint::Dim, &line));
                }
            }
        }
        if self.shown > MOST_BYTES {
            let more = page.style().mark(Mark::More);
            page.add(
                0,
                Paint::Warn,
                &format!(
                    "{more} too much agent output to show: the rest is only in the raw stream"
                ),
            );
        }
    }

    /// Ends the stream: closes an open line and clears the state.
    pub(crate) fn end<W: Write>(&mut self, page: &mut Page<W>) {
        self.end_flood(page);
        page.close();
        *self = Self::default();
    }

    /// Returns the number of open tool calls.
    #[cfg(test)]
    pub(crate) fn open_calls(&self) -> usize {
        self.calls.len()
    }

    /// Returns foreign text as one sanitized line, and counts its bytes.
    fn note<W: Write>(&mut self, page: &Page<W>, text: &str) -> String {
        self.last_call = None;
        let style = page.style();
        let line = safe::one_line(text, style.max_output_chars, style.mark(Mark::More));
        self.shown += line.len();
        line
    }

    fn session<W: Write>(&mut self, page: &mut Page<W>, parts: [&Option<String>; 3]) {
        let [id, model, version] = parts.map(|part| part.as_deref().unwrap_or_default());
        let session = [("Session", id), ("model", model), ("version", version)]
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name} {value}"))
            .collect::<Vec<_>>()
            .join(", ");
        if !session.is_empty() && self.session.as_deref() != Some(&session) {
            let line = self.note(page, &session);
            page.add(0, Paint::Dim, &line);
            self.session = Some(session);
        }
    }

    fn text<W: Write>(&mut self, page: &mut Page<W>, text: &str, speaker: Speaker, form: TextForm) {
        let text = safe::harmless(text);
        self.last_call = None;
        self.has_spoken |= speaker == Speaker::Agent && !text.trim().is_empty();
        self.shown += text.len();
        match form {
            TextForm::Delta => {
                if self.speaking.replace(speaker) != Some(speaker) {
                    page.close();
                }
                page.text(indent_of(speaker), &text);
            }
            TextForm::Message => {
                page.close();
                self.speaking = Some(speaker);
                // Trims only line breaks: the rest of the message may follow in pieces, and a
                // space between two of them belongs to the text.
                page.text(indent_of(speaker), text.trim_matches('\n'));
                // Otherwise the line stays open, for the same reason.
                if text.ends_with('\n') {
                    page.close();
                }
            }
        }
    }

    fn reasoning<W: Write>(&mut self, page: &mut Page<W>, text: &str) {
        if self.flood.count <= MOST_IN_A_ROW {
            let line = self.note(page, text);
            let style = page.style();
            let line = format!("{} {line}", style.mark(Mark::Thought));
            page.line(&style.paint(Paint::Dim, &line));
        }
    }

    fn tool_started<W: Write>(
        &mut self,
        page: &mut Page<W>,
        id: &str,
        name: &str,
        summary: &str,
        speaker: Speaker,
    ) {
        let name = self.note(page, name);
        let summary = self.note(page, summary);
        let style = page.style();
        let call = if summary.is_empty() { String::new() } else { format!("({summary})") };
        let line = format!(
            "{:indent$}{} {}{call}",
            "",
            style.paint(Paint::Act, style.mark(Mark::Tool)),
            style.paint(Paint::Strong, &name),
            indent = indent_of(speaker),
        );
        page.line(&line);
        self.has_spoken &= speaker == Speaker::Subagent;
        self.calls.retain(|call| call.id != id);
        if self.calls.len() == MOST_CALLS {
            self.calls.pop_front();
        }
        self.calls.push_back(Call { id: id.to_owned(), name, summary, speaker });
        self.last_call = Some(id.to_owned());
    }

    fn tool_ended<W: Write>(
        &mut self,
        page: &mut Page<W>,
        id: &str,
        outcome: ToolOutcome,
        output: &str,
    ) {
        let at = self.calls.iter().rposition(|call| call.id == id);
        let call = at.and_then(|at| self.calls.remove(at));
        let is_next = self.last_call.take().as_deref() == Some(id);
        let style = page.style();
        let (name, speaker) = match &call {
            // The line of the call is right above.
            Some(call) if is_next || call.summary.is_empty() => (call.name.clone(), call.speaker),
            Some(call) => {
                let more = style.mark(Mark::More);
                let summary = safe::one_line(&call.summary, SUMMARY_CHARS, more);
                (format!("{}({summary})", call.name), call.speaker)
            }
            None => ("unknown call".to_owned(), Speaker::Agent),
        };
        let (mark, paint, word) = match outcome {
            ToolOutcome::Ok => (Mark::Ok, Paint::Good, "Result"),
            ToolOutcome::Error => (Mark::Error, Paint::Bad, "Error"),
        };
        let output = safe::harmless(output);
        let indent = indent_of(speaker);
        page.line(&format!(
            "{:indent$}{} {word} {} {name} ({})",
            "",
            style.paint(paint, style.mark(mark)),
            style.mark(Mark::From),
            size_of(&output),
        ));
        for line in excerpt(page.style(), &output) {
            self.shown += line.len();
            page.line(&format!("{:indent$}{line}", ""));
        }
    }

    fn todo<W: Write>(&mut self, page: &mut Page<W>, items: &[TodoItem]) {
        if items.is_empty() {
            return;
        }
        self.last_call = None;
        let style = page.style().clone();
        page.line(&format!("{} Todo List", style.mark(Mark::Todo)));
        for item in items.iter().take(MOST_ITEMS) {
            let text = self.note(page, &item.text);
            let line = match item.state {
                TodoState::Done => {
                    format!("{} {text}", style.paint(Paint::Good, style.mark(Mark::TodoDone)))
                }
                TodoState::Active => format!(
                    "{} {} {} ACTIVE",
                    style.paint(Paint::Act, style.mark(Mark::TodoActive)),
                    style.paint(Paint::Strong, &text),
                    style.mark(Mark::From)
                ),
                TodoState::Pending => {
                    style.paint(Paint::Dim, &format!("{} {text}", style.mark(Mark::TodoPending)))
                }
            };
            page.line(&format!("  {line}"));
        }
        if items.len() > MOST_ITEMS {
            let more = style.mark(Mark::More);
            page.line(&format!("  {more} {} more", items.len() - MOST_ITEMS));
        }
        let done = items.iter().filter(|item| item.state == TodoState::Done).count();
        page.line(&format!(
            "  {} Progress: {done}/{} ({}%)",
            style.mark(Mark::Progress),
            items.len(),
            done * 100 / items.len()
        ));
    }

    /// Most agents change files by a tool call that already names the file.
    fn file_changed<W: Write>(&mut self, page: &mut Page<W>, path: &str) {
        if self.calls.iter().any(|call| call.summary.contains(path)) {
            return;
        }
        let path = self.note(page, path);
        let line = format!("{} Changed {path}", page.style().mark(Mark::File));
        page.line(&line);
    }

    fn rate_limit<W: Write>(
        &mut self,
        page: &mut Page<W>,
        status: RateLimitStatus,
        resets_at: Option<Timestamp>,
    ) {
        if self.limit == Some((status, resets_at)) {
            return;
        }
        self.limit = Some((status, resets_at));
        let warning = match status {
            RateLimitStatus::Allowed => return,
            RateLimitStatus::Warning => "The usage limit is close",
            RateLimitStatus::Rejected => "The usage limit is reached",
        };
        let reset = resets_at.map(|at| {
            let clock = page.clock();
            format!("; it resets at {}", clock.minutes(at, (clock.now)()))
        });
        self.last_call = None;
        page.say(Mark::Warn, Paint::Warn, &format!("{warning}{}", reset.unwrap_or_default()));
    }

    /// Shows a final text only if it is new: most agents repeat their last message.
    fn result<W: Write>(&mut self, page: &mut Page<W>, status: &ResultStatus, text: Option<&str>) {
        match status {
            ResultStatus::Success => {}
            ResultStatus::Failed(message) => {
                let message = self.note(page, message);
                page.say(Mark::Error, Paint::Bad, &message);
            }
        }
        if let Some(text) = text.filter(|text| !self.has_spoken && !text.trim().is_empty()) {
            self.text(page, text, Speaker::Agent, TextForm::Message);
        }
    }

    /// Counts consecutive events of one kind, and prints how many were skipped when another kind
    /// follows.
    fn end_flood_before<W: Write>(&mut self, page: &mut Page<W>, event: &AgentEvent) {
        let kind = match event {
            AgentEvent::Unparsed { .. } => FloodKind::Unparsed,
            AgentEvent::Reasoning { .. } => FloodKind::Reasoning,
            // Usage is not shown, so it does not interrupt a series.
            AgentEvent::Usage { .. } => return,
            AgentEvent::Session { .. }
            | AgentEvent::Text { .. }
            | AgentEvent::ToolStarted { .. }
            | AgentEvent::ToolEnded { .. }
            | AgentEvent::Todo { .. }
            | AgentEvent::FileChanged { .. }
            | AgentEvent::RateLimit { .. }
            | AgentEvent::Notice { .. }
            | AgentEvent::Result { .. } => FloodKind::None,
        };
        if kind != self.flood.kind {
            self.end_flood(page);
            self.flood.kind = kind;
        }
        self.flood.count += 1;
    }

    fn end_flood<W: Write>(&mut self, page: &mut Page<W>) {
        let Flood { kind, count } = std::mem::take(&mut self.flood);
        let skipped = count.saturating_sub(MOST_IN_A_ROW);
        let what = match kind {
            FloodKind::None => return,
            FloodKind::Unparsed => "lines that are no events",
            FloodKind::Reasoning => "thoughts",
        };
        if skipped > 0 {
            let style = page.style();
            let line = format!("{} {} more {what}", style.mark(Mark::More), thousands(skipped));
            page.line(&style.paint(Paint::Dim, &line));
        }
    }
}

/// Returns the summary line of a call: `✅ Complete (cost: $5.76, ...)`.
pub(crate) fn summary(style: &Style, reply: &Reply) -> String {
    let (mark, paint, word) = match &reply.failure {
        None => (Mark::Ok, Paint::Good, "Complete"),
        Some(failure) if failure.class == FailureClass::Interrupted => {
            (Mark::Warn, Paint::Warn, "Interrupted")
        }
        Some(_) => (Mark::Error, Paint::Bad, "Failed"),
    };
    let mut parts = Vec::new();
    if let Some(cost) = reply.usage.cost {
        parts.push(format!("cost: {cost}"));
    }
    if reply.usage.tokens().0 > 0 {
        parts.push(format!("tokens: {}", tokens(reply.usage)));
    }
    parts.push(format!("tools: {}", reply.tools));
    parts.push(format!("errors: {}", reply.tool_errors));
    if reply.unparsed > 0 {
        parts.push(format!("unparsed: {}", reply.unparsed));
    }
    parts.push(format!("time: {}", time::compact(reply.end.ran)));
    format!("{} {word} ({})", style.paint(paint, style.mark(mark)), parts.join(", "))
}

/// Returns `1.2M in (850K cached) / 45K out`. Input includes tokens read from the cache.
pub(crate) fn tokens(usage: Usage) -> String {
    let input = usage.input.plus(usage.cache_read).plus(usage.cache_write);
    let cached = match usage.cache_read.0 {
        0 => String::new(),
        _ => format!(" ({} cached)", usage.cache_read),
    };
    format!("{input} in{cached} / {} out", usage.output)
}

/// Returns the first lines of an output after their mark, within the limits of the style.
pub(crate) fn excerpt(style: &Style, output: &str) -> Vec<String> {
    let lines: Vec<&str> =
        output.trim_end().lines().skip_while(|it| it.trim().is_empty()).collect();
    let mut room = style.max_output_chars;
    let first = &lines[..style.max_output_lines.min(lines.len())];
    let mut shown = cut_lines(style, first.iter().copied(), &mut room);
    let left = lines.len() - shown.len();
    shown.extend(more_lines(style, left));
    mark_output(style, &shown)
}

/// Returns the last lines of an output after their mark, within the limits of the style, preceded
/// by the first error line if it is not among them.
pub(crate) fn excerpt_end(style: &Style, output: &str) -> Vec<String> {
    let lines: Vec<&str> =
        output.trim_end().lines().skip_while(|it| it.trim().is_empty()).collect();
    let most = style.max_output_lines;
    let start = lines.len().saturating_sub(most);
    let error = lines[..start].iter().copied().find(|line| is_error_line(line));
    let mut room = style.max_output_chars;
    let mut shown = Vec::new();
    if let Some(error) = error.filter(|_| most > 1) {
        shown = cut_lines(style, std::iter::once(error), &mut room);
    }
    let tail = &lines[(start + shown.len()).min(lines.len())..];
    let mut end = cut_lines(style, tail.iter().rev().copied(), &mut room);
    end.reverse();
    let left = lines.len() - shown.len() - end.len();
    shown.extend(more_lines(style, left));
    shown.extend(end);
    mark_output(style, &shown)
}

/// Returns lines until `room` characters are used up, with the last one cut.
fn cut_lines<'a>(
    style: &Style,
    lines: impl Iterator<Item = &'a str>,
    room: &mut usize,
) -> Vec<String> {
    let more = style.mark(Mark::More);
    let mut shown = Vec::new();
    for line in lines {
        if *room == 0 {
            break;
        }
        let line = line.trim_end();
        let kept = safe::cut(line, *room);
        *room = room.saturating_sub(line.chars().count().max(1));
        let cut = if kept.len() < line.len() { more } else { "" };
        shown.push(format!("{kept}{cut}"));
    }
    shown
}

fn more_lines(style: &Style, left: usize) -> Option<String> {
    let more = style.mark(Mark::More);
    (left > 0 && style.max_output_lines > 0)
        .then(|| format!("{more} {} more line{}", thousands(left as u64), plural(left)))
}

fn mark_output(style: &Style, lines: &[String]) -> Vec<String> {
    let sign = style.mark(Mark::Output);
    let place = |(at, line): (usize, &String)| {
        format!("  {}  {}", if at == 0 { sign } else { " " }, style.paint(Paint::Dim, line))
    };
    lines.iter().enumerate().map(place).collect()
}

/// Returns `45 lines, 1234 chars`.
fn size_of(output: &str) -> String {
    let (lines, chars) = (output.lines().count(), output.chars().count());
    if chars == 0 {
        return "no output".to_owned();
    }
    format!("{lines} line{}, {chars} char{}", plural(lines), plural(chars))
}

pub(crate) fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn indent_of(speaker: Speaker) -> usize {
    match speaker {
        Speaker::Agent => 0,
        Speaker::Subagent => 2,
    }
}
