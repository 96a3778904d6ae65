//! Draws the state of the screen into a buffer.
//!
//! Works for any size, down to zero. Only visible rows are processed. Not here: writing the buffer
//! to a terminal.

use ralph_core::event::WaitReason;
use ralph_core::gate::Severity;
use ralph_core::units::Millis;
use ratatui_core::buffer::{Buffer, CellWidth};
use ratatui_core::layout::Rect;
use ratatui_core::style::{Modifier, Style as CellStyle};

use crate::style::{Mark, Marks, Paint};
use crate::time;
use crate::tui::editor::Editor;
use crate::tui::facts::{GateState, Standing, Wanted, WorkKind};
use crate::tui::paint;
use crate::tui::screen::{Deck, Layout, Mode, Panel, Play, Question, Screen, Source, Stopping};
use crate::tui::scroll::{Filter, Spans};

/// Draws the screen.
pub(crate) fn draw(screen: &Screen, buffer: &mut Buffer) {
    let layout = Layout::of(screen.size);
    let mut pen = Pen { screen, buffer };
    pen.title(layout.title);
    pen.lines_between(&layout);
    pen.list(layout.list);
    pen.stream(layout.stream);
    pen.gates(layout.gates);
    pen.budget(layout.budget);
    pen.keys(layout.keys);
    pen.prompt();
    if screen.mode == Mode::Help {
        pen.help();
    }
}

struct Pen<'a> {
    screen: &'a Screen,
    buffer: &'a mut Buffer,
}

/// How long a hint stays: enough to read a line.
const READING_TIME: Millis = Millis::from_secs(5);
/// One rotation takes a second.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const PLAIN_SPINNER: [&str; 4] = ["|", "/", "-", "\\"];

