//! git's index file, read without a process: its tree, and how it differs from another one.
//!
//! Versions 2 and 3 are read; a split or sparse index, conflicts, and paths that are only intended
//! to be added are left to git. Not here: changing an index, which only git does.

use std::cmp::Ordering;
use std::ops::Range;
use std::path::Path;

use super::diff::{TreeChange, TreeEntry};
use super::object_store::{ObjectId, ObjectStore, format_id, hash_object};
use crate::bounded_read;

/// Larger ones are left to git: some 30 000 files. A few of them are kept in memory.
const LARGEST: u64 = 4 * 1024 * 1024;

/// How many trees are written without git. With more, git also stores their ids in the index, so
/// that the next time is fast.
const MOST_TREES: usize = 64;

/// The size of an entry before its path.
const ENTRY: usize = 62;

/// Work trees are rarely deeper; for one that is, git is asked.
const DEEPEST: usize = 100;

/// Deeper directories are left to git.
const LONGEST_PREFIX: usize = 1024;

const TREE_MODE: u32 = 0o040_000;
const LINK_MODE: u32 = 0o160_000;

/// A parsed index.
#[derive(Debug)]
pub(super) struct IndexFile {
    bytes: Vec<u8>,
    entries: Vec<IndexFileEntry>,
    /// The ids of the trees that are still the same as when git last wrote them.
    trees: Option<CachedTree>,
}

#[derive(Debug)]
struct IndexFileEntry {
    mode: u32,
    id: ObjectId,
    path: Range<usize>,
    mark: Option<HidingMark>,
}

/// A mark on a tracked file: git does not look for its changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HidingMark {
    AssumeUnchanged,
    SkipWorktree,
}

/// A tree whose id git stored in the index.
#[derive(Debug)]
struct CachedTree {
    name: Vec<u8>,
    /// How many entries it has, and its id; none if it has changed since.
    written: Option<(usize, ObjectId)>,
    below: Vec<CachedTree>,
}

