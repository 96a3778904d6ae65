//! Connects the threads of a run and its screen without blocking either.
//!
//! Lines are dropped and counted if the screen is too slow; facts are replaced, because only the
//! newest matter. Not here: what either thread does.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::tui::facts::ScreenFacts;
use crate::tui::screen::Stopping;
use crate::tui::scrollback::LineKind;

/// A handle to the screen of a run. Clones refer to the same screen.
#[derive(Debug, Clone, Default)]
pub struct ScreenHandle {
    shared: Arc<SharedUpdates>,
}

#[derive(Debug, Default)]
struct SharedUpdates {
    updates: Mutex<ScreenUpdates>,
    changed: Condvar,
}

/// Updates that the screen has not taken yet.
#[derive(Debug, Default)]
pub(super) struct ScreenUpdates {
    pub(super) pieces: VecDeque<(LineKind, String)>,
    pub(super) facts: Option<ScreenFacts>,
    pub(super) lost: u64,
    bytes: usize,
    kind: LineKind,
    stopping: Stopping,
    order: ScreenOrder,
    presence: Presence,
}

/// What the screen must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ScreenOrder {
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

impl ScreenHandle {
    /// Returns whether the screen uses the terminal, so that no other code may write to it.
    pub fn is_shown(&self) -> bool {
        match self.lock_updates().presence {
            Presence::Shown => true,
            Presence::None | Presence::Aside | Presence::Gone => false,
        }
    }

    /// Returns whether the screen was left permanently.
    pub fn is_gone(&self) -> bool {
        self.lock_updates().presence == Presence::Gone
    }

    /// Leaves the screen permanently, and waits for that up to `patience`.
    pub fn leave_screen(&self, patience: Duration) {
        self.send_order(ScreenOrder::Leave, Presence::Gone, patience);
    }

    /// Leaves the screen temporarily, and waits for that up to `patience`.
    pub fn step_aside(&self, patience: Duration) {
        self.send_order(ScreenOrder::StepAside, Presence::Aside, patience);
    }

    /// Shows the screen again as soon as the terminal is available.
    pub fn show_again(&self) {
        let mut news = self.lock_updates();
        if news.order == ScreenOrder::StepAside {
            news.order = ScreenOrder::Show;
            self.shared.changed.notify_all();
        }
    }

    /// Marks the screen as left, after other code restored the terminal.
    pub fn mark_left(&self) {
        let mut news = self.lock_updates();
        (news.order, news.presence) = (ScreenOrder::Leave, Presence::Gone);
        self.shared.changed.notify_all();
    }

    /// Shows that the run will stop after this step.
    pub fn show_stopping(&self) {
        self.lock_updates().stopping = Stopping::AfterThisStep;
    }

    /// Shows that running processes are being ended.
    pub fn show_ending(&self) {
        self.lock_updates().stopping = Stopping::Now;
    }

    /// Sets the kind of the following lines.
    pub(super) fn set_kind(&self, kind: LineKind) {
        self.lock_updates().kind = kind;
    }

    /// Passes new facts to the screen.
    pub(super) fn put_facts(&self, facts: ScreenFacts) {
        self.lock_updates().facts = Some(facts);
    }

    /// Takes all pending updates.
    pub(super) fn take_updates(&self) -> ScreenUpdates {
        let mut news = self.lock_updates();
        let (kind, order, presence, stopping) =
            (news.kind, news.order, news.presence, news.stopping);
        std::mem::replace(
            &mut *news,
            ScreenUpdates { kind, stopping, order, presence, ..ScreenUpdates::default() },
        )
    }

    /// Returns what the screen must do.
    pub(super) fn current_order(&self) -> ScreenOrder {
        self.lock_updates().order
    }

    /// Waits up to `patience` until the order is another one.
    pub(super) fn wait_while(&self, order: ScreenOrder, patience: Duration) {
        let waits = |news: &mut ScreenUpdates| news.order == order;
        let news = self.lock_updates();
        drop(self.shared.changed.wait_timeout_while(news, patience, waits));
    }

    /// Sets where the screen is now.
    pub(super) fn set_presence(&self, presence: Presence) {
        self.lock_updates().presence = presence;
        self.shared.changed.notify_all();
    }

    fn send_order(&self, order: ScreenOrder, until: Presence, patience: Duration) {
        let mut news = self.lock_updates();
        match news.presence {
            Presence::None | Presence::Gone => return,
            Presence::Shown | Presence::Aside => {}
        }
        news.order = order;
        self.shared.changed.notify_all();
        let waits =
            |news: &mut ScreenUpdates| news.presence != until && news.presence != Presence::Gone;
        drop(self.shared.changed.wait_timeout_while(news, patience, waits));
    }

    fn push_text(&self, kind: Option<LineKind>, text: &str) {
        let mut news = self.lock_updates();
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
    fn lock_updates(&self) -> MutexGuard<'_, ScreenUpdates> {
        self.shared.updates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ScreenUpdates {
    /// Returns whether the run is stopping.
    pub(super) fn stopping(&self) -> Stopping {
        self.stopping
    }
}

/// Sends lines of the stream to the screen.
impl Write for ScreenHandle {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push_text(None, &String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A writer for messages outside the view: to the screen while it is shown, else to the terminal.
#[derive(Debug)]
pub struct SideWriter<W> {
    screen: ScreenHandle,
    inner: W,
}

impl<W: Write> SideWriter<W> {
    /// Returns a writer that prefers the screen over `inner`.
    pub fn new(screen: ScreenHandle, inner: W) -> Self {
        Self { screen, inner }
    }
}

impl<W: Write> Write for SideWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.screen.is_shown() {
            self.screen.push_text(Some(LineKind::Warning), &String::from_utf8_lossy(bytes));
            return Ok(bytes.len());
        }
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
