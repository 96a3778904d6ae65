//! Draws the state of the screen into a buffer.
//!
//! Works for any size, down to zero. Only visible rows are processed. Not here: writing the buffer
//! to a terminal.

use ralph_model::event::WaitReason;
use ralph_model::gate::Severity;
use ralph_model::units::Millis;
use ratatui_core::buffer::{Buffer, CellWidth};
use ratatui_core::layout::Rect;
use ratatui_core::style::{Modifier, Style as CellStyle};

use crate::style::{LineMark, Marks, Paint};
use crate::time;
use crate::tui::editor::LineEditor;
use crate::tui::facts::{GateState, LiveStatus, PendingControl, WorkKind};
use crate::tui::screen::{
    ConfirmPrompt, InputMode, Panel, PlayState, ReplayControls, ReplaySource, ScreenLayout,
    ScreenState, Stopping,
};
use crate::tui::scrollback::{LineFilter, Spans};
use crate::tui::{paint, worker_panel};

/// Draws the screen.
pub(crate) fn draw_screen(screen: &ScreenState, buffer: &mut Buffer) {
    let layout = screen.layout();
    let mut pen = ScreenPainter { screen, buffer };
    pen.draw_title(layout.title);
    pen.draw_borders(&layout);
    pen.draw_list(layout.list);
    pen.draw_stream(layout.stream);
    pen.draw_workers(layout.workers);
    pen.draw_gates(layout.gates);
    pen.draw_budget(layout.budget);
    pen.draw_keys(layout.keys);
    pen.draw_prompt();
    if screen.mode == InputMode::Help {
        pen.draw_help();
    }
}

struct ScreenPainter<'a> {
    screen: &'a ScreenState,
    buffer: &'a mut Buffer,
}

/// How long a hint stays: enough to read a line.
const READING_TIME: Millis = Millis::from_secs(5);
/// One rotation takes a second.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const PLAIN_SPINNER: [&str; 4] = ["|", "/", "-", "\\"];

