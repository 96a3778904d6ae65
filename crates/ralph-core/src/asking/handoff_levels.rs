//! A handoff at three lengths: a line (L1), the decisions (L2), and all of it (L3), which is the
//! file.
//!
//! A prompt includes the last accepted work as its decisions, the three before that as a line
//! each, and older ones only through the memory. Text by agents is put on one line and limited,
//! so that it cannot pass for a heading of the prompt. Not here: what is cut if it does not fit.

use ralph_model::context::SectionName;
use ralph_model::handoff::Handoff;

use crate::asking::context::{
    CutFrom, CutLabel, CutStep, PromptSection, SectionBlock, SectionPiece,
};
use crate::memory::handoff_summary::{list_details, summarize_handoff};

/// How many iterations a prompt includes as a line each, besides the last one.
const LINES: usize = 3;

/// Returns the last accepted work as a section: its decisions.
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
            "the last accepted work",
            vec![SectionPiece::new(summarize_handoff(last))],
        ));
        for (title, entries) in list_details(last) {
            let pieces =
                entries.iter().map(|entry| SectionPiece::new(format!("- {entry}"))).collect();
            blocks.push(block(format!("{title}:"), &title.to_lowercase(), pieces));
        }
    }
    build_section(
        SectionName::Previous,
        "The last accepted work, as its author described it",
        blocks,
    )
}

/// Returns the iterations before the previous one as a section: a line each, the latest first.
pub(crate) fn build_earlier_section(handoffs: &[Handoff]) -> PromptSection {
    let lines = handoffs.iter().rev().skip(1).take(LINES);
    let pieces: Vec<SectionPiece> =
        lines.map(|handoff| SectionPiece::new(summarize_handoff(handoff))).collect();
    let blocks = Some(pieces).filter(|pieces| !pieces.is_empty()).map(|pieces| SectionBlock {
        heading: String::new(),
        step: CutStep::Earlier,
        from: CutFrom::End,
        label: CutLabel::Counted("earlier iterations".to_owned()),
        pieces,
    });
    build_section(SectionName::Earlier, "Accepted work before that", blocks.into_iter().collect())
}

fn build_section(name: SectionName, title: &str, blocks: Vec<SectionBlock>) -> PromptSection {
    PromptSection { name, title: format!("## {title}"), cap: usize::MAX, taken: 0, uses: 1, blocks }
}

#[cfg(test)]
mod tests {
    use ralph_model::handoff::{FileAction, FileTouched, Handoff, WorkOutcome};
    use ralph_model::ids::TaskId;
    use serde_json::json;

    use crate::memory::handoff_reading as read;
    use crate::memory::handoff_summary::{describe_author_statements, summarize_handoff};

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
        assert_eq!(summarize_handoff(&handoff), "[TASK-003] Wrote it. 1 file.");
        expect_test::expect![[r"
            These are the author's statements, not facts. Verify them.
            Wrote it. And more.
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
        .assert_eq(&describe_author_statements(&handoff));
    }

    #[test]
    fn a_line_reports_the_outcome_of_the_work() {
        #[track_caller]
        fn check(is_complete: bool, outcome: Option<WorkOutcome>, expect: &str) {
            let value = json!({
                "task_completed": {"summary": "Wrote it.", "fully_complete": is_complete}});
            let handoff = read::read_handoff([value], "", &TaskId("T".into()), &[]);
            assert_eq!(summarize_handoff(&Handoff { outcome, ..handoff }), expect);
        }
        let at = || "make test".to_owned();
        check(true, None, "[T] Wrote it. 0 files.");
        check(false, None, "[T] Wrote it. Its author reports unfinished work. 0 files.");
        let passed = |approved| Some(WorkOutcome::Passed { is_committed: true, approved });
        check(true, passed(None), "[T] Wrote it. Passed the checks, committed. 0 files.");
        let rejected =
            "[T] Wrote it. Passed the checks, committed, a review asked for changes. 0 files.";
        check(true, passed(Some(false)), rejected);
        let failed = WorkOutcome::Failed { at: at() };
        check(true, Some(failed), "[T] Wrote it. Failed at make test. 0 files.");
        let back = WorkOutcome::RolledBack { at: at(), kept: None };
        check(false, Some(back), "[T] Wrote it. Failed at make test, rolled back. 0 files.");
        let derived = read::read_handoff([], "Did it. All of it.", &TaskId("T".into()), &[]);
        assert_eq!(summarize_handoff(&derived), "[T] Did it. 0 files.");
    }
}
