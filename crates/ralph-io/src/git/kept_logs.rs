//! Copies of git's reflogs, where agents cannot reach them.
//!
//! A reflog only grows, except that git lets entries expire. Stashes are entries of a reflog. Not
//! here: the refs.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::kept_objects::make_real_directory;
use super::ref_files::is_stable_stamp;
use super::shadow::GitFileStamp;
use crate::atomic_file;
use crate::bounded_read;

/// Longer logs are not copied; this is some hundred thousand entries.
const LARGEST_LOG: u64 = 64 * 1024 * 1024;

/// No repository has more logs than this.
const MOST_LOGS: usize = 100_000;

/// git lets entries expire after 30 days if their commits are no longer reachable, and after 90
/// otherwise.
const EXPIRY: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The log whose entries are stashes, which do not expire.
const STASH: &str = "refs/stash";

/// The reflogs in a git directory, and their copies.
#[derive(Debug)]
pub(super) struct KeptLogs {
    source: PathBuf,
    store: PathBuf,
    /// The logs with up-to-date copies, with their metadata at that time.
    copied: HashMap<PathBuf, GitFileStamp>,
}

impl KeptLogs {
    /// Returns the copies of the logs in a git directory.
    pub(super) fn new(git_dir: &Path, store: PathBuf) -> Self {
        Self { source: git_dir.join("logs"), store, copied: HashMap::new() }
    }

    /// Updates the copies to the current logs.
    pub(super) fn update_copies(&mut self) -> io::Result<()> {
        let present = list_files(&self.source);
        if self.copied.is_empty() && self.store.exists() {
            fs::remove_dir_all(&self.store)?;
        }
        let gone: Vec<PathBuf> =
            self.copied.keys().filter(|name| !present.contains_key(*name)).cloned().collect();
        for name in gone {
            self.copied.remove(&name);
            fs::remove_file(self.store.join(name))?;
        }
        for (name, stamp) in present {
            if self.copied.get(&name) == Some(&stamp) {
                continue;
            }
            let (from, to) = (self.source.join(&name), self.store.join(&name));
            let Ok(content) = bounded_read::read_file(&from, LARGEST_LOG) else { continue };
            // A branch may have become a directory of branches, or the reverse.
            if to.is_dir() {
                fs::remove_dir_all(&to)?;
            }
            fs::create_dir_all(to.parent().unwrap_or(&self.store))?;
            fs::write(&to, content)?;
            self.copied.insert(name, stamp);
        }
        Ok(())
    }

    /// Returns the names of the refs whose logs lost entries.
    pub(super) fn find_losses(&self) -> Vec<PathBuf> {
        let kept: Vec<PathBuf> = if self.copied.is_empty() {
            list_files(&self.store).into_keys().collect()
        } else {
            self.copied.keys().cloned().collect()
        };
        let mut lost: Vec<PathBuf> =
            kept.into_iter().filter(|name| self.has_losses(name)).collect();
        lost.sort();
        lost
    }

    fn has_losses(&self, name: &Path) -> bool {
        let (now, was) = (self.source.join(name), self.store.join(name));
        let stamp =
            fs::symlink_metadata(&now).ok().map(|metadata| GitFileStamp::from_metadata(&metadata));
        if stamp.as_ref().is_some_and(|it| is_stable_stamp(it) && self.copied.get(name) == Some(it))
        {
            return false;
        }
        let read = |path: &Path| bounded_read::read_file(path, LARGEST_LOG).unwrap_or_default();
        let may_expire = name != Path::new(STASH);
        has_lost_entries(&read(&was), &read(&now), may_expire.then(SystemTime::now))
    }

    /// Returns a log with its lost entries, followed by those added since.
    pub(super) fn merge_log(&self, name: &Path) -> io::Result<MergedLog> {
        let path = self.source.join(name);
        let was = fs::read(self.store.join(name))?;
        let now = bounded_read::read_file(&path, LARGEST_LOG).unwrap_or_default();
        Ok(MergedLog { path, content: merge_entries(&was, &now) })
    }

