//! The last lines of an agent's stream as plain text, for a live page.
//!
//! Not here: reading the stream.

use ralph_model::agent_output::AgentEvent;

use crate::line_writer::LineWriter;
use crate::stream::StreamPrinter;
use crate::style::Style;
use crate::time::WallClock;

/// About two screens.
const MOST_LINES: usize = 60;

/// Enough for that many long lines.
const MOST_CHARS: usize = 12_000;

/// Prints the events of a call and keeps the last lines.
#[derive(Debug)]
pub struct StreamTail {
    printer: StreamPrinter,
    writer: LineWriter<Vec<u8>>,
    text: String,
}

impl StreamTail {
    /// Returns an empty tail.
    pub fn new(style: &Style, clock: WallClock) -> Self {
        let style = Style { timestamps: false, ..style.for_log() };
        let writer = LineWriter::new(Vec::new(), style, clock);
        Self { printer: StreamPrinter::default(), writer, text: String::new() }
    }

    /// Prints an event.
    pub fn push_event(&mut self, event: &AgentEvent) {
        self.printer.print_event(&mut self.writer, event);
        let printed = self.writer.take_written();
        self.text.push_str(&String::from_utf8_lossy(&printed));
        let lines = self.text.rmatch_indices('\n').nth(MOST_LINES).map_or(0, |(at, _)| at + 1);
        let chars = self.text.char_indices().rev().nth(MOST_CHARS).map_or(0, |(at, _)| at);
        self.text.drain(..lines.max(chars));
    }

    /// Returns the last lines.
    pub fn text(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use ralph_model::units::Timestamp;

    use super::*;
    use crate::style::{Sink, StreamEnvironment, StylePreferences};

    #[test]
    fn only_the_last_lines_are_kept_and_they_are_plain() {
        let around = StreamEnvironment { sink: Sink::Pipe, ..StreamEnvironment::default() };
        let style = Style::choose_style(&StylePreferences::default(), &around);
        let clock = WallClock { zone: TimeZone::UTC, now: || Timestamp(0) };
        let mut tail = StreamTail::new(&style, clock);
        for number in 0..500 {
            tail.push_event(&AgentEvent::Notice { text: format!("step {number} \u{1b}[31mred") });
        }
        assert_eq!(tail.text().lines().count(), MOST_LINES);
        assert!(tail.text().ends_with("step 499 red\n"), "{:?}", tail.text());
        let long = AgentEvent::Text {
            text: "x".repeat(50_000),
            speaker: ralph_model::agent_output::Speaker::Agent,
            form: ralph_model::agent_output::TextForm::Message,
        };
        tail.push_event(&long);
        assert!(tail.text().chars().count() <= MOST_CHARS + 1);
    }
}
