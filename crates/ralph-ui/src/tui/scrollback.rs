//! The scrollback: keeps a limited number of lines, and wraps, filters, searches and scrolls them.
//!
//! Only visible lines are wrapped, so that a long run costs no more than a short one. Not here:
//! the text of the lines, and drawing them.

use std::collections::VecDeque;

use ratatui_core::buffer::CellWidth as _;
use ratatui_core::style::Style;
use ratatui_core::text::Span;

use crate::style::Paint;
use crate::tui::paint;

/// The kind of a line, for filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum LineKind {
    /// A line of ralph.
    #[default]
    Ralph,
    /// Text of the agent.
    Text,
    /// A tool call that succeeded, or is running.
    Tool,
    /// A tool call that failed.
    ToolError,
    /// A gate that passed, or is running.
    Gate,
    /// A gate that failed.
    GateError,
    /// A warning or a failure.
    Warning,
}

/// Selects the lines that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum LineFilter {
    #[default]
    All,
    Text,
    Tools,
    Gates,
    Errors,
}

impl LineFilter {
    /// All filters, in the order of their keys.
    pub(crate) const ALL: [Self; 5] =
        [Self::All, Self::Text, Self::Tools, Self::Gates, Self::Errors];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Text => "text",
            Self::Tools => "tools",
            Self::Gates => "gates",
            Self::Errors => "errors",
        }
    }

    /// Returns the filter that follows.
    pub(crate) fn next_filter(self) -> Self {
        match self {
            Self::All => Self::Text,
            Self::Text => Self::Tools,
            Self::Tools => Self::Gates,
            Self::Gates => Self::Errors,
            Self::Errors => Self::All,
        }
    }

    fn shows(self, kind: LineKind) -> bool {
        match self {
            Self::All => true,
            Self::Text => kind == LineKind::Text,
            Self::Tools => matches!(kind, LineKind::Tool | LineKind::ToolError),
            Self::Gates => matches!(kind, LineKind::Gate | LineKind::GateError),
            Self::Errors => {
                matches!(kind, LineKind::ToolError | LineKind::GateError | LineKind::Warning)
            }
        }
    }
}

/// Pieces of a line with their colors, in order.
pub(crate) type Spans = Vec<(Paint, String)>;

#[derive(Debug)]
struct ScrollLine {
    kind: LineKind,
    spans: Spans,
    /// In characters.
    length: usize,
}

/// A row of the scrollback: a line by its number since the beginning, and a row within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ScrollPosition {
    line: u64,
    row: usize,
}

/// The size of the visible area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PanelSize {
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// The direction of a search or a scroll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Up,
    Down,
}

/// The scrollback.
#[derive(Debug, Default)]
pub(crate) struct Scrollback {
    lines: VecDeque<ScrollLine>,
    /// The number of the oldest kept line.
    first: u64,
    /// The color of the line that is still open.
    open: Option<Paint>,
    /// The bottom row; `None` follows the newest line.
    bottom: Option<ScrollPosition>,
    filter: LineFilter,
    query: String,
    found: Option<u64>,
}

/// About an hour of a talkative agent; the raw stream has it all.
const MOST_LINES: usize = 20_000;
/// More than fits on a screen.
const LONGEST_LINE: usize = 8_000;
/// Replaces a tab, at any column.
const TAB: &str = "    ";

impl Scrollback {
    /// Appends a piece of text; its last line stays open unless it ends with a line break.
    pub(crate) fn push_text(&mut self, kind: LineKind, text: &str) {
        for piece in text.split_inclusive('\n') {
            let (piece, ends) = match piece.strip_suffix('\n') {
                Some(piece) => (piece, true),
                None => (piece, false),
            };
            let piece = piece.replace('\t', TAB);
            let mut paint = self.open.unwrap_or(Paint::None);
            let spans = paint::split_spans(&piece, &mut paint);
            if let (Some(_), Some(entry)) = (self.open, self.lines.back_mut()) {
                entry.append_spans(spans);
            } else {
                let mut entry = ScrollLine { kind, spans: Vec::new(), length: 0 };
                entry.append_spans(spans);
                self.lines.push_back(entry);
            }
            self.open = (!ends).then_some(paint);
        }
        while self.lines.len() > MOST_LINES {
            self.lines.pop_front();
            self.first += 1;
        }
    }

    /// Appends a separate line, ending an open line first.
    pub(crate) fn push_line(&mut self, kind: LineKind, text: &str) {
        self.open = None;
        self.push_text(kind, &format!("{text}\n"));
    }

    /// Removes all lines; filter and search stay.
    pub(crate) fn clear(&mut self) {
        let (filter, query) = (self.filter, std::mem::take(&mut self.query));
        *self = Self { filter, query, ..Self::default() };
    }

    pub(crate) fn filter(&self) -> LineFilter {
        self.filter
    }

