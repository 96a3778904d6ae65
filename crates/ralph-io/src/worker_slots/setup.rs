//! Whether the setup command must run in a clone: it is new, or what the command depends on differs.
//!
//! Not here: running it.

use std::io;

use ralph_model::recipe::ClonePolicy;
use ring::digest::{Context, SHA256};

use super::WorkerSlot;
use crate::{atomic_file, bounded_read};

/// The file in the directory of a slot.
const RECORD: &str = "setup";

/// Lock files are smaller; of a larger one the beginning counts.
const LARGEST_FILE: u64 = 64 << 20;

/// What a setup command depends on: the command, and files of the clone before an agent changes
/// them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupFingerprint(Vec<u8>);

/// Returns what to record of the setup command, if it must run before a worker starts. Must be
/// called once the clone is prepared.
pub fn find_due_setup(slot: &WorkerSlot, policy: &ClonePolicy) -> Option<SetupFingerprint> {
    let command = policy.setup.as_ref()?;
    let recorded = bounded_read::read_file(&slot.directory().join(RECORD), 4096);
    let now = compute_fingerprint(slot, command, &policy.setup_when);
    (recorded.ok().as_ref() != Some(&now)).then_some(SetupFingerprint(now))
}

/// Records that the setup command succeeded.
pub fn record_setup(
    slot: &WorkerSlot,
    SetupFingerprint(done): &SetupFingerprint,
) -> io::Result<()> {
    atomic_file::replace_file(&slot.directory().join(RECORD), done)
}

impl WorkerSlot {
    /// Makes the setup command run again.
    pub(crate) fn forget_setup(&self) -> io::Result<()> {
        atomic_file::remove_if_exists(&self.directory().join(RECORD))
    }
}

/// Returns a digest of the command and of the files that it depends on.
fn compute_fingerprint(slot: &WorkerSlot, command: &str, files: &[String]) -> Vec<u8> {
    let mut digest = Context::new(&SHA256);
    let mut feed = |bytes: &[u8]| {
        digest.update(&(bytes.len() as u64).to_le_bytes());
        digest.update(bytes);
    };
    feed(command.as_bytes());
    for path in files {
        let file = bounded_read::read_within(slot.clone_path(), path.as_ref(), LARGEST_FILE);
        feed(path.as_bytes());
        match file {
            Ok(content) => feed(&content),
            Err(_) => feed(b"missing"),
        }
    }
    digest.finish().as_ref().to_vec()
}