impl ScreenPainter<'_> {
    /// Writes a text at a column, and returns the column after it.
    fn put_text(&mut self, row: Rect, x: u16, text: &str, style: CellStyle) -> u16 {
        if row.height == 0 || x >= row.right() || row.y >= self.buffer.area.bottom() {
            return x;
        }
        let room = usize::from(row.right() - x);
        self.buffer.set_stringn(x, row.y, text, room, style).0
    }

    fn put_painted(&mut self, row: Rect, x: u16, paint: Paint, text: &str) -> u16 {
        let style = paint::to_cell_style(self.screen.style.color, paint);
        self.put_text(row, x, text, style)
    }

    fn spinner(&self) -> &'static str {
        let frame = usize::try_from(self.screen.now.0.rem_euclid(1_000) / 100).unwrap_or(0);
        match self.screen.style.marks {
            Marks::Emoji => SPINNER[frame % SPINNER.len()],
            Marks::Text => PLAIN_SPINNER[frame % PLAIN_SPINNER.len()],
        }
    }

    fn draw_title(&mut self, row: Rect) {
        let style = CellStyle::new().add_modifier(Modifier::REVERSED);
        if row.height > 0 {
            self.buffer.set_style(row, style);
        }
        let facts = &self.screen.facts;
        let mut parts = vec![self.status_text()];
        if let Some(role) = facts.role {
            let task = facts.task.as_ref().map(crate::tasks::format_task_id);
            parts.push(format!("{role} {}", task.unwrap_or_default()).trim_end().to_owned());
        }
        if !facts.run.is_empty() {
            parts.push(format!("run {}", facts.run));
        }
        self.put_text(row, row.x, &format!(" {}", parts.join("  ")), style);
    }

    fn status_text(&self) -> String {
        let screen = self.screen;
        let status = match (&screen.facts.status, screen.stopping) {
            (LiveStatus::Ended { how }, _) => format!("ended: {how}"),
            (_, Stopping::AfterThisStep) => "stopping after this step".to_owned(),
            (_, Stopping::Now) => "ending what is running".to_owned(),
            (LiveStatus::Beginning, _) => "starting".to_owned(),
            (LiveStatus::Running, _) => match screen.facts.pending {
                PendingControl::Nothing => "running".to_owned(),
                PendingControl::Pause => "pausing after this step".to_owned(),
                PendingControl::Stop => "stopping after this step".to_owned(),
            },
            (LiveStatus::Paused { since }, _) => {
                format!(
                    "paused for {}, p resumes",
                    format_whole_seconds(screen.now.elapsed_since(*since))
                )
            }
            (LiveStatus::Waiting { until, reason }, _) => {
                let at = screen.clock.format_minutes(*until, screen.now);
                let left = time::format_countdown(until.elapsed_since(screen.now));
                match reason {
                    WaitReason::UsageLimit => format!("usage limit: resumes at {at}, in {left}"),
                    WaitReason::Retry => format!("retry in {left}"),
                    WaitReason::Delay => format!("waiting {left}"),
                }
            }
        };
        match screen.replay {
            None if screen.facts.status == LiveStatus::Running => {
                format!("{} {status}", self.spinner())
            }
            None => status,
            Some(deck) => self.format_replay_status(deck, &status),
        }
    }

    fn format_replay_status(&self, deck: ReplayControls, status: &str) -> String {
        let at = self.screen.clock.format_seconds(deck.at);
        let is_over = matches!(self.screen.facts.status, LiveStatus::Ended { .. });
        match (deck.play, deck.source) {
            (PlayState::Playing, ReplaySource::Live) if is_over => status.to_owned(),
            (PlayState::Playing, ReplaySource::Record) => {
                format!("replay {} {at}  {status}", deck.speed.name())
            }
            (PlayState::Playing, ReplaySource::Live) => {
                format!("{} live  {status}", self.spinner())
            }
            (PlayState::Halted, _) => format!("replay halted {at}  {status}"),
            (PlayState::AtEnd, _) => status.to_owned(),
        }
    }

    /// Draws the lines around the body, with the names of the panels.
    fn draw_borders(&mut self, layout: &ScreenLayout) {
        let [across, down, tee, foot] = match self.screen.style.marks {
            Marks::Emoji => ["─", "│", "┬", "┴"],
            Marks::Text => ["-", "|", "+", "+"],
        };
        let dim = paint::to_cell_style(self.screen.style.color, Paint::Dim);
        for (row, join) in [(layout.head, tee), (layout.foot, foot)] {
            for x in row.left()..row.right() {
                let is_join = layout.list.width > 0 && x == layout.list.right();
                self.put_text(row, x, if is_join { join } else { across }, dim);
            }
        }
        if layout.list.width > 0 {
            for y in layout.list.top()..layout.list.bottom() {
                let cell = Rect { x: layout.list.right(), y, width: 1, height: 1 };
                self.put_text(cell, cell.x, down, dim);
            }
            let name = format!(" {} ", self.list_name());
            let head = Rect { width: layout.list.width, ..layout.head };
            self.draw_heading(head, Panel::List, &name);
        }
        let head = Rect { x: layout.stream.x, width: layout.stream.width, ..layout.head };
        let name = format!(" {} ", self.stream_name());
        self.draw_heading(head, Panel::Stream, &name);
    }

    fn draw_heading(&mut self, row: Rect, panel: Panel, name: &str) {
        let paint = if self.screen.focus == panel { Paint::Strong } else { Paint::None };
        self.put_painted(row, row.x + 1, paint, name);
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
        if scroll.filter() != LineFilter::All {
            name.push_str(&format!(": {}", scroll.filter().name()));
        }
        if !scroll.query().is_empty() {
            name.push_str(&format!(" /{}", scroll.query()));
        }
        if !scroll.is_following() {
            name.push_str(&format!(", {} below, End follows", scroll.lines_below()));
        }
        name
    }

    fn draw_list(&mut self, area: Rect) {
        let height = usize::from(area.height);
        if area.width == 0 || height == 0 {
            return;
        }
        let work = &self.screen.facts.work;
        let first = self.screen.first_row(height);
        for (at, row) in work.rows_from(first).take(height) {
            let y = area.y + u16::try_from(at - first).unwrap_or(u16::MAX);
            let line = Rect { y, height: 1, ..area };
            let is_current = work.current == Some(at);
            let mut style = paint::to_cell_style(self.screen.style.color, row.paint);
            if is_current {
                style = style.add_modifier(Modifier::BOLD);
            }
            let sign = if is_current { ">" } else { " " };
            let x = self.put_text(line, line.x, sign, style);
            let x = self.put_text(line, x, self.screen.style.format_mark(row.mark), style);
            self.put_text(
                line,
                x + 1,
                &row.text,
                if is_current { style } else { CellStyle::new() },
            );
        }
    }

    fn draw_stream(&mut self, area: Rect) {
        let rows = self.screen.scroll.visible_rows(self.screen.stream_size());
        for (at, row) in rows.iter().enumerate() {
            let y = area.y + u16::try_from(at).unwrap_or(u16::MAX);
            self.draw_row(Rect { y, height: 1, ..area }, row);
        }
    }

    fn draw_row(&mut self, line: Rect, row: &Spans) {
        let mut x = line.x;
        for (paint, text) in row {
            x = self.put_painted(line, x, *paint, text);
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

    fn draw_workers(&mut self, area: Rect) {
        let rows = worker_panel::list_rows(self.screen);
        for (y, row) in (area.top()..area.bottom()).zip(rows) {
            let line = Rect { y, height: 1, ..area };
            let sign = if row.is_chosen { ">" } else { " " };
            let x = self.put_painted(line, line.x, Paint::Strong, sign);
            self.put_painted(line, x, row.paint, &row.text);
        }
    }

    fn draw_gates(&mut self, row: Rect) {
        let mut x = self.put_painted(row, row.x, Paint::Dim, "Gates ");
        if self.screen.facts.gates.is_empty() {
            self.put_painted(
                row,
                x,
                Paint::Warn,
                "none: only the agent decides whether the work is done",
            );
        }
        let ScreenState { style, now, facts, .. } = self.screen;
        let span =
            |took: Option<Millis>| took.map(|took| format!(" {}", time::format_compact(took)));
        for gate in &facts.gates {
            let (sign, paint, took) = match gate.state {
                GateState::Pending => (style.format_mark(LineMark::TaskPending), Paint::Dim, None),
                GateState::Running { since } => {
                    let took = format!(" {}", format_whole_seconds(now.elapsed_since(since)));
                    (self.spinner(), Paint::Act, Some(took))
                }
                GateState::Passed { took } => {
                    (style.format_mark(LineMark::Pass), Paint::Good, span(took))
                }
                GateState::Failed { severity: Severity::Hard, took } => {
                    (style.format_mark(LineMark::Fail), Paint::Bad, span(took))
                }
                GateState::Failed { severity: Severity::Soft, took } => {
                    (style.format_mark(LineMark::Warn), Paint::Warn, span(took))
                }
            };
            x = self.put_painted(row, x, paint, &format!("{sign} "));
            let took = took.unwrap_or_default();
            x = self.put_painted(row, x, Paint::None, &format!("{}{took}  ", gate.name));
        }
    }

    fn draw_budget(&mut self, row: Rect) {
        let facts = &self.screen.facts;
        let of = |limit: Option<String>| limit.map(|it| format!(" of {it}")).unwrap_or_default();
        let mut parts = Vec::new();
        if facts.last_iteration > 0 {
            parts.push(format!("iteration {}/{}", facts.iteration, facts.last_iteration));
        }
        let elapsed = format_whole_seconds(facts.elapsed(self.screen.now));
        parts.push(format!("{elapsed}{}", of(facts.time_limit.map(|it| it.to_string()))));
        let used = facts.total_usage();
        if used.cost.is_some() || facts.cost_limit.is_some() {
            let cost = used.cost.unwrap_or_default();
            parts.push(format!("{cost}{}", of(facts.cost_limit.map(|it| it.to_string()))));
        }
        if used.tokens().0 > 0 || facts.token_limit.is_some() {
            let limit = of(facts.token_limit.map(|it| it.to_string()));
            parts.push(format!("{} tokens{limit}", used.tokens()));
        }
        parts.extend(facts.rest.map(|rest| format!("about {rest} to go")));
        let x = self.put_painted(row, row.x, Paint::Dim, "Budget ");
        self.put_painted(row, x, Paint::None, &parts.join("  "));
    }

    fn draw_keys(&mut self, row: Rect) {
        let keys = match self.screen.replay {
            None if self.screen.facts.parallel.is_some() => {
                "p pause  s stop  w worker  k skip  m note  f filter  / search  ? help  q leave"
            }
            None => {
                "p pause  s stop  k skip  m note  f filter  / search  Tab panel  ? help  q leave"
            }
            Some(ReplayControls { source: ReplaySource::Record, .. }) => {
                "Space play  Left Right iteration  + - speed  f filter  / search  ? help  q leave"
            }
            Some(ReplayControls { source: ReplaySource::Live, .. }) => {
                "p pause  s stop  k skip  m note  Left Right iteration  End follow  ? help  q leave"
            }
        };
        self.put_painted(row, row.x, Paint::Dim, keys);
    }

    /// Draws a question or the line editor over the last row, on a screen of any size.
    fn draw_prompt(&mut self) {
        let area = self.buffer.area;
        if area.height == 0 {
            return;
        }
        let row = Rect { y: area.bottom() - 1, height: 1, ..area };
        let question = match (&self.screen.mode, &self.screen.hint) {
            (InputMode::Watch | InputMode::Help, None) => return,
            (InputMode::Watch | InputMode::Help, Some(_)) if self.is_hint_stale() => return,
            (InputMode::Watch | InputMode::Help, Some(hint)) => hint.clone(),
            (InputMode::Ask(ConfirmPrompt::Stop), _) => "Stop after this step? y/n".to_owned(),
            (InputMode::Ask(ConfirmPrompt::Skip(task)), _) => {
                format!("Skip {} for good? y/n", crate::tasks::format_task_id(task))
            }
            (InputMode::Ask(ConfirmPrompt::Leave), _) => {
                "Leave: s stops the run, l continues it in plain lines, Esc stays".to_owned()
            }
            (InputMode::Note(editor), _) => return self.draw_editor(row, "Note: ", editor),
            (InputMode::Search(editor), _) => return self.draw_editor(row, "/", editor),
        };
        self.clear_row(row);
        self.put_painted(row, row.x, Paint::Warn, &question);
    }

    /// Returns whether the hint has been shown long enough. In a replay, where time runs at any
    /// speed, it stays until the next key.
    fn is_hint_stale(&self) -> bool {
        let screen = self.screen;
        screen.replay.is_none() && screen.now.elapsed_since(screen.pressed) > READING_TIME
    }

    /// Draws the line editor, with its cursor visible.
    fn draw_editor(&mut self, row: Rect, label: &str, editor: &LineEditor) {
        self.clear_row(row);
        let x = self.put_painted(row, row.x, Paint::Strong, label);
        let room = usize::from(row.right().saturating_sub(x)).saturating_sub(1);
        let (before, behind) = editor.parts();
        let mut start = 0;
        for (at, _) in before.char_indices() {
            if crate::sanitize::count_columns(&before[start..]) <= room {
                break;
            }
            start = at;
        }
        if crate::sanitize::count_columns(&before[start..]) > room {
            start = before.len();
        }
        let x = self.put_text(row, x, &before[start..], CellStyle::new());
        let cursor = CellStyle::new().add_modifier(Modifier::REVERSED);
        let under = crate::sanitize::cut_chars(behind, 1);
        let (under, rest) =
            if under.is_empty() { (" ", behind) } else { behind.split_at(under.len()) };
        let x = self.put_text(row, x, under, cursor);
        self.put_text(row, x, rest, CellStyle::new());
    }

    fn clear_row(&mut self, row: Rect) {
        for x in row.left()..row.right() {
            if let Some(cell) = self.buffer.cell_mut((x, row.y)) {
                cell.reset();
            }
        }
    }

    fn draw_help(&mut self) {
        let lines = match self.screen.replay {
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
            self.clear_row(row);
            if let Some(line) = usize::from(at).checked_sub(1).and_then(|at| lines.get(at)) {
                self.put_text(row, row.x.saturating_add(2), line, CellStyle::new());
            }
            self.buffer.set_style(row, CellStyle::new().add_modifier(Modifier::REVERSED));
        }
    }
}

/// Returns a running duration in whole seconds.
fn format_whole_seconds(span: Millis) -> String {
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
    "w        choose a worker for k and m; Enter: how to see its log",
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
