//! The thread of a screen: handles updates and keys, draws, and always restores the terminal.
//!
//! Not here: drawing (`draw`) and key handling (`key_actions`).

use std::io;
use std::time::{Duration, Instant};

use ralph_core::control::Wish;
use ratatui_core::backend::Backend as _;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::{Rect, Size};
use ratatui_crossterm::CrosstermBackend;

use crate::tui::draw::draw;
use crate::tui::facts::{ReadPlan, WholePlan};
use crate::tui::keys::Keyboard;
use crate::tui::link::{Order, Presence, Screen as Link};
use crate::tui::press::{Deed, press};
use crate::tui::screen::Screen;
use crate::tui::scroll::Kind;

/// An interactive terminal.
///
/// Dropping it restores the terminal, also in a panic.
pub trait Device: std::marker::Send {
    /// Enters full-screen mode: alternate screen, no echo, unbuffered keys.
    fn enter(&mut self) -> io::Result<()>;

    /// Restores the terminal. May be called at any time, and more than once.
    fn leave(&mut self);

    /// Returns whether this process may use the terminal; a background job may not.
    fn is_ours(&self) -> bool;

    /// Returns columns and rows.
    fn size(&self) -> Option<(u16, u16)>;

    /// Returns whether the terminal was resized since the last call. Its content is lost even if it
    /// has its old size again.
    fn was_resized(&mut self) -> bool;

    /// Waits for keys up to `patience`, and appends their bytes to `keys`.
    fn read(&mut self, patience: Duration, keys: &mut Vec<u8>) -> Heard;

    /// Writes all bytes.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// The result of waiting for keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    Keys,
    Nothing,
    /// The terminal was closed.
    Gone,
}

/// Sends a control request to the run. Fails with the reason.
pub type Send = Box<dyn FnMut(&Wish) -> Result<(), String> + std::marker::Send>;

/// Enters full-screen mode: alternate screen, hidden cursor, bracketed paste.
pub const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[?2004h\u{1b}[2J";

/// Leaves full-screen mode.
pub const LEAVE: &str = "\u{1b}[0m\u{1b}[?2004l\u{1b}[?25h\u{1b}[?1049l";

/// Time between frames; a person does not notice a shorter delay.
const FRAME: Duration = Duration::from_millis(50);
/// How often spinners and countdowns are redrawn.
const TURN: Duration = Duration::from_millis(100);
/// Limits the memory for a terminal that reports an absurd size.
const GREATEST: Size = Size { width: 1_000, height: 500 };

/// The source of updates, and the receiver of actions that the screen cannot do itself.
pub(super) trait Host {
    /// Updates the screen, and returns whether anything changed.
    fn refresh(&mut self, screen: &mut Screen) -> bool;

    /// Executes an action. Returns whether the screen stays.
    fn serve(&mut self, action: Deed, screen: &mut Screen) -> Stay;

    /// Returns what the screen must do.
    fn ordered(&self) -> Order;

    /// Waits briefly until the order changes.
    fn wait(&self, order: Order);

    /// Sets where the screen is now.
    fn is_now(&mut self, presence: Presence);
}

/// Whether the screen stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stay {
    Yes,
    No,
}

/// Shows a screen on a terminal in full-screen mode until it is left. Always restores the terminal.
pub(super) fn show(device: Box<dyn Device>, host: &mut dyn Host, screen: &mut Screen) {
    // A guard sets `Gone`, so that no thread waits for a screen that panicked. It is declared first
    // and thus dropped after the terminal was restored, because the host may write from then on.
    let guard = Farewell { host };
    let mut display = Display {
        device,
        shown: Buffer::empty(Rect::ZERO),
        drawn: None,
        keyboard: Keyboard::default(),
    };
    display.run(&mut *guard.host, screen);
}

struct Farewell<'a> {
    host: &'a mut dyn Host,
}

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        self.host.is_now(Presence::Gone);
    }
}

struct Display {
    device: Box<dyn Device>,
    /// The content of the terminal.
    shown: Buffer,
    drawn: Option<Instant>,
    keyboard: Keyboard,
}

impl Drop for Display {
    fn drop(&mut self) {
        self.device.leave();
    }
}

impl Display {
    fn run(&mut self, host: &mut dyn Host, screen: &mut Screen) {
        loop {
            match host.ordered() {
                Order::Leave => return,
                Order::Show => {}
                Order::StepAside => {
                    if self.step_aside(host).is_err() {
                        return;
                    }
                    continue;
                }
            }
            screen.now = (screen.clock.now)();
            let is_new = host.refresh(screen);
            if self.redraw(screen, is_new).is_err() {
                // The terminal is unusable if it cannot be written to.
                return;
            }
            match self.hear(host, screen) {
                Stay::Yes => {}
                Stay::No => return,
            }
        }
    }

