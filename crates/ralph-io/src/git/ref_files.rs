//! The refs of a repository, read from git's files without a process.
//!
//! An unchanged file is not read again. Not here: which refs matter.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ralph_core::ports::VcsError;

use super::repository::GitRepository;
use super::shadow::GitFileStamp;
use crate::bounded_read;

/// A file with one ref in it.
const LARGEST_REF: u64 = 4096;

/// The file with all packed refs; a million of them fit.
const LARGEST_PACKED: u64 = 256 * 1024 * 1024;

/// A user has fewer loose refs than this.
const MOST_LOOSE: usize = 100_000;

/// The prefix of a symbolic ref.
const SYMBOLIC: &str = "ref: ";

/// File systems round times to a tick of the kernel's clock, 10 ms at most. A file changed more
/// recently than this may change again without a new time.
pub(super) const TICK: Duration = Duration::from_millis(20);

/// The ref files, with their content when they were last read.
#[derive(Debug)]
pub(super) struct RefFiles {
    /// The git directory that all work trees share.
    common: PathBuf,
    loose: HashMap<String, (GitFileStamp, Option<String>)>,
    packed: BTreeMap<String, String>,
    packed_at: Option<GitFileStamp>,
}

impl RefFiles {
    /// Returns the files of a repository.
    pub(super) fn new(common: PathBuf) -> Self {
        Self { common, loose: HashMap::new(), packed: BTreeMap::new(), packed_at: None }
    }

    /// Returns all refs with a commit, a tag or another object, by their names.
    pub(super) fn read_all(
        &mut self,
        repository: &GitRepository,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<BTreeMap<String, String>, VcsError> {
        self.read_packed(repository)?;
        let packed = self.packed.iter().filter(|(name, _)| is_wanted(name));
        let mut refs: BTreeMap<String, String> =
            packed.map(|(name, id)| (name.clone(), id.clone())).collect();
        let mut open = vec!["refs".to_owned()];
        let mut count = 0;
        while let Some(directory) = open.pop() {
            let entries = fs::read_dir(self.common.join(&directory)).into_iter().flatten();
            for entry in entries.flatten() {
                let Ok(name) = entry.file_name().into_string() else { continue };
                let name = format!("{directory}/{name}");
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => open.push(name),
                    Ok(kind) if kind.is_file() && count < MOST_LOOSE => {
                        count += 1;
                        if is_wanted(&name)
                            && let Some(id) = self.read_loose(&name, entry.metadata().ok())
                        {
                            refs.insert(name, id);
                        }
                    }
                    Ok(_) | Err(_) => {}
                }
            }
        }
        Ok(refs)
    }

    /// Returns the current values of some refs.
    pub(super) fn read_some<'a>(
        &mut self,
        repository: &GitRepository,
        names: impl Iterator<Item = &'a String>,
    ) -> Result<BTreeMap<String, String>, VcsError> {
        self.read_packed(repository)?;
        let mut refs = BTreeMap::new();
        for name in names {
            let metadata = fs::symlink_metadata(self.common.join(name)).ok();
            let value = self.read_loose(name, metadata);
            if let Some(id) = value.or_else(|| self.packed.get(name).cloned()) {
                refs.insert(name.clone(), id);
            }
        }
        Ok(refs)
    }

    /// Reads a ref from its own file. A symbolic ref has no value of its own.
    fn read_loose(&mut self, name: &str, metadata: Option<Metadata>) -> Option<String> {
        let stamp = GitFileStamp::from_metadata(&metadata.filter(Metadata::is_file)?);
        if let Some((seen, value)) = self.loose.get(name)
            && *seen == stamp
        {
            return value.clone();
        }
        let text = read_text(&self.common.join(name))?;
        let value = text.trim_end();
        let is_id =
            [40, 64].contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_hexdigit());
        let value = is_id.then(|| value.to_owned());
        if is_stable_stamp(&stamp) {
            self.loose.insert(name.to_owned(), (stamp, value.clone()));
        } else {
            self.loose.remove(name);
        }
        value
    }

    /// Reads the refs without a file of their own: packed refs, or all refs in the reftable format.
    fn read_packed(&mut self, repository: &GitRepository) -> Result<(), VcsError> {
        let path = self.common.join("packed-refs");
        let stamp =
            fs::symlink_metadata(&path).ok().map(|metadata| GitFileStamp::from_metadata(&metadata));
        let text = if self.common.join("reftable").is_dir() {
            let format = "--format=%(objectname) %(refname)";
            let output = repository
                .commands
                .run_for_output(repository.build_plumbing(&["for-each-ref", format]))?;
            String::from_utf8_lossy(&output).into_owned()
        } else if stamp.is_some() && stamp == self.packed_at {
            return Ok(());
        } else {
            let packed = bounded_read::read_file(&path, LARGEST_PACKED).unwrap_or_default();
            String::from_utf8_lossy(&packed).into_owned()
        };
        self.packed_at = stamp.filter(is_stable_stamp);
        let lines = text.lines().filter(|line| !line.starts_with(['#', '^']));
        let refs = lines.filter_map(|line| line.split_once(' '));
        self.packed = refs.map(|(id, name)| (name.to_owned(), id.to_owned())).collect();
        Ok(())
    }
}

/// Returns the branch that a work tree has checked out, by its git directory.
pub(super) fn read_branch(git_dir: &Path) -> Option<String> {
    let text = read_text(&git_dir.join("HEAD"))?;
    text.strip_prefix(SYMBOLIC).map(|name| name.trim_end().to_owned())
}

/// Returns whether a file with this stamp cannot have been changed again without a new stamp.
pub(super) fn is_stable_stamp(stamp: &GitFileStamp) -> bool {
    let (seconds, nanos) = stamp.changed();
    let (Ok(seconds), Ok(nanos)) = (u64::try_from(seconds), u64::try_from(nanos)) else {
        return true;
    };
    let changed = Duration::from_secs(seconds) + Duration::from_nanos(nanos);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(changed) > TICK
}

/// Returns the value of a packed ref, if refs are stored in files.
pub(super) fn read_packed_ref(common: &Path, name: &str) -> Option<String> {
    if common.join("reftable").is_dir() {
        return None;
    }
    let packed = bounded_read::read_file(&common.join("packed-refs"), LARGEST_PACKED).ok()?;
    let packed = String::from_utf8_lossy(&packed);
    let mut refs = packed.lines().filter_map(|line| line.split_once(' '));
    refs.find(|(_, known)| *known == name).map(|(id, _)| id.to_owned())
}

fn read_text(path: &Path) -> Option<String> {
    String::from_utf8(bounded_read::read_file(path, LARGEST_REF).ok()?).ok()
}
