//! Delivers notifications to the user: desktop, terminal, webhook, command.
//!
//! A [`Notifier`] observes a run like a view. Each channel has a thread and a queue of its own, so
//! that none delays the run or another channel. Deliveries are recorded next to the journal, so
//! that a resumed run does not repeat them. Not here: which events cause a notification and its
//! text (`ralph_core::notice`), and the settings.

mod command;
mod desktop;
mod ledger;
mod signature;
mod terminal;
mod webhook;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ralph_core::event::Recorded;
use ralph_core::notice::{Notice, NoticePolicy, notice};
use ralph_core::ports::{Activity, Ui};
use ralph_core::reading::AgentEvent;
use ralph_core::run::RunState;

use crate::http::{Patience, Rest};
use crate::mask::Masker;
use ledger::Ledger;

pub use command::CommandChannel;
pub use desktop::Desktop;
pub use signature::Secret;
pub use terminal::{Ring, Terminal};
pub use webhook::Webhook;

/// A run causes a few notifications per hour. If more than this wait, the channel does not work.
const QUEUE: usize = 32;

/// A way to notify the user.
pub enum Channel {
    Desktop(Desktop),
    /// The terminal that shows the run.
    Terminal(Terminal),
    Webhook(Box<Webhook>),
    Command(CommandChannel),
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Channel {
    /// Returns its name in settings, messages and files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Desktop(_) => "desktop",
            Self::Terminal(_) => "terminal",
            Self::Webhook(_) => "webhook",
            Self::Command(_) => "command",
        }
    }

    /// Delivers a notification. Returns a description of the response, or why it failed.
    pub fn deliver(
        &self,
        notice: &Notice,
        pause: &mut dyn FnMut(Duration) -> Patience,
    ) -> Result<String, String> {
        match self {
            Self::Desktop(desktop) => desktop.deliver(notice),
            Self::Terminal(terminal) => Ok(terminal.deliver(notice)),
            Self::Webhook(webhook) => webhook.deliver(notice, pause),
            Self::Command(command) => command.deliver(notice),
        }
    }
}

/// Observes a run and sends notifications. Clones share the queues.
#[derive(Debug, Clone)]
pub struct Notifier {
    policy: NoticePolicy,
    masker: Masker,
    ledger: Arc<Ledger>,
    lines: Vec<Arc<Line>>,
}

impl Notifier {
    /// Starts a thread for each channel. `ledger` is the file with the deliveries of this run.
    pub fn start(
        policy: NoticePolicy,
        channels: Vec<Channel>,
        ledger: &Path,
        masker: Masker,
    ) -> io::Result<Self> {
        let ledger = Arc::new(Ledger::open(ledger));
        let mut lines = Vec::new();
        for channel in channels {
            let line = Arc::new(Line::new(channel.name()));
            let (theirs, ledger) = (Arc::clone(&line), Arc::clone(&ledger));
            // Never joined: it may hang for as long as a server does.
            thread::Builder::new()
                .name(format!("notify-{}", channel.name()))
                .spawn(move || theirs.serve(&channel, &ledger))?;
            lines.push(line);
        }
        Ok(Self { policy, masker, ledger, lines })
    }

    /// Waits until everything is sent, but no longer than `patience`. Returns the failures of the
    /// whole run, one line for each channel.
    pub fn finish(&self, patience: Duration) -> Vec<String> {
        let deadline = Instant::now() + patience;
        for line in &self.lines {
            line.close(deadline);
        }
        self.lines.iter().filter_map(|line| line.wait(deadline)).collect()
    }
}

impl Ui for Notifier {
    fn tell(&mut self, recorded: &Recorded, state: &RunState) {
        let Some(notice) = notice(&self.policy, recorded, state) else { return };
        let notice = Notice {
            title: self.masker.text(&notice.title).into_owned(),
            message: self.masker.text(&notice.message).into_owned(),
            ..notice
        };
        for line in &self.lines {
            if !self.ledger.has(&notice.id, line.channel) {
                line.push(notice.clone());
            }
        }
    }

    fn hear(&mut self, _event: &AgentEvent) {}

    fn doing(&mut self, _activity: &Activity<'_>) {}
}

/// The queue of one channel.
#[derive(Debug)]
struct Line {
    channel: &'static str,
    state: Mutex<LineState>,
    changed: Condvar,
    rest: Rest,
}

#[derive(Debug, Default)]
struct LineState {
    waiting: VecDeque<Notice>,
    /// Whether the thread is sending a notification.
    is_sending: bool,
    /// Whether no more notifications are coming.
    is_closed: bool,
    failures: u32,
    last_failure: Option<String>,
}

impl Line {
    fn new(channel: &'static str) -> Self {
        Self { channel, state: Mutex::default(), changed: Condvar::new(), rest: Rest::default() }
    }

    fn lock(&self) -> MutexGuard<'_, LineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, notice: Notice) {
        let mut state = self.lock();
        if state.waiting.len() == QUEUE {
            state.failed("too many notices were waiting".to_owned());
        } else {
            state.waiting.push_back(notice);
        }
        self.changed.notify_all();
    }

    /// Sends one notification after the other, until the queue is closed and empty.
    fn serve(&self, channel: &Channel, ledger: &Ledger) {
        while let Some(notice) = self.next() {
            let result = channel.deliver(&notice, &mut |span| self.rest.pause(span));
            ledger.note(&notice, self.channel, &result);
            let mut state = self.lock();
            state.is_sending = false;
            if let Err(why) = result {
                state.failed(why);
            }
            self.changed.notify_all();
        }
    }

    fn next(&self) -> Option<Notice> {
        let mut state = self.lock();
        loop {
            if let Some(notice) = state.waiting.pop_front() {
                state.is_sending = true;
                return Some(notice);
            }
            if state.is_closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn close(&self, deadline: Instant) {
        self.rest.end_at(deadline);
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits until nothing is left to send, and returns what failed.
    fn wait(&self, deadline: Instant) -> Option<String> {
        let mut state = self.lock();
        while state.is_sending || !state.waiting.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let unsent = state.waiting.len() + usize::from(state.is_sending);
                state.failed(format!("{unsent} not sent in time"));
                break;
            }
            let woken = self.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        let why = state.last_failure.as_ref()?;
        let (channel, times) = (self.channel, state.failures);
        Some(match times {
            1 => format!("a notice by {channel} did not arrive: {why}"),
            _ => format!("{times} notices by {channel} did not arrive, the last because: {why}"),
        })
    }
}

impl LineState {
    fn failed(&mut self, why: String) {
        self.failures += 1;
        self.last_failure = Some(why);
    }
}

#[cfg(test)]
mod tests;
