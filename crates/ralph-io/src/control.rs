//! The inbox of a run: control requests, written as files and picked up by the run.
//!
//! It is in the run's own directory, which no agent and no gate can reach. A request is one small
//! file that is created atomically; its name is its id and sorts by time. The run removes a file
//! only once the request is in its journal, so that a crash loses none. Not here: what a request
//! does.

mod stop_watcher;

pub use stop_watcher::StopWatcher;

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, Metadata};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ralph_core::run_loop::control::MAX_NOTE_CHARS;
use ralph_model::control::{ControlRequest, ControlRequestId, InboxEntry, SubmittedRequest};
use ralph_model::text;
use ralph_model::units::Timestamp;
use serde::{Deserialize, Serialize};

use crate::process::is_descendant_of;
use crate::store::RunLock;
use crate::{atomic_file, bounded_read, clock};

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
    #[error("the note has {chars} characters; at most {MAX_NOTE_CHARS} fit into a prompt")]
    NoteTooLong { chars: usize },
    /// The note is blank.
    #[error("the note is empty")]
    NoteEmpty,
    /// The run's own agent sent it.
    #[error("this command was started by the run's own agent, and only people may control a run")]
    SentByAgent,
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
pub fn send_request(run_directory: &Path, request: &ControlRequest) -> Result<(), ControlError> {
    let run = run_directory.file_name().unwrap_or_default().to_string_lossy();
    let state = run_directory.parent().and_then(Path::parent);
    let holder = state.and_then(RunLock::find_holder).flatten().map(|holder| holder.pid);
    if is_descendant_of(&run, holder) {
        return Err(ControlError::SentByAgent);
    }
    send_as(run_directory, request, find_sender_name()).map(drop)
}

/// Sends a request like [`send_request`], on behalf of `by`, and returns its id.
pub(crate) fn send_as(
    run_directory: &Path,
    request: &ControlRequest,
    by: Option<String>,
) -> Result<ControlRequestId, ControlError> {
    if let Some(text) = request.note() {
        let chars = text.chars().count();
        if text.trim().is_empty() {
            return Err(ControlError::NoteEmpty);
        }
        if chars > MAX_NOTE_CHARS {
            return Err(ControlError::NoteTooLong { chars });
        }
    }
    let path = build_inbox_path(run_directory);
    let refused = |source| ControlError::Refused { path: path.clone(), source };
    make_directory(&path).map_err(refused)?;
    if list_names(&path).map_err(refused)?.len() >= MOST_WAITING {
        return Err(ControlError::Full { path });
    }
    let at = clock::now();
    let id = new_request_id(at);
    let letter = RequestFile { version: VERSION, at, by, request: request.clone() };
    let content = serde_json::to_vec(&letter).map_err(|error| refused(error.into()))?;
    atomic_file::replace_file(&path.join(format_request_file_name(&id)), &content)
        .map_err(refused)?;
    Ok(id)
}

