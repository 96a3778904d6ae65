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
pub(super) struct Change {
    /// The old entry; none if the path did not exist.
    pub(super) before: Option<Entry>,
    /// The new entry; none if the path does not exist any more.
    pub(super) after: Option<Entry>,
    /// The path from the top of the work tree, as bytes.
    pub(super) path: Vec<u8>,
}

/// The entry of a tree or index at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    mode: Vec<u8>,
    id: Vec<u8>,
}

impl Change {
    /// Returns whether a repository within the work tree is involved.
    pub(super) fn concerns_gitlink(&self) -> bool {
        [&self.before, &self.after].into_iter().flatten().any(|entry| entry.mode == GITLINK)
    }

    /// Returns whether the path was added as a nested repository.
    pub(super) fn adds_gitlink(&self) -> bool {
        self.before.is_none() && self.concerns_gitlink()
    }

    /// Returns whether the path became executable.
    pub(super) fn makes_executable(&self) -> bool {
        let can_run =
            |entry: &Option<Entry>| entry.as_ref().is_some_and(|it| it.mode == EXECUTABLE);
        can_run(&self.after) && !can_run(&self.before)
    }

    /// Returns whether it changes ignore rules.
    pub(super) fn concerns_ignore_rules(&self) -> bool {
        self.path == b".gitignore" || self.path.ends_with(b"/.gitignore")
    }
}

/// Parses the output of `git diff-tree` or `git diff-index` with `--raw -z --no-renames`.
pub(super) fn parse(output: &[u8]) -> Result<Vec<Change>, VcsError> {
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
            (mode != b"000000").then(|| Entry { mode: mode.to_vec(), id: id.to_vec() })
        };
        changes.push(Change {
            before: entry(old_mode, old_id),
            after: entry(new_mode, new_id),
            path: fields.next().ok_or_else(garbled)?.to_vec(),
        });
    }
    Ok(changes)
}

/// Separates the list of changes from the patch that follows it in an output.
#[derive(Debug, Default)]
pub(super) struct Front {
    list: Vec<u8>,
    at: At,
}

/// What comes next in such an output.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum At {
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

impl Front {
    /// Consumes the bytes of the list, and returns those of the patch.
    pub(super) fn take<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        for (place, byte) in bytes.iter().enumerate() {
            self.at = match (self.at, byte) {
                (At::Patch, _) => return &bytes[place..],
                (At::Entry, b':') => At::Head,
                // The list ends with a zero byte of its own.
                (At::Entry, _) => At::Patch,
                (At::Head, 0) => At::Path,
                (At::Path, 0) => At::Entry,
                (within @ (At::Head | At::Path), _) => within,
            };
            if self.at != At::Patch {
                self.list.push(*byte);
            }
        }
        &[]
    }

    /// Returns the changes, if the list is complete.
    pub(super) fn changes(&self) -> Option<Vec<Change>> {
        parse(&self.list).ok().filter(|_| self.at == At::Patch)
    }
}

/// Formats changes for `git update-index -z --index-info`: each path with its new entry.
pub(super) fn index_info<'a>(changes: impl IntoIterator<Item = &'a Change>) -> Vec<u8> {
    let mut info = Vec::new();
    for change in changes {
        match (&change.after, &change.before) {
            (Some(Entry { mode, id }), _) => {
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
pub(super) fn zero_ended<'a>(paths: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut joined = Vec::new();
    for path in paths {
        joined.extend_from_slice(path);
        joined.push(0);
    }
    joined
}

/// Splits paths printed by git with `-z`.
pub(super) fn split_zero(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output.split(|byte| *byte == 0).filter(|path| !path.is_empty())
}

/// Parses changes and writes them again, for fuzzing.
pub(super) fn fuzz(output: &[u8]) {
    let Ok(changes) = parse(output) else { return };
    let info = index_info(&changes);
    assert_eq!(split_zero(&info).count(), changes.len(), "an entry a change");
    for change in &changes {
        assert!(!change.path.contains(&0), "a path is one field");
        let _ = (change.concerns_gitlink(), change.adds_gitlink(), change.makes_executable());
    }
    let paths = changes.iter().map(|change| change.path.as_slice());
    let there: Vec<&[u8]> = paths.clone().filter(|path| !path.is_empty()).collect();
    let joined = zero_ended(paths);
    assert!(split_zero(&joined).eq(there), "paths come back");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_changes_survive_odd_names() {
        let raw = b":100644 000000 aaaa 0000 D\0old\nname\0:000000 160000 0000 bbbb A\0s\xff\0";
        let changes = parse(raw).expect("readable");
        assert_eq!(changes.len(), 2);
        assert_eq!(changes[0].path, b"old\nname");
        assert!(changes[1].adds_gitlink());
        assert_eq!(index_info(&changes), b"0 0000\told\nname\x00160000 bbbb\ts\xff\0");
        assert_eq!(parse(b"").expect("readable"), []);
        parse(b"garbage\0path\0").expect_err("refused");
        parse(b":100644 0").expect_err("refused");
    }

    #[test]
    fn a_list_is_separated_from_the_patch_wherever_it_is_cut() {
        let list = ":100644 100755 aa bb M\0a:b\0:000000 100644 00 cc A\0new\nline\0";
        let patch = "diff --git a/a:b b/a:b\n:no entry\0\n";
        let output = format!("{list}\0{patch}");
        for size in 1..=output.len() {
            let mut front = Front::default();
            let mut rest = Vec::new();
            for piece in output.as_bytes().chunks(size) {
                rest.extend_from_slice(front.take(piece));
            }
            assert_eq!(rest, patch.as_bytes(), "in pieces of {size}");
            assert_eq!(front.changes(), parse(list.as_bytes()).ok());
        }
    }

    #[test]
    fn a_list_without_its_end_is_refused() {
        for cut in ["", ":100644 100644 aa bb M\0a", ":100644 100644 aa bb M\0a\0"] {
            let mut front = Front::default();
            assert_eq!(front.take(cut.as_bytes()), b"");
            assert_eq!(front.changes(), None, "{cut:?}");
        }
    }
}
