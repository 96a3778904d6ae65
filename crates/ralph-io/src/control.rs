//! The inbox of a run: control requests, written as files and picked up by the run.
//!
//! It is in the run's own directory, which no agent and no gate can reach. A request is one small
//! file that is created atomically; its name is its id and sorts by time. The run removes a file
//! only once the request is in its journal, so that a crash loses none. Not here: what a request
//! does.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, Metadata};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ralph_core::control::{Asked, Found, LONGEST_NOTE, Wish, WishId};
use ralph_core::text;
use ralph_core::units::Timestamp;
use serde::{Deserialize, Serialize};

use crate::process::is_work_of;
use crate::store::{Lock, atomic};
use crate::{bounded, clock};

/// The format version of the files.
const VERSION: u32 = 1;

/// The longest note with every character escaped, plus room for the rest.
const LARGEST_FILE: u64 = 64 * 1024;

/// Users do not send so many requests between two steps; a script that does must wait.
const MOST_WAITING: usize = 100;

/// Limits the time for listing the inbox, whatever else is in it.
const MOST_LOOKED_AT: usize = 1_000;

/// User names are cut to this length.
const LONGEST_NAME: usize = 60;

/// Two changes of a directory within one tick of the kernel's clock get the same timestamp.
/// Ticks are 10 ms at most; this leaves room.
const SAME_TICK: Duration = Duration::from_millis(100);

/// A control request could not be sent.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The note is longer than the prompt allows.
    #[error("the note has {chars} characters; at most {LONGEST_NOTE} fit into a prompt")]
    NoteTooLong { chars: usize },
    /// The note is blank.
    #[error("the note is empty")]
    NoteEmpty,
    /// The run's own agent sent it.
    #[error("this command was started by the run's own agent, and only people may control a run")]
    OfAgent,
    /// The run has not picked up the earlier requests.
    #[error("{MOST_WAITING} control requests already wait in `{}`", .path.display())]
    Full { path: PathBuf },
    /// The file could not be written.
    #[error("cannot write a control request to `{}`", .path.display())]
    Refused { path: PathBuf, source: io::Error },
}

/// Sends a control request to a run, by its directory. Returns once the request is on disk.
///
/// Fails for descendants of the run: an agent must not skip its own task, for example.
pub fn send(run_directory: &Path, request: &Wish) -> Result<(), ControlError> {
    let run = run_directory.file_name().unwrap_or_default().to_string_lossy();
    let state = run_directory.parent().and_then(Path::parent);
    let holder = state.and_then(Lock::look).flatten().map(|holder| holder.pid);
    if is_work_of(&run, holder) {
        return Err(ControlError::OfAgent);
    }
    send_as(run_directory, request, sender()).map(drop)
}

/// Sends a request like [`send_request`], on behalf of `by`, and returns its id.
pub(crate) fn send_as(
    run_directory: &Path,
    request: &Wish,
    by: Option<String>,
) -> Result<WishId, ControlError> {
    if let Wish::Note { text } = request {
        let chars = text.chars().count();
        if text.trim().is_empty() {
            return Err(ControlError::NoteEmpty);
        }
        if chars > LONGEST_NOTE {
            return Err(ControlError::NoteTooLong { chars });
        }
    }
    let path = inbox(run_directory);
    let refused = |source| ControlError::Refused { path: path.clone(), source };
    make_directory(&path).map_err(refused)?;
    if names(&path).map_err(refused)?.len() >= MOST_WAITING {
        return Err(ControlError::Full { path });
    }
    let at = clock::now();
    let id = fresh_id(at);
    let letter = Letter { version: VERSION, at, by, wish: request.clone() };
    let content = serde_json::to_vec(&letter).map_err(|error| refused(error.into()))?;
    atomic::replace(&path.join(file_name(&id)), &content).map_err(refused)?;
    Ok(id)
}

/// Returns the requests that a run has not picked up yet, for display.
pub fn waiting(run_directory: &Path) -> Vec<Asked> {
    let mut inbox = Inbox::new(run_directory);
    inbox
        .take()
        .into_iter()
        .filter_map(|found| match found {
            Found::Wish(request) => Some(request),
            Found::Junk { .. } => None,
        })
        .collect()
}

/// The inbox of a run, for the run itself.
#[derive(Debug)]
pub struct Inbox {
    directory: PathBuf,
    /// The directory's modification time, if nothing new was in it then.
    quiet: Option<SystemTime>,
    /// Files that were already reported, or that are handled and cannot be removed.
    passed_over: BTreeSet<String>,
}

impl Inbox {
    /// Returns the inbox of a run, by its directory.
    pub fn new(run_directory: &Path) -> Self {
        Self { directory: inbox(run_directory), quiet: None, passed_over: BTreeSet::new() }
    }

