//! git's own files in a simulated repository: hooks and configuration, which agents may not change.
//! They are restored and reported as the real git port does it, also after a death.
//!
//! Not here: which agents change them.

/// git's own files, and what ralph knows about them.
#[derive(Debug, Default)]
pub struct SimulatedGitDir {
    /// Whether an agent changed them, and nothing restored them since.
    pub is_changed: bool,
    /// Whether the record to restore from is on disk.
    is_recorded: bool,
    /// Whether a restored change may not be in the journal yet, by a file on disk.
    is_unreported: bool,
    memory: GitDirMemory,
}

/// What is lost when the process dies.
#[derive(Debug, Default)]
struct GitDirMemory {
    has_record: bool,
    has_read_unreported: bool,
    /// Whether a change was restored that is not reported yet.
    is_pending: bool,
}

impl SimulatedGitDir {
    /// Begins a process.
    pub fn begin_process(&mut self) {
        self.memory = GitDirMemory::default();
    }

    /// Records the files as they are, at a checkpoint. Returns whether a change by an agent became
    /// part of the record.
    #[must_use]
    pub fn record(&mut self) -> bool {
        self.is_unreported = false;
        (self.is_recorded, self.memory.has_record, self.memory.has_read_unreported) =
            (true, true, true);
        std::mem::take(&mut self.is_changed)
    }

    /// Makes sure that there is a record on disk. Returns whether a change by an agent became part
    /// of it.
    #[must_use]
    pub fn ensure_record(&mut self) -> bool {
        let is_new = !self.is_recorded && !self.memory.has_record;
        (self.is_recorded, self.memory.has_record) = (true, true);
        is_new && std::mem::take(&mut self.is_changed)
    }

    /// Restores the files, if there is a record.
    pub fn repair(&mut self) {
        if !self.memory.has_read_unreported {
            self.memory.is_pending |= self.is_unreported;
        }
        self.memory.has_read_unreported = true;
        self.memory.has_record |= self.is_recorded;
        if self.is_changed && self.memory.has_record {
            self.is_changed = false;
            (self.is_unreported, self.memory.is_pending) = (true, true);
        }
        self.is_recorded = false;
    }

    /// Returns whether there was a change to report.
    pub fn take_tampering(&mut self) -> bool {
        std::mem::take(&mut self.memory.is_pending)
    }

    /// Forgets what was reported.
    pub fn forget_reported(&mut self) {
        if self.memory.has_read_unreported && !self.memory.is_pending {
            self.is_unreported = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether a change by a reviewer is left after a death during its call.
    fn is_change_left(before: fn(&mut SimulatedGitDir)) -> bool {
        let mut files = SimulatedGitDir::default();
        assert!(!files.record());
        files.repair();
        before(&mut files);
        files.is_changed = true;
        files.begin_process();
        files.repair();
        assert_ne!(files.take_tampering(), files.is_changed);
        files.is_changed
    }

    #[test]
    fn a_change_before_a_death_is_undone_if_the_record_is_on_disk() {
        assert!(is_change_left(|_| {}));
        assert!(!is_change_left(|files| assert!(!files.ensure_record())));
    }

    #[test]
    fn a_change_is_reported_again_until_it_is_in_the_journal() {
        let mut files = SimulatedGitDir::default();
        assert!(!files.record());
        files.is_changed = true;
        files.repair();
        assert!(files.take_tampering());
        files.begin_process();
        files.repair();
        assert!(files.take_tampering());
        // Another look before the report is in the journal.
        files.repair();
        files.begin_process();
        files.repair();
        assert!(files.take_tampering());
        files.forget_reported();
        files.begin_process();
        files.repair();
        assert!(!files.take_tampering());
    }
}
