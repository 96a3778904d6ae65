//! Lines for the messages and tool calls of an agent.
//!
//! Results are matched to their calls by id, also when calls run in parallel. Memory is bounded
//! for any length of the stream. Not here: ralph's own lines (`lines`).

use std::collections::VecDeque;
use std::io::Write;

use ralph_core::checking::stuck::is_error_line;
use ralph_model::agent_output::{
    AgentEvent, RateLimitStatus, Reply, ResultStatus, Speaker, TextForm, TodoItem, TodoState,
    ToolOutcome, Usage,
};
use ralph_model::failure::FailureClass;
use ralph_model::text::choose_plural;
use ralph_model::units::Timestamp;

use crate::answer_text::describe_answer;
use crate::line_writer::LineWriter;
use crate::style::{LineMark, Paint, Style};
use crate::writer::group_thousands;
use crate::{sanitize, time};

/// State of the stream of one agent call that later lines depend on.
#[derive(Debug, Default)]
pub(crate) struct StreamPrinter {
    /// Tool calls without a result, the oldest first.
    calls: VecDeque<OpenToolCall>,
    /// The id of the tool call whose line is the last one printed.
    last_call: Option<String>,
    /// Consecutive events of a kind that may come in masses.
    flood: EventFlood,
    /// The speaker of the line that may still be open.
    open_speaker: Option<Speaker>,
    /// Whether the agent has written text since its last tool call.
    has_text: bool,
    /// The last reported limit; agents repeat it with every turn.
    limit: Option<(RateLimitStatus, Option<Timestamp>)>,
    /// The session line that was printed last.
    session: Option<String>,
    /// Bytes of agent output shown so far.
    shown_bytes: usize,
}

#[derive(Debug)]
struct OpenToolCall {
    id: String,
    name: String,
    summary: String,
    speaker: Speaker,
}

/// Counts consecutive events of one kind, to shorten floods.
#[derive(Debug, Default)]
struct EventFlood {
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
/// A longer diff is for `git diff`.
const MOST_DIFF_LINES: usize = 12;
/// Enough to tell two calls of the same tool apart.
const SUMMARY_CHARS: usize = 40;

impl StreamPrinter {
    /// Shows one event.
    pub(crate) fn print_event<W: Write>(&mut self, page: &mut LineWriter<W>, event: &AgentEvent) {
        if self.shown_bytes > MOST_BYTES {
            return;
        }
        self.count_flood(page, event);
        match event {
            AgentEvent::Session { id, model, version } => {
                self.print_session(page, [id, model, version]);
            }
            AgentEvent::Text { text, speaker, form } => {
                self.print_text(page, text, *speaker, *form);
            }
            AgentEvent::Reasoning { text } => self.print_reasoning(page, text),
            AgentEvent::ToolStarted { id, name, summary, speaker } => {
                self.print_tool_start(page, id, name, summary, *speaker);
            }
            AgentEvent::ToolEnded { id, outcome, output } => {
                self.print_tool_result(page, id, *outcome, output);
            }
            AgentEvent::Todo { items } => self.print_todo_list(page, items),
            AgentEvent::FileChanged { path } => self.print_file_change(page, path),
            AgentEvent::FileEdited { path: _, removed, added } => {
                self.print_edit(page, removed, added);
            }
            // The warning in the journal reports a passed limit.
            AgentEvent::Usage { .. }
            | AgentEvent::SoftLimitPassed
            | AgentEvent::StillRunning { .. } => {}
            AgentEvent::RateLimit { status, resets_at } => {
                self.print_rate_limit(page, *status, *resets_at);
            }
            AgentEvent::Notice { text } => {
                let text = self.take_line(page, text);
                page.write_marked(LineMark::Notice, &text);
            }
            AgentEvent::Result { status, text, structured: _ } => {
                self.print_result(page, status, text.as_deref());
            }
            AgentEvent::Unparsed { line } => {
                self.shown_bytes += line.len().min(page.style().max_output_chars);
                if self.flood.count <= MOST_IN_A_ROW {
                    self.last_call = None;
                    let style = page.style();
                    page.write_line(&style.paint(Paint::Dim, &cut_line(style, line)));
                }
            }
        }
        if self.shown_bytes > MOST_BYTES {
            let more = page.style().format_mark(LineMark::More);
            page.write_indented(
                0,
                Paint::Warn,
                &format!(
                    "{more} too much agent output to show: the rest is only in the raw stream"
                ),
            );
        }
    }

    /// Ends the stream: closes an open line and clears the state.
    pub(crate) fn end_stream<W: Write>(&mut self, page: &mut LineWriter<W>) {
        self.end_flood(page);
        page.close_line();
        *self = Self::default();
    }

    /// Returns the number of open tool calls.
    #[cfg(test)]
    pub(crate) fn open_calls(&self) -> usize {
        self.calls.len()
    }