    /// Sets the filter and scrolls to the newest line.
    pub(crate) fn set_filter(&mut self, filter: LineFilter) {
        self.filter = filter;
        self.bottom = None;
    }

    pub(crate) fn query(&self) -> &str {
        &self.query
    }

    /// Returns whether the newest line is shown.
    pub(crate) fn is_following(&self) -> bool {
        self.bottom.is_none()
    }

    /// Returns how many lines are below the visible area.
    pub(crate) fn lines_below(&self) -> usize {
        let Some(bottom) = self.bottom else { return 0 };
        let next = usize::try_from((bottom.line + 1).saturating_sub(self.first)).unwrap_or(0);
        self.lines.iter().skip(next).filter(|entry| self.filter.shows(entry.kind)).count()
    }

    /// Scrolls to the newest line and follows it.
    pub(crate) fn follow_newest(&mut self) {
        self.bottom = None;
    }

    /// Scrolls to the oldest line.
    pub(crate) fn scroll_to_top(&mut self, room: PanelSize) {
        if let Some(first) = self.find_next_shown(self.first) {
            self.bottom = Some(ScrollPosition { line: first, row: 0 });
            self.scroll_down(room, room.height.saturating_sub(1));
        }
    }

    /// Scrolls up by rows, but never past the first page.
    pub(crate) fn scroll_up(&mut self, room: PanelSize, rows: usize) {
        let Some(place) = self.bottom_row(room) else { return };
        // The rows above the bottom row that must stay visible.
        let keep = room.height.saturating_sub(1);
        if self.walk_up(room, place, rows + keep).1 < rows + keep {
            return self.scroll_to_top(room);
        }
        self.bottom = Some(self.walk_up(room, place, rows).0);
    }

    /// Scrolls down by rows; follows the newest line again at the end.
    pub(crate) fn scroll_down(&mut self, room: PanelSize, rows: usize) {
        let Some(mut place) = self.bottom.map(|it| self.clamp_position(it)) else { return };
        for _ in 0..rows {
            if place.row + 1 < self.wrap_line(place.line, room.width).len() {
                place.row += 1;
            } else if let Some(line) = self.find_next_shown(place.line + 1) {
                place = ScrollPosition { line, row: 0 };
            } else {
                self.bottom = None;
                return;
            }
        }
        self.bottom = Some(place);
    }

    /// Searches for a text upwards from the visible area, and returns whether it was found.
    pub(crate) fn search_for(&mut self, query: &str, room: PanelSize) -> bool {
        query.to_lowercase().clone_into(&mut self.query);
        self.found = None;
        self.search_again(Direction::Up, room)
    }

    /// Continues the search, and returns whether there is another match.
    pub(crate) fn search_again(&mut self, direction: Direction, room: PanelSize) -> bool {
        if self.query.is_empty() {
            return false;
        }
        let last = self.first + self.lines.len() as u64;
        let shown = self.bottom_row(room).map_or(last, |place| place.line + 1);
        let from = self.found.unwrap_or(shown).max(self.first);
        let at = |line: u64| usize::try_from(line - self.first).unwrap_or(usize::MAX);
        let matches = |line: &u64| {
            self.lines.get(at(*line)).is_some_and(|entry| {
                self.filter.shows(entry.kind) && entry.text().to_lowercase().contains(&self.query)
            })
        };
        let found = match direction {
            Direction::Up => (self.first..from).rev().find(matches),
            Direction::Down => (from.saturating_add(1)..last).find(matches),
        };
        let Some(line) = found else { return false };
        self.found = Some(line);
        self.bottom =
            Some(ScrollPosition { line, row: self.wrap_line(line, room.width).len() - 1 });
        // Centers the match, so that its context is visible.
        self.scroll_down(room, room.height / 2);
        let place = self.clamp_position(ScrollPosition { line, row: 0 });
        if self.walk_up(room, place, room.height).1 < room.height / 2 {
            self.scroll_to_top(room);
        }
        true
    }

    /// Returns the visible rows from top to bottom.
    pub(crate) fn visible_rows(&self, room: PanelSize) -> Vec<Spans> {
        let mut shown = Vec::new();
        let Some(bottom) = self.bottom_row(room) else { return shown };
        let (mut line, mut upto) = (bottom.line, bottom.row + 1);
        loop {
            let mut rows = self.wrap_line(line, room.width);
            rows.truncate(upto);
            for row in rows.into_iter().rev() {
                if shown.len() == room.height {
                    shown.reverse();
                    return shown;
                }
                shown.push(row);
            }
            match self.find_last_shown(line) {
                Some(before) if shown.len() < room.height => (line, upto) = (before, usize::MAX),
                Some(_) | None => {
                    shown.reverse();
                    return shown;
                }
            }
        }
    }

