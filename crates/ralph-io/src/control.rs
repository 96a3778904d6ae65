//! The inbox of a run: wishes of people, left as files and taken up by the run.
//!
//! It lies in the run's own directory, which no agent and no gate reaches. A wish is one small
//! file that appears whole; its name is its id and sorts by time. The run removes a file only
//! once the wish is in its journal, so that a crash loses none. Not here: what becomes of a wish.

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

/// The version of the files.
const VERSION: u32 = 1;

/// The longest note, each character escaped, and room for the rest.
const LARGEST_FILE: u64 = 64 * 1024;

/// Nobody asks for so much between two steps; a script that does is told to wait.
const MOST_WAITING: usize = 100;

/// Whatever else lies in the inbox, a look at it stays short.
const MOST_LOOKED_AT: usize = 1_000;

/// Names of people are cut to this.
const LONGEST_NAME: usize = 60;

/// Two changes of a directory within one tick of the system's clock leave the same time on it.
/// Ticks are 10 ms at most; this leaves room.
const SAME_TICK: Duration = Duration::from_millis(100);

/// A wish could not be left.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The note is longer than a prompt takes.
    #[error("the note has {chars} characters; at most {LONGEST_NOTE} fit into a prompt")]
    NoteTooLong {
        /// Its length.
        chars: usize,
    },
    /// The note says nothing.
    #[error("the note is empty")]
    NoteEmpty,
    /// The run's own agent asks.
    #[error(
        "this is the work of the run's own agent, and what becomes of a run is for people to say"
    )]
    OfAgent,
    /// The run has not taken up what was asked before.
    #[error("{MOST_WAITING} wishes wait in `{}` already", .path.display())]
    Full {
        /// The inbox.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot leave a wish in `{}`", .path.display())]
    Refused {
        /// The inbox.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
}

/// Asks something of a run, by its directory. Returns once the wish is on disk.
///
/// Whoever is a descendant of the run is refused: a task that an agent has skipped is not done.
pub fn send(run_directory: &Path, wish: &Wish) -> Result<(), ControlError> {
    let run = run_directory.file_name().unwrap_or_default().to_string_lossy();
    let state = run_directory.parent().and_then(Path::parent);
    let holder = state.and_then(Lock::look).flatten().map(|holder| holder.pid);
    if is_work_of(&run, holder) {
        return Err(ControlError::OfAgent);
    }
    send_as(run_directory, wish, sender()).map(drop)
}

/// Asks like [`send`] in somebody's name, and returns the id of the wish.
pub(crate) fn send_as(
    run_directory: &Path,
    wish: &Wish,
    by: Option<String>,
) -> Result<WishId, ControlError> {
    if let Wish::Note { text } = wish {
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
    let letter = Letter { version: VERSION, at, by, wish: wish.clone() };
    let content = serde_json::to_vec(&letter).map_err(|error| refused(error.into()))?;
    atomic::replace(&path.join(file_name(&id)), &content).map_err(refused)?;
    Ok(id)
}

/// Returns the wishes that a run has not taken up yet, for people to see.
pub fn waiting(run_directory: &Path) -> Vec<Asked> {
    let mut inbox = Inbox::new(run_directory);
    inbox
        .take()
        .into_iter()
        .filter_map(|found| match found {
            Found::Wish(asked) => Some(asked),
            Found::Junk { .. } => None,
        })
        .collect()
}

/// The inbox of a run, for the run itself.
#[derive(Debug)]
pub struct Inbox {
    directory: PathBuf,
    /// When the directory was last changed, if there was nothing new in it since.
    quiet: Option<SystemTime>,
    /// What was told already, or is done with and cannot be removed.
    passed_over: BTreeSet<String>,
}

impl Inbox {
    /// Returns the inbox of a run, by its directory.
    pub fn new(run_directory: &Path) -> Self {
        Self { directory: inbox(run_directory), quiet: None, passed_over: BTreeSet::new() }
    }

    /// Returns the wishes that are there, oldest first, and what is not one. They stay until they
    /// are [done with](Self::done_with). One look at the directory when nothing has come.
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

    /// Removes a wish that is in the journal.
    pub fn done_with(&mut self, id: &WishId) {
        let name = file_name(id);
        if fs::remove_file(self.directory.join(&name)).is_err() {
            // One that cannot be removed is not taken again.
            self.passed_over.insert(name);
        }
    }

    fn open(&mut self, name: String) -> Option<Found> {
        let Some(id) = id_of(&name) else {
            return self.junk(name, "its name is not that of a wish");
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
        let Letter { version: _, at, by, wish } = match serde_json::from_slice(&bytes) {
            Ok(letter) => letter,
            Err(error) => return self.junk(name, &error.to_string()),
        };
        let by = by.as_deref().and_then(named);
        Some(Found::Wish(Asked { id, at, by, wish }))
    }

    fn junk(&mut self, name: String, why: &str) -> Option<Found> {
        self.passed_over.insert(name.clone()).then(|| Found::Junk { name, why: why.to_owned() })
    }
}

/// A wish as it lies in the inbox.
#[derive(Debug, Serialize, Deserialize)]
struct Letter {
    version: u32,
    at: Timestamp,
    #[serde(default)]
    by: Option<String>,
    wish: Wish,
}

fn inbox(run_directory: &Path) -> PathBuf {
    run_directory.join("inbox")
}

fn changed(metadata: &Metadata) -> Option<SystemTime> {
    metadata.modified().ok()
}

/// Makes the inbox, if the run is there. A link in its place is not followed.
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

/// Returns what lies in the inbox, in order, without files that are being written.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    let mut names: Vec<String> = fs::read_dir(directory)?
        .take(MOST_LOOKED_AT)
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    Ok(names)
}

/// Returns an id that sorts by time, and that nobody else takes at the same moment.
fn fresh_id(at: Timestamp) -> WishId {
    // std seeds its hasher from the system's source of chance.
    let chance = RandomState::new().hash_one(at.0) & 0xffff_ffff;
    WishId(format!("{:015}-{chance:08x}", at.0.max(0)))
}

fn file_name(id: &WishId) -> String {
    format!("{}.json", id.0)
}

fn id_of(name: &str) -> Option<WishId> {
    let id = name.strip_suffix(".json")?;
    let (time, chance) = id.split_once('-')?;
    let is_time = time.len() == 15 && time.bytes().all(|byte| byte.is_ascii_digit());
    let is_chance = chance.len() == 8 && chance.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_time && is_chance).then(|| WishId(id.to_owned()))
}

/// Returns who asks, by the name that the system gave them.
fn sender() -> Option<String> {
    let name = |variable| std::env::var(variable).ok();
    name("USER").or_else(|| name("LOGNAME")).as_deref().and_then(named)
}

/// Returns a name as it may stand in a prompt.
fn named(name: &str) -> Option<String> {
    let plain: String = name.chars().filter(|it| !it.is_control()).collect();
    let name = text::one_line(&plain, LONGEST_NAME);
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests;
