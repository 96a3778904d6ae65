//! Limits how many gates run at the same time in a run with workers: tests of several clones at
//! once would make each other time out.
//!
//! A slot is a lock file, so that a killed process frees its own.

use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::time::Duration;

use crate::process::{WaitEnd, Watch};

/// How often a gate that waits looks for a free slot.
const POLL: Duration = Duration::from_millis(100);

/// The slots of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateSlots {
    /// The directory of the lock files.
    pub directory: PathBuf,
    pub count: u32,
}

/// A slot that is held until this is dropped.
#[derive(Debug)]
pub(super) struct HeldGateSlot(File);

impl Drop for HeldGateSlot {
    fn drop(&mut self) {
        // A child between fork and exec has a copy of the handle: closing ours is not enough.
        let _ = self.0.unlock();
    }
}

impl GateSlots {
    /// Waits for a free slot. None if the user wants to stop, or if there can be no lock files.
    pub(super) fn wait_for_slot(&self, watch: &Watch) -> Option<HeldGateSlot> {
        std::fs::create_dir_all(&self.directory).ok()?;
        loop {
            for number in 1..=self.count.max(1) {
                let path = self.directory.join(format!("gate-{number}.lock"));
                let file = OpenOptions::new().create(true).append(true).open(path).ok()?;
                if file.try_lock().is_ok() {
                    return Some(HeldGateSlot(file));
                }
            }
            match watch.wait(POLL, &mut |_| {}) {
                WaitEnd::Elapsed => {}
                WaitEnd::Interrupted => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_gates_hold_a_slot_than_there_are() {
        let directory = tempfile::tempdir().expect("a directory");
        let slots = GateSlots { directory: directory.path().join("locks"), count: 2 };
        let watch = Watch::new_detached();
        let first = slots.wait_for_slot(&watch).expect("free");
        let _second = slots.wait_for_slot(&watch).expect("free");
        let stopped = Watch::new_detached();
        stopped.end_now();
        assert!(slots.wait_for_slot(&stopped).is_none());
        drop(first);
        assert!(slots.wait_for_slot(&stopped).is_some());
    }
}
