//! A handoff at three lengths: a line (L1), the decisions (L2), and all of it (L3), which is the
//! file.
//!
//! A prompt includes the previous iteration as its decisions, the three before that as a line
//! each, and older ones only through the memory. Text by agents is put on one line and limited,
//! so that it cannot pass for a heading of the prompt. Not here: what is cut if it does not fit.

use std::fmt::Write as _;

use super::{Handoff, Priority};
use crate::context::{
    CutFrom, CutLabel, CutStep, PromptSection, SectionBlock, SectionName, SectionPiece,
};
use crate::text;

/// How many iterations a prompt includes as a line each, besides the last one.
const LINES: usize = 3;

/// A longer first sentence is cut.
const SENTENCE_CHARS: usize = 240;

/// Limit of an entry of the decisions: a few sentences.
const ENTRY_CHARS: usize = 600;

impl Handoff {
    /// Returns the handoff in one line.
    pub fn one_line(&self) -> String {
        let done = &self.task_completed;
        let summary = done.summary.trim();
        let first = summary.split(". ").next().unwrap_or_default();
        let first = first.lines().next().unwrap_or_default();
        let first = text::join_to_line(first.trim_end_matches(['.', ' ']), SENTENCE_CHARS);
        let summary_text = if first.is_empty() { String::new() } else { format!(" {first}.") };
        let outcome = self.outcome.as_ref().map(|outcome| {
            format!(" {}.", text::join_to_line(&outcome.describe(), SENTENCE_CHARS))
        });
        // An author who calls work finished may be wrong, one who calls it unfinished is not.
        let is_unfinished = self.is_accepted() && !self.derived && !done.fully_complete;
        let unfinished = if is_unfinished { " Its author reports unfinished work." } else { "" };
        let files = self.files_touched.len();
        let plural = if files == 1 { "" } else { "s" };
        let outcome = outcome.unwrap_or_default();
        format!("[{}]{summary_text}{outcome}{unfinished} {files} file{plural}.", done.task_id)
    }

    /// Returns what later work needs to know: decisions, deviations, constraints, open bugs and
    /// unfinished work.
    pub fn decisions(&self) -> String {
        let mut text = self.one_line();
        for (title, entries) in self.details().into_iter().filter(|(_, it)| !it.is_empty()) {
            let _ = write!(text, "\n{title}:");
            for entry in entries {
                let _ = write!(text, "\n- {entry}");
            }
        }
        text
    }

    fn details(&self) -> [(&'static str, Vec<String>); 5] {
        let entries = |entries: &mut dyn Iterator<Item = String>| -> Vec<String> {
            let entries = entries.map(|entry| text::join_to_line(&entry, ENTRY_CHARS));
            entries.filter(|entry| !entry.is_empty()).collect()
        };
        let deviations = self.deviations.iter();
        let constraints = self.constraints_discovered.iter();
        let unresolved = self.bugs_encountered.iter().filter(|bug| !bug.resolved);
        let unfinished = self.unfinished_business.iter();
        [
            ("Decisions", entries(&mut self.architectural_notes.iter().cloned())),
            (
                "Deviations",
                entries(
                    &mut deviations
                        .map(|it| format!("{} → {}: {}", it.planned, it.actual, it.reason)),
                ),
            ),
            (
                "Constraints",
                entries(&mut constraints.map(|it| {
                    let workaround = it.workaround.as_ref().filter(|it| !it.trim().is_empty());
                    format!("{}: {}", it.constraint, workaround.unwrap_or(&it.impact))
                })),
            ),
            ("Unresolved bugs", entries(&mut unresolved.map(|bug| bug.description.clone()))),
            (
                "Unfinished",
                entries(&mut unfinished.map(|it| format!("{} ({})", it.item, it.priority.name()))),
            ),
        ]
    }
}

/// Returns the previous iteration as a section: its decisions.
pub(crate) fn build_previous_section(handoffs: &[Handoff]) -> PromptSection {
    let mut blocks = Vec::new();
    if let Some(last) = handoffs.last() {
        let block = |heading: String, label: &str, pieces| SectionBlock {
            heading,
            step: CutStep::Previous,
            from: CutFrom::End,
            label: CutLabel::Counted(label.to_owned()),
            pieces,
        };
        blocks.push(block(
            String::new(),
            "the previous iteration",
            vec![SectionPiece::new(last.one_line())],
        ));
        for (title, entries) in last.details() {
            let pieces =
                entries.iter().map(|entry| SectionPiece::new(format!("- {entry}"))).collect();
            blocks.push(block(format!("{title}:"), &title.to_lowercase(), pieces));
        }
    }
    build_section(SectionName::Previous, "The previous iteration", blocks)
}

/// Returns the iterations before the previous one as a section: a line each, the latest first.
pub(crate) fn build_earlier_section(handoffs: &[Handoff]) -> PromptSection {
    let lines = handoffs.iter().rev().skip(1).take(LINES);
    let pieces: Vec<SectionPiece> =
        lines.map(|handoff| SectionPiece::new(handoff.one_line())).collect();
    let blocks = Some(pieces).filter(|pieces| !pieces.is_empty()).map(|pieces| SectionBlock {
        heading: String::new(),
        step: CutStep::Earlier,
        from: CutFrom::End,
        label: CutLabel::Counted("earlier iterations".to_owned()),
        pieces,
    });
    build_section(SectionName::Earlier, "Earlier iterations", blocks.into_iter().collect())
}

fn build_section(name: SectionName, title: &str, blocks: Vec<SectionBlock>) -> PromptSection {
    PromptSection { name, title: format!("## {title}"), cap: usize::MAX, taken: 0, uses: 1, blocks }
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

    use crate::handoff::{FileAction, FileTouched, Handoff, WorkOutcome, read};
    use crate::ids::TaskId;

    #[test]
    fn levels_get_shorter() {
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
        let handoff = read::read_handoff([value], "", &TaskId("TASK-003".into()), &files);
        expect_test::expect![[r"
            [TASK-003] Wrote it. 1 file.
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

    #[test]
    fn a_line_reports_the_outcome_of_the_work() {
        #[track_caller]
        fn check(is_complete: bool, outcome: Option<WorkOutcome>, expect: &str) {
            let value = json!({
                "task_completed": {"summary": "Wrote it.", "fully_complete": is_complete}});
            let handoff = read::read_handoff([value], "", &TaskId("T".into()), &[]);
            assert_eq!(Handoff { outcome, ..handoff }.one_line(), expect);
        }
        let at = || "make test".to_owned();
        check(true, None, "[T] Wrote it. 0 files.");
        check(false, None, "[T] Wrote it. Its author reports unfinished work. 0 files.");
        let passed = WorkOutcome::Passed { is_committed: true };
        check(true, Some(passed), "[T] Wrote it. Passed the checks, committed. 0 files.");
        let failed = WorkOutcome::Failed { at: at() };
        check(true, Some(failed), "[T] Wrote it. Failed at make test. 0 files.");
        let back = WorkOutcome::RolledBack { at: at(), kept: None };
        check(false, Some(back), "[T] Wrote it. Failed at make test, rolled back. 0 files.");
        let derived = read::read_handoff([], "Did it. All of it.", &TaskId("T".into()), &[]);
        assert_eq!(derived.one_line(), "[T] Did it. 0 files.");
    }
}
