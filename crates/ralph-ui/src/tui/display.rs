//! The thread of a screen: handles updates and keys, draws, and always restores the terminal.
//!
//! Not here: drawing (`draw`) and key handling (`key_actions`).

use std::io;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use ralph_model::control::ControlRequest;
use ratatui_core::backend::Backend as _;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::{Rect, Size};
use ratatui_crossterm::CrosstermBackend;

use crate::tui::draw::draw_screen;
use crate::tui::facts::{ReadPlan, WholePlan};
use crate::tui::key_actions::{KeyAction, handle_key};
use crate::tui::keys::Keyboard;
use crate::tui::link::{Presence, ScreenHandle as Link, ScreenOrder};
use crate::tui::screen::ScreenState;
use crate::tui::scrollback::LineKind;

/// An interactive terminal.
///
/// Dropping it restores the terminal, also in a panic.
pub trait Device: std::marker::Send {
    /// Enters full-screen mode: alternate screen, no echo, unbuffered keys.
    fn enter(&mut self) -> io::Result<()>;

    /// Restores the terminal. May be called at any time, and more than once.
    fn leave(&mut self);

    /// Returns whether this process may use the terminal; a background job may not.
    fn is_foreground(&self) -> bool;

    /// Returns columns and rows.
    fn size(&self) -> Option<(u16, u16)>;

    /// Returns whether the terminal was resized since the last call. Its content is lost even if it
    /// has its old size again.
    fn was_resized(&mut self) -> bool;

    /// Waits for keys up to `patience`, and appends their bytes to `keys`.
    fn read_keys(&mut self, patience: Duration, keys: &mut Vec<u8>) -> KeyRead;

