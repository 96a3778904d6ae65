//! Between a run and its screen: two threads that never wait for each other.
//!
//! Lines are dropped and counted where the screen cannot follow; facts are not, for only the newest
//! counts. Not here: what is done at either end.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::tui::facts::Facts;
use crate::tui::screen::Stopping;
use crate::tui::scroll::Kind;

/// A handle on the screen of a run. Clones mean the same screen.
#[derive(Debug, Clone, Default)]
pub struct Screen {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    news: Mutex<News>,
    changed: Condvar,
}

/// What the screen has not seen yet.
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) pieces: VecDeque<(Kind, String)>,
    pub(super) facts: Option<Facts>,
    pub(super) lost: u64,
    bytes: usize,
    kind: Kind,
    stopping: Stopping,
    order: Order,
    presence: Presence,
}

/// What the screen is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Order {
    /// Be there.
    #[default]
    Show,
    /// Give the terminal back for a while.
    StepAside,
    /// Give it back for good.
    Leave,
}

/// Where the screen is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Presence {
    /// It has not begun.
    #[default]
    None,
    /// On the terminal.
    Shown,
    /// Aside.
    Aside,
    /// Gone for good.
    Gone,
}

/// What fits on many screens; more would only be scrolled by.
const MOST_BYTES: usize = 1 << 20;

impl Screen {
    /// Returns whether the terminal is the screen's, so that nobody else may write to it.
    pub fn is_shown(&self) -> bool {
        match self.lock().presence {
            Presence::Shown => true,
            Presence::None | Presence::Aside | Presence::Gone => false,
        }
    }

    /// Returns whether there is no screen any more.
    pub fn is_gone(&self) -> bool {
        self.lock().presence == Presence::Gone
    }

    /// Gives the terminal back for good, and waits for that as long as `patience`.
    pub fn leave(&self, patience: Duration) {
        self.order(Order::Leave, Presence::Gone, patience);
    }

    /// Gives the terminal back for a while, and waits for that as long as `patience`.
    pub fn step_aside(&self, patience: Duration) {
        self.order(Order::StepAside, Presence::Aside, patience);
    }

    /// Takes the terminal again once it can be had.
    pub fn come_back(&self) {
        let mut news = self.lock();
        if news.order == Order::StepAside {
            news.order = Order::Show;
            self.shared.changed.notify_all();
        }
    }

    /// Says that the terminal was given back by somebody else, in a hurry.
    pub fn is_left(&self) {
        let mut news = self.lock();
        (news.order, news.presence) = (Order::Leave, Presence::Gone);
        self.shared.changed.notify_all();
    }

    /// Shows that the run is going to stop.
    pub fn stops_after_this_step(&self) {
        self.lock().stopping = Stopping::AfterThisStep;
    }

    /// Shows that what is running is being ended.
    pub fn stops_now(&self) {
        self.lock().stopping = Stopping::Now;
    }

    /// Sets what the lines to come are about.
    pub(super) fn set_kind(&self, kind: Kind) {
        self.lock().kind = kind;
    }

    /// Hands over facts.
    pub(super) fn put_facts(&self, facts: Facts) {
        self.lock().facts = Some(facts);
    }

    /// Takes everything that is new.
    pub(super) fn take(&self) -> News {
        let mut news = self.lock();
        let (kind, order, presence, stopping) =
            (news.kind, news.order, news.presence, news.stopping);
        std::mem::replace(&mut *news, News { kind, stopping, order, presence, ..News::default() })
    }

    /// Returns what to do.
    pub(super) fn ordered(&self) -> Order {
        self.lock().order
    }

    /// Waits a moment for another order than this one.
    pub(super) fn wait_while(&self, order: Order, patience: Duration) {
        let waits = |news: &mut News| news.order == order;
        let news = self.lock();
        drop(self.shared.changed.wait_timeout_while(news, patience, waits));
    }

    /// Says where the screen is now.
    pub(super) fn is_now(&self, presence: Presence) {
        self.lock().presence = presence;
        self.shared.changed.notify_all();
    }

    fn order(&self, order: Order, until: Presence, patience: Duration) {
        let mut news = self.lock();
        match news.presence {
            Presence::None | Presence::Gone => return,
            Presence::Shown | Presence::Aside => {}
        }
        news.order = order;
        self.shared.changed.notify_all();
        let waits = |news: &mut News| news.presence != until && news.presence != Presence::Gone;
        drop(self.shared.changed.wait_timeout_while(news, patience, waits));
    }

    fn push(&self, kind: Option<Kind>, text: &str) {
        let mut news = self.lock();
        if news.bytes.saturating_add(text.len()) > MOST_BYTES {
            news.lost += text.matches('\n').count() as u64;
            return;
        }
        news.bytes += text.len();
        let kind = kind.unwrap_or(news.kind);
        match news.pieces.back_mut() {
            Some((last, sum)) if *last == kind => sum.push_str(text),
            Some(_) | None => news.pieces.push_back((kind, text.to_owned())),
        }
    }

    /// A panic elsewhere leaves the news as they were; they are still good.
    fn lock(&self) -> MutexGuard<'_, News> {
        self.shared.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl News {
    /// Returns whether the run is going to stop.
    pub(super) fn stopping(&self) -> Stopping {
        self.stopping
    }
}

/// Lines of the stream go to the screen.
impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push(None, &String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A writer for all that is said beside the view: to the screen as long as there is one, and to the
/// terminal otherwise.
#[derive(Debug)]
pub struct Aside<W> {
    screen: Screen,
    inner: W,
}

impl<W: Write> Aside<W> {
    /// Returns a writer beside a screen.
    pub fn new(screen: Screen, inner: W) -> Self {
        Self { screen, inner }
    }
}

impl<W: Write> Write for Aside<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.screen.is_shown() {
            self.screen.push(Some(Kind::Warning), &String::from_utf8_lossy(bytes));
            return Ok(bytes.len());
        }
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
