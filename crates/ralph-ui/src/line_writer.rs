//! Writes the lines of a view: tracks whether a line is open, rewrites a temporary line, wraps
//! ralph's own lines and adds the time in front.
//!
//! Each call writes one piece with all its color codes closed, so that a piece dropped by a full
//! queue never colors the rest. Not here: the text of the lines.

use std::io::{self, Write};

use ralph_model::units::Timestamp;

use crate::sanitize;
use crate::style::{LineMark, Paint, Style};
use crate::time::WallClock;
use crate::writer::{ERASE_LINE, IgnoreErrors, TEMPORARY_END};

/// Writes lines to a stream.
#[derive(Debug)]
pub(crate) struct LineWriter<W: Write> {
    out: IgnoreErrors<W>,
    style: Style,
    clock: WallClock,
    /// The time that lines begin with.
    at: Timestamp,
    line: CursorLine,
    /// Live lines that were not shown because the agent was writing a line.
    held_back: u32,
    /// Returns the columns of the terminal, which may have been resized.
    columns: fn() -> Option<usize>,
    piece: String,
    /// How many warnings were written.
    warnings: u32,
}

/// The state of the line that the cursor is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CursorLine {
    /// The cursor is at the beginning of a line.
    Fresh,
    /// More text may be appended to the line.
    Open,
    /// The line will be rewritten.
    Temporary,
}

/// A live line comes once a second; after this many an agent is no longer writing its open line.
const PATIENCE: u32 = 2;

impl<W: Write> LineWriter<W> {
    pub(crate) fn new(out: W, style: Style, clock: WallClock) -> Self {
        Self {
            out: IgnoreErrors::new(out),
            style,
            clock,
            at: Timestamp::default(),
            line: CursorLine::Fresh,
            held_back: 0,
            columns: || None,
            piece: String::new(),
            warnings: 0,
        }
    }

    /// Sets how the current width of the terminal is found.
    pub(crate) fn set_columns(&mut self, columns: fn() -> Option<usize>) {
        self.columns = columns;
    }

    pub(crate) fn style(&self) -> &Style {
        &self.style
    }

    pub(crate) fn clock(&self) -> &WallClock {
        &self.clock
    }

    pub(crate) fn first_error(&self) -> Option<&io::Error> {
        self.out.first_error()
    }

    /// Returns what was written so far, which an empty writer replaces.
    pub(crate) fn take_written(&mut self) -> W
    where
        W: Default,
    {
        self.out.take_inner()
    }

    /// Returns the inner writer.
    #[cfg(test)]
    pub(crate) fn written(&self) -> &W {
        self.out.inner()
    }

    /// Sets the time that the next lines begin with.
    pub(crate) fn set_time(&mut self, at: Timestamp) {
        self.at = at;
    }

    /// Sets that time from the clock, if timestamps are shown.
    pub(crate) fn update_time(&mut self) {
        if self.style.timestamps {
            self.at = (self.clock.now)();
        }
    }

    /// Writes a line as it is. The text must be sanitized and close its color codes.
    pub(crate) fn write_line(&mut self, text: &str) {
        self.end_line();
        self.begin_line();
        self.piece.push_str(text);
        self.piece.push('\n');
        self.write_piece();
    }

    /// Writes an empty line.
    pub(crate) fn write_blank_line(&mut self) {
        self.end_line();
        self.piece.push('\n');
        self.write_piece();
    }

    /// Returns how many warnings were written.
    pub(crate) fn count_warnings(&self) -> u32 {
        self.warnings
    }

    /// Writes a message of ralph after a mark, wrapped where it is too long.
    pub(crate) fn write_marked(&mut self, mark: LineMark, text: &str) {
        self.warnings += u32::from(mark == LineMark::Warn);
        let indent = sanitize::count_columns(self.style.format_mark(mark)) + 1;
        let lines = self.wrap_text(text, indent);
        let sign = self.style.paint_mark(mark);
        for (at, line) in lines.iter().enumerate() {
            match at {
                0 => self.write_line(&format!("{sign} {line}")),
                _ => self.write_line(&format!("{:indent$}{line}", "")),
            }
        }
    }

