//! The terminal of a full-screen view: taken, and given back on every way out.
//!
//! Not here: what is shown (`ralph_ui::tui`).

use std::io;
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::Duration;

use ralph_core::control::Wish;
use ralph_io::control;
use ralph_io::process::{Halt, Watch};
use ralph_io::terminal::{Console, Keys};
use ralph_ui::tui::{Device, ENTER, Heard, LEAVE, ScreenLink, Send};

/// A terminal that hangs may keep Ctrl-Z waiting this long.
const PATIENCE: Duration = Duration::from_secs(1);

/// The terminal that is or was taken, for ways out that know nothing of it.
static TAKEN: OnceLock<Console> = OnceLock::new();

/// Returns the terminal behind stdin and a stream, or why there can be no screen on it.
pub(crate) fn device(stream: impl AsFd) -> Result<Box<dyn Device>, String> {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    let console = Console::behind(stream).map_err(|error| error.to_string())?;
    let Some(console) = console else {
        return Err("stdin and the output are no terminal".to_owned());
    };
    if is_dumb {
        return Err("this terminal cannot move its cursor (TERM)".to_owned());
    }
    if !console.is_ours() {
        return Err("this is a job in the background".to_owned());
    }
    let console = TAKEN.get_or_init(|| {
        give_back_in_a_panic();
        console
    });
    Ok(Box::new(Tty(console.clone())))
}

/// Gives the terminal back, if it is taken.
pub(crate) fn give_back() {
    if let Some(console) = TAKEN.get() {
        console.give_back(LEAVE.as_bytes());
    }
}

/// Lets the screen make room while ralph is stopped by Ctrl-Z, and tells how long that took.
pub(crate) fn make_room(
    watch: &Watch,
    screen: &ScreenLink,
    goes_on: impl Fn(Duration) + std::marker::Send + Sync + 'static,
) {
    let screen = screen.clone();
    watch.around_halts(move |halt| match halt {
        Halt::Begins => screen.step_aside(PATIENCE),
        // Whoever stopped ralph without a word had its terminal all the same.
        Halt::Ends { stood } => {
            screen.step_aside(PATIENCE);
            screen.come_back();
            stood.into_iter().for_each(&goes_on);
        }
    });
}

/// Returns what sends wishes to the run whose files are in this directory.
pub(crate) fn sender(run: &std::path::Path) -> Send {
    let run = run.to_owned();
    Box::new(move |wish: &Wish| control::send(&run, wish).map_err(|error| error.to_string()))
}

/// What a panic says would be lost on the screen, and the shell be left without echo.
fn give_back_in_a_panic() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back();
        usual(panic);
    }));
}

struct Tty(Console);

impl Device for Tty {
    fn enter(&mut self) -> io::Result<()> {
        self.0.take(ENTER.as_bytes())
    }

    fn leave(&mut self) {
        self.0.give_back(LEAVE.as_bytes());
    }

    fn is_ours(&self) -> bool {
        self.0.is_ours()
    }

    fn size(&self) -> Option<(u16, u16)> {
        self.0.size()
    }

    fn read(&mut self, patience: Duration, keys: &mut Vec<u8>) -> Heard {
        match self.0.read(patience, keys) {
            Keys::Some => Heard::Keys,
            Keys::None => Heard::Nothing,
            Keys::Gone => Heard::Gone,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write(bytes)
    }
}
