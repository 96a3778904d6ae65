//! A handoff in short: a line, or its decisions.
//!
//! Text by agents is put on one line and limited, so that it cannot pass for a heading of the
//! prompt.

use std::fmt::Write as _;

use ralph_model::handoff::Handoff;
use ralph_model::text;
use ralph_model::text::choose_plural;

/// A longer first sentence is cut.
const SENTENCE_CHARS: usize = 240;

/// Limit of an entry of the decisions: a few sentences.
const ENTRY_CHARS: usize = 600;

/// Limit of the author's summary in a review: a few sentences for each point.
const STATEMENT_CHARS: usize = 3_000;

/// Returns the handoff in one line.
pub fn summarize_handoff(handoff: &Handoff) -> String {
    let done = &handoff.task_completed;
    let summary = done.summary.trim();
    let first = summary.split(". ").next().unwrap_or_default();
    let first = first.lines().next().unwrap_or_default();
    let first = text::join_to_line(first.trim_end_matches(['.', ' ']), SENTENCE_CHARS);
    let summary_text = if first.is_empty() { String::new() } else { format!(" {first}.") };
    let outcome = handoff
        .outcome
        .as_ref()
        .map(|outcome| format!(" {}.", text::join_to_line(&outcome.describe(), SENTENCE_CHARS)));
    // An author who calls work finished may be wrong, one who calls it unfinished is not.
    let is_unfinished = handoff.is_accepted() && handoff.is_incomplete();
    let unfinished = if is_unfinished { " Its author reports unfinished work." } else { "" };
    let files = handoff.files_touched.len();
    let plural = choose_plural(files);
    let outcome = outcome.unwrap_or_default();
    format!("[{}]{summary_text}{outcome}{unfinished} {files} file{plural}.", done.task_id)
}

/// How many recommendations are shown.
const MOST_ADVICE: usize = 5;

fn write_details(text: &mut String, handoff: &Handoff) {
    for (title, entries) in list_details(handoff).into_iter().filter(|(_, it)| !it.is_empty()) {
        let _ = write!(text, "\n{title}:");
        for entry in entries {
            let _ = write!(text, "\n- {entry}");
        }
    }
}

/// Returns what the author of work that awaits a review says about it. Its summary is shown whole:
/// it stands nowhere else in a review, and a fix that changed nothing disputes the review's points.
pub fn describe_author_statements(handoff: &Handoff) -> String {
    let summary = text::join_to_line(&handoff.task_completed.summary, STATEMENT_CHARS);
    let mut text = if handoff.changed_nothing {
        format!(
            "Nothing was changed. The author says about the points of the earlier review: {summary}\nThis is a statement, not a fact. Verify it: withdraw the points that are refuted, and keep the others."
        )
    } else {
        let unfinished = if handoff.is_incomplete() { " The work is unfinished." } else { "" };
        format!("These are the author's statements, not facts. Verify them.\n{summary}{unfinished}")
    };
    write_details(&mut text, handoff);
    text
}

/// Returns the parts of a handoff under their titles. Constraints and bugs of work that was not
/// accepted may be gone with it, so they are not listed.
pub(crate) fn list_details(handoff: &Handoff) -> [(&'static str, Vec<String>); 6] {
    let entries = |entries: &mut dyn Iterator<Item = String>| -> Vec<String> {
        let entries = entries.map(|entry| text::join_to_line(&entry, ENTRY_CHARS));
        entries.filter(|entry| !entry.is_empty()).collect()
    };
    let deviations = handoff.deviations.iter();
    let constraints = handoff.constraints_discovered.iter().filter(|_| handoff.is_accepted());
    let unresolved = handoff.bugs_encountered.iter().filter(|bug| !bug.resolved);
    let unresolved = unresolved.filter(|_| handoff.is_accepted());
    let unfinished = handoff.unfinished_business.iter();
    [
        ("Decisions", entries(&mut handoff.architectural_notes.iter().cloned())),
        (
            "Deviations",
            entries(
                &mut deviations.map(|it| format!("{} → {}: {}", it.planned, it.actual, it.reason)),
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
        ("Advice", entries(&mut handoff.recommendations.iter().take(MOST_ADVICE).cloned())),
    ]
}