    /// Returns foreign text as one sanitized line, and counts its bytes.
    fn take_line<W: Write>(&mut self, page: &LineWriter<W>, text: &str) -> String {
        self.last_call = None;
        let line = cut_line(page.style(), text);
        self.shown_bytes += line.len();
        line
    }

    fn print_session<W: Write>(&mut self, page: &mut LineWriter<W>, parts: [&Option<String>; 3]) {
        let [id, model, version] = parts.map(|part| part.as_deref().unwrap_or_default());
        let session = [("Session", id), ("model", model), ("version", version)]
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name} {value}"))
            .collect::<Vec<_>>()
            .join(", ");
        if !session.is_empty() && self.session.as_deref() != Some(&session) {
            let line = self.take_line(page, &session);
            page.write_indented(0, Paint::Dim, &line);
            self.session = Some(session);
        }
    }

    fn print_text<W: Write>(
        &mut self,
        page: &mut LineWriter<W>,
        text: &str,
        speaker: Speaker,
        form: TextForm,
    ) {
        let described = Some(text).filter(|_| form == TextForm::Message).and_then(describe_answer);
        let text = sanitize::sanitize_text(described.as_deref().unwrap_or(text));
        self.last_call = None;
        self.has_text |= speaker == Speaker::Agent && !text.trim().is_empty();
        self.shown_bytes += text.len();
        match form {
            TextForm::Delta => {
                if self.open_speaker.replace(speaker) != Some(speaker) {
                    page.close_line();
                }
                page.write_text(choose_indent(speaker), &text);
            }
            TextForm::Message => {
                page.close_line();
                self.open_speaker = Some(speaker);
                // Trims only line breaks: the rest of the message may follow in pieces, and a
                // space between two of them belongs to the text.
                page.write_text(choose_indent(speaker), text.trim_matches('\n'));
                // Otherwise the line stays open, for the same reason.
                if text.ends_with('\n') {
                    page.close_line();
                }
            }
        }
    }

    fn print_reasoning<W: Write>(&mut self, page: &mut LineWriter<W>, text: &str) {
        if self.flood.count <= MOST_IN_A_ROW {
            let line = self.take_line(page, text);
            let style = page.style();
            let line = format!("{} {line}", style.format_mark(LineMark::Thought));
            page.write_line(&style.paint(Paint::Dim, &line));
        }
    }

    fn print_tool_start<W: Write>(
        &mut self,
        page: &mut LineWriter<W>,
        id: &str,
        name: &str,
        summary: &str,
        speaker: Speaker,
    ) {
        let name = self.take_line(page, name);
        let summary = self.take_line(page, summary);
        let style = page.style();
        let call = if summary.is_empty() { String::new() } else { format!("({summary})") };
        let line = format!(
            "{:indent$}{} {}{call}",
            "",
            style.paint_mark(LineMark::Tool),
            style.paint(Paint::Strong, &name),
            indent = choose_indent(speaker),
        );
        page.write_line(&line);
        self.has_text &= speaker == Speaker::Subagent;
        self.calls.retain(|call| call.id != id);
        if self.calls.len() == MOST_CALLS {
            self.calls.pop_front();
        }
        self.calls.push_back(OpenToolCall { id: id.to_owned(), name, summary, speaker });
        self.last_call = Some(id.to_owned());
    }

