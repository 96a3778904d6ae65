//! The state of the screen: content, input, and layout.
//!
//! Plain data. Not here: handling keys (`key_actions`), and drawing (`draw`).

use ralph_model::ids::TaskId;
use ralph_model::units::{Millis, Timestamp};
use ratatui_core::layout::{Rect, Size};

use crate::style::Style;
use crate::time::WallClock;
use crate::tui::editor::LineEditor;
use crate::tui::facts::ScreenFacts;
use crate::tui::scrollback::{LineKind, PanelSize, Scrollback};
use crate::tui::worker_panel;

/// The state of the screen.
#[derive(Debug)]
pub(crate) struct ScreenState {
    pub(crate) style: Style,
    pub(crate) clock: WallClock,
    pub(crate) facts: ScreenFacts,
    pub(crate) scroll: Scrollback,
    pub(crate) mode: InputMode,
    pub(crate) focus: Panel,
    /// The first row of the list on the left; `None` keeps the current row visible.
    pub(crate) list_top: Option<usize>,
    /// The message about the last key.
    pub(crate) hint: Option<String>,
    /// When that key was pressed.
    pub(crate) pressed: Timestamp,
    pub(crate) stopping: Stopping,
    pub(crate) size: Size,
    pub(crate) now: Timestamp,
    /// The task of the worker that keys act on.
    pub(crate) chosen: Option<TaskId>,
    /// Only in a replay.
    pub(crate) replay: Option<ReplayControls>,
}

/// Which input mode is active.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum InputMode {
    /// Keys control the run and the view.
    #[default]
    Watch,
    Help,
    Ask(ConfirmPrompt),
    Note(LineEditor),
    Search(LineEditor),
}

/// A confirmation prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConfirmPrompt {
    Stop,
    Skip(TaskId),
    Leave,
}

/// The panel that the arrow keys scroll.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Panel {
    List,
    #[default]
    Stream,
}

/// Whether the run is stopping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Stopping {
    #[default]
    No,
    AfterThisStep,
    Now,
}

/// The state of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplayControls {
    pub(crate) play: PlayState,
    pub(crate) speed: ReplaySpeed,
    /// The replayed time of the run.
    pub(crate) at: Timestamp,
    pub(crate) source: ReplaySource,
}

/// Whether the replay is playing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlayState {
    Playing,
    Halted,
    AtEnd,
}

/// The source of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplaySource {
    /// A run that has ended.
    Record,
    /// A run that another process drives.
    Live,
}

/// The speed of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ReplaySpeed {
    #[default]
    X1,
    X8,
    X64,
}

impl ReplaySpeed {
    /// Returns how much of the run's time passes in a span.
    pub(crate) fn scale_span(self, span: Millis) -> Millis {
        Millis(span.0.saturating_mul(match self {
            Self::X1 => 1,
            Self::X8 => 8,
            Self::X64 => 64,
        }))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::X1 => "x1",
            Self::X8 => "x8",
            Self::X64 => "x64",
        }
    }

    pub(crate) fn faster(self) -> Self {
        match self {
            Self::X1 => Self::X8,
            Self::X8 | Self::X64 => Self::X64,
        }
    }

    pub(crate) fn slower(self) -> Self {
        match self {
            Self::X1 | Self::X8 => Self::X1,
            Self::X64 => Self::X8,
        }
    }
}

impl ScreenState {
    /// Returns an empty screen.
    pub(crate) fn new(style: Style, clock: WallClock) -> Self {
        let now = (clock.now)();
        Self {
            style,
            clock,
            facts: ScreenFacts::default(),
            scroll: Scrollback::default(),
            mode: InputMode::default(),
            focus: Panel::default(),
            list_top: None,
            hint: None,
            pressed: now,
            stopping: Stopping::default(),
            size: Size::default(),
            now,
            chosen: None,
            replay: None,
        }
    }

    /// Adds a line that reports how many lines of the stream were dropped.
    pub(crate) fn report_loss(&mut self, lines: u64) {
        let count = crate::writer::group_thousands(lines);
        let s = if lines == 1 { "" } else { "s" };
        self.scroll.push_line(LineKind::Ralph, &format!("... {count} line{s} not shown"));
    }

    /// Returns the areas of the screen.
    pub(crate) fn layout(&self) -> ScreenLayout {
        ScreenLayout::for_size(self.size, worker_panel::count_rows(&self.facts))
    }

    /// Returns the size of the stream panel.
    pub(crate) fn stream_size(&self) -> PanelSize {
        let stream = self.layout().stream;
        PanelSize { width: usize::from(stream.width), height: usize::from(stream.height) }
    }

    /// Returns the first visible row of the list on the left, for this height.
    pub(crate) fn first_row(&self, height: usize) -> usize {
        let work = &self.facts.work;
        let last = work.len().saturating_sub(height);
        let top = match (self.list_top, work.current) {
            (Some(top), _) => top,
            // Keeps some finished rows above it.
            (None, Some(current)) => current.saturating_sub(height / 3),
            // Shows the last finished and the next rows.
            (None, None) => work.rows.len().saturating_sub((height / 3).max(1)),
        };
        top.min(last)
    }
}

/// The areas of the screen. An area without room has no rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ScreenLayout {
    pub(crate) title: Rect,
    /// The line between title and body, with the names of the panels.
    pub(crate) head: Rect,
    pub(crate) list: Rect,
    pub(crate) stream: Rect,
    /// The line below the body.
    pub(crate) foot: Rect,
    /// Workers and merge queue, below the body.
    pub(crate) workers: Rect,
    pub(crate) gates: Rect,
    pub(crate) budget: Rect,
    pub(crate) keys: Rect,
}

/// Below this, there is room only for title, stream and budget.
const LEAST_HEIGHT: u16 = 10;
/// Below this, list and stream do not fit side by side.
const LEAST_WIDTH: u16 = 60;

impl ScreenLayout {
    /// Computes the layout for any size. The rows about workers get at most a third of it.
    pub(crate) fn for_size(size: Size, worker_rows: usize) -> Self {
        let Size { width, height } = size;
        let is_whole = height >= LEAST_HEIGHT && width >= 24;
        let rows = |wanted: bool| u16::from(wanted);
        let heights = [
            rows(height >= 1),
            rows(is_whole),
            rows(is_whole),
            rows(is_whole),
            rows(height >= 3),
            rows(height >= 6),
            if is_whole {
                u16::try_from(worker_rows).unwrap_or(u16::MAX).min(height / 3)
            } else {
                0
            },
        ];
        let body = height.saturating_sub(heights.iter().sum());
        let [title, head, foot, gates, budget, keys, workers] = heights;
        let mut y = 0;
        let mut take = |height: u16| {
            let row = Rect { x: 0, y, width, height };
            y += height;
            row
        };
        let (title, head, body) = (take(title), take(head), take(body));
        let (foot, workers) = (take(foot), take(workers));
        let (gates, budget, keys) = (take(gates), take(budget), take(keys));
        let list_width =
            if is_whole && width >= LEAST_WIDTH { (width / 3).clamp(22, 48) } else { 0 };
        let list = Rect { width: list_width, ..body };
        // One column for the line between the two.
        let gap = if list_width > 0 { list_width + 1 } else { 0 };
        let stream = Rect { x: gap, width: width - gap, ..body };
        Self { title, head, list, stream, foot, workers, gates, budget, keys }
    }
}
