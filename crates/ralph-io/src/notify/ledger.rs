//! Which notices of a run were delivered, by which channel: one line of JSON each, beside the
//! journal.
//!
//! A lost line means at worst that somebody is told twice. Not here: the journal.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ralph_core::notice::Notice;
use serde::{Deserialize, Serialize};

use crate::{bounded, clock};

/// A run gives some dozens of notices; a larger file is not ours.
const LARGEST: u64 = 1 << 20;

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    id: String,
    channel: String,
    /// Milliseconds since the Unix epoch.
    at: i64,
    /// What came back, or why it did not arrive.
    words: String,
    delivered: bool,
}

/// What was delivered.
#[derive(Debug)]
pub(super) struct Ledger {
    delivered: BTreeSet<(String, String)>,
    file: Option<Mutex<File>>,
}

impl Ledger {
    /// Opens the ledger of a run. One that cannot be used is as good as empty.
    pub(super) fn open(path: &Path) -> Self {
        let known = bounded::read_beginning(path, LARGEST).unwrap_or_default();
        let delivered = String::from_utf8_lossy(&known)
            .lines()
            .filter_map(|line| serde_json::from_str::<Entry>(line).ok())
            .filter(|entry| entry.delivered)
            .map(|entry| (entry.id, entry.channel))
            .collect();
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path).ok();
        Self { delivered, file: file.map(Mutex::new) }
    }

    /// Returns whether a notice was delivered before this process took the run up.
    pub(super) fn has(&self, id: &str, channel: &str) -> bool {
        self.delivered.contains(&(id.to_owned(), channel.to_owned()))
    }

    /// Writes down what came of a notice.
    pub(super) fn note(&self, notice: &Notice, channel: &str, result: &Result<String, String>) {
        let (Ok(words) | Err(words)) = result;
        let entry = Entry {
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
        // Who is told twice after a full disk has worse troubles.
        let _ = file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
    }
}
