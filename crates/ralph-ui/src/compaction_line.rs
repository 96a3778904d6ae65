//! The line that reports a compaction.

use ralph_model::judgement::Judgement;
use ralph_model::memory::CompactionTrigger;
use ralph_model::text::choose_plural;

/// Returns the result of a compaction as one line.
pub(crate) fn format_compaction(judgement: &Judgement, trigger: CompactionTrigger) -> String {
    let Some(compacted) = &judgement.compacted else {
        return format!("Compacted: {}", trigger.reason());
    };
    let memory = &compacted.memory;
    let counted = |count: usize, what: &str| format!("{count} {what}{}", choose_plural(count));
    let mut parts = vec![
        counted(memory.active_constraints.len(), "constraint"),
        counted(memory.unresolved_issues.len(), "open issue"),
    ];
    if !memory.library_docs.is_empty() {
        let count = memory.library_docs.len();
        parts.push(if count == 1 { "1 library".into() } else { format!("{count} libraries") });
    }
    if !memory.carried_over.is_empty() {
        parts.push(format!("{} of them carried over", memory.carried_over.len()));
    }
    if !compacted.resolved.is_empty() {
        parts.push(format!("{} resolved", compacted.resolved.len()));
    }
    format!("Memory: {}", parts.join(", "))
}
