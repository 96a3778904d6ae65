//! Writes the lines of a view: tracks whether a line is open, rewrites a temporary line, wraps
//! ralph's own lines and adds the time in front.
//!
//! Each call writes one piece with all its color codes closed, so that a piece dropped by a full
//! queue never colors the rest. Not here: the text of the lines.

use std::io::{self, Write};

use ralph_core::units::Timestamp;

use crate::safe;
use crate::style::{Mark, Motion, Paint, Style, Timestamps};
use crate::time::WallClock;
use crate::writer::Swallow;

/// Writes lines to a stream.
#[derive(Debug)]
pub(crate) struct Page<W: Write> {
    out: Swallow<W>,
    style: Style,
    clock: WallClock,
    /// The time that lines begin with.
    at: Timestamp,
    line: LineState,
    piece: String,
}

/// The state of the line that the cursor is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineState {
    /// The cursor is at the beginning of a line.
    Fresh,
    /// More text may be appended to the line.
    Open,
    /// The line will be rewritten.
    Passing,
}

/// Erases the line the cursor is on.
const ERASE: &str = "\r\u{1b}[2K";

impl<W: Write> Page<W> {
    pub(crate) fn new(out: W, style: Style, clock: WallClock) -> Self {
        Self {
            out: Swallow::new(out),
            style,
            clock,
            at: Timestamp::default(),
            line: LineState::Fresh,
            piece: String::new(),
        }
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
    pub(crate) fn look_at_clock(&mut self) {
        match self.style.timestamps {
            Timestamps::Shown => self.at = (self.clock.now)(),
            Timestamps::Hidden => {}
        }
    }

    /// Writes a line as it is. The text must be sanitized and close its color codes.
    pub(crate) fn line(&mut self, text: &str) {
        self.end_line();
        self.begin_line();
        self.piece.push_str(text);
        self.piece.push('\n');
        self.write();
    }

    /// Writes an empty line.
    pub(crate) fn gap(&mut self) {
        self.end_line();
        self.piece.push('\n');
        self.write();
    }

    /// Writes a message of ralph after a mark, wrapped where it is too long.
    pub(crate) fn say(&mut self, mark: Mark, paint: Paint, text: &str) {
        let sign = self.style.mark(mark);
        let indent = safe::columns(sign) + 1;
        let lines = self.wrap(text, indent);
        let sign = self.style.paint(paint, sign);
        for (at, line) in lines.iter().enumerate() {
            match at {
                0 => self.line(&format!("{sign} {line}")),
                _ => self.line(&format!("{:indent$}{line}", "")),
            }
        }
    }

    /// Writes a message of ralph without a mark, indented and wrapped.
    pub(crate) fn add(&mut self, indent: usize, paint: Paint, text: &str) {
        for line in self.wrap(text, indent) {
            let line = self.style.paint(paint, &line);
            self.line(&format!("{:indent$}{line}", ""));
        }
    }

    /// Writes a piece of streamed text. Its last line stays open.
    pub(crate) fn text(&mut self, indent: usize, text: &str) {
        if self.line == LineState::Passing {
            self.end_line();
        }
        for line in text.split_inclusive('\n') {
            if self.line == LineState::Fresh && line != "\n" {
                self.begin_line();
                self.piece.extend(std::iter::repeat_n(' ', indent));
            }
            self.piece.push_str(line);
            self.line = if line.ends_with('\n') { LineState::Fresh } else { LineState::Open };
        }
        self.write();
    }

    /// Ends a line that is still open.
    pub(crate) fn close(&mut self) {
        self.end_line();
        self.write();
    }

    /// Shows a line that the next one replaces. Does nothing where lines cannot be rewritten.
    pub(crate) fn pass(&mut self, mark: Mark, text: &str) {
        match self.style.motion {
            Motion::Appends => return,
            Motion::Rewrites => {}
        }
        self.end_line();
        let sign = self.style.mark(mark);
        // A line that wraps cannot be erased, so it must fit with a column to spare.
        let room = self.style.width.saturating_sub(safe::columns(sign) + 2);
        let text = safe::fit(text, room);
        self.piece.push_str(sign);
        self.piece.push(' ');
        self.piece.push_str(&self.style.paint(Paint::Dim, text));
        self.line = LineState::Passing;
        self.write();
    }

    fn end_line(&mut self) {
        match self.line {
            LineState::Fresh => {}
            LineState::Open => self.piece.push('\n'),
            LineState::Passing => self.piece.push_str(ERASE),
        }
        self.line = LineState::Fresh;
    }

    fn begin_line(&mut self) {
        match self.style.timestamps {
            Timestamps::Shown => {
                let time = format!("[{}]", self.clock.seconds(self.at));
                self.piece.push_str(&self.style.paint(Paint::Dim, &time));
                self.piece.push(' ');
            }
            Timestamps::Hidden => {}
        }
    }

    fn write(&mut self) {
        if !self.piece.is_empty() {
            self.out.put(self.piece.as_bytes());
            self.piece.clear();
        }
    }

    fn wrap(&self, text: &str, indent: usize) -> Vec<String> {
        let time = match self.style.timestamps {
            Timestamps::Shown => "[00:00:00] ".len(),
            Timestamps::Hidden => 0,
        };
        wrap(text, self.style.width.saturating_sub(indent + time))
    }
}

/// Ends an open line, so that the next writer (such as the error printer) starts on a new one.
impl<W: Write> Drop for Page<W> {
    fn drop(&mut self) {
        self.close();
    }
}

/// Breaks a text at spaces into lines of at most `width` columns. A longer word gets its own line:
/// a path or a command that is broken cannot be copied.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            if !line.is_empty() && safe::columns(&line) + 1 + safe::columns(word) > width {
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
            assert_eq!(wrap(text, 8), expect, "{text}");
        }
    }
}
