//! The memory of a run as files for people: the latest one, and earlier ones.
//!
//! A view like the others: the journal is what counts. Not here: the content of a memory.

use std::fs;
use std::path::Path;

use ralph_core::ports::StoreError;
use ralph_model::ids::{IterationNumber, RunId};
use ralph_model::memory::{Compacted, Memory, ResolvedItem};
use serde::{Deserialize, Serialize};

use super::RunStore;

/// The latest memory.
const LATEST: &str = "compacted-latest.json";

/// How many earlier memories are kept, for people who want to find out when something was lost.
const MOST_EARLIER: usize = 50;

/// ralph writes no larger memory.
const LARGEST: u64 = 4 * 1024 * 1024;

#[derive(Serialize)]
struct MemoryView<'a> {
    version: u32,
    run: &'a RunId,
    iteration: IterationNumber,
    #[serde(flatten)]
    memory: &'a Memory,
    resolved: &'a [ResolvedItem],
    left_out: &'a [String],
}

/// Identifies the memory in a file.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct MemoryLabel {
    run: RunId,
    iteration: IterationNumber,
}

impl RunStore {
    /// Writes the latest memory, and moves the previous one to the history. Idempotent.
    pub(super) fn publish_memory(
        &self,
        run: &RunId,
        iteration: IterationNumber,
        compacted: &Compacted,
    ) -> Result<(), StoreError> {
        let latest = self.prepare_view_path(&["context"], LATEST)?;
        let here = MemoryLabel { run: run.clone(), iteration };
        if fs::symlink_metadata(&latest).is_ok() && read_label(&latest).as_ref() != Some(&here) {
            let history = self.prepare_view_directory(&["context", "compaction-history"])?;
            let name = match read_label(&latest) {
                Some(MemoryLabel { run, iteration }) => {
                    format!("compacted-{run}-{:04}.json", iteration.0)
                }
                None => format!("compacted-{run}-{:04}-unknown-before.json", iteration.0),
            };
            fs::rename(&latest, history.join(name)).map_err(|error| StoreError {
                message: format!("cannot move `{}`: {error}", latest.display()),
            })?;
            remove_oldest(&history);
        }
        let view = MemoryView {
            version: 1,
            run,
            iteration,
            memory: &compacted.memory,
            resolved: &compacted.resolved,
            left_out: &compacted.left_out,
        };
        self.write_view(&["context"], LATEST, &view)
    }
}

/// Returns which memory a file holds; none if ralph did not write it. Strictly validated, because
/// it becomes part of a file name.
fn read_label(path: &Path) -> Option<MemoryLabel> {
    let metadata = fs::symlink_metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > LARGEST {
        return None;
    }
    let label: MemoryLabel = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    let run = &label.run.0;
    (!run.is_empty() && run.len() <= 40 && run.chars().all(is_plain)).then_some(label)
}

/// Removes the oldest memories. Their names begin with the start time of their run.
fn remove_oldest(history: &Path) {
    let Ok(entries) = fs::read_dir(history) else { return };
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut names: Vec<_> =
        names.filter(|name| name.to_string_lossy().starts_with("compacted-")).collect();
    names.sort();
    let surplus = names.len().saturating_sub(MOST_EARLIER);
    for name in &names[..surplus] {
        // A file that cannot be removed now is tried again with the next one.
        let _ = fs::remove_file(history.join(name));
    }
}