    /// Returns the bottom row, if there are lines.
    fn bottom_row(&self, room: PanelSize) -> Option<ScrollPosition> {
        if let Some(place) = self.bottom {
            return Some(self.clamp_position(place));
        }
        let line = self.find_last_shown(self.first + self.lines.len() as u64)?;
        Some(ScrollPosition { line, row: self.wrap_line(line, room.width).len() - 1 })
    }

    /// Returns the place, or the oldest line if it was removed.
    fn clamp_position(&self, place: ScrollPosition) -> ScrollPosition {
        if place.line < self.first { ScrollPosition { line: self.first, row: 0 } } else { place }
    }

    /// Goes up by rows. Returns the place reached, and by how many rows it is higher.
    fn walk_up(
        &self,
        room: PanelSize,
        mut place: ScrollPosition,
        rows: usize,
    ) -> (ScrollPosition, usize) {
        for steps in 0..rows {
            if place.row > 0 {
                place.row -= 1;
            } else if let Some(line) = self.find_last_shown(place.line) {
                place = ScrollPosition { line, row: self.wrap_line(line, room.width).len() - 1 };
            } else {
                return (place, steps);
            }
        }
        (place, rows)
    }

    /// Returns the first line at or after this one that the filter shows.
    fn find_next_shown(&self, from: u64) -> Option<u64> {
        let skip = usize::try_from(from.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let more = self.lines.iter().enumerate().skip(skip);
        let found = more.into_iter().find(|(_, entry)| self.filter.shows(entry.kind));
        found.map(|(at, _)| self.first + at as u64)
    }

    /// Returns the last line before this one that the filter shows.
    fn find_last_shown(&self, before: u64) -> Option<u64> {
        let count = usize::try_from(before.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let some = self.lines.iter().take(count).enumerate();
        let found = some.rev().find(|(_, entry)| self.filter.shows(entry.kind));
        found.map(|(at, _)| self.first + at as u64)
    }

    fn find_line(&self, line: u64) -> Option<&ScrollLine> {
        self.lines.get(usize::try_from(line.checked_sub(self.first)?).ok()?)
    }

    /// Returns the wrapped rows of a line; at least one.
    fn wrap_line(&self, line: u64, width: usize) -> Vec<Spans> {
        self.find_line(line)
            .map_or_else(|| vec![Vec::new()], |entry| wrap_spans(&entry.spans, width))
    }
}

impl ScrollLine {
    fn append_spans(&mut self, spans: Spans) {
        for (paint, text) in spans {
            let room = LONGEST_LINE.saturating_sub(self.length);
            let text = crate::sanitize::cut_chars(&text, room);
            self.length += text.chars().count();
            match self.spans.last_mut() {
                Some((last, sum)) if *last == paint => sum.push_str(text),
                Some(_) | None => self.spans.push((paint, text.to_owned())),
            }
        }
    }

    fn text(&self) -> String {
        self.spans.iter().map(|(_, text)| text.as_str()).collect()
    }
}

/// Breaks a line into rows, at spaces unless that wastes more than half a row. Returns at least
/// one row.
fn wrap_spans(spans: &Spans, width: usize) -> Vec<Spans> {
    let width = width.max(1);
    let mut rows: Vec<Spans> = Vec::new();
    let mut row: Vec<(Paint, String, usize)> = Vec::new();
    let mut used = 0;
    for (paint, text) in spans {
        for grapheme in Span::raw(text.as_str()).styled_graphemes(Style::new()) {
            let symbol = grapheme.symbol;
            let columns = usize::from(symbol.cell_width());
            if columns == 0 || columns > width {
                continue;
            }
            if used + columns > width {
                let space = row.iter().rposition(|(_, symbol, _)| symbol == " ");
                let at = space.map_or(row.len(), |at| at + 1);
                let at = if at * 2 < row.len() || symbol == " " { row.len() } else { at };
                let rest = row.split_off(at);
                rows.push(join_spans(row));
                used = rest.iter().map(|(_, _, columns)| columns).sum();
                row = rest;
                // The rest of the row may be too long as well.
                if used + columns > width {
                    rows.push(join_spans(std::mem::take(&mut row)));
                    used = 0;
                }
                // A row does not begin with the space at which it was broken.
                if symbol == " " && row.is_empty() {
                    continue;
                }
            }
            used += columns;
            row.push((*paint, symbol.to_owned(), columns));
        }
    }
    rows.push(join_spans(row));
    rows
}

fn join_spans(row: Vec<(Paint, String, usize)>) -> Spans {
    let mut spans: Spans = Vec::new();
    for (paint, symbol, _) in row {
        match spans.last_mut() {
            Some((last, sum)) if *last == paint => sum.push_str(&symbol),
            Some(_) | None => spans.push((paint, symbol)),
        }
    }
    spans
}

#[cfg(test)]
mod tests;
