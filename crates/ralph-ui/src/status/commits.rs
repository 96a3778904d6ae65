//! The last commits, one line each.
//!
//! Not here: asking git for them.

use ralph_model::units::Timestamp;

use crate::style::{Paint, Style};
use crate::time::WallClock;
use crate::{sanitize, tasks};

/// About two lines of a terminal.
const LONGEST: usize = 200;

/// A commit as a line of `ralph status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusCommit {
    /// Abbreviated.
    pub id: String,
    pub at: Timestamp,
    /// The first line of its message, not sanitized.
    pub subject: String,
}

/// Returns commits as a list with a heading, or an empty string if there are none.
pub fn format_last_commits(commits: &[StatusCommit], clock: &WallClock, style: &Style) -> String {
    if commits.is_empty() {
        return String::new();
    }
    let rows: Vec<[String; 3]> = commits
        .iter()
        .map(|commit| {
            [format_line(&commit.id), clock.format_age(commit.at), format_line(&commit.subject)]
        })
        .collect();
    let widest = |column: usize| {
        rows.iter().map(|row| sanitize::count_columns(&row[column])).max().unwrap_or_default()
    };
    let (ids, ages) = (widest(0), widest(1));
    let mut text = "Last commits\n".to_owned();
    for [id, age, subject] in &rows {
        let (id, age) = (tasks::pad_to(id, ids), tasks::pad_to(age, ages));
        let row = format!("  {id}  {}  {subject}", style.paint(Paint::Dim, &age));
        text.push_str(&format!("{}\n", row.trim_end()));
    }
    text
}

impl StatusCommit {
    /// Returns the commit as JSON; the time is in milliseconds since the Unix epoch.
    pub fn to_json(&self) -> serde_json::Value {
        let (commit, subject) = (format_line(&self.id), format_line(&self.subject));
        serde_json::json!({ "commit": commit, "at": self.at, "subject": subject })
    }
}

fn format_line(text: &str) -> String {
    sanitize::sanitize_line(text, LONGEST, "…")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use jiff::tz::TimeZone;

    use super::*;
    use crate::style::{StreamEnvironment, StylePreferences};

    fn commit(id: &str, seconds: i64, subject: &str) -> StatusCommit {
        let at = Timestamp::from_seconds(1_794_698_100 - seconds);
        StatusCommit { id: id.to_owned(), at, subject: subject.to_owned() }
    }

    #[test]
    fn commits_are_lined_up_and_harmless() {
        let now = || Timestamp::from_seconds(1_794_698_100);
        let clock = WallClock { zone: TimeZone::UTC, now };
        let style =
            Style::choose_style(&StylePreferences::default(), &StreamEnvironment::default());
        let commits = [
            commit("1a2b3c4d5", 30, "build: read the body"),
            commit("1a2b3c4d5e", 720, "\x1b[2J\u{202e}wipe\rthe slate"),
            commit("0badcafe1", 90_000, ""),
            commit("0badcafe2", 9_000_000, &"x".repeat(300)),
        ];
        let shown =
            format_last_commits(&commits, &clock, &style).replace(&"x".repeat(200), "x*200");
        expect![[r"
            Last commits
              1a2b3c4d5   just now    build: read the body
              1a2b3c4d5e  12 min ago  wipe the slate
              0badcafe1   1 day ago
              0badcafe2   2026-08-02  x*200…
        "]]
        .assert_eq(&shown);
        assert_eq!(format_last_commits(&[], &clock, &style), "");
        expect![[r#"{"commit":"1a2b3c4d5e","at":1794697380000,"subject":"wipe the slate"}"#]]
            .assert_eq(&commits[1].to_json().to_string());
    }
}