    /// Returns the requests in the inbox, oldest first, and the files that are none. They stay
    /// until they are [removed](Self::remove_request). Costs one `stat` when nothing has arrived.
    pub fn take(&mut self) -> Vec<Found> {
        let Ok(metadata) = fs::symlink_metadata(&self.directory) else { return Vec::new() };
        let changed = changed(&metadata);
        if changed.is_some() && changed == self.quiet {
            return Vec::new();
        }
        self.quiet = None;
        if !metadata.is_dir() {
            return self.junk("inbox".to_owned(), "it is not a directory").into_iter().collect();
        }
        let Ok(names) = names(&self.directory) else { return Vec::new() };
        let found: Vec<Found> = names.into_iter().filter_map(|name| self.open(name)).collect();
        let is_settled = |time: &SystemTime| time.elapsed().is_ok_and(|age| age > SAME_TICK);
        if found.is_empty() {
            self.quiet = changed.filter(is_settled);
        }
        found
    }

    /// Removes a request that is in the journal.
    pub fn done_with(&mut self, id: &WishId) {
        let name = file_name(id);
        if fs::remove_file(self.directory.join(&name)).is_err() {
            // A file that cannot be removed must not be picked up again.
            self.passed_over.insert(name);
        }
    }

    fn open(&mut self, name: String) -> Option<Found> {
        let Some(id) = id_of(&name) else {
            return self.junk(name, "its name is not that of a control request");
        };
        if self.passed_over.contains(&name) {
            return None;
        }
        let path = self.directory.join(&name);
        let bytes = match bounded::read_file(&path, LARGEST_FILE + 1) {
            Ok(bytes) => bytes,
            Err(error) => return self.junk(name, &error.to_string()),
        };
        if bytes.len() as u64 > LARGEST_FILE {
            return self.junk(name, "it is too large");
        }
        let Letter { version: _, at, by, wish: request } = match serde_json::from_slice(&bytes) {
            Ok(letter) => letter,
            Err(error) => return self.junk(name, &error.to_string()),
        };
        let by = by.as_deref().and_then(named);
        Some(Found::Wish(Asked { id, at, by, wish: request }))
    }

    fn junk(&mut self, name: String, why: &str) -> Option<Found> {
        self.passed_over.insert(name.clone()).then(|| Found::Junk { name, why: why.to_owned() })
    }
}

/// The file format of a request.
#[derive(Debug, Serialize, Deserialize)]
struct Letter {
    version: u32,
    at: Timestamp,
    #[serde(default)]
    by: Option<String>,
    #[serde(rename = "wish")]
    wish: Wish,
}

fn inbox(run_directory: &Path) -> PathBuf {
    run_directory.join("inbox")
}

fn changed(metadata: &Metadata) -> Option<SystemTime> {
    metadata.modified().ok()
}

/// Creates the inbox, if the run's directory exists. Fails if a link is in its place.
fn make_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if fs::symlink_metadata(path)?.is_dir() {
                Ok(())
            } else {
                Err(io::Error::new(io::ErrorKind::NotADirectory, "it is not a directory"))
            }
        }
        made => made,
    }
}

/// Returns the sorted file names in the inbox, without files that are being written.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    let mut names: Vec<String> = fs::read_dir(directory)?
        .take(MOST_LOOKED_AT)
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    Ok(names)
}

/// Returns an id that sorts by time and is unique even within one millisecond.
fn fresh_id(at: Timestamp) -> WishId {
    // std seeds its hasher with random bytes from the system.
    let random = RandomState::new().hash_one(at.0) & 0xffff_ffff;
    WishId(format!("{:015}-{random:08x}", at.0.max(0)))
}

fn file_name(id: &WishId) -> String {
    format!("{}.json", id.0)
}

fn id_of(name: &str) -> Option<WishId> {
    let id = name.strip_suffix(".json")?;
    let (time, random) = id.split_once('-')?;
    let is_time = time.len() == 15 && time.bytes().all(|byte| byte.is_ascii_digit());
    let is_random = random.len() == 8 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_time && is_random).then(|| WishId(id.to_owned()))
}

/// Returns the user name of the sender.
fn sender() -> Option<String> {
    let name = |variable| std::env::var(variable).ok();
    name("USER").or_else(|| name("LOGNAME")).as_deref().and_then(named)
}

/// Returns a name that is safe to show in a prompt.
fn named(name: &str) -> Option<String> {
    let plain: String = name.chars().filter(|it| !it.is_control()).collect();
    let name = text::one_line(&plain, LONGEST_NAME);
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests;
