//! Scans changes that are going to be committed, or were, for secrets.
//!
//! Only added lines count: existing ones are not this run's doing. Not here: what a secret is
//! (`mask`), and what follows from one.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use ralph_core::checking::secret::leak::MOST_LEAKS;
use ralph_core::ports::VcsError;
use ralph_model::glob::Pattern;
use ralph_model::worktree::SecretLeak;

use super::command::{GitCommand, NotRun};
use super::diff::{RawChangeList, TreeChange, TreeEntry};
use super::object_store::{format_id, hash_object};
use super::repository::GitRepository;
use super::vcs::GitVcs;
use crate::bounded_read;
use crate::mask::{Masker, SecretKind};

/// Enough to scan gigabytes; no person reviews a change that takes longer.
const PATIENCE: Duration = Duration::from_secs(120);

/// How many bytes of changed files are read here. With more, git has less to print than we to read.
const MOST_READ: u64 = 4 * 1024 * 1024;

/// The changes between two trees, and the secrets that they add.
pub(super) type ScannedChanges = (Vec<TreeChange>, Vec<SecretLeak>);

/// The secrets to find, and where some are allowed.
#[derive(Debug, Default)]
pub(super) struct SecretScan {
    masker: Masker,
    /// Files that may contain text that only has the shape of a secret.
    allow: Vec<Pattern>,
    /// The last two trees between which no secret was added.
    clean: Option<(String, String)>,
}

impl GitVcs {
    /// Sets the secrets that must not be committed. Text with the shape of a secret is allowed only
    /// in `allow`.
    #[must_use]
    pub fn with_secret_scan(mut self, masker: Masker, allow: Vec<Pattern>) -> Self {
        self.scan = SecretScan { masker, allow, clean: None };
        self
    }

    /// Returns the secrets that one tree adds to another.
    pub(super) fn find_leaks_between(
        &mut self,
        before: &str,
        now: &str,
    ) -> Result<Vec<SecretLeak>, VcsError> {
        let pair = (before.to_owned(), now.to_owned());
        if before == now || self.scan.clean.as_ref() == Some(&pair) {
            return Ok(Vec::new());
        }
        let changes = self.repository.diff_known_trees(before, now);
        if changes.is_some_and(|changes| self.are_files_clean(&changes)) {
            self.scan.clean = Some(pair);
            return Ok(Vec::new());
        }
        let call = self
            .repository
            .build_plumbing(&["diff-tree", "-r"])
            .with_args(PATCH)
            .with_args([before, now]);
        let leaks = self.scan_output(call)?;
        if leaks.is_empty() {
            self.scan.clean = Some(pair);
        }
        Ok(leaks)
    }

    /// Returns the secrets in the commits of an agent, commit by commit: a secret that one adds and
    /// the next removes is in the history all the same.
    pub(super) fn find_leaks_since(
        &self,
        commit: Option<&str>,
    ) -> Result<Vec<SecretLeak>, VcsError> {
        let range = commit.map_or("HEAD".to_owned(), |commit| format!("{commit}..HEAD"));
        let format = "--format=%x00%h%n%w(0,4,4)%B";
        let call = self.repository.build_plumbing(&["log", "-m", "--no-show-signature", format]);
        self.scan_output(call.with_args(PATCH).with_args([range.as_str(), "--"]))
    }

    /// Returns the changes between two trees and the secrets that they add, with one git command
    /// instead of two if possible.
    pub(super) fn find_changes_and_leaks(
        &mut self,
        before: &str,
        now: &str,
    ) -> Result<ScannedChanges, VcsError> {
        let pair = (before.to_owned(), now.to_owned());
        if before == now || self.scan.clean.as_ref() == Some(&pair) {
            return Ok((self.repository.diff_trees(before, now)?, Vec::new()));
        }
        if let Some(changes) = self.repository.diff_known_trees(before, now)
            && self.are_files_clean(&changes)
        {
            self.scan.clean = Some(pair);
            return Ok((changes, Vec::new()));
        }
        let call = self.repository.build_plumbing(&["diff-tree", "-r", "--raw", "-z"]);
        let mut front = RawChangeList::default();
        let leaks = self.scan_patch_in(call.with_args(PATCH).with_args([before, now]), |it| {
            front.consume(it)
        })?;
        if leaks.is_empty() {
            self.scan.clean = Some(pair);
        }
        // The list comes first, but after a timeout it is unknown how far git got.
        let changes = match front.parse_changes() {
            Some(changes) => changes,
            None => self.repository.diff_trees(before, now)?,
        };
        Ok((changes, leaks))
    }

