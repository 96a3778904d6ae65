//! The state of the screen: what is shown, what is being typed, and where everything goes.
//!
//! Plain data. Not here: what keys do to it (`press`), and drawing it (`draw`).

use ralph_core::ids::TaskId;
use ralph_core::units::{Millis, Timestamp};
use ratatui_core::layout::{Rect, Size};

use crate::style::{Color, Marks, Style};
use crate::time::WallClock;
use crate::tui::editor::Editor;
use crate::tui::facts::Facts;
use crate::tui::scroll::{Kind, Room, Scroll};

/// How the screen looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// Whether there are colors.
    pub(crate) color: Color,
    /// How marks and lines are drawn.
    pub(crate) marks: Marks,
}

impl From<&Style> for Look {
    fn from(style: &Style) -> Self {
        Self { color: style.color, marks: style.marks }
    }
}

/// The state of the screen.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) look: Look,
    pub(crate) clock: WallClock,
    pub(crate) facts: Facts,
    pub(crate) scroll: Scroll,
    pub(crate) mode: Mode,
    pub(crate) focus: Panel,
    /// The first row of the list on the left; none where the current one is kept in sight.
    pub(crate) list_top: Option<usize>,
    /// What there is to say of the last key.
    pub(crate) hint: Option<String>,
    /// When that key was pressed.
    pub(crate) pressed: Timestamp,
    pub(crate) stopping: Stopping,
    pub(crate) size: Size,
    pub(crate) now: Timestamp,
    /// Only where a run is shown again.
    pub(crate) deck: Option<Deck>,
}

/// What keys are about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Mode {
    /// The run.
    #[default]
    Watch,
    /// The help is open.
    Help,
    /// A question is open.
    Ask(Question),
    /// A note is being typed.
    Note(Editor),
    /// What to search for is being typed.
    Search(Editor),
}

/// A question that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Question {
    Stop,
    Skip(TaskId),
    Leave,
}

/// What arrows move in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Panel {
    List,
    #[default]
    Stream,
}

/// Whether the run was asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Stopping {
    #[default]
    No,
    AfterThisStep,
    Now,
}

/// How a run is shown again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Deck {
    pub(crate) play: Play,
    pub(crate) speed: Speed,
    /// The moment of the run that is shown.
    pub(crate) at: Timestamp,
    /// Whether the run is going on elsewhere.
    pub(crate) source: Source,
}

/// Whether the show goes on by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Play {
    On,
    Halted,
    /// All has been shown.
    AtEnd,
}

/// Where a run that is shown again comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// It is over.
    Record,
    /// Another process drives it.
    Live,
}

/// How fast a run is shown again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Speed {
    #[default]
    X1,
    X8,
    X64,
}

impl Speed {
    /// Returns how much of the run's time goes by in a span.
    pub(crate) fn of(self, span: Millis) -> Millis {
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

impl Screen {
    /// Returns the screen before anything has happened.
    pub(crate) fn new(look: Look, clock: WallClock) -> Self {
        let now = (clock.now)();
        Self {
            look,
            clock,
            facts: Facts::default(),
            scroll: Scroll::default(),
            mode: Mode::default(),
            focus: Panel::default(),
            list_top: None,
            hint: None,
            pressed: now,
            stopping: Stopping::default(),
            size: Size::default(),
            now,
            deck: None,
        }
    }

    /// Says how many lines of the stream could not be shown.
    pub(crate) fn admit_loss(&mut self, lines: u64) {
        let count = crate::writer::thousands(lines);
        let s = if lines == 1 { "" } else { "s" };
        self.scroll.push_line(Kind::Ralph, &format!("... {count} line{s} not shown"));
    }

    /// Returns the room of the lines.
    pub(crate) fn room(&self) -> Room {
        let stream = Layout::of(self.size).stream;
        Room { width: usize::from(stream.width), height: usize::from(stream.height) }
    }

    /// Returns the first row of the list on the left that is shown in this many rows.
    pub(crate) fn first_row(&self, height: usize) -> usize {
        let work = &self.facts.work;
        let last = work.len().saturating_sub(height);
        let top = match (self.list_top, work.current) {
            (Some(top), _) => top,
            // With some of what is done above it.
            (None, Some(current)) => current.saturating_sub(height / 3),
            // What was done last, and what is next.
            (None, None) => work.rows.len().saturating_sub((height / 3).max(1)),
        };
        top.min(last)
    }
}

/// Where everything goes. What there is no room for has no rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Layout {
    pub(crate) title: Rect,
    /// The line between title and body, with the names of the panels.
    pub(crate) head: Rect,
    pub(crate) list: Rect,
    pub(crate) stream: Rect,
    /// The line below the body.
    pub(crate) foot: Rect,
    pub(crate) gates: Rect,
    pub(crate) budget: Rect,
    pub(crate) keys: Rect,
}

/// Below this, title, stream and budget are all there is room for.
const LEAST_HEIGHT: u16 = 10;
/// Below this, a list beside the stream would leave too little of both.
const LEAST_WIDTH: u16 = 60;

impl Layout {
    /// Lays out a screen of any size.
    pub(crate) fn of(size: Size) -> Self {
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
        ];
        let body = height.saturating_sub(heights.iter().sum());
        let [title, head, foot, gates, budget, keys] = heights;
        let mut y = 0;
        let mut take = |height: u16| {
            let row = Rect { x: 0, y, width, height };
            y += height;
            row
        };
        let (title, head, body) = (take(title), take(head), take(body));
        let (foot, gates, budget, keys) = (take(foot), take(gates), take(budget), take(keys));
        let beside = if is_whole && width >= LEAST_WIDTH { (width / 3).clamp(22, 48) } else { 0 };
        let list = Rect { width: beside, ..body };
        // A column for the line between the two.
        let gap = if beside > 0 { beside + 1 } else { 0 };
        let stream = Rect { x: gap, width: width - gap, ..body };
        Self { title, head, list, stream, foot, gates, budget, keys }
    }
}
