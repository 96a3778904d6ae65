//! The delivered notifications of a run, by channel: one line of JSON each, next to the journal.
//!
//! A lost line means at worst that the user is notified twice. Not here: the journal.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ralph_core::reporting::notification::Notification;
use serde::{Deserialize, Serialize};

use crate::{bounded_read, clock};

/// A run causes some dozens of notifications; a larger file is not ralph's.
const LARGEST: u64 = 1 << 20;

#[derive(Debug, Serialize, Deserialize)]
struct DeliveryRecord {
    id: String,
    channel: String,
    /// Milliseconds since the Unix epoch.
    at: i64,
    /// A description of the response, or why it failed.
    words: String,
    delivered: bool,
}

/// The deliveries of a run.
#[derive(Debug)]
pub(super) struct DeliveryLedger {
    delivered: BTreeSet<(String, String)>,
    file: Option<Mutex<File>>,
}

impl DeliveryLedger {
    /// Opens the ledger of a run. An unusable one counts as empty.
    pub(super) fn open(path: &Path) -> Self {
        let known = bounded_read::read_beginning(path, LARGEST).unwrap_or_default();
        let delivered = String::from_utf8_lossy(&known)
            .lines()
            .filter_map(|line| serde_json::from_str::<DeliveryRecord>(line).ok())
            .filter(|entry| entry.delivered)
            .map(|entry| (entry.id, entry.channel))
            .collect();
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path).ok();
        Self { delivered, file: file.map(Mutex::new) }
    }

    /// Returns whether a notification was delivered before this process resumed the run.
    pub(super) fn is_delivered(&self, id: &str, channel: &str) -> bool {
        self.delivered.contains(&(id.to_owned(), channel.to_owned()))
    }

    /// Records the result of a notification.
    pub(super) fn record_delivery(
        &self,
        notice: &Notification,
        channel: &str,
        result: &Result<String, String>,
    ) {
        let (Ok(words) | Err(words)) = result;
        let entry = DeliveryRecord {
            id: notice.id.clone(),
            channel: channel.to_owned(),
            at: clock::now().0,
            words: words.clone(),
            delivered: result.is_ok(),
        };
        let (Some(file), Ok(mut line)) = (&self.file, serde_json::to_string(&entry)) else {
            return;
        };
        line.push('\n');
        // A lost entry means only that the user is notified twice after a resume.
        let _ = file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
    }
}
