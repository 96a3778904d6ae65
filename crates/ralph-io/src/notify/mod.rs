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
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

use ledger::DeliveryLedger;
use ralph_core::ports::{Activity, Ui};
use ralph_core::reporting::notification::{Notification, NotificationPolicy, build_notification};
use ralph_model::agent_output::AgentEvent;
use ralph_model::event::Recorded;
use ralph_model::run::RunState;

use crate::http::{PauseEnd, RetryTimer};
use crate::mask::Masker;

pub use command::CommandChannel;
pub use desktop::DesktopChannel;
pub use signature::WebhookSecret;
pub use terminal::{TerminalChannel, TerminalSignal};
pub use webhook::WebhookChannel;

/// A run causes a few notifications per hour. If more than this wait, the channel does not work.
const MAX_QUEUED: usize = 32;

/// A way to notify the user.
pub enum NotifyChannel {
    Desktop(DesktopChannel),
    /// The terminal that shows the run.
    Terminal(TerminalChannel),
    Webhook(Box<WebhookChannel>),
    Command(CommandChannel),
}

impl fmt::Debug for NotifyChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl NotifyChannel {
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
        notice: &Notification,
        pause: &mut dyn FnMut(Duration) -> PauseEnd,
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
    policy: NotificationPolicy,
    masker: Masker,
    ledger: Arc<DeliveryLedger>,
    queues: Vec<Arc<ChannelQueue>>,
}

impl Notifier {
    /// Starts a thread for each channel. `ledger` is the file with the deliveries of this run.
    pub fn start(
        policy: NotificationPolicy,
        channels: Vec<NotifyChannel>,
        ledger: &Path,
        masker: Masker,
    ) -> io::Result<Self> {
        let ledger = Arc::new(DeliveryLedger::open(ledger));
        let mut lines = Vec::new();
        for channel in channels {
            let line = Arc::new(ChannelQueue::new(channel.name()));
            let (theirs, ledger) = (Arc::clone(&line), Arc::clone(&ledger));
            // Never joined: it may hang for as long as a server does.
            thread::Builder::new()
                .name(format!("notify-{}", channel.name()))
                .spawn(move || theirs.send_queued(&channel, &ledger))?;
            lines.push(line);
        }
        Ok(Self { policy, masker, ledger, queues: lines })
    }

    /// Waits until everything is sent, but no longer than `patience`. Returns the failures of the
    /// whole run, one line for each channel.
    pub fn finish(&self, patience: Duration) -> Vec<String> {
        let deadline = Instant::now() + patience;
        for line in &self.queues {
            line.close(deadline);
        }
        self.queues.iter().filter_map(|line| line.wait_until_sent(deadline)).collect()
    }
}

impl Ui for Notifier {
    fn show_event(&mut self, recorded: &Recorded, state: &RunState) {
        let Some(notice) = build_notification(&self.policy, recorded, state) else { return };
        let notice = Notification {
            title: self.masker.mask_text(&notice.title).into_owned(),
            message: self.masker.mask_text(&notice.message).into_owned(),
            ..notice
        };
        for line in &self.queues {
            if !self.ledger.is_delivered(&notice.id, line.channel) {
                line.push(notice.clone());
            }
        }
    }

    fn show_agent_event(&mut self, _event: &AgentEvent) {}

    fn show_activity(&mut self, _activity: &Activity<'_>) {}
}

/// The queue of one channel.
#[derive(Debug)]
struct ChannelQueue {
    channel: &'static str,
    state: Mutex<QueueState>,
    changed: Condvar,
    rest: RetryTimer,
}

#[derive(Debug, Default)]
struct QueueState {
    waiting: VecDeque<Notification>,
    /// Whether the thread is sending a notification.
    is_sending: bool,
    /// Whether no more notifications are coming.
    is_closed: bool,
    failures: u32,
    last_failure: Option<String>,
}

impl ChannelQueue {
    fn new(channel: &'static str) -> Self {
        Self {
            channel,
            state: Mutex::default(),
            changed: Condvar::new(),
            rest: RetryTimer::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, notice: Notification) {
        let mut state = self.lock();
        if state.waiting.len() == MAX_QUEUED {
            state.record_failure("too many notices were waiting".to_owned());
        } else {
            state.waiting.push_back(notice);
        }
        self.changed.notify_all();
    }

    /// Sends one notification after the other, until the queue is closed and empty.
    fn send_queued(&self, channel: &NotifyChannel, ledger: &DeliveryLedger) {
        while let Some(notice) = self.take_next() {
            let result = channel.deliver(&notice, &mut |span| self.rest.pause(span));
            ledger.record_delivery(&notice, self.channel, &result);
            let mut state = self.lock();
            state.is_sending = false;
            if let Err(why) = result {
                state.record_failure(why);
            }
            self.changed.notify_all();
        }
    }

    fn take_next(&self) -> Option<Notification> {
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
        self.rest.set_deadline(deadline);
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits until nothing is left to send, and returns what failed.
    fn wait_until_sent(&self, deadline: Instant) -> Option<String> {
        let mut state = self.lock();
        while state.is_sending || !state.waiting.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let unsent = state.waiting.len() + usize::from(state.is_sending);
                state.record_failure(format!("{unsent} not sent in time"));
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

impl QueueState {
    fn record_failure(&mut self, why: String) {
        self.failures += 1;
        self.last_failure = Some(why);
    }
}

#[cfg(test)]
mod tests;
