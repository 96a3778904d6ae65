//! A slow terminal, and one that accepts nothing.

use std::io;
use std::thread;
use std::time::Duration;

use ralph_ui::tui::{Device, KeyRead};

/// How fast a terminal accepts output.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// At once.
    Quick,
    /// A frame of 10 kB takes a second: a modem.
    Slow,
    /// Never: Ctrl-S.
    Stopped,
}

/// A terminal of 80 columns without input.
pub(crate) struct Terminal(pub(crate) Pace);

impl Device for Terminal {
    fn enter(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn leave(&mut self) {}

    fn is_foreground(&self) -> bool {
        true
    }

    fn size(&self) -> Option<(u16, u16)> {
        Some((80, 24))
    }

    fn was_resized(&mut self) -> bool {
        false
    }

    fn read_keys(&mut self, patience: Duration, _: &mut Vec<u8>) -> KeyRead {
        thread::sleep(patience);
        KeyRead::Nothing
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.0 {
            Pace::Quick => {}
            Pace::Slow => thread::sleep(Duration::from_micros(100 * bytes.len() as u64)),
            Pace::Stopped => loop {
                thread::park();
            },
        }
        Ok(())
    }
}