    /// Writes all bytes.
    fn write_bytes(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// The result of waiting for keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRead {
    Keys,
    Nothing,
    /// The terminal was closed.
    Gone,
}

/// Sends a control request to the run. Fails with the reason.
pub type SendRequest = Box<dyn FnMut(&ControlRequest) -> Result<(), String> + std::marker::Send>;

/// Enters full-screen mode: alternate screen, hidden cursor, bracketed paste.
pub const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[?2004h\u{1b}[2J";

/// Leaves full-screen mode.
pub const LEAVE: &str = "\u{1b}[0m\u{1b}[?2004l\u{1b}[?25h\u{1b}[?1049l";

/// Time between frames; a person does not notice a shorter delay.
const FRAME: Duration = Duration::from_millis(50);
/// How often spinners and countdowns are redrawn.
const TICK: Duration = Duration::from_millis(100);
/// Limits the memory for a terminal that reports an absurd size.
const MAX_SIZE: Size = Size { width: 1_000, height: 500 };

/// The source of updates, and the receiver of actions that the screen cannot do itself.
pub(super) trait ScreenHost {
    /// Updates the screen, and returns whether anything changed.
    fn refresh(&mut self, screen: &mut ScreenState) -> bool;

    /// Executes an action. Returns whether the screen stays.
    fn execute_action(&mut self, action: KeyAction, screen: &mut ScreenState) -> ControlFlow<()>;

    /// Returns the handle that gives the orders.
    fn link(&self) -> &Link;
}

/// Shows a screen on a terminal in full-screen mode until it is left. Always restores the terminal.
pub(super) fn show_screen(
    device: Box<dyn Device>,
    host: &mut dyn ScreenHost,
    screen: &mut ScreenState,
) {
    // A guard sets `Gone`, so that no thread waits for a screen that panicked. It is declared first
    // and thus dropped after the terminal was restored, because the host may write from then on.
    let _guard = GoneGuard(host.link().clone());
    let mut display = Display {
        device,
        shown: Buffer::empty(Rect::ZERO),
        drawn: None,
        keyboard: Keyboard::default(),
    };
    display.run_loop(host, screen);
}

struct GoneGuard(Link);

impl Drop for GoneGuard {
    fn drop(&mut self) {
        self.0.set_presence(Presence::Gone);
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
    fn run_loop(&mut self, host: &mut dyn ScreenHost, screen: &mut ScreenState) {
        loop {
            match host.link().current_order() {
                ScreenOrder::Leave => return,
                ScreenOrder::Show => {}
                ScreenOrder::StepAside => {
                    if self.step_aside(host.link()).is_err() {
                        return;
                    }
                    continue;
                }
            }
            screen.now = (screen.clock.now)();
            let is_new = host.refresh(screen);
            if self.redraw_screen(screen, is_new).is_err() {
                // The terminal is unusable if it cannot be written to.
                return;
            }
            if self.handle_keys(host, screen).is_break() {
                return;
            }
        }
    }

    /// Restores the terminal until the screen is wanted again and the terminal is available.
    fn step_aside(&mut self, link: &Link) -> io::Result<()> {
        self.device.leave();
        link.set_presence(Presence::Aside);
        loop {
            match link.current_order() {
                ScreenOrder::StepAside => link.wait_while(ScreenOrder::StepAside, TICK),
                ScreenOrder::Leave => return Ok(()),
                ScreenOrder::Show if self.device.is_foreground() => break,
                // In the background; ralph gets no notification when it returns to the foreground.
                ScreenOrder::Show => link.wait_while(ScreenOrder::Show, TICK),
            }
        }
        self.device.enter()?;
        link.set_presence(Presence::Shown);
        self.discard_content();
        Ok(())
    }

    /// Discards the known content of the terminal, so that everything is redrawn.
    fn discard_content(&mut self) {
        self.shown = Buffer::empty(Rect::ZERO);
        self.drawn = None;
    }

    fn redraw_screen(&mut self, screen: &mut ScreenState, is_new: bool) -> io::Result<()> {
        // Checked before the size is read, so that a resize in between is noticed the next time.
        let was_resized = self.device.was_resized();
        let (width, height) = self.device.size().unwrap_or((80, 24));
        let size = Size::new(width.min(MAX_SIZE.width), height.min(MAX_SIZE.height));
        let is_resized = was_resized || size != screen.size || self.shown.area.as_size() != size;
        screen.size = size;
        let is_due = self.drawn.is_none_or(|drawn| drawn.elapsed() >= TICK);
        if !is_new && !is_resized && !is_due {
            return Ok(());
        }
        let mut next = Buffer::empty(Rect::new(0, 0, size.width, size.height));
        draw_screen(screen, &mut next);
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
            self.device.write_bytes(&bytes)?;
        }
        self.shown = next;
        self.drawn = Some(Instant::now());
        Ok(())
    }

    fn handle_keys(
        &mut self,
        host: &mut dyn ScreenHost,
        screen: &mut ScreenState,
    ) -> ControlFlow<()> {
        let mut bytes = Vec::new();
        let keys = match self.device.read_keys(FRAME, &mut bytes) {
            KeyRead::Keys => self.keyboard.feed_bytes(&bytes),
            KeyRead::Nothing => self.keyboard.flush_escape(),
            KeyRead::Gone => return ControlFlow::Break(()),
        };
        for key in keys {
            // Redraw immediately after a key.
            self.drawn = None;
            match handle_key(screen, &key) {
                None => {}
                Some(KeyAction::Redraw) => self.discard_content(),
                Some(action) => host.execute_action(action, screen)?,
            }
        }
        ControlFlow::Continue(())
    }
}

/// A run in this process.
pub(super) struct LiveRun {
    pub(super) link: Link,
    pub(super) send: SendRequest,
    pub(super) read_plan: ReadPlan,
    pub(super) plan: WholePlan,
}

impl ScreenHost for LiveRun {
    fn refresh(&mut self, screen: &mut ScreenState) -> bool {
        let news = self.link.take_updates();
        let stopping = news.stopping();
        let is_new = news.facts.is_some() || !news.pieces.is_empty() || news.lost > 0;
        screen.stopping = screen.stopping.max(stopping);
        if let Some(mut facts) = news.facts {
            self.plan.fill_items(&mut facts, &mut self.read_plan);
            screen.facts = facts;
        }
        for (kind, text) in news.pieces {
            screen.scroll.push_text(kind, &text);
        }
        if news.lost > 0 {
            screen.report_loss(news.lost);
        }
        is_new
    }

    fn execute_action(&mut self, action: KeyAction, screen: &mut ScreenState) -> ControlFlow<()> {
        let (request, then) = match action {
            KeyAction::Request(request) => (request, ControlFlow::Continue(())),
            KeyAction::RequestAndLeave(request) => (request, ControlFlow::Break(())),
            KeyAction::Leave => return ControlFlow::Break(()),
            KeyAction::Redraw | KeyAction::Jump(_) => return ControlFlow::Continue(()),
        };
        send_request(&mut self.send, &request, screen, then)
    }

    fn link(&self) -> &Link {
        &self.link
    }
}

/// Sends a control request. If that fails, shows the reason on the screen, which then stays.
pub(super) fn send_request(
    send: &mut SendRequest,
    request: &ControlRequest,
    screen: &mut ScreenState,
    then: ControlFlow<()>,
) -> ControlFlow<()> {
    match send(request) {
        Ok(()) => then,
        Err(why) => {
            let why = crate::sanitize::sanitize_line(&why, 200, "…");
            screen.scroll.push_line(LineKind::Warning, &format!("Request not sent: {why}"));
            screen.hint = Some(why);
            ControlFlow::Continue(())
        }
    }
}
