//! The last commits of what is checked out, for people.
//!
//! Not here: which of them ralph made; that is in the journal.

use ralph_core::ports::VcsError;
use ralph_core::units::Timestamp;

use super::repository::Repository;

/// A longer subject is no subject.
const LONGEST_SUBJECT: usize = 500;

/// What git may print for each commit: a subject of any length, before it is cut.
const ROOM: usize = 64 * 1024;

/// One commit on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitLine {
    /// Its id, abbreviated.
    pub id: String,
    /// When it was made.
    pub at: Timestamp,
    /// The first line of its message, cut but not made harmless: an agent may have written it.
    pub subject: String,
}

impl Repository {
    /// Returns the last commits, the newest first; none before the first.
    pub fn last_commits(&self, count: u32) -> Result<Vec<CommitLine>, VcsError> {
        if count == 0 || self.head()?.commit.is_none() {
            return Ok(Vec::new());
        }
        let call = self
            // Each of these can be turned on, or to something else, in the user's settings.
            .git(&["log", "--no-show-signature", "--no-mailmap", "--no-notes", "--no-patch"])
            .args(["--encoding=UTF-8", "--abbrev=9", "-z", "--format=%h%x00%ct%x00%s"])
            .args([&format!("--max-count={count}"), "HEAD", "--"])
            .first_bytes(ROOM.saturating_mul(count as usize));
        let output = self.commands.output(call)?;
        // Every field ends with a NUL, which none can hold.
        let fields: Vec<String> =
            output.split(|byte| *byte == 0).map(|it| String::from_utf8_lossy(it).into()).collect();
        let line = |fields: &[String; 3]| CommitLine {
            id: fields[0].clone(),
            // A commit that somebody damaged has no time; it is still worth a line.
            at: Timestamp::from_seconds(fields[1].parse().unwrap_or_default()),
            subject: fields[2].chars().take(LONGEST_SUBJECT).collect(),
        };
        Ok(fields.as_chunks::<3>().0.iter().map(line).collect())
    }
}