/// Returns the requests that a run has not picked up yet, for display.
pub fn list_pending(run_directory: &Path) -> Vec<SubmittedRequest> {
    let mut inbox = Inbox::new(run_directory);
    inbox
        .poll()
        .into_iter()
        .filter_map(|found| match found {
            InboxEntry::Request(request) => Some(request),
            InboxEntry::Invalid { .. } => None,
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
        Self {
            directory: build_inbox_path(run_directory),
            quiet: None,
            passed_over: BTreeSet::new(),
        }
    }

    /// Returns the requests in the inbox, oldest first, and the files that are none. They stay
    /// until they are [removed](Self::remove_request). Costs one `stat` when nothing has arrived.
    pub fn poll(&mut self) -> Vec<InboxEntry> {
        let Ok(metadata) = fs::symlink_metadata(&self.directory) else { return Vec::new() };
        let changed = read_modification_time(&metadata);
        if changed.is_some() && changed == self.quiet {
            return Vec::new();
        }
        self.quiet = None;
        if !metadata.is_dir() {
            return self
                .report_invalid("inbox".to_owned(), "it is not a directory")
                .into_iter()
                .collect();
        }
        let Ok(names) = list_names(&self.directory) else { return Vec::new() };
        let found: Vec<InboxEntry> =
            names.into_iter().filter_map(|name| self.read_request(name)).collect();
        let is_settled = |time: &SystemTime| time.elapsed().is_ok_and(|age| age > SAME_TICK);
        if found.is_empty() {
            self.quiet = changed.filter(is_settled);
        }
        found
    }

    /// Removes a request that is in the journal.
    pub fn remove_request(&mut self, id: &ControlRequestId) {
        let name = format_request_file_name(id);
        if fs::remove_file(self.directory.join(&name)).is_err() {
            // A file that cannot be removed must not be picked up again.
            self.passed_over.insert(name);
        }
    }

    fn read_request(&mut self, name: String) -> Option<InboxEntry> {
        let Some(id) = parse_request_id(&name) else {
            return self.report_invalid(name, "its name is not that of a control request");
        };
        if self.passed_over.contains(&name) {
            return None;
        }
        let path = self.directory.join(&name);
        let bytes = match bounded_read::read_file(&path, LARGEST_FILE + 1) {
            Ok(bytes) => bytes,
            Err(error) => return self.report_invalid(name, &error.to_string()),
        };
        if bytes.len() as u64 > LARGEST_FILE {
            return self.report_invalid(name, "it is too large");
        }
        let RequestFile { version: _, at, by, request } = match serde_json::from_slice(&bytes) {
            Ok(letter) => letter,
            Err(error) => return self.report_invalid(name, &error.to_string()),
        };
        let by = by.as_deref().and_then(clean_name);
        Some(InboxEntry::Request(SubmittedRequest { id, at, by, request }))
    }

    fn report_invalid(&mut self, name: String, why: &str) -> Option<InboxEntry> {
        self.passed_over
            .insert(name.clone())
            .then(|| InboxEntry::Invalid { name, why: why.to_owned() })
    }
}

/// The file format of a request.
#[derive(Debug, Serialize, Deserialize)]
struct RequestFile {
    version: u32,
    at: Timestamp,
    #[serde(default)]
    by: Option<String>,
    #[serde(rename = "wish")]
    request: ControlRequest,
}

fn build_inbox_path(run_directory: &Path) -> PathBuf {
    run_directory.join("inbox")
}

fn read_modification_time(metadata: &Metadata) -> Option<SystemTime> {
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
fn list_names(directory: &Path) -> io::Result<Vec<String>> {
    let mut names: Vec<String> = fs::read_dir(directory)?
        .take(MOST_LOOKED_AT)
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    Ok(names)
}

/// Returns an id that sorts by time and is unique even within one millisecond.
fn new_request_id(at: Timestamp) -> ControlRequestId {
    // std seeds its hasher with random bytes from the system.
    let random = RandomState::new().hash_one(at.0) & 0xffff_ffff;
    ControlRequestId(format!("{:015}-{random:08x}", at.0.max(0)))
}

fn format_request_file_name(id: &ControlRequestId) -> String {
    format!("{}.json", id.0)
}

fn parse_request_id(name: &str) -> Option<ControlRequestId> {
    let id = name.strip_suffix(".json")?;
    let (time, random) = id.split_once('-')?;
    let is_time = time.len() == 15 && time.bytes().all(|byte| byte.is_ascii_digit());
    let is_random = random.len() == 8 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_time && is_random).then(|| ControlRequestId(id.to_owned()))
}

/// Returns the user name of the sender.
fn find_sender_name() -> Option<String> {
    let name = |variable| std::env::var(variable).ok();
    name("USER").or_else(|| name("LOGNAME")).as_deref().and_then(clean_name)
}

/// Returns a name that is safe to show in a prompt.
fn clean_name(name: &str) -> Option<String> {
    let plain: String = name.chars().filter(|it| !it.is_control()).collect();
    let name = text::join_to_line(&plain, LONGEST_NAME);
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests;
