//! The memory as a section of a prompt.
//!
//! Its contents come from agents, so each item is put on one line and limited: none can pass for
//! a heading or grow without end.

use ralph_model::context::SectionName;
use ralph_model::memory::Memory;
use ralph_model::text;

use super::{CutFrom, CutLabel, CutStep, PromptSection, SectionBlock, SectionPiece};

/// Limits of one item. Compaction has limits too, but users can edit the file.
const ITEM_CHARS: usize = 600;
const DOCS_CHARS: usize = 1_500;

/// Returns the memory as a section, uncut.
pub(crate) fn build_memory_section(memory: &Memory, cap: usize) -> PromptSection {
    let block = |heading: &str, step, from, label, pieces| SectionBlock {
        heading: format!("### {heading}"),
        step,
        from,
        label,
        pieces,
    };
    let counted = |name: &str| CutLabel::Counted(name.to_owned());
    let listed =
        |items: &[String]| items.iter().filter_map(|it| format_item(it)).collect::<Vec<_>>();
    let constraints = memory.active_constraints.iter().filter_map(|active| {
        let source = active.source_iteration.as_deref().map(str::trim).unwrap_or_default();
        let source = if source.is_empty() { String::new() } else { format!(" (from {source})") };
        let mark = format_carried_mark(memory, &active.constraint);
        format_item(&format!("{}{source}{mark}", active.constraint.trim()))
    });
    let issues = memory.unresolved_issues.iter();
    let issues = issues
        .filter_map(|issue| format_item(&format!("{issue}{}", format_carried_mark(memory, issue))));
    let files = memory.file_knowledge.iter().filter_map(|file| {
        let path = text::join_to_line(&file.path, ITEM_CHARS);
        format_item(&format!("`{path}`: {}", file.purpose))
    });
    let docs = memory.library_docs.iter().map(|docs| {
        let notes = docs.usage_notes.as_deref().unwrap_or_default();
        let entry = format!("**{}**: {}\n{notes}", docs.library.trim(), docs.key_apis.trim());
        SectionPiece {
            name: docs.library.clone(),
            text: format!("- {}", format_hanging_indent(&entry, DOCS_CHARS)),
        }
    });
    let summary = text::excerpt_text(memory.project_summary.trim(), cap / 3);
    let summary: Vec<SectionPiece> = Some(summary)
        .filter(|it| !it.is_empty())
        .map(|it| SectionPiece::new(strip_headings(&it)))
        .into_iter()
        .collect();
    PromptSection {
        name: SectionName::Memory,
        title: if is_empty(memory) { String::new() } else { "## Project memory".to_owned() },
        cap,
        taken: 0,
        uses: 1,
        blocks: vec![
            block("Project state", CutStep::Never, CutFrom::End, counted("summary"), summary),
            block(
                "Active constraints (DO NOT VIOLATE)",
                CutStep::Constraints,
                CutFrom::End,
                counted("constraints"),
                constraints.collect(),
            ),
            block(
                "Open issues",
                CutStep::OpenIssues,
                CutFrom::End,
                counted("open issues"),
                issues.collect(),
            ),
            block(
                "Decisions (follow these)",
                CutStep::Decisions,
                CutFrom::Start,
                counted("decisions"),
                listed(&memory.architectural_decisions),
            ),
            block(
                "Completed work",
                CutStep::CompletedWork,
                CutFrom::Start,
                counted("completed work"),
                listed(&memory.completed_work),
            ),
            block(
                "Files",
                CutStep::FileKnowledge,
                CutFrom::End,
                counted("file knowledge"),
                files.collect(),
            ),
            block(
                "Libraries",
                CutStep::LibraryDocs,
                CutFrom::End,
                CutLabel::Named("library docs".to_owned()),
                docs.collect(),
            ),
        ],
    }
}

fn is_empty(memory: &Memory) -> bool {
    *memory == Memory::default()
}

/// Returns the mark of an item that ralph kept although the last compaction did not mention it.
fn format_carried_mark(memory: &Memory, item: &str) -> &'static str {
    if memory.is_carried_over(item) { " (carried over)" } else { "" }
}

fn format_item(text: &str) -> Option<SectionPiece> {
    let text = text::join_to_line(text, ITEM_CHARS);
    (!text.is_empty()).then(|| SectionPiece::new(format!("- {text}")))
}

/// Returns the text with later lines indented under the first one.
fn format_hanging_indent(entry: &str, limit: usize) -> String {
    let entry = text::excerpt_text(entry.trim(), limit);
    entry.lines().map(str::trim_end).collect::<Vec<_>>().join("\n  ")
}

/// Returns the text without heading marks.
fn strip_headings(summary: &str) -> String {
    summary.lines().map(|line| line.trim_start_matches(['#', ' '])).collect::<Vec<_>>().join("\n")
}