    /// Returns whether no changed file has a secret anywhere, also in lines that were there before.
    /// Only files are read whose content is exactly what was added; all others need a patch of git.
    fn are_files_clean(&self, changes: &[TreeChange]) -> bool {
        let named = |path: &[u8]| self.repository.name_bytes_from_project(path);
        let mut left = MOST_READ;
        changes.iter().all(|TreeChange { before, after, path }| {
            let Some(entry) = after else { return true };
            if before.is_none() && !self.scan.masker.find_secrets(path).is_empty() {
                return false;
            }
            let Some(content) = self.repository.read_added_file(path, entry, left) else {
                return false;
            };
            left = left.saturating_sub(content.len() as u64);
            let mut patch = PatchScanner::new(&self.scan, &named);
            patch.path = named(path);
            patch.add_bytes(&content);
            patch.finish().is_empty()
        })
    }

    fn scan_output(&self, call: GitCommand<'_>) -> Result<Vec<SecretLeak>, VcsError> {
        self.scan_patch_in(call, |bytes| bytes)
    }

    /// Scans the part of an output that is a patch.
    fn scan_patch_in(
        &self,
        call: GitCommand<'_>,
        mut patch_of: impl FnMut(&[u8]) -> &[u8],
    ) -> Result<Vec<SecretLeak>, VcsError> {
        let named = |path: &[u8]| self.repository.name_bytes_from_project(path);
        let mut patch = PatchScanner::new(&self.scan, &named);
        let commands = self.repository.commands.clone().with_patience(PATIENCE);
        match commands.run_streaming(call, &mut |bytes| patch.feed(patch_of(bytes))) {
            Ok(ran) if ran.code == 0 => Ok(patch.finish()),
            Ok(ran) => Err(VcsError {
                message: format!("the changes cannot be scanned: {}", ran.to_error().message),
            }),
            Err(NotRun::TimedOut { .. }) => Ok(vec![SecretLeak {
                path: "*".to_owned(),
                line: 0,
                what: "too much was changed to scan it".to_owned(),
            }]),
            Err(NotRun::NotFound) => Err(VcsError { message: "`git` was not found".to_owned() }),
            Err(NotRun::Interrupted) => {
                Err(VcsError { message: "the scan of the changes was interrupted".to_owned() })
            }
            Err(NotRun::Other { message }) => {
                Err(VcsError { message: format!("the changes cannot be scanned: {message}") })
            }
        }
    }
}

impl GitRepository {
    /// Returns the changes between two trees, if both were made from indexes a moment ago.
    pub(super) fn diff_known_trees(&self, before: &str, now: &str) -> Option<Vec<TreeChange>> {
        Some(self.find_known_tree(before)?.diff(&*self.find_known_tree(now)?))
    }

    /// Returns the content of a regular file in the work tree, if it is what a tree has.
    fn read_added_file(&self, path: &[u8], entry: &TreeEntry, most: u64) -> Option<Vec<u8>> {
        let path = self.top.join(OsStr::from_bytes(path));
        let is_file = path.symlink_metadata().is_ok_and(|it| it.is_file() && it.len() <= most);
        let content = is_file.then(|| bounded_read::read_file(&path, most).ok())??;
        let id = format_id(&hash_object("blob", &content));
        (id.as_bytes() == entry.id).then_some(content)
    }
}

/// Treats every file as text, whatever the repository's attributes say.
const PATCH: [&str; 8] = [
    "--patch",
    "--text",
    "--unified=0",
    "--no-renames",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--dst-prefix=b/",
];

/// Scans a patch that arrives in pieces.
struct PatchScanner<'a> {
    scan: &'a SecretScan,
    named: &'a dyn Fn(&[u8]) -> String,
    /// The line that is not complete yet.
    line: Vec<u8>,
    /// Whether the beginning of that line was already processed.
    is_mid_line: bool,
    path: String,
    /// The line that begins the changes of a file, with its path.
    header: Vec<u8>,
    /// The lines added here, and the number of the first.
    added: Vec<u8>,
    first: u32,
    /// How many lines of this hunk are still to come.
    removed_left: u64,
    added_left: u64,
    leaks: BTreeSet<SecretLeak>,
}

