//! Lists of changed paths in git's raw format.
//!
//! Not here: what is done about a change.

use ralph_core::ports::VcsError;

/// The mode of a submodule or of a repository within the work tree.
const GITLINK: &[u8] = b"160000";

/// The mode of an executable file.
const EXECUTABLE: &[u8] = b"100755";

/// A path that differs between two trees, or between a tree and an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreeChange {
    /// The old entry; none if the path did not exist.
    pub(super) before: Option<TreeEntry>,
    /// The new entry; none if the path does not exist any more.
    pub(super) after: Option<TreeEntry>,
    /// The path from the top of the work tree, as bytes.
    pub(super) path: Vec<u8>,
}

/// The entry of a tree or index at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreeEntry {
    pub(super) mode: Vec<u8>,
    pub(super) id: Vec<u8>,
}

impl TreeChange {
    /// Returns whether a repository within the work tree is involved.
    pub(super) fn has_gitlink(&self) -> bool {
        [&self.before, &self.after].into_iter().flatten().any(|entry| entry.mode == GITLINK)
    }

    /// Returns whether the path was added as a nested repository.
    pub(super) fn adds_gitlink(&self) -> bool {
        self.before.is_none() && self.has_gitlink()
    }

    /// Returns whether the path became executable.
    pub(super) fn makes_executable(&self) -> bool {
        let can_run =
            |entry: &Option<TreeEntry>| entry.as_ref().is_some_and(|it| it.mode == EXECUTABLE);
        can_run(&self.after) && !can_run(&self.before)
    }

    /// Returns whether it changes ignore rules.
    pub(super) fn is_ignore_file(&self) -> bool {
        self.path == b".gitignore" || self.path.ends_with(b"/.gitignore")
    }
}

/// Parses the output of `git diff-tree` or `git diff-index` with `--raw -z --no-renames`.
pub(super) fn parse_raw_changes(output: &[u8]) -> Result<Vec<TreeChange>, VcsError> {
    let garbled = || VcsError { message: "git's list of changes cannot be read".to_owned() };
    let mut changes = Vec::new();
    let mut fields = output.split(|byte| *byte == 0);
    while let Some(head) = fields.next() {
        if head.is_empty() {
            continue;
        }
        let mut parts = head.strip_prefix(b":").ok_or_else(garbled)?.split(|byte| *byte == b' ');
        let mut part = || parts.next().ok_or_else(garbled);
        let (old_mode, new_mode, old_id, new_id) = (part()?, part()?, part()?, part()?);
        let entry = |mode: &[u8], id: &[u8]| {
            (mode != b"000000").then(|| TreeEntry { mode: mode.to_vec(), id: id.to_vec() })
        };
        changes.push(TreeChange {
            before: entry(old_mode, old_id),
            after: entry(new_mode, new_id),
            path: fields.next().ok_or_else(garbled)?.to_vec(),
        });
    }
    Ok(changes)
}

/// Separates the list of changes from the patch that follows it in an output.
#[derive(Debug, Default)]
pub(super) struct RawChangeList {
    list: Vec<u8>,
    at: RawChangePart,
}

/// What comes next in such an output.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum RawChangePart {
    /// An entry of the list, or its end.
    #[default]
    Entry,
    /// The rest of an entry's modes and ids.
    Head,
    /// The rest of a path.
    Path,
    /// The rest of the patch.
    Patch,
}

impl RawChangeList {
    /// Consumes the bytes of the list, and returns those of the patch.
    pub(super) fn consume<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        for (place, byte) in bytes.iter().enumerate() {
            self.at = match (self.at, byte) {
                (RawChangePart::Patch, _) => return &bytes[place..],
                (RawChangePart::Entry, b':') => RawChangePart::Head,
                // The list ends with a zero byte of its own.
                (RawChangePart::Entry, _) => RawChangePart::Patch,
                (RawChangePart::Head, 0) => RawChangePart::Path,
                (RawChangePart::Path, 0) => RawChangePart::Entry,
                (within @ (RawChangePart::Head | RawChangePart::Path), _) => within,
            };
            if self.at != RawChangePart::Patch {
                self.list.push(*byte);
            }
        }
        &[]
    }

    /// Returns the changes, if the list is complete.
    pub(super) fn parse_changes(&self) -> Option<Vec<TreeChange>> {
        parse_raw_changes(&self.list).ok().filter(|_| self.at == RawChangePart::Patch)
    }
}

