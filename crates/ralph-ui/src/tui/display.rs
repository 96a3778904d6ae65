//! The thread of a screen: takes news and keys, draws, and gives the terminal back whatever happens.
//!
//! Not here: what is drawn (`draw`) and what keys do (`press`).

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

/// A terminal with somebody in front of it.
///
/// Whoever drops it gives it back, also in a panic.
pub trait Device: std::marker::Send {
    /// Takes the terminal: another page than the one of the shell, no echo, keys one by one.
    fn enter(&mut self) -> io::Result<()>;

    /// Gives the terminal back as it was. May be called at any time, and more than once.
    fn leave(&mut self);

    /// Returns whether the terminal is this process's to take: a job in the background has none.
    fn is_ours(&self) -> bool;

    /// Returns columns and rows.
    fn size(&self) -> Option<(u16, u16)>;

    /// Returns whether the terminal was resized since it was last asked. One that has its old size
    /// again has lost what was on it all the same.
    fn was_resized(&mut self) -> bool;

    /// Waits for keys as long as `patience`, and puts their bytes behind `keys`.
    fn read(&mut self, patience: Duration, keys: &mut Vec<u8>) -> Heard;

    /// Writes everything.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// What came of waiting for keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// There are some.
    Keys,
    /// There are none.
    Nothing,
    /// The terminal has vanished.
    Gone,
}

/// Sends a wish to the run, and returns why it cannot.
pub type Send = Box<dyn FnMut(&Wish) -> Result<(), String> + std::marker::Send>;

/// Takes a terminal: the other page, no cursor, pastes told from keys.
pub const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[?2004h\u{1b}[2J";

/// Gives it back.
pub const LEAVE: &str = "\u{1b}[0m\u{1b}[?2004l\u{1b}[?25h\u{1b}[?1049l";

/// A person does not see a shorter delay, and a spinner needs no more.
const FRAME: Duration = Duration::from_millis(50);
/// What moves by itself moves this often.
const TURN: Duration = Duration::from_millis(100);
/// A terminal that claims to be larger gets no larger screen: cells cost memory.
const GREATEST: Size = Size { width: 1_000, height: 500 };

/// Where news come from, and where keys go that are no business of the screen.
pub(super) trait Host {
    /// Brings the screen up to date, and returns whether anything changed.
    fn refresh(&mut self, screen: &mut Screen) -> bool;

    /// Does what a key asked for. Returns whether the screen stays.
    fn serve(&mut self, deed: Deed, screen: &mut Screen) -> Stay;

    /// Returns what to do with the terminal.
    fn ordered(&self) -> Order;

    /// Waits a moment for another order.
    fn wait(&self, order: Order);

    /// Is told where the screen is.
    fn is_now(&mut self, presence: Presence);
}

/// Whether the screen stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stay {
    Yes,
    No,
}

/// Shows a screen on a terminal that was taken, until it is left. The terminal is given back in any
/// case.
pub(super) fn show(device: Box<dyn Device>, host: &mut dyn Host, screen: &mut Screen) {
    // Told by a guard, so that nobody waits for a screen that panicked; and after the terminal was
    // given back, as the host may write as soon as it is told.
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
    /// What is on the terminal.
    shown: Buffer,
    /// When it was drawn last.
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
                // A terminal that cannot be written to is no terminal.
                return;
            }
            match self.hear(host, screen) {
                Stay::Yes => {}
                Stay::No => return,
            }
        }
    }

    /// Gives the terminal back until it is wanted again and can be had.
    fn step_aside(&mut self, host: &mut dyn Host) -> io::Result<()> {
        self.device.leave();
        host.is_now(Presence::Aside);
        loop {
            match host.ordered() {
                Order::StepAside => host.wait(Order::StepAside),
                Order::Leave => return Ok(()),
                Order::Show if self.device.is_ours() => break,
                // In the background; whoever brings it back does not say so.
                Order::Show => host.wait(Order::Show),
            }
        }
        self.device.enter()?;
        host.is_now(Presence::Shown);
        self.forget();
        Ok(())
    }

    /// Forgets what is on the terminal, so that everything is drawn anew.
    fn forget(&mut self) {
        self.shown = Buffer::empty(Rect::ZERO);
        self.drawn = None;
    }

    fn redraw(&mut self, screen: &mut Screen, is_new: bool) -> io::Result<()> {
        // Asked before the size: who resizes it in between is heard the next time.
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
            // Keys are answered at once.
            self.drawn = None;
            match press(screen, &key) {
                None => {}
                Some(Deed::Redraw) => self.forget(),
                Some(deed) => match host.serve(deed, screen) {
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

    fn serve(&mut self, deed: Deed, screen: &mut Screen) -> Stay {
        let (wish, stay) = match deed {
            Deed::Wish(wish) => (wish, Stay::Yes),
            Deed::WishAndLeave(wish) => (wish, Stay::No),
            Deed::Leave => return Stay::No,
            Deed::Redraw | Deed::Jump(_) => return Stay::Yes,
        };
        send(&mut self.send, &wish, screen, stay)
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

/// Sends a wish; one that cannot be sent is said on the screen, which stays for that.
pub(super) fn send(send: &mut Send, wish: &Wish, screen: &mut Screen, stay: Stay) -> Stay {
    match send(wish) {
        Ok(()) => stay,
        Err(why) => {
            let why = crate::safe::one_line(&why, 200, "…");
            screen.scroll.push_line(Kind::Warning, &format!("That could not be asked: {why}"));
            screen.hint = Some(why);
            Stay::Yes
        }
    }
}