impl Pen<'_> {
    /// Writes a text at a column, and returns the column after it.
    fn put(&mut self, row: Rect, x: u16, text: &str, style: CellStyle) -> u16 {
        if row.height == 0 || x >= row.right() || row.y >= self.buffer.area.bottom() {
            return x;
        }
        let room = usize::from(row.right() - x);
        self.buffer.set_stringn(x, row.y, text, room, style).0
    }

    fn painted(&mut self, row: Rect, x: u16, paint: Paint, text: &str) -> u16 {
        let style = paint::cell(self.screen.look.color, paint);
        self.put(row, x, text, style)
    }

    fn mark(&self, mark: Mark) -> &'static str {
        let (emoji, text) = mark.forms();
        match self.screen.look.marks {
            Marks::Emoji => emoji,
            Marks::Text => text,
        }
    }

    fn spinner(&self) -> &'static str {
        let frame = usize::try_from(self.screen.now.0.rem_euclid(1_000) / 100).unwrap_or(0);
        match self.screen.look.marks {
            Marks::Emoji => SPINNER[frame % SPINNER.len()],
            Marks::Text => PLAIN_SPINNER[frame % PLAIN_SPINNER.len()],
        }
    }

    fn title(&mut self, row: Rect) {
        let style = CellStyle::new().add_modifier(Modifier::REVERSED);
        if row.height > 0 {
            self.buffer.set_style(row, style);
        }
        let facts = &self.screen.facts;
        let mut parts = vec![self.standing()];
        if let Some(role) = facts.role {
            let task = facts.task.as_ref().map(crate::tasks::name);
            parts.push(format!("{role} {}", task.unwrap_or_default()).trim_end().to_owned());
        }
        if !facts.run.is_empty() {
            parts.push(format!("run {}", facts.run));
        }
        self.put(row, row.x, &format!(" {}", parts.join("  ")), style);
    }

    fn standing(&self) -> String {
        let screen = self.screen;
        let status = match (&screen.facts.standing, screen.stopping) {
            (Standing::Ended { how }, _) => format!("ended: {how}"),
            (_, Stopping::AfterThisStep) => "stopping after this step".to_owned(),
            (_, Stopping::Now) => "ending what is running".to_owned(),
            (Standing::Beginning, _) => "starting".to_owned(),
            (Standing::Running, _) => match screen.facts.asked {
                Wanted::Nothing => "running".to_owned(),
                Wanted::Pause => "pausing after this step".to_owned(),
                Wanted::Stop => "stopping after this step".to_owned(),
            },
            (Standing::Paused { since }, _) => {
                format!("paused for {}, p resumes", whole(screen.now.since(*since)))
            }
            (Standing::Waiting { until, reason }, _) => {
                let at = screen.clock.minutes(*until, screen.now);
                let left = time::countdown(until.since(screen.now));
                match reason {
                    WaitReason::UsageLimit => format!("usage limit: resumes at {at}, in {left}"),
                    WaitReason::Retry => format!("retry in {left}"),
                    WaitReason::Delay => format!("waiting {left}"),
                }
            }
        };
        match screen.deck {
            None if screen.facts.standing == Standing::Running => {
                format!("{} {status}", self.spinner())
            }
            None => status,
            Some(deck) => self.played(deck, &status),
        }
    }

    fn played(&self, deck: Deck, status: &str) -> String {
        let at = self.screen.clock.seconds(deck.at);
        let is_over = matches!(self.screen.facts.standing, Standing::Ended { .. });
        match (deck.play, deck.source) {
            (Play::On, Source::Live) if is_over => status.to_owned(),
            (Play::On, Source::Record) => format!("replay {} {at}  {status}", deck.speed.name()),
            (Play::On, Source::Live) => format!("{} live  {status}", self.spinner()),
            (Play::Halted, _) => format!("replay halted {at}  {status}"),
            (Play::AtEnd, _) => status.to_owned(),
        }
    }

    /// Draws the lines around the body, with the names of the panels.
    fn lines_between(&mut self, layout: &Layout) {
        let [across, down, tee, foot] = match self.screen.look.marks {
            Marks::Emoji => ["─", "│", "┬", "┴"],
            Marks::Text => ["-", "|", "+", "+"],
        };
        let dim = paint::cell(self.screen.look.color, Paint::Dim);
        for (row, join) in [(layout.head, tee), (layout.foot, foot)] {
            for x in row.left()..row.right() {
                let is_join = layout.list.width > 0 && x == layout.list.right();
                self.put(row, x, if is_join { join } else { across }, dim);
            }
        }
        if layout.list.width > 0 {
            for y in layout.list.top()..layout.list.bottom() {
                let cell = Rect { x: layout.list.right(), y, width: 1, height: 1 };
                self.put(cell, cell.x, down, dim);
            }
            let name = format!(" {} ", self.list_name());
            let head = Rect { width: layout.list.width, ..layout.head };
            self.heading(head, Panel::List, &name);
        }
        let head = Rect { x: layout.stream.x, width: layout.stream.width, ..layout.head };
        let name = format!(" {} ", self.stream_name());
        self.heading(head, Panel::Stream, &name);
    }

    fn heading(&mut self, row: Rect, panel: Panel, name: &str) {
        let paint = if self.screen.focus == panel { Paint::Strong } else { Paint::None };
        self.painted(row, row.x + 1, paint, name);
    }

    fn list_name(&self) -> String {
        match self.screen.facts.work.kind {
            WorkKind::Iterations => "Iterations".to_owned(),
            WorkKind::Plan(counts) => format!("Plan {}/{}", counts.done, counts.total()),
            WorkKind::Tasks(progress) => {
                format!("Tasks {}/{}{}", progress.done, progress.total, progress.shortfall())
            }
        }
    }

    fn stream_name(&self) -> String {
        let scroll = &self.screen.scroll;
        let mut name = "Stream".to_owned();
        if scroll.filter() != Filter::All {
            name.push_str(&format!(": {}", scroll.filter().name()));
        }
        if !scroll.query().is_empty() {
            name.push_str(&format!(" /{}", scroll.query()));
        }
        if !scroll.follows() {
            name.push_str(&format!(", {} below, End follows", scroll.below()));
        }
        name
    }

    fn list(&mut self, area: Rect) {
        let height = usize::from(area.height);
        if area.width == 0 || height == 0 {
            return;
        }
        let work = &self.screen.facts.work;
        let first = self.screen.first_row(height);
        for (at, row) in work.from(first).take(height) {
            let y = area.y + u16::try_from(at - first).unwrap_or(u16::MAX);
            let line = Rect { y, height: 1, ..area };
            let is_current = work.current == Some(at);
            let mut style = paint::cell(self.screen.look.color, row.paint);
            if is_current {
                style = style.add_modifier(Modifier::BOLD);
            }
            let sign = if is_current { ">" } else { " " };
            let x = self.put(line, line.x, sign, style);
            let x = self.put(line, x, self.mark(row.mark), style);
            self.put(line, x + 1, &row.text, if is_current { style } else { CellStyle::new() });
        }
    }

    fn stream(&mut self, area: Rect) {
        let rows = self.screen.scroll.shown(self.screen.room());
        for (at, (_, row)) in rows.iter().enumerate() {
            let y = area.y + u16::try_from(at).unwrap_or(u16::MAX);
            self.row(Rect { y, height: 1, ..area }, row);
        }
    }

    fn row(&mut self, line: Rect, row: &Spans) {
        let mut x = line.x;
        for (paint, text) in row {
            x = self.painted(line, x, *paint, text);
        }
        let query = self.screen.scroll.query();
        if query.is_empty() {
            return;
        }
        // Highlights matches, also without colors.
        let text: String = row.iter().map(|(_, text)| text.as_str()).collect();
        let lower = text.to_lowercase();
        if lower.len() != text.len() {
            return;
        }
        for (at, found) in lower.match_indices(query) {
            let columns = |text: Option<&str>| text.map_or(0, CellWidth::cell_width);
            let before = columns(text.get(..at).filter(|before| !before.is_empty()));
            let wide = columns(text.get(at..at + found.len()));
            let area = Rect { x: line.x.saturating_add(before), width: wide, ..line };
            let style = CellStyle::new().add_modifier(Modifier::REVERSED);
            self.buffer.set_style(area.intersection(line), style);
        }
    }

    fn gates(&mut self, row: Rect) {
        let mut x = self.painted(row, row.x, Paint::Dim, "Gates ");
        if self.screen.facts.gates.is_empty() {
            self.painted(row, x, Paint::Warn, "none: nothing is checked but the agent's word");
        }
        let span = |took: Option<Millis>| took.map(|took| format!(" {}", time::compact(took)));
        for gate in &self.screen.facts.gates {
            let (sign, paint, took) = match gate.state {
                GateState::Pending => (self.mark(Mark::TaskPending), Paint::Dim, None),
                GateState::Running { since } => {
                    let took = format!(" {}", whole(self.screen.now.since(since)));
                    (self.spinner(), Paint::Act, Some(took))
                }
                GateState::Passed { took } => (self.mark(Mark::Pass), Paint::Good, span(took)),
                GateState::Failed { severity: Severity::Hard, took } => {
                    (self.mark(Mark::Fail), Paint::Bad, span(took))
                }
                GateState::Failed { severity: Severity::Soft, took } => {
                    (self.mark(Mark::Warn), Paint::Warn, span(took))
                }
            };
            x = self.painted(row, x, paint, &format!("{sign} "));
            let took = took.unwrap_or_default();
            x = self.painted(row, x, Paint::None, &format!("{}{took}  ", gate.name));
        }
    }

    fn budget(&mut self, row: Rect) {
        let facts = &self.screen.facts;
        let of = |limit: Option<String>| limit.map(|it| format!(" of {it}")).unwrap_or_default();
        let mut parts = Vec::new();
        if facts.last_iteration > 0 {
            parts.push(format!("iteration {}/{}", facts.iteration, facts.last_iteration));
        }
        let elapsed = whole(facts.elapsed(self.screen.now));
        parts.push(format!("{elapsed}{}", of(facts.time_limit.map(|it| it.to_string()))));
        let used = facts.used();
        if used.cost.is_some() || facts.cost_limit.is_some() {
            let cost = used.cost.unwrap_or_default();
            parts.push(format!("{cost}{}", of(facts.cost_limit.map(|it| it.to_string()))));
        }
        if used.tokens().0 > 0 || facts.token_limit.is_some() {
            let limit = of(facts.token_limit.map(|it| it.to_string()));
            parts.push(format!("{} tokens{limit}", used.tokens()));
        }
        parts.extend(facts.rest.map(|rest| format!("about {rest} to go")));
        let x = self.painted(row, row.x, Paint::Dim, "Budget ");
        self.painted(row, x, Paint::None, &parts.join("  "));
    }

    fn keys(&mut self, row: Rect) {
        let keys = match self.screen.deck {
            None => {
                "p pause  s stop  k skip  m note  f filter  / search  Tab panel  ? help  q leave"
            }
            Some(Deck { source: Source::Record, .. }) => {
                "Space play  Left Right iteration  + - speed  f filter  / search  ? help  q leave"
            }
            Some(Deck { source: Source::Live, .. }) => {
                "p pause  s stop  k skip  m note  Left Right iteration  End follow  ? help  q leave"
            }
        };
        self.painted(row, row.x, Paint::Dim, keys);
    }

    /// Draws a question or the line editor over the last row, on a screen of any size.
    fn prompt(&mut self) {
        let area = self.buffer.area;
        if area.height == 0 {
            return;
        }
        let row = Rect { y: area.bottom() - 1, height: 1, ..area };
        let question = match (&self.screen.mode, &self.screen.hint) {
            (Mode::Watch | Mode::Help, None) => return,
            (Mode::Watch | Mode::Help, Some(_)) if self.is_stale() => return,
            (Mode::Watch | Mode::Help, Some(hint)) => hint.clone(),
            (Mode::Ask(Question::Stop), _) => "Stop after this step? y/n".to_owned(),
            (Mode::Ask(Question::Skip(task)), _) => {
                format!("Skip {} for good? y/n", crate::tasks::name(task))
            }
            (Mode::Ask(Question::Leave), _) => {
                "Leave: s stops the run, l continues it in plain lines, Esc stays".to_owned()
            }
            (Mode::Note(editor), _) => return self.editor(row, "Note: ", editor),
            (Mode::Search(editor), _) => return self.editor(row, "/", editor),
        };
        self.wipe(row);
        self.painted(row, row.x, Paint::Warn, &question);
    }

    /// Returns whether the hint has been shown long enough. In a replay, where time runs at any
    /// speed, it stays until the next key.
    fn is_stale(&self) -> bool {
        let screen = self.screen;
        screen.deck.is_none() && screen.now.since(screen.pressed) > READING_TIME
    }

    /// Draws the line editor, with its cursor visible.
    fn editor(&mut self, row: Rect, label: &str, editor: &Editor) {
        self.wipe(row);
        let x = self.painted(row, row.x, Paint::Strong, label);
        let room = usize::from(row.right().saturating_sub(x)).saturating_sub(1);
        let (before, behind) = editor.parts();
        let mut start = 0;
        for (at, _) in before.char_indices() {
            if crate::safe::columns(&before[start..]) <= room {
                break;
            }
            start = at;
        }
        if crate::safe::columns(&before[start..]) > room {
            start = before.len();
        }
        let x = self.put(row, x, &before[start..], CellStyle::new());
        let cursor = CellStyle::new().add_modifier(Modifier::REVERSED);
        let under = crate::safe::cut(behind, 1);
        let (under, rest) =
            if under.is_empty() { (" ", behind) } else { behind.split_at(under.len()) };
        let x = self.put(row, x, under, cursor);
        self.put(row, x, rest, CellStyle::new());
    }

    fn wipe(&mut self, row: Rect) {
        for x in row.left()..row.right() {
            if let Some(cell) = self.buffer.cell_mut((x, row.y)) {
                cell.reset();
            }
        }
    }

    fn help(&mut self) {
        let lines = match self.screen.deck {
            None => HELP,
            Some(_) => REPLAY_HELP,
        };
        let area = self.buffer.area;
        let wide = lines.iter().map(|line| line.len()).max().unwrap_or(0) + 4;
        let width = u16::try_from(wide).unwrap_or(u16::MAX).min(area.width);
        let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX).min(area.height);
        let x = (area.width - width) / 2;
        let y = (area.height - height) / 2;
        for at in 0..height {
            let row = Rect { x, y: y + at, width, height: 1 };
            self.wipe(row);
            if let Some(line) = usize::from(at).checked_sub(1).and_then(|at| lines.get(at)) {
                self.put(row, row.x.saturating_add(2), line, CellStyle::new());
            }
            self.buffer.set_style(row, CellStyle::new().add_modifier(Modifier::REVERSED));
        }
    }
}

/// Returns a running duration in whole seconds.
fn whole(span: Millis) -> String {
    match span.0 / 1_000 {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds => Millis::from_secs(seconds).to_string(),
    }
}

const HELP: &[&str] = &[
    "p        pause after this step, or resume",
    "s        stop after this step (asks)",
    "k        skip the current task (asks)",
    "m        a note for the next agent",
    "q        leave the screen (asks)",
    "Ctrl-C   stop after this step; again: end it",
    "",
    "Up Down PgUp PgDn Home   scroll",
    "End      follow the newest line again",
    "Tab      the list, or the stream",
    "f, 1-5   all, text, tools, gates, errors",
    "/ n N    search, next, previous",
    "Ctrl-L   redraw",
    "",
    "any key closes this",
];

const REPLAY_HELP: &[&str] = &[
    "Space      play, or halt",
    "+ -        x1, x8, x64",
    "Right Left the next or the previous iteration",
    "q          leave",
    "",
    "Up Down PgUp PgDn Home   scroll",
    "End        follow the newest line again",
    "Tab        the list, or the stream",
    "f, 1-5     all, text, tools, gates, errors",
    "/ n N      search, next, previous",
    "",
    "any key closes this",
];