impl IndexFile {
    /// Reads an index, if it is one that can be read here.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let bytes = bounded_read::read_file(path, LARGEST).ok()?;
        Self::parse(bytes)
    }

    /// Reads an index of any usual size.
    pub(super) fn read_large(path: &Path) -> Option<Self> {
        Self::parse(bounded_read::read_file(path, LARGEST * 64).ok()?)
    }

    fn parse(bytes: Vec<u8>) -> Option<Self> {
        let mut entries = Vec::new();
        let version = read_number(&bytes, 4)?;
        if !bytes.starts_with(b"DIRC") || !(2..=3).contains(&version) {
            return None;
        }
        let mut at = 12;
        for _ in 0..read_number(&bytes, 8)? {
            let entry = bytes.get(at..at + ENTRY)?;
            let flags = u16::from_be_bytes([entry[60], entry[61]]);
            let is_extended = flags & 0x4000 != 0;
            let start = at + ENTRY + if is_extended { 2 } else { 0 };
            let is_only_intended = is_extended && *bytes.get(start - 2)? & 0x20 != 0;
            let length = bytes.get(start..)?.iter().position(|byte| *byte == 0)?;
            if flags & 0x3000 != 0 || is_only_intended || length == 0 {
                return None;
            }
            let mut id = ObjectId::default();
            id.copy_from_slice(&entry[40..60]);
            let mode = read_number(entry, 24)?;
            let mark = if is_extended && bytes[start - 2] & 0x40 != 0 {
                Some(HidingMark::SkipWorktree)
            } else {
                (flags & 0x8000 != 0).then_some(HidingMark::AssumeUnchanged)
            };
            let entry = IndexFileEntry { mode, id, path: start..start + length, mark };
            let path_of = |it: &IndexFileEntry| &bytes[it.path.clone()];
            if entries.last().is_some_and(|last| path_of(last) >= path_of(&entry)) {
                return None;
            }
            entries.push(entry);
            at += (start + length - at) / 8 * 8 + 8;
        }
        let mut trees = None;
        let end = bytes.len().checked_sub(20)?;
        while at < end {
            let size = usize::try_from(read_number(&bytes, at + 4)?).ok()?;
            let content = bytes.get(at + 8..at.checked_add(8)?.checked_add(size)?)?;
            match bytes.get(at..at + 4)? {
                b"TREE" => trees = CachedTree::parse(&mut &*content, DEEPEST),
                // Those that git can do without begin with a capital letter.
                name if name[0].is_ascii_uppercase() => {}
                _ => return None,
            }
            at += 8 + size;
        }
        Some(Self { bytes, entries, trees })
    }

    fn path(&self, entry: &IndexFileEntry) -> &[u8] {
        &self.bytes[entry.path.clone()]
    }

    /// Returns the paths of submodules and of other repositories in it.
    pub(super) fn gitlinks(&self) -> impl Iterator<Item = &[u8]> {
        let links = self.entries.iter().filter(|entry| entry.mode == LINK_MODE);
        links.map(|entry| self.path(entry))
    }

    /// Returns the paths of files whose changes git does not look for.
    pub(super) fn hidden_paths(&self) -> impl Iterator<Item = (&[u8], HidingMark)> {
        self.entries.iter().filter_map(|entry| Some((self.path(entry), entry.mark?)))
    }

    /// Returns whether a path is in it.
    pub(super) fn has_path(&self, path: &[u8]) -> bool {
        self.entries.binary_search_by(|entry| self.path(entry).cmp(path)).is_ok()
    }

    /// Returns the paths.
    pub(super) fn paths(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(|entry| self.path(entry))
    }

    /// Writes the tree, and returns its id. None if that is left to git: an object is missing, or
    /// there is much to write.
    pub(super) fn write_tree(&self, store: &ObjectStore) -> Option<String> {
        self.find_tree(Some(store), MOST_TREES)
    }

    /// Returns the id of the tree. None if git stored another one in the index, which an agent may
    /// have done to hide what is staged.
    pub(super) fn hash_tree(&self) -> Option<String> {
        self.find_tree(None, usize::MAX)
    }

    fn find_tree(&self, store: Option<&ObjectStore>, mut most: usize) -> Option<String> {
        let all = 0..self.entries.len();
        let id = self.find_subtree(all, 0, self.trees.as_ref(), store, &mut most)?;
        Some(format_id(&id))
    }

    /// Returns the tree of some entries, whose paths have this many bytes in common. With a store it
    /// is written; without one the ids in the index are checked.
    fn find_subtree(
        &self,
        entries: Range<usize>,
        prefix: usize,
        cached: Option<&CachedTree>,
        store: Option<&ObjectStore>,
        left: &mut usize,
    ) -> Option<ObjectId> {
        let written = cached.and_then(|it| it.written).filter(|(count, _)| *count == entries.len());
        if let (Some((_, id)), Some(store)) = (written, store)
            && store.contains(&id)
        {
            return Some(id);
        }
        *left = left.checked_sub(1).filter(|_| prefix < LONGEST_PREFIX)?;
        let mut content = Vec::new();
        let mut at = entries.start;
        while at < entries.end {
            let entry = &self.entries[at];
            let rest = &self.path(entry)[prefix..];
            let (mode, name, id) = match rest.iter().position(|byte| *byte == b'/') {
                None => {
                    at += 1;
                    let is_there = |store: &ObjectStore| store.contains(&entry.id);
                    if entry.mode != LINK_MODE && !store.is_none_or(is_there) {
                        return None;
                    }
                    (entry.mode, rest, entry.id)
                }
                Some(slash) => {
                    let (name, start) = (&rest[..slash], at);
                    let is_within =
                        |it: &&IndexFileEntry| self.path(it)[prefix..].starts_with(&rest[..=slash]);
                    at += self.entries[at..entries.end].iter().take_while(is_within).count();
                    let below = cached.and_then(|it| it.below.iter().find(|it| it.name == name));
                    let prefix = prefix + slash + 1;
                    let id = self.find_subtree(start..at, prefix, below, store, left)?;
                    (TREE_MODE, name, id)
                }
            };
            content.extend_from_slice(format!("{mode:o} ").as_bytes());
            content.extend_from_slice(name);
            content.push(0);
            content.extend_from_slice(&id);
        }
        if let Some(store) = store {
            return store.write("tree", &content).ok();
        }
        let id = hash_object("tree", &content);
        cached.and_then(|it| it.written).is_none_or(|(_, known)| known == id).then_some(id)
    }

    /// Returns the changes from this index to another one.
    pub(super) fn diff(&self, other: &Self) -> Vec<TreeChange> {
        let mut changes = Vec::new();
        let (mut old, mut new) = (self.entries.iter().peekable(), other.entries.iter().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return changes,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some(new)) => self.path(old).cmp(other.path(new)),
            };
            let before = old.next_if(|_| order != Ordering::Greater);
            let after = new.next_if(|_| order != Ordering::Less);
            let path = before.map(|it| self.path(it)).or(after.map(|it| other.path(it)));
            if before.map(|it| (it.mode, it.id)) != after.map(|it| (it.mode, it.id)) {
                changes.push(TreeChange {
                    before: before.map(IndexFileEntry::to_tree_entry),
                    after: after.map(IndexFileEntry::to_tree_entry),
                    path: path.unwrap_or_default().to_vec(),
                });
            }
        }
    }
}

