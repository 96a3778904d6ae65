//! Places for workers: numbered directories, each with one clone, which are reused.
//!
//! A process holds its slot by an OS lock. The `owner` file names the worker whose work is in the
//! clone, also after that worker has ended. Not here: the clone itself (`git`).

mod setup;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_model::ids::WorkerId;
use serde::{Deserialize, Serialize};

pub use setup::{SetupFingerprint, find_due_setup, record_setup};

use crate::atomic_file;
use crate::store::layout::{
    CLONES_DIRECTORY, create_private_directories, format_state_name, parse_slot_number,
};

/// Files in the directory of a slot, and the lock for taking one.
const LOCK: &str = "lock";
const OWNER: &str = "owner";
/// Exists as long as the clone has ignored files of earlier jobs.
const LEFTOVERS: &str = "leftovers";

/// To see whether a slot is held takes microseconds; this leaves room for a loaded machine.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// Enough for a lock file and an owner file.
const LARGEST_RECORD: u64 = 4096;

/// A place for one worker, held by a lock until it is dropped.
#[derive(Debug)]
pub struct WorkerSlot {
    place: SlotPlace,
    worker: WorkerId,
    lock: File,
}

/// What a slot is needed for.
#[derive(Debug, Clone, Copy)]
pub struct SlotRequest<'a> {
    /// The state root, or the directory that the settings name.
    pub root: &'a Path,
    /// The top of the project's work tree.
    pub work_tree: &'a Path,
    pub worker: &'a WorkerId,
    /// Workers that keep their clones.
    pub keep: &'a [WorkerId],
    /// No slot is added to so many.
    pub most: Option<usize>,
}

/// A slot, whether it is held or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotPlace {
    name: String,
    directory: PathBuf,
    clone: PathBuf,
}

/// Whose work is in a clone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SlotOwner {
    pub(crate) worker: WorkerId,
    pub(crate) state: CloneState,
}

/// How far a clone is prepared for its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CloneState {
    /// It is made for the first time; there is no work in it yet.
    Making,
    /// It is reset; the work of its last owner is saved.
    Resetting,
    Ready,
}

/// The process that holds a slot. For people, and to recognize the same job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotHolder {
    pub pid: u32,
    pub worker: Option<WorkerId>,
}

/// There is no slot.
#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    /// The same job was started twice.
    #[error("worker {worker} already runs in {place}")]
    Busy { worker: WorkerId, place: String },
    #[error("all {count} slots are in use")]
    Full { count: usize },
    #[error("cannot use `{}` for worker clones", .path.display())]
    Refused { path: PathBuf, source: io::Error },
}

impl WorkerSlot {
    /// Acquires the slot that this worker owns; else the first one that no process holds and
    /// whose owner need not be kept; else a new one, if there may be more.
    pub fn acquire(request: SlotRequest<'_>) -> Result<Self, SlotError> {
        let directory = find_slots_directory(request.root, request.work_tree);
        let refused = |source| SlotError::Refused { path: directory.clone(), source };
        create_private_directories(&directory).map_err(refused)?;
        // Two processes with the same job must not both miss that the other one takes a slot.
        let order = open_lock(&directory.join(LOCK)).map_err(refused)?;
        order.lock().map_err(refused)?;
        let slots = list_slots(request.root, request.work_tree);
        let slot = Self::choose_slot(request, &slots);
        let _ = order.unlock();
        slot
    }

    /// Releases this slot and acquires another one: `keep` must name the owner of this one.
    pub fn replace(&mut self, request: SlotRequest<'_>) -> Result<(), SlotError> {
        let _ = self.lock.unlock();
        *self = Self::acquire(request)?;
        Ok(())
    }

    fn choose_slot(request: SlotRequest<'_>, slots: &[SlotPlace]) -> Result<Self, SlotError> {
        let worker = request.worker;
        let busy = |place: &SlotPlace| SlotError::Busy {
            worker: worker.clone(),
            place: place.name.clone(),
        };
        let is_held = |place: &&SlotPlace| {
            place.find_holder().is_some_and(|it| it.worker.as_ref() == Some(worker))
        };
        if let Some(place) = slots.iter().find(is_held) {
            return Err(busy(place));
        }
        if let Some(place) = slots.iter().find(|it| it.owner().as_ref() == Some(worker)) {
            if let Some(slot) = place.hold(worker)? {
                return Ok(slot);
            }
            // A listing holds the lock for a moment.
            std::thread::sleep(RETRY_DELAY);
            return place.hold(worker)?.ok_or_else(|| busy(place));
        }
        for place in slots {
            let is_kept = place.owner().is_some_and(|owner| request.keep.contains(&owner));
            if !is_kept && let Some(slot) = place.hold(worker)? {
                return Ok(slot);
            }
        }
        if request.most.is_some_and(|most| slots.len() >= most) {
            return Err(SlotError::Full { count: slots.len() });
        }
        let is_free = |name: &String| slots.iter().all(|it| it.name != *name);
        let mut names = (1_u32..).map(|number| format!("s{number}"));
        let name = names.find(is_free).unwrap_or_default();
        let place = SlotPlace::new(request.root, request.work_tree, name);
        place.hold(worker)?.ok_or_else(|| busy(&place))
    }

    /// Returns the name, such as `s2`.
    pub fn name(&self) -> &str {
        &self.place.name
    }

    /// Returns the directory of the slot.
    pub fn directory(&self) -> &Path {
        &self.place.directory
    }