    /// Writes a log.
    pub(super) fn write_log(&self, log: &MergedLog) -> io::Result<()> {
        let path = &log.path;
        let parents: Vec<&Path> =
            path.ancestors().skip(1).take_while(|it| it.starts_with(&self.source)).collect();
        parents.into_iter().rev().try_for_each(make_real_directory)?;
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(path)?;
        }
        atomic_file::replace_with(path, &log.content, Permissions::from_mode(0o644))
    }
}

/// A log with all its entries.
#[derive(Debug)]
pub(super) struct MergedLog {
    path: PathBuf,
    content: Vec<u8>,
}

impl MergedLog {
    /// Returns the object id of the last entry.
    pub(super) fn last_id(&self) -> Option<String> {
        let last = self.content.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty());
        let id = last.and_then(|line| line.split(|byte| *byte == b' ').nth(1));
        id.map(|id| String::from_utf8_lossy(id).into_owned())
    }

    /// Removes the current log, so that git adds no entry to it.
    pub(super) fn remove_present(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns whether entries are missing. Given a time, old entries may be missing.
fn has_lost_entries(was: &[u8], now: &[u8], expires_at: Option<SystemTime>) -> bool {
    if now.starts_with(was) {
        return false;
    }
    let present: BTreeSet<&[u8]> = now.split(|byte| *byte == b'\n').collect();
    let mut missing = was.split(|byte| *byte == b'\n').filter(|line| !present.contains(line));
    match expires_at.and_then(|now| now.checked_sub(EXPIRY)) {
        Some(limit) => missing.any(|line| parse_entry_time(line).is_none_or(|time| time > limit)),
        None => missing.next().is_some(),
    }
}

/// Parses `OLD NEW NAME <EMAIL> SECONDS ZONE\tMESSAGE`.
fn parse_entry_time(line: &[u8]) -> Option<SystemTime> {
    let head = line.split(|byte| *byte == b'\t').next()?;
    let seconds = std::str::from_utf8(head).ok()?.rsplit(' ').nth(1)?.parse().ok()?;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// Returns all entries of `was`, then the new ones of `now`.
fn merge_entries(was: &[u8], now: &[u8]) -> Vec<u8> {
    let known: BTreeSet<&[u8]> = was.split(|byte| *byte == b'\n').collect();
    let mut all = was.to_vec();
    for line in now.split(|byte| *byte == b'\n').filter(|line| !known.contains(line)) {
        all.extend(line);
        all.push(b'\n');
    }
    all
}

/// Returns all files below a directory, with paths relative to it.
fn list_files(root: &Path) -> HashMap<PathBuf, GitFileStamp> {
    let mut found = HashMap::new();
    let mut open = vec![PathBuf::new()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(root.join(&directory)).into_iter().flatten().flatten() {
            let name = directory.join(entry.file_name());
            match entry.metadata() {
                Ok(about) if about.is_dir() => open.push(name),
                Ok(about) if about.is_file() && found.len() < MOST_LOGS => {
                    found.insert(name, GitFileStamp::from_metadata(&about));
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_may_be_added_and_expire_and_are_otherwise_lost() {
        let entry = |id: &str, seconds: u64| format!("0 {id} A <a@b> {seconds} +0000\tcommit: x\n");
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let (old, new) = (entry("1", 900_000_000), entry("2", 999_999_000));
        let later = entry("3", 999_999_999);
        let both = format!("{old}{new}");
        for (now_there, of_branch, of_stash) in [
            (both.clone(), false, false),
            (format!("{both}{later}"), false, false),
            (new.clone(), false, true),
            (old.clone(), true, true),
            (later.clone(), true, true),
            (String::new(), true, true),
        ] {
            let check = |at| has_lost_entries(both.as_bytes(), now_there.as_bytes(), at);
            assert_eq!(check(Some(now)), of_branch, "{now_there}");
            assert_eq!(check(None), of_stash, "{now_there}");
        }
        let merged = merge_entries(both.as_bytes(), format!("{new}{later}").as_bytes());
        assert_eq!(String::from_utf8(merged).expect("text"), format!("{both}{later}"));
    }
}