    /// Writes a message of ralph without a mark, indented and wrapped.
    pub(crate) fn write_indented(&mut self, indent: usize, paint: Paint, text: &str) {
        for line in self.wrap_text(text, indent) {
            let line = self.style.paint(paint, &line);
            self.write_line(&format!("{:indent$}{line}", ""));
        }
    }

    /// Writes a piece of streamed text. Its last line stays open.
    pub(crate) fn write_text(&mut self, indent: usize, text: &str) {
        if self.line == CursorLine::Temporary {
            self.end_line();
        }
        self.held_back = 0;
        for line in text.split_inclusive('\n') {
            if self.line == CursorLine::Fresh && line != "\n" {
                self.begin_line();
                self.piece.extend(std::iter::repeat_n(' ', indent));
            }
            self.piece.push_str(line);
            self.line = if line.ends_with('\n') { CursorLine::Fresh } else { CursorLine::Open };
        }
        self.write_piece();
    }

    /// Ends a line that is still open.
    pub(crate) fn close_line(&mut self) {
        self.end_line();
        self.write_piece();
    }

    /// Shows a line that the next one replaces. Does nothing where lines cannot be rewritten.
    pub(crate) fn write_temporary(&mut self, mark: LineMark, text: &str) {
        if !self.style.rewrites {
            return;
        }
        self.end_line();
        let sign = self.style.format_mark(mark);
        let width = (self.columns)().map_or(self.style.width, |now| now.min(self.style.width));
        // A line that wraps cannot be erased, so it must fit with a column to spare.
        let room = width.saturating_sub(sanitize::count_columns(sign) + 2);
        let text = sanitize::cut_to_columns(text, room);
        self.piece.push_str(sign);
        self.piece.push(' ');
        self.piece.push_str(&self.style.paint(Paint::Dim, text));
        self.piece.push(TEMPORARY_END);
        self.line = CursorLine::Temporary;
        self.write_piece();
    }

    /// Shows a temporary line, unless the agent is in the middle of writing a line.
    pub(crate) fn write_live(&mut self, mark: LineMark, text: &str) {
        self.held_back += 1;
        if self.line != CursorLine::Open || self.held_back >= PATIENCE {
            self.write_temporary(mark, text);
        }
    }

    fn end_line(&mut self) {
        match self.line {
            CursorLine::Fresh => {}
            CursorLine::Open => self.piece.push('\n'),
            CursorLine::Temporary => self.piece.push_str(ERASE_LINE),
        }
        self.line = CursorLine::Fresh;
    }

    fn begin_line(&mut self) {
        if self.style.timestamps {
            let time = format!("[{}]", self.clock.format_seconds(self.at));
            self.piece.push_str(&self.style.paint(Paint::Dim, &time));
            self.piece.push(' ');
        }
    }

    fn write_piece(&mut self) {
        if !self.piece.is_empty() {
            self.out.write_piece(self.piece.as_bytes());
            self.piece.clear();
        }
    }

    fn wrap_text(&self, text: &str, indent: usize) -> Vec<String> {
        let time = if self.style.timestamps { "[00:00:00] ".len() } else { 0 };
        wrap_to_width(text, self.style.width.saturating_sub(indent + time))
    }
}

/// Ends an open line, so that the next writer (such as the error printer) starts on a new one.
impl<W: Write> Drop for LineWriter<W> {
    fn drop(&mut self) {
        self.close_line();
    }
}

/// Breaks a text at spaces into lines of at most `width` columns. A longer word gets its own line:
/// a path or a command that is broken cannot be copied.
fn wrap_to_width(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            if !line.is_empty()
                && sanitize::count_columns(&line) + 1 + sanitize::count_columns(word) > width
            {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces_and_words_stay_whole() {
        for (text, expect) in [
            ("", vec![]),
            ("one two three", vec!["one two", "three"]),
            ("a/very/long/path b", vec!["a/very/long/path", "b"]),
            ("one\ntwo", vec!["one", "two"]),
            ("日本 日本 x", vec!["日本", "日本 x"]),
        ] {
            assert_eq!(wrap_to_width(text, 8), expect, "{text}");
        }
    }
}