/// Formats changes for `git update-index -z --index-info`: each path with its new entry.
pub(super) fn format_index_info<'a>(changes: impl IntoIterator<Item = &'a TreeChange>) -> Vec<u8> {
    let mut info = Vec::new();
    for change in changes {
        match (&change.after, &change.before) {
            (Some(TreeEntry { mode, id }), _) => {
                info.extend_from_slice(mode);
                info.push(b' ');
                info.extend_from_slice(id);
            }
            // A removal still needs an id of the right length.
            (None, before) => {
                let length = before.as_ref().map_or(40, |entry| entry.id.len());
                info.extend_from_slice(b"0 ");
                info.resize(info.len() + length, b'0');
            }
        }
        info.push(b'\t');
        info.extend_from_slice(&change.path);
        info.push(0);
    }
    info
}

/// Joins paths for `-z --stdin` of git.
pub(super) fn join_with_zeros<'a>(paths: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut joined = Vec::new();
    for path in paths {
        joined.extend_from_slice(path);
        joined.push(0);
    }
    joined
}

/// Splits paths printed by git with `-z`.
pub(super) fn split_at_zeros(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output.split(|byte| *byte == 0).filter(|path| !path.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn raw_changes_survive_odd_names() {
        let raw = b":100644 000000 aaaa 0000 D\0old\nname\0:000000 160000 0000 bbbb A\0s\xff\0";
        let changes = parse_raw_changes(raw).expect("readable");
        assert_eq!(changes.len(), 2);
        assert_eq!(changes[0].path, b"old\nname");
        assert!(changes[1].adds_gitlink());
        assert_eq!(format_index_info(&changes), b"0 0000\told\nname\x00160000 bbbb\ts\xff\0");
        assert_eq!(parse_raw_changes(b"").expect("readable"), []);
        parse_raw_changes(b"garbage\0path\0").expect_err("refused");
        parse_raw_changes(b":100644 0").expect_err("refused");
    }

    #[test]
    fn a_list_is_separated_from_the_patch_wherever_it_is_cut() {
        let list = ":100644 100755 aa bb M\0a:b\0:000000 100644 00 cc A\0new\nline\0";
        let patch = "diff --git a/a:b b/a:b\n:no entry\0\n";
        let output = format!("{list}\0{patch}");
        for size in 1..=output.len() {
            let mut front = RawChangeList::default();
            let mut rest = Vec::new();
            for piece in output.as_bytes().chunks(size) {
                rest.extend_from_slice(front.consume(piece));
            }
            assert_eq!(rest, patch.as_bytes(), "in pieces of {size}");
            assert_eq!(front.parse_changes(), parse_raw_changes(list.as_bytes()).ok());
        }
    }

    #[test]
    fn a_list_without_its_end_is_refused() {
        for cut in ["", ":100644 100644 aa bb M\0a", ":100644 100644 aa bb M\0a\0"] {
            let mut front = RawChangeList::default();
            assert_eq!(front.consume(cut.as_bytes()), b"");
            assert_eq!(front.parse_changes(), None, "{cut:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_read_can_be_written(
            output in "(:100644 100644 |:000000 160000 |aaaa bbbb M\0|0000 bbbb A\0|a\n?\0|D\0|[ -~]){0,20}"
        ) {
            let Ok(changes) = parse_raw_changes(output.as_bytes()) else { return Ok(()) };
            let info = format_index_info(&changes);
            assert_eq!(split_at_zeros(&info).count(), changes.len(), "an entry a change");
            for change in &changes {
                assert!(!change.path.contains(&0), "a path is one field");
                let _ = (change.has_gitlink(), change.adds_gitlink(), change.makes_executable());
            }
            let paths = changes.iter().map(|change| change.path.as_slice());
            let there: Vec<&[u8]> = paths.clone().filter(|path| !path.is_empty()).collect();
            let joined = join_with_zeros(paths);
            assert!(split_at_zeros(&joined).eq(there), "paths come back");
        }
    }
}
