//! Memory as a section of a prompt.
//!
//! What it knows comes from agents, so no item can pass for a heading or go on without end.

use super::{Block, CutFrom, Label, Piece, Section, SectionName, Step};
use crate::memory::Memory;
use crate::text;

/// What one item may take. Compaction has bounds too; a file can be edited.
const ITEM_CHARS: usize = 600;
const DOCS_CHARS: usize = 1_500;

/// Returns memory as a section, cut to nothing yet.
pub(crate) fn memory_section(memory: &Memory, cap: usize) -> Section {
    let block = |heading: &str, step, from, label, pieces| Block {
        heading: format!("### {heading}"),
        step,
        from,
        label,
        pieces,
    };
    let counted = |name: &str| Label::Counted(name.to_owned());
    let listed = |items: &[String]| items.iter().filter_map(|it| item(it)).collect::<Vec<_>>();
    let constraints = memory.active_constraints.iter().filter_map(|active| {
        let source = active.source_iteration.as_deref().map(str::trim).unwrap_or_default();
        let source = if source.is_empty() { String::new() } else { format!(" (from {source})") };
        let mark = carried(memory, &active.constraint);
        item(&format!("{}{source}{mark}", active.constraint.trim()))
    });
    let issues = memory.unresolved_issues.iter();
    let issues = issues.filter_map(|issue| item(&format!("{issue}{}", carried(memory, issue))));
    let files = memory.file_knowledge.iter().filter_map(|file| {
        let path = text::one_line(&file.path, ITEM_CHARS);
        item(&format!("`{path}`: {}", file.purpose))
    });
    let docs = memory.library_docs.iter().map(|docs| {
        let notes = docs.usage_notes.as_deref().unwrap_or_default();
        let said = format!("**{}**: {}\n{notes}", docs.library.trim(), docs.key_apis.trim());
        Piece { name: docs.library.clone(), text: format!("- {}", hanging(&said, DOCS_CHARS)) }
    });
    let summary = text::excerpt_of(memory.project_summary.trim(), cap / 3);
    let summary: Vec<Piece> = Some(summary)
        .filter(|it| !it.is_empty())
        .map(|it| Piece::new(no_headings(&it)))
        .into_iter()
        .collect();
    Section {
        name: SectionName::Memory,
        title: if is_empty(memory) { String::new() } else { "## Project memory".to_owned() },
        cap,
        taken: 0,
        uses: 1,
        blocks: vec![
            block("Project state", Step::Never, CutFrom::End, counted("summary"), summary),
            block(
                "Active constraints (DO NOT VIOLATE)",
                Step::Constraints,
                CutFrom::End,
                counted("constraints"),
                constraints.collect(),
            ),
            block(
                "Open issues",
                Step::OpenIssues,
                CutFrom::End,
                counted("open issues"),
                issues.collect(),
            ),
            block(
                "Decisions (follow these)",
                Step::Decisions,
                CutFrom::Start,
                counted("decisions"),
                listed(&memory.architectural_decisions),
            ),
            block(
                "Completed work",
                Step::CompletedWork,
                CutFrom::Start,
                counted("completed work"),
                listed(&memory.completed_work),
            ),
            block(
                "Files",
                Step::FileKnowledge,
                CutFrom::End,
                counted("file knowledge"),
                files.collect(),
            ),
            block(
                "Libraries",
                Step::LibraryDocs,
                CutFrom::End,
                Label::Named("library docs".to_owned()),
                docs.collect(),
            ),
        ],
    }
}

fn is_empty(memory: &Memory) -> bool {
    *memory == Memory::default()
}

/// Returns the mark of what ralph kept although the last compaction did not speak of it.
fn carried(memory: &Memory, said: &str) -> &'static str {
    if memory.is_carried_over(said) { " (carried over)" } else { "" }
}

fn item(said: &str) -> Option<Piece> {
    let said = text::one_line(said, ITEM_CHARS);
    (!said.is_empty()).then(|| Piece::new(format!("- {said}")))
}

/// Returns lines that hang under the first one.
fn hanging(said: &str, limit: usize) -> String {
    let said = text::excerpt_of(said.trim(), limit);
    said.lines().map(str::trim_end).collect::<Vec<_>>().join("\n  ")
}

/// Returns a text whose lines are no headings.
fn no_headings(said: &str) -> String {
    said.lines().map(|line| line.trim_start_matches(['#', ' '])).collect::<Vec<_>>().join("\n")
}