    fn print_tool_result<W: Write>(
        &mut self,
        page: &mut LineWriter<W>,
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
                let more = style.format_mark(LineMark::More);
                let summary = sanitize::sanitize_line(&call.summary, SUMMARY_CHARS, more);
                (format!("{}({summary})", call.name), call.speaker)
            }
            None => ("unknown call".to_owned(), Speaker::Agent),
        };
        let (mark, word) = match outcome {
            ToolOutcome::Ok => (LineMark::Ok, "Result"),
            ToolOutcome::Error => (LineMark::Error, "Error"),
        };
        let output = sanitize::sanitize_text(output);
        let indent = choose_indent(speaker);
        page.write_line(&format!(
            "{:indent$}{} {word} {} {name} ({})",
            "",
            style.paint_mark(mark),
            style.format_mark(LineMark::From),
            format_size(&output),
        ));
        for line in take_excerpt(page.style(), &output) {
            self.shown_bytes += line.len();
            page.write_line(&format!("{:indent$}{line}", ""));
        }
    }

    fn print_todo_list<W: Write>(&mut self, page: &mut LineWriter<W>, items: &[TodoItem]) {
        if items.is_empty() {
            return;
        }
        self.last_call = None;
        let style = page.style().clone();
        page.write_line(&format!("{} Todo List", style.format_mark(LineMark::Todo)));
        for item in items.iter().take(MOST_ITEMS) {
            let text = self.take_line(page, &item.text);
            let line = match item.state {
                TodoState::Done => format!("{} {text}", style.paint_mark(LineMark::TodoDone)),
                TodoState::Active => format!(
                    "{} {} {} ACTIVE",
                    style.paint_mark(LineMark::TodoActive),
                    style.paint(Paint::Strong, &text),
                    style.format_mark(LineMark::From)
                ),
                TodoState::Pending => style.paint(
                    Paint::Dim,
                    &format!("{} {text}", style.format_mark(LineMark::TodoPending)),
                ),
            };
            page.write_line(&format!("  {line}"));
        }
        if items.len() > MOST_ITEMS {
            let more = style.format_mark(LineMark::More);
            page.write_line(&format!("  {more} {} more", items.len() - MOST_ITEMS));
        }
        let done = items.iter().filter(|item| item.state == TodoState::Done).count();
        page.write_line(&format!(
            "  {} Progress: {done}/{} ({}%)",
            style.format_mark(LineMark::Progress),
            items.len(),
            done * 100 / items.len()
        ));
    }

    /// Most agents change files by a tool call that already names the file.
    fn print_file_change<W: Write>(&mut self, page: &mut LineWriter<W>, path: &str) {
        if self.calls.iter().any(|call| call.summary.contains(path)) {
            return;
        }
        let path = self.take_line(page, path);
        let line = format!("{} Changed {path}", page.style().format_mark(LineMark::File));
        page.write_line(&line);
    }

    /// Prints the lines that an edit removed and added. The call above names the file.
    fn print_edit<W: Write>(&mut self, page: &mut LineWriter<W>, removed: &str, added: &str) {
        let lines = list_changed_lines(removed, added);
        for (sign, line) in lines.iter().take(MOST_DIFF_LINES) {
            let paint = if *sign == '-' { Paint::Bad } else { Paint::Good };
            let line = self.take_line(page, &format!("{sign} {line}"));
            page.write_line(&format!("  {}", page.style().paint(paint, &line)));
        }
        if lines.len() > MOST_DIFF_LINES {
            let more = page.style().format_mark(LineMark::More);
            page.write_line(&format!("  {more} {} more lines", lines.len() - MOST_DIFF_LINES));
        }
    }

    fn print_rate_limit<W: Write>(
        &mut self,
        page: &mut LineWriter<W>,
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
            format!("; it resets at {}", clock.format_minutes(at, (clock.now)()))
        });
        self.last_call = None;
        page.write_marked(LineMark::Warn, &format!("{warning}{}", reset.unwrap_or_default()));
    }

    /// Shows a final text only if it is new: most agents repeat their last message.
    fn print_result<W: Write>(
        &mut self,
        page: &mut LineWriter<W>,
        status: &ResultStatus,
        text: Option<&str>,
    ) {
        if let ResultStatus::Failed(message) = status {
            let message = self.take_line(page, message);
            page.write_marked(LineMark::Error, &message);
        }
        if let Some(text) = text.filter(|text| !self.has_text && !text.trim().is_empty()) {
            self.print_text(page, text, Speaker::Agent, TextForm::Message);
        }
    }

    /// Counts consecutive events of one kind, and prints how many were skipped when another kind
    /// follows.
    fn count_flood<W: Write>(&mut self, page: &mut LineWriter<W>, event: &AgentEvent) {
        let kind = match event {
            AgentEvent::Unparsed { .. } => FloodKind::Unparsed,
            AgentEvent::Reasoning { .. } => FloodKind::Reasoning,
            // Usage is not shown, so it does not interrupt a series.
            AgentEvent::Usage { .. } => return,
            _ => FloodKind::None,
        };
        if kind != self.flood.kind {
            self.end_flood(page);
            self.flood.kind = kind;
        }
        self.flood.count += 1;
    }

    fn end_flood<W: Write>(&mut self, page: &mut LineWriter<W>) {
        let EventFlood { kind, count } = std::mem::take(&mut self.flood);
        let skipped = count.saturating_sub(MOST_IN_A_ROW);
        let what = match kind {
            FloodKind::None => return,
            FloodKind::Unparsed => "lines that are no events",
            FloodKind::Reasoning => "thoughts",
        };
        if skipped > 0 {
            let style = page.style();
            let line = format!(
                "{} {} more {what}",
                style.format_mark(LineMark::More),
                group_thousands(skipped)
            );
            page.write_line(&style.paint(Paint::Dim, &line));
        }
    }
}

/// Returns foreign text as one sanitized line.
fn cut_line(style: &Style, text: &str) -> String {
    sanitize::sanitize_line(text, style.max_output_chars, style.format_mark(LineMark::More))
}

