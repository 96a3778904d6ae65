//! The last commits of HEAD, for display.
//!
//! Not here: which of them ralph made; that is in the journal.

use ralph_core::ports::VcsError;
use ralph_model::units::Timestamp;

use super::repository::GitRepository;
use crate::bounded_read;

/// Longer subjects are cut.
const LONGEST_SUBJECT: usize = 500;

/// How much git may print for each commit: subjects can be long before they are cut.
const MOST_BYTES_EACH: usize = 64 * 1024;

/// Longer reflogs are left to git.
const LARGEST_REFLOG: u64 = 4 * 1024 * 1024;

/// One commit on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitSummary {
    pub id: String,
    pub at: Timestamp,
    /// The first line of its message, cut but not sanitized: an agent may have written it.
    pub subject: String,
}

impl GitRepository {
    /// Returns the subjects of the last commits, newest first; none if git cannot read them.
    pub fn list_last_subjects(&self, count: usize) -> Vec<String> {
        if let Some(subjects) = self.read_subjects_in_reflog(count) {
            return subjects;
        }
        let commits =
            self.list_last_commits(u32::try_from(count).unwrap_or(u32::MAX)).unwrap_or_default();
        commits.into_iter().map(|commit| commit.subject).collect()
    }

    /// Returns the subjects if each of the commits was made here and is where HEAD has been once: then
    /// its reflog has them, and git need not start. An entry for a commit that has one already may be
    /// forged.
    fn read_subjects_in_reflog(&self, count: usize) -> Option<Vec<String>> {
        let log = bounded_read::read_file(&self.git_dir.join("logs/HEAD"), LARGEST_REFLOG).ok()?;
        let log = String::from_utf8(log).ok()?;
        let entries = log.lines().filter_map(|line| {
            let (who, message) = line.split_once('\t')?;
            let mut words = who.split(' ');
            Some((words.next()?, words.next()?, message))
        });
        let entries: Vec<(&str, &str, &str)> = entries.collect();
        let (mut commit, mut subjects) = (self.head().ok()?.commit?, Vec::new());
        while subjects.len() < count {
            let mut of_commit = entries.iter().filter(|(_, new, _)| *new == commit);
            let (Some((parent, _, message)), None) = (of_commit.next(), of_commit.next()) else {
                return None;
            };
            let first = message.strip_prefix("commit (initial): ");
            let subject = first.or_else(|| message.strip_prefix("commit: "))?;
            subjects.push(subject.chars().take(LONGEST_SUBJECT).collect());
            if first.is_some() {
                break;
            }
            commit = (*parent).to_owned();
        }
        Some(subjects)
    }

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
