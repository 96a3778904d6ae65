//! A handoff at three lengths: a line, the decisions, and the whole of it, which is the file.

use std::fmt::Write as _;

use super::{Handoff, Priority};

impl Handoff {
    /// Returns the account in one line.
    pub fn line(&self) -> String {
        let done = &self.task_completed;
        let first = done.summary.split(". ").next().unwrap_or_default().trim_end_matches('.');
        let state = if done.fully_complete { "Complete" } else { "Partial" };
        let files = self.files_touched.len();
        let plural = if files == 1 { "" } else { "s" };
        format!("[{}] {first}. {state}. {files} file{plural}.", done.task_id)
    }

    /// Returns what later work needs to know of it: decisions, deviations, constraints, what is
    /// broken and what is left.
    pub fn decisions(&self) -> String {
        let mut text = format!("{}\n", self.line());
        let mut section = |title: &str, entries: Vec<String>| {
            if !entries.is_empty() {
                let _ = writeln!(text, "{title}:");
                for entry in entries {
                    let _ = writeln!(text, "- {entry}");
                }
            }
        };
        section("Decisions", self.architectural_notes.clone());
        section(
            "Deviations",
            self.deviations
                .iter()
                .map(|it| format!("{} → {}: {}", it.planned, it.actual, it.reason))
                .collect(),
        );
        section(
            "Constraints",
            self.constraints_discovered
                .iter()
                .map(|it| {
                    format!("{}: {}", it.constraint, it.workaround.as_ref().unwrap_or(&it.impact))
                })
                .collect(),
        );
        section(
            "Unresolved bugs",
            self.bugs_encountered
                .iter()
                .filter(|bug| !bug.resolved)
                .map(|bug| bug.description.clone())
                .collect(),
        );
        section(
            "Unfinished",
            self.unfinished_business
                .iter()
                .map(|it| format!("{} ({})", it.item, it.priority.name()))
                .collect(),
        );
        text.truncate(text.trim_end().len());
        text
    }
}

impl Priority {
    fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::handoff::{FileAction, FileTouched, read};
    use crate::ids::TaskId;

    #[test]
    fn levels_say_less_and_less() {
        let value = json!({
            "task_completed": {"task_id": "T", "summary": "Wrote it. And more.", "fully_complete": true},
            "deviations": [{"planned": "tags", "actual": "hashes", "reason": "simpler"}],
            "architectural_notes": ["One loop"],
            "constraints_discovered": [
                {"constraint": "no net", "impact": "slow", "workaround": "cache"},
                {"constraint": "old git", "impact": "no merge-tree"},
            ],
            "bugs_encountered": [
                {"description": "gone", "resolution": "x", "resolved": true},
                {"description": "open", "resolution": "", "resolved": false},
            ],
            "unfinished_business": [{"item": "docs", "reason": "time", "priority": "high"}],
        });
        let files = [FileTouched { path: "a".into(), action: FileAction::Created }];
        let handoff = read::read([value], "", &TaskId("TASK-003".into()), &files);
        expect_test::expect![[r"
            [TASK-003] Wrote it. Complete. 1 file.
            Decisions:
            - One loop
            Deviations:
            - tags → hashes: simpler
            Constraints:
            - no net: cache
            - old git: no merge-tree
            Unresolved bugs:
            - open
            Unfinished:
            - docs (high)"]]
        .assert_eq(&handoff.decisions());
    }
}