/// Returns the summary line of a call: `✅ Complete (cost: $5.76, ...)`.
pub(crate) fn format_summary(style: &Style, reply: &Reply) -> String {
    let (mark, word) = match &reply.failure {
        None => (LineMark::Ok, "Complete"),
        Some(failure) if failure.class == FailureClass::Interrupted => {
            (LineMark::Warn, "Interrupted")
        }
        Some(_) => (LineMark::Error, "Failed"),
    };
    let mut parts = Vec::new();
    if let Some(cost) = reply.usage.cost {
        parts.push(format!("cost: {cost}"));
    }
    if reply.usage.tokens().0 > 0 {
        parts.push(format!("tokens: {}", format_tokens(reply.usage)));
    }
    parts.extend(reply.usage.turns.map(|turns| format!("turns: {turns}")));
    parts.push(format!("tools: {}", reply.tools));
    parts.push(format!("errors: {}", reply.tool_errors));
    if reply.unparsed > 0 {
        parts.push(format!("unparsed: {}", reply.unparsed));
    }
    parts.push(format!("time: {}", time::format_compact(reply.end.ran)));
    format!("{} {word} ({})", style.paint_mark(mark), parts.join(", "))
}

/// Returns `1.2M in (850K cached) / 45K out`. Input includes tokens read from the cache.
pub(crate) fn format_tokens(usage: Usage) -> String {
    let input = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    let cached = match usage.cache_read.0 {
        0 => String::new(),
        _ => format!(" ({} cached)", usage.cache_read),
    };
    format!("{input} in{cached} / {} out", usage.output)
}

/// Returns the first lines of an output after their mark, within the limits of the style.
pub(crate) fn take_excerpt(style: &Style, output: &str) -> Vec<String> {
    let lines: Vec<&str> =
        output.trim_end().lines().skip_while(|it| it.trim().is_empty()).collect();
    let mut room = style.max_output_chars;
    let first = &lines[..style.max_output_lines.min(lines.len())];
    let mut shown = cut_lines(style, first.iter().copied(), &mut room);
    let left = lines.len() - shown.len();
    shown.extend(format_more_lines(style, left));
    mark_output(style, &shown)
}

/// Returns the last lines of an output after their mark, within the limits of the style, preceded
/// by the first error line if it is not among them.
pub(crate) fn take_excerpt_end(style: &Style, output: &str) -> Vec<String> {
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
    shown.extend(format_more_lines(style, left));
    shown.extend(end);
    mark_output(style, &shown)
}

/// Returns lines until `room` characters are used up, with the last one cut.
fn cut_lines<'a>(
    style: &Style,
    lines: impl Iterator<Item = &'a str>,
    room: &mut usize,
) -> Vec<String> {
    let more = style.format_mark(LineMark::More);
    let mut shown = Vec::new();
    for line in lines {
        if *room == 0 {
            break;
        }
        let line = line.trim_end();
        let kept = sanitize::cut_chars(line, *room);
        *room = room.saturating_sub(line.chars().count().max(1));
        let cut = if kept.len() < line.len() { more } else { "" };
        shown.push(format!("{kept}{cut}"));
    }
    shown
}

fn format_more_lines(style: &Style, left: usize) -> Option<String> {
    let more = style.format_mark(LineMark::More);
    (left > 0 && style.max_output_lines > 0).then(|| {
        format!("{more} {} more line{}", group_thousands(left as u64), choose_plural(left))
    })
}

fn mark_output(style: &Style, lines: &[String]) -> Vec<String> {
    let sign = style.format_mark(LineMark::Output);
    let place = |(at, line): (usize, &String)| {
        format!("  {}  {}", if at == 0 { sign } else { " " }, style.paint(Paint::Dim, line))
    };
    lines.iter().enumerate().map(place).collect()
}

/// Returns `45 lines, 1234 chars`.
fn format_size(output: &str) -> String {
    let (lines, chars) = (output.lines().count(), output.chars().count());
    if chars == 0 {
        return "no output".to_owned();
    }
    format!("{lines} line{}, {chars} char{}", choose_plural(lines), choose_plural(chars))
}

fn choose_indent(speaker: Speaker) -> usize {
    match speaker {
        Speaker::Agent => 0,
        Speaker::Subagent => 2,
    }
}

/// Returns the removed and added lines with their signs, without the lines that both begin or end
/// with.
fn list_changed_lines<'a>(removed: &'a str, added: &'a str) -> Vec<(char, &'a str)> {
    let (mut old, mut new): (Vec<_>, Vec<_>) = (removed.lines().collect(), added.lines().collect());
    while !old.is_empty() && old.last() == new.last() {
        old.pop();
        new.pop();
    }
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let signed = |sign: char, lines: Vec<&'a str>| {
        lines.into_iter().skip(same).map(move |line| (sign, line))
    };
    signed('-', old).chain(signed('+', new)).collect()
}