/// Lines are joined up to this many bytes, since some secrets span lines; parts of a line as well.
const JOINED: usize = 1 << 20;

/// How much of it is scanned again together with what follows.
const OVERLAP: usize = 8 * 1024;

impl<'a> PatchScanner<'a> {
    fn new(scan: &'a SecretScan, named: &'a dyn Fn(&[u8]) -> String) -> Self {
        Self {
            scan,
            named,
            line: Vec::new(),
            is_mid_line: false,
            path: String::new(),
            header: Vec::new(),
            added: Vec::new(),
            first: 1,
            removed_left: 0,
            added_left: 0,
            leaks: BTreeSet::new(),
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.line.len() >= JOINED {
                self.process_line();
            }
        }
    }

    fn finish(mut self) -> Vec<SecretLeak> {
        self.process_line();
        self.scan_added();
        self.leaks.into_iter().take(MOST_LEAKS).collect()
    }

    /// Processes a line, or a part of a long one.
    fn process_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if self.is_mid_line {
            self.add_bytes(&line);
        } else {
            self.process_line_start(&line);
        }
        self.is_mid_line = !line.ends_with(b"\n");
    }

    fn process_line_start(&mut self, line: &[u8]) {
        match line {
            [b'+', added @ ..] if self.added_left > 0 => {
                self.added_left -= 1;
                self.add_bytes(added);
            }
            [b'-', ..] if self.removed_left > 0 => self.removed_left -= 1,
            [b'@', b'@', ..] => {
                self.scan_added();
                let numbers = parse_hunk(line).unwrap_or((u64::MAX, 1, u64::MAX));
                (self.removed_left, self.first, self.added_left) = numbers;
            }
            // Its name is in the line before.
            _ if line.starts_with(b"new file mode ") => self.scan_name(),
            _ if line.starts_with(b"diff --git ") => {
                self.scan_added();
                self.header = line.trim_ascii_end().to_vec();
            }
            [b'+', b'+', b'+', b' ', path @ ..] => {
                self.scan_added();
                let path = path.trim_ascii_end();
                let path = path.strip_prefix(b"\"").unwrap_or(path);
                let path = path.strip_suffix(b"\"").unwrap_or(path);
                self.path = (self.named)(path.strip_prefix(b"b/").unwrap_or(path));
            }
            [0, commit @ ..] => {
                self.scan_added();
                let commit = String::from_utf8_lossy(commit.trim_ascii_end()).into_owned();
                (self.path, self.first) = (format!("{}{commit}", SecretLeak::IN_MESSAGE), 1);
            }
            [b' ', b' ', b' ', b' ', message @ ..] => self.add_bytes(message),
            _ => {}
        }
    }

    fn add_bytes(&mut self, bytes: &[u8]) {
        self.added.extend_from_slice(bytes);
        if self.added.len() >= JOINED {
            let rest = self.added.split_off(self.added.len() - OVERLAP);
            let seen = std::mem::replace(&mut self.added, rest);
            self.scan_bytes(&[seen.as_slice(), &self.added].concat());
            self.first = self.first.saturating_add(count_lines(&seen));
        }
    }

    /// Scans the lines added so far.
    fn scan_added(&mut self) {
        let added = std::mem::take(&mut self.added);
        self.scan_bytes(&added);
    }

    /// Scans the name of a new file.
    fn scan_name(&mut self) {
        let header = std::mem::take(&mut self.header);
        let masked = self.scan.masker.mask_bytes(&header);
        let path = String::from_utf8_lossy(&masked);
        let path = path.split_once(" b/").map_or(&*path, |(_, path)| path);
        let path = format!("{}{path}", SecretLeak::IN_NAME);
        let before = std::mem::replace(&mut self.path, path);
        self.first = 1;
        self.scan_bytes(&header);
        self.path = before;
    }

    fn scan_bytes(&mut self, added: &[u8]) {
        let is_allowed = self.scan.allow.iter().any(|pattern| pattern.matches(&self.path));
        for found in self.scan.masker.find_secrets(added) {
            let what = match found.kind {
                SecretKind::Shape(_) if is_allowed => continue,
                SecretKind::Shape(name) => name.to_owned(),
                SecretKind::Value => SecretLeak::KNOWN_VALUE.to_owned(),
            };
            let line = self.first.saturating_add(count_lines(&added[..found.start]));
            if self.leaks.len() < MOST_LEAKS {
                self.leaks.insert(SecretLeak { path: self.path.clone(), line, what });
            }
        }
    }
}

