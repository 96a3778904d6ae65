//! The last commits, one line each.
//!
//! Not here: asking git for them.

use ralph_core::units::Timestamp;

use crate::safe;
use crate::style::{Paint, Style};
use crate::tasks;
use crate::time::WallClock;

/// About two lines of a terminal.
const LONGEST: usize = 200;

/// A commit as a line of `ralph status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitLine {
    /// Abbreviated.
    pub id: String,
    pub at: Timestamp,
    /// The first line of its message, not sanitized.
    pub subject: String,
}

/// Returns commits as a list with a heading, or an empty string if there are none.
pub fn last_commits(commits: &[CommitLine], clock: &WallClock, style: &Style) -> String {
    if commits.is_empty() {
        return String::new();
    }
    let rows: Vec<[String; 3]> = commits
        .iter()
        .map(|commit| [line(&commit.id), clock.ago(commit.at), line(&commit.subject)])
        .collect();
    let widest = |column: usize| {
        rows.iter().map(|row| safe::columns(&row[column])).max().unwrap_or_default()
    };
    let (ids, ages) = (widest(0), widest(1));
    let mut text = "Last commits\n".to_owned();
    for [id, age, subject] in &rows {
        let (id, age) = (tasks::padded(id, ids), tasks::padded(age, ages));
        let row = format!("  {id}  {}  {subject}", style.paint(Paint::Dim, &age));
        text.push_str(&format!("{}\n", row.trim_end()));
    }
    text
}

impl CommitLine {
    /// Returns the commit as JSON; the time is in milliseconds since the Unix epoch.
    pub fn to_json(&self) -> serde_json::Value {
        let (commit, subject) = (line(&self.id), line(&self.subject));
        serde_json::json!({ "commit": commit, "at": self.at, "subject": subject })
    }
}

fn line(text: &str) -> String {
    safe::one_line(text, LONGEST, "…")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use jiff::tz::TimeZone;

    use super::*;
    use crate::style::{Surroundings, Wishes};

    fn commit(id: &str, seconds: i64, subject: &str) -> CommitLine {
        let at = Timestamp::from_seconds(1_794_698_100 - seconds);
        CommitLine { id: id.to_owned(), at, subject: subject.to_owned() }
    }

    #[test]
    fn commits_are_lined_up_and_harmless() {
        let now = || Timestamp::from_seconds(1_794_698_100);
        let clock = WallClock { zone: TimeZone::UTC, now };
        let style = Style::choose(&Wishes::default(), &Surroundings::default());
        let commits = [
            commit("1a2b3c4d5", 30, "build: read the body"),
            commit("1a2b3c4d5e", 720, "\x1b[2J\u{202e}wipe\rthe slate"),
            commit("0badcafe1", 90_000, ""),
            commit("0badcafe2", 9_000_000, &"x".repeat(300)),
        ];
        let shown = last_commits(&commits, &clock, &style).replace(&"x".repeat(200), "x*200");
        expect![[r"
            Last commits
              1a2b3c4d5   just now    build: read the body
              1a2b3c4d5e  12 min ago  wipe the slate
              0badcafe1   1 day ago
              0badcafe2   2026-08-02  x*200…
        "]]
        .assert_eq(&shown);
        assert_eq!(last_commits(&[], &clock, &style), "");
        expect![[r#"{"commit":"1a2b3c4d5e","at":1794697380000,"subject":"wipe the slate"}"#]]
            .assert_eq(&commits[1].to_json().to_string());
    }
}