    /// Restores the terminal until the screen is wanted again and the terminal is available.
    fn step_aside(&mut self, host: &mut dyn Host) -> io::Result<()> {
        self.device.leave();
        host.is_now(Presence::Aside);
        loop {
            match host.ordered() {
                Order::StepAside => host.wait(Order::StepAside),
                Order::Leave => return Ok(()),
                Order::Show if self.device.is_ours() => break,
                // In the background; ralph gets no notification when it returns to the foreground.
                Order::Show => host.wait(Order::Show),
            }
        }
        self.device.enter()?;
        host.is_now(Presence::Shown);
        self.forget();
        Ok(())
    }

    /// Discards the known content of the terminal, so that everything is redrawn.
    fn forget(&mut self) {
        self.shown = Buffer::empty(Rect::ZERO);
        self.drawn = None;
    }

    fn redraw(&mut self, screen: &mut Screen, is_new: bool) -> io::Result<()> {
        // Checked before the size is read, so that a resize in between is noticed the next time.
        let was_resized = self.device.was_resized();
        let (width, height) = self.device.size().unwrap_or((80, 24));
        let size = Size::new(width.min(GREATEST.width), height.min(GREATEST.height));
        let is_resized = was_resized || size != screen.size || self.shown.area.as_size() != size;
        screen.size = size;
        let is_due = self.drawn.is_none_or(|drawn| drawn.elapsed() >= TURN);
        if !is_new && !is_resized && !is_due {
            return Ok(());
        }
        let mut next = Buffer::empty(Rect::new(0, 0, size.width, size.height));
        draw(screen, &mut next);
        let mut bytes = Vec::new();
        let mut backend = CrosstermBackend::new(&mut bytes);
        if is_resized {
            backend.clear()?;
            self.shown = Buffer::empty(next.area);
        }
        let changes = self.shown.diff(&next);
        if !changes.is_empty() {
            backend.draw(changes.into_iter())?;
        }
        if !bytes.is_empty() {
            self.device.write(&bytes)?;
        }
        self.shown = next;
        self.drawn = Some(Instant::now());
        Ok(())
    }

    fn hear(&mut self, host: &mut dyn Host, screen: &mut Screen) -> Stay {
        let mut bytes = Vec::new();
        let keys = match self.device.read(FRAME, &mut bytes) {
            Heard::Keys => self.keyboard.feed(&bytes),
            Heard::Nothing => self.keyboard.settle(),
            Heard::Gone => return Stay::No,
        };
        for key in keys {
            // Redraw immediately after a key.
            self.drawn = None;
            match press(screen, &key) {
                None => {}
                Some(Deed::Redraw) => self.forget(),
                Some(action) => match host.serve(action, screen) {
                    Stay::Yes => {}
                    Stay::No => return Stay::No,
                },
            }
        }
        Stay::Yes
    }
}

/// A run in this process.
pub(super) struct Live {
    pub(super) link: Link,
    pub(super) send: Send,
    pub(super) read_plan: ReadPlan,
    pub(super) plan: WholePlan,
}

impl Host for Live {
    fn refresh(&mut self, screen: &mut Screen) -> bool {
        let news = self.link.take();
        let stopping = news.stopping();
        let is_new = news.facts.is_some() || !news.pieces.is_empty() || news.lost > 0;
        screen.stopping = screen.stopping.max(stopping);
        if let Some(mut facts) = news.facts {
            self.plan.complete(&mut facts, &mut self.read_plan);
            screen.facts = facts;
        }
        for (kind, text) in news.pieces {
            screen.scroll.push(kind, &text);
        }
        if news.lost > 0 {
            screen.admit_loss(news.lost);
        }
        is_new
    }

    fn serve(&mut self, action: Deed, screen: &mut Screen) -> Stay {
        let (request, stay) = match action {
            Deed::Wish(request) => (request, Stay::Yes),
            Deed::WishAndLeave(request) => (request, Stay::No),
            Deed::Leave => return Stay::No,
            Deed::Redraw | Deed::Jump(_) => return Stay::Yes,
        };
        send(&mut self.send, &request, screen, stay)
    }

    fn ordered(&self) -> Order {
        self.link.ordered()
    }

    fn wait(&self, order: Order) {
        self.link.wait_while(order, TURN);
    }

    fn is_now(&mut self, presence: Presence) {
        self.link.is_now(presence);
    }
}

/// Sends a control request. If that fails, shows the reason on the screen, which then stays.
pub(super) fn send(send: &mut Send, request: &Wish, screen: &mut Screen, stay: Stay) -> Stay {
    match send(request) {
        Ok(()) => stay,
        Err(why) => {
            let why = crate::safe::one_line(&why, 200, "…");
            screen.scroll.push_line(Kind::Warning, &format!("Request not sent: {why}"));
            screen.hint = Some(why);
            Stay::Yes
        }
    }
}