    /// Returns the work tree of the clone.
    pub fn clone_path(&self) -> &Path {
        &self.place.clone
    }

    /// Returns the worker whose work is in the clone; one with the name of the slot if that is
    /// unknown. With it in `keep`, this slot is not chosen again.
    pub fn owner(&self) -> Option<WorkerId> {
        self.place.owner()
    }

    /// Returns the slot as a place that others may look at.
    pub fn place(&self) -> &SlotPlace {
        &self.place
    }

    /// Returns whether the clone has ignored files of earlier jobs. What passed on them may not pass
    /// elsewhere.
    pub fn has_leftovers(&self) -> bool {
        self.place.directory.join(LEFTOVERS).symlink_metadata().is_ok()
    }

    pub(crate) fn record_leftovers(&self, is_there: bool) -> io::Result<()> {
        let file = self.place.directory.join(LEFTOVERS);
        if is_there {
            atomic_file::replace_file(&file, b"")
        } else {
            atomic_file::remove_if_exists(&file)
        }
    }

    pub(crate) fn record_owner(&self, state: CloneState) -> io::Result<()> {
        let worker = self.worker.clone();
        let text = serde_json::to_vec(&SlotOwner { worker, state })?;
        atomic_file::replace_file(&self.place.directory.join(OWNER), &text)
    }
}

impl Drop for WorkerSlot {
    fn drop(&mut self) {
        // A child between fork and exec has a copy of the handle: closing ours is not enough.
        let _ = self.lock.unlock();
    }
}

impl SlotPlace {
    fn new(root: &Path, work_tree: &Path, name: String) -> Self {
        let directory = find_slots_directory(root, work_tree).join(&name);
        // Tools show the name of the directory; it is the one that the project has.
        let clone = directory.join(work_tree.file_name().unwrap_or("project".as_ref()));
        Self { name, directory, clone }
    }

    /// Returns the name, such as `s2`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the directory of the slot.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the process that holds the slot.
    pub fn find_holder(&self) -> Option<SlotHolder> {
        let file = File::open(self.directory.join(LOCK)).ok()?;
        match file.try_lock_shared() {
            // A child between fork and exec has a copy of the handle: closing ours is not enough.
            Ok(()) => {
                let _ = file.unlock();
                None
            }
            Err(TryLockError::Error(_)) => None,
            Err(TryLockError::WouldBlock) => {
                Some(read_holder(&file).unwrap_or(SlotHolder { pid: 0, worker: None }))
            }
        }
    }

    /// Returns the worker whose work is in the clone; one with the name of the slot if that is
    /// unknown.
    pub fn owner(&self) -> Option<WorkerId> {
        self.read_owner().map(|owner| owner.worker)
    }

    /// Holds the slot for a worker. None if another process holds it.
    fn hold(&self, worker: &WorkerId) -> Result<Option<WorkerSlot>, SlotError> {
        let refused = |source| SlotError::Refused { path: self.directory.clone(), source };
        create_private_directories(&self.directory).map_err(refused)?;
        let mut lock = open_lock(&self.directory.join(LOCK)).map_err(refused)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(source)) => return Err(refused(source)),
        }
        let holder = SlotHolder { pid: std::process::id(), worker: Some(worker.clone()) };
        let text = serde_json::to_vec(&holder).map_err(|error| refused(error.into()))?;
        lock.set_len(0).and_then(|()| lock.write_all(&text)).map_err(refused)?;
        Ok(Some(WorkerSlot { place: self.clone(), worker: worker.clone(), lock }))
    }

    /// Returns the work tree of the clone.
    pub fn clone_path(&self) -> &Path {
        &self.clone
    }

    pub(crate) fn read_owner(&self) -> Option<SlotOwner> {
        let bytes = fs::read(self.directory.join(OWNER)).unwrap_or_default();
        // Without a record, what is in the clone may be work.
        let is_there = || self.clone.symlink_metadata().is_ok();
        let unknown = SlotOwner { worker: self.name_unknown_owner(), state: CloneState::Ready };
        serde_json::from_slice(&bytes).ok().or_else(|| is_there().then_some(unknown))
    }

    fn name_unknown_owner(&self) -> WorkerId {
        WorkerId(format!("unknown-{}", self.name))
    }
}

/// Returns the slots of a project, by number.
pub fn list_slots(root: &Path, work_tree: &Path) -> Vec<SlotPlace> {
    let entries = fs::read_dir(find_slots_directory(root, work_tree)).into_iter().flatten();
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut slots: Vec<(u32, SlotPlace)> = names
        .filter_map(|name| Some((parse_slot_number(&name)?, SlotPlace::new(root, work_tree, name))))
        .collect();
    slots.sort_by_key(|(number, _)| *number);
    slots.into_iter().map(|(_, slot)| slot).collect()
}

/// Returns how many bytes are free for files in a directory, or in its closest existing parent.
pub fn find_free_space(path: &Path) -> io::Result<u64> {
    let there = path.ancestors().find(|directory| directory.is_dir()).unwrap_or(path);
    let system = rustix::fs::statvfs(there)?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

fn find_slots_directory(root: &Path, work_tree: &Path) -> PathBuf {
    root.join(CLONES_DIRECTORY).join(format_state_name(work_tree))
}

fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn read_holder(mut file: &File) -> Option<SlotHolder> {
    let mut bytes = Vec::new();
    file.rewind().ok()?;
    file.take(LARGEST_RECORD).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests;
