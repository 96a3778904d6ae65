//! The last commits of HEAD, for display.
//!
//! Not here: which of them ralph made; that is in the journal.

use ralph_core::ports::VcsError;
use ralph_model::units::Timestamp;

use super::repository::GitRepository;

/// Longer subjects are cut.
const LONGEST_SUBJECT: usize = 500;

/// How much git may print for each commit: subjects can be long before they are cut.
const MOST_BYTES_EACH: usize = 64 * 1024;

/// One commit on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitSummary {
    pub id: String,
    pub at: Timestamp,
    /// The first line of its message, cut but not sanitized: an agent may have written it.
    pub subject: String,
}

impl GitRepository {
    /// Returns the last commits, newest first; empty before the first commit.
    pub fn list_last_commits(&self, count: u32) -> Result<Vec<CommitSummary>, VcsError> {
        if count == 0 || self.head()?.commit.is_none() {
            return Ok(Vec::new());
        }
        let call = self
            // The user's settings can change each of these.
            .build_plumbing(&[
                "log",
                "--no-show-signature",
                "--no-mailmap",
                "--no-notes",
                "--no-patch",
            ])
            .with_args(["--encoding=UTF-8", "--abbrev=9", "-z", "--format=%h%x00%ct%x00%s"])
            .with_args([&format!("--max-count={count}"), "HEAD", "--"])
            .with_output_limit(MOST_BYTES_EACH.saturating_mul(count as usize));
        let output = self.commands.run_for_output(call)?;
        // Every field ends with a NUL byte, which no field can contain.
        let fields: Vec<String> =
            output.split(|byte| *byte == 0).map(|it| String::from_utf8_lossy(it).into()).collect();
        let line = |fields: &[String; 3]| CommitSummary {
            id: fields[0].clone(),
            // A damaged commit has no time; it is still worth a line.
            at: Timestamp::from_seconds(fields[1].parse().unwrap_or_default()),
            subject: fields[2].chars().take(LONGEST_SUBJECT).collect(),
        };
        Ok(fields.as_chunks::<3>().0.iter().map(line).collect())
    }
}