impl IndexFileEntry {
    fn to_tree_entry(&self) -> TreeEntry {
        TreeEntry {
            mode: format!("{:06o}", self.mode).into_bytes(),
            id: format_id(&self.id).into_bytes(),
        }
    }
}

impl CachedTree {
    /// Parses a tree and those below it, and consumes their bytes.
    fn parse(bytes: &mut &[u8], levels: usize) -> Option<Self> {
        let levels = levels.checked_sub(1)?;
        let name = take_until(bytes, 0)?.to_vec();
        let count: i64 = std::str::from_utf8(take_until(bytes, b' ')?).ok()?.parse().ok()?;
        let below: usize = std::str::from_utf8(take_until(bytes, b'\n')?).ok()?.parse().ok()?;
        let written = match usize::try_from(count) {
            Ok(count) => {
                let (id, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Some((count, *id))
            }
            Err(_) => None,
        };
        let below = (0..below).map(|_| Self::parse(bytes, levels)).collect::<Option<_>>()?;
        Some(Self { name, written, below })
    }
}

fn take_until<'a>(bytes: &mut &'a [u8], end: u8) -> Option<&'a [u8]> {
    let length = bytes.iter().position(|byte| *byte == end)?;
    let taken = &bytes[..length];
    *bytes = &bytes[length + 1..];
    Some(taken)
}

fn read_number(bytes: &[u8], at: usize) -> Option<u32> {
    let number = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns an index with these paths.
    fn build_index(paths: &[&str]) -> Vec<u8> {
        let mut bytes = b"DIRC\0\0\0\x02".to_vec();
        bytes.extend_from_slice(&u32::try_from(paths.len()).expect("few").to_be_bytes());
        for path in paths {
            let start = bytes.len();
            bytes.extend_from_slice(&[0; 24]);
            bytes.extend_from_slice(&0o100_644_u32.to_be_bytes());
            bytes.extend_from_slice(&[0; 12]);
            bytes.extend_from_slice(&[7; 20]);
            bytes.extend_from_slice(&u16::try_from(path.len()).expect("short").to_be_bytes());
            bytes.extend_from_slice(path.as_bytes());
            let length = (bytes.len() - start) / 8 * 8 + 8;
            bytes.resize(start + length, 0);
        }
        bytes.extend_from_slice(&[0; 20]);
        bytes
    }

    #[test]
    fn entries_are_read_and_compared() {
        let old = IndexFile::parse(build_index(&["a", "b/c", "b/d"])).expect("an index");
        let new = IndexFile::parse(build_index(&["a", "b/d", "e"])).expect("an index");
        assert!(old.has_path(b"b/c") && !new.has_path(b"b/c"));
        let changes: Vec<(Vec<u8>, bool)> =
            old.diff(&new).into_iter().map(|it| (it.path, it.after.is_some())).collect();
        assert_eq!(changes, [(b"b/c".to_vec(), false), (b"e".to_vec(), true)]);
        assert_eq!(old.diff(&old), []);
    }

    #[test]
    fn what_cannot_be_read_here_is_left_to_git() {
        for paths in [&["b", "a"][..], &["a", "a"], &[""]] {
            assert!(IndexFile::parse(build_index(paths)).is_none(), "{paths:?}");
        }
        let whole = build_index(&["a"]);
        for (at, byte) in [(0, b'X'), (7, 4), (12 + 60, 0x10), (12 + 60, 0x80 | 0x40)] {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            let read = IndexFile::parse(bytes);
            // An extended entry has its path two bytes later, which is a zero here.
            assert!(read.is_none(), "{byte:#x} at {at}");
        }
        let mut split = whole.clone();
        let end = split.len() - 20;
        split.splice(end..end, *b"link\0\0\0\0");
        assert!(IndexFile::parse(split).is_none(), "a split index");
        let mut deep = whole;
        let trees = b"\0-1 1\n".repeat(DEEPEST + 1);
        let size = u32::try_from(trees.len()).expect("small").to_be_bytes();
        deep.splice(end..end, [&b"TREE"[..], &size, &trees].concat());
        assert!(IndexFile::parse(deep).is_some_and(|index| index.trees.is_none()), "no stack");
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_much(mut bytes: Vec<u8>, count: u8, size: u8) {
            let head = [b"DIRC\0\0\0\x02\0\0\0", &[count][..]].concat();
            bytes.splice(0..0, head);
            bytes.extend_from_slice(&[b"TREE\0\0\0", &[size][..]].concat());
            let _ = IndexFile::parse(bytes);
        }
    }
}