fn count_lines(bytes: &[u8]) -> u32 {
    let count = bytes.split(|byte| *byte == b'\n').count() - 1;
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Parses `@@ -a,b +c,d @@`: the number of removed lines, the first new line, the number of new
/// ones.
fn parse_hunk(line: &[u8]) -> Option<(u64, u32, u64)> {
    let text = std::str::from_utf8(line.split(|byte| *byte == b'@').nth(2)?).ok()?;
    let mut ranges = text.split_whitespace();
    let count = |range: &str| match range.split_once(',') {
        Some((_, count)) => count.parse().ok(),
        None => Some(1),
    };
    let (old, new) = (ranges.next()?, ranges.next()?.strip_prefix('+')?);
    let start = new.split(',').next()?.parse().ok()?;
    Some((count(old)?, start, count(new)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_added_lines_count_whatever_they_look_like() {
        let token = "ghp_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5";
        let key = "-----BEGIN PRIVATE KEY-----\n+MIIEvQIBADANBgkqhkiG9w0BAQ";
        let patch = format!(
            "\x00abc1234\n    a message\n    with {token}\n\n\
             diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -3 +3,2 @@ fn f() {{\n-{token}\n+fine\n+++ b/y {token}\n\
             @@ -9,0 +10,2 @@\n+{key}\n\\ No newline at end of file\n\
             diff --git a/ok b/ok\n--- /dev/null\n+++ b/ok\n@@ -0,0 +1,3 @@\n+{token}\n+a\n+b s3cret-value-1\n"
        );
        let allow = vec![Pattern::new("ok").expect("a pattern")];
        let masker = Masker::new(["s3cret-value-1".to_owned()]);
        let scan = SecretScan { masker, allow, clean: None };
        let named = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        for size in [1, 7, 4096] {
            let mut read = PatchScanner::new(&scan, &named);
            patch.as_bytes().chunks(size).for_each(|piece| read.feed(piece));
            let found: Vec<String> = read
                .finish()
                .into_iter()
                .map(|SecretLeak { path, line, what }| format!("{path}:{line}: {what}"))
                .collect();
            assert_eq!(
                found,
                [
                    "ok:3: a known secret",
                    "the message of commit abc1234:2: a GitHub token",
                    "x:4: a GitHub token",
                    "x:10: a private key",
                ]
            );
        }
    }

    #[test]
    fn a_secret_in_a_line_without_end_is_found() {
        let scan = SecretScan {
            masker: Masker::new(["s3cret-value-1".to_owned()]),
            ..SecretScan::default()
        };
        let named = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        let mut read = PatchScanner::new(&scan, &named);
        read.feed(b"+++ b/blob\n@@ -0,0 +1 @@\n+");
        let filler = vec![b'x'; JOINED - 20];
        for _ in 0..3 {
            read.feed(&filler);
            read.feed(b"s3cret-value-1");
        }
        let leaks = read.finish();
        assert_eq!(leaks.len(), 1, "{leaks:?}");
        assert_eq!((leaks[0].path.as_str(), leaks[0].line), ("blob", 1));
    }

    proptest! {
        #[test]
        fn leaks_are_the_same_however_the_patch_is_cut(
            patch in "(\\+\\+\\+ b/|--- a/|@@ -1,2 \\+3,4 @@\n|@@ -|\\+|-|s3cret-value-1|\n|\0|diff --git |ghp_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5|[ -~]){0,30}"
        ) {
            static MASKER: std::sync::LazyLock<Masker> =
                std::sync::LazyLock::new(|| Masker::new(["s3cret-value-1".to_owned()]));
            let scan = SecretScan { masker: MASKER.clone(), ..SecretScan::default() };
            let named = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
            let found = |size: usize| {
                let mut read = PatchScanner::new(&scan, &named);
                patch.as_bytes().chunks(size).for_each(|piece| read.feed(piece));
                read.finish()
            };
            let whole = found(patch.len().max(1));
            assert_eq!(whole, found(5), "however it is cut");
            assert!(whole.len() <= MOST_LEAKS);
        }
    }
}
