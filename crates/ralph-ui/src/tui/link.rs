//! Connects the threads of a run and its screen without blocking either.
//!
//! Lines are dropped and counted if the screen is too slow; facts are replaced, because only the
//! newest matter. Not here: what either thread does.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::tui::facts::Facts;
use crate::tui::screen::Stopping;
use crate::tui::scroll::Kind;

/// A handle to the screen of a run. Clones refer to the same screen.
#[derive(Debug, Clone, Default)]
pub struct Screen {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    news: Mutex<News>,
    changed: Condvar,
}

/// Updates that the screen has not taken yet.
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

/// What the screen must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Order {
    #[default]
    Show,
    /// Release the terminal temporarily.
    StepAside,
    /// Release the terminal permanently.
    Leave,
}

/// Where the screen is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Presence {
    /// Not started.
    #[default]
    None,
    Shown,
    /// Temporarily left.
    Aside,
    /// Permanently left.
    Gone,
}

/// Fills many screens; more would only scroll past.
const MOST_BYTES: usize = 1 << 20;

impl Screen {
    /// Returns whether the screen uses the terminal, so that no other code may write to it.
    pub fn is_shown(&self) -> bool {
        match self.lock().presence {
            Presence::Shown => true,
            Presence::None | Presence::Aside | Presence::Gone => false,
        }
    }

    /// Returns whether the screen was left permanently.
    pub fn is_gone(&self) -> bool {
        self.lock().presence == Presence::Gone
    }

    /// Leaves the screen permanently, and waits for that up to `patience`.
    pub fn leave(&self, patience: Duration) {
        self.order(Order::Leave, Presence::Gone, patience);
    }

    /// Leaves the screen temporarily, and waits for that up to `patience`.
    pub fn step_aside(&self, patience: Duration) {
        self.order(Order::StepAside, Presence::Aside, patience);
    }

    /// Shows the screen again as soon as the terminal is available.
    pub fn come_back(&self) {
        let mut news = self.lock();
        if news.order == Order::StepAside {
            news.order = Order::Show;
            self.shared.changed.notify_all();
        }
    }

    /// Marks the screen as left, after other code restored the terminal.
    pub fn is_left(&self) {
        let mut news = self.lock();
        (news.order, news.presence) = (Order::Leave, Presence::Gone);
        self.shared.changed.notify_all();
    }

    /// Shows that the run will stop after this step.
    pub fn stops_after_this_step(&self) {
        self.lock().stopping = Stopping::AfterThisStep;
    }

    /// Shows that running processes are being ended.
    pub fn stops_now(&self) {
        self.lock().stopping = Stopping::Now;
    }

    /// Sets the kind of the following lines.
    pub(super) fn set_kind(&self, kind: Kind) {
        self.lock().kind = kind;
    }

    /// Passes new facts to the screen.
    pub(super) fn put_facts(&self, facts: Facts) {
        self.lock().facts = Some(facts);
    }

    /// Takes all pending updates.
    pub(super) fn take(&self) -> News {
        let mut news = self.lock();
        let (kind, order, presence, stopping) =
            (news.kind, news.order, news.presence, news.stopping);
        std::mem::replace(&mut *news, News { kind, stopping, order, presence, ..News::default() })
    }

    /// Returns what the screen must do.
    pub(super) fn ordered(&self) -> Order {
        self.lock().order
    }

    /// Waits up to `patience` until the order is another one.
    pub(super) fn wait_while(&self, order: Order, patience: Duration) {
        let waits = |news: &mut News| news.order == order;
        let news = self.lock();
        drop(self.shared.changed.wait_timeout_while(news, patience, waits));
    }

    /// Sets where the screen is now.
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

    /// Ignores poisoning: a panic elsewhere leaves the data valid.
    fn lock(&self) -> MutexGuard<'_, News> {
        self.shared.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl News {
    /// Returns whether the run is stopping.
    pub(super) fn stopping(&self) -> Stopping {
        self.stopping
    }
}

/// Sends lines of the stream to the screen.
impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push(None, &String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A writer for messages outside the view: to the screen while it is shown, else to the terminal.
#[derive(Debug)]
pub struct Aside<W> {
    screen: Screen,
    inner: W,
}

impl<W: Write> Aside<W> {
    /// Returns a writer that prefers the screen over `inner`.
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
